"""UdpChannel: a device's channel on UDP."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable

from slotwise.base.errors import UserError
from slotwise.live.transport import Arrival, Connected, Message
from slotwise.live.transport.arrival_queue import ArrivalQueue
from slotwise.live.transport.udp_login import MulticastGroup
from slotwise.live.udp.datagrams import (
    LARGEST_MESSAGE,
    RANDOM_BYTES,
    SEALED,
    UNKNOWN,
    TimedBeacon,
    hello_said,
    kind_and_device,
    parse_welcome,
)
from slotwise.live.udp.group import GroupReceiver, Offer
from slotwise.live.udp.messages import Kind, Publication, decode_publication, encode_publication
from slotwise.live.udp.sealing import (
    NONCE_BYTES,
    Opener,
    Sealer,
    SessionKeys,
    hello_key,
    is_proof,
    proof,
)
from slotwise.live.udp.session import Session

FIRST_HELLO, LONGEST_HELLO = 0.2, 2.0  # seconds between hellos; they double
PINGS = 4  # in a keepalive
LOST_PINGS = 3  # without an answer, after which a new session is opened
SURELY_SILENT = 0.5  # seconds without a frame after which a hint that the server has no session is believed
MOST_WAITING = 8 << 20  # bytes that are not acknowledged; then a publisher waits
BILLION = 10**9


def nanoseconds(seconds: float) -> int:
    """Return seconds as a whole number of nanoseconds."""
    return round(seconds * BILLION)


class UdpChannel:
    """The session of one device; `receive` and `tick` are called with what comes in, and as time passes.

    ``report`` is called with whether there is a session, when that changes; ``join`` with a multicast group
    whose datagrams are to be passed to `receive_from_group`.
    """

    def __init__(
        self,
        device: int,
        secret: bytes,
        will: Message,
        keepalive: int,
        send: Callable[[bytes], None],
        now: Callable[[], float],
        report: Callable[[bool], None] = lambda _: None,
        join: Callable[[MulticastGroup], None] = lambda _: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._device, self._secret, self._will, self._keepalive = device, secret, will, keepalive
        self._send_datagram, self._now, self._report = send, now, report
        self._join, self._sleep = join, sleep
        self._heard_beacon: Callable[[bytes, int], None] | None = None
        self._group: GroupReceiver | None = None
        self._trusts_group, self._hears_group = True, False
        self._session: Session | None = None
        self._random = b""
        self._hello_at, self._pause = now(), FIRST_HELLO
        self._inbox = ArrivalQueue()
        self._changed: list[asyncio.Future[None]] = []
        self.connections = 0

    # As a channel

    @property
    def connected(self) -> bool:
        """Whether there is a session."""
        return self._session is not None

    async def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, acknowledged: bool = True
    ) -> None:
        """Send a message; one that is ``acknowledged`` is sent again in the next session if one is lost."""
        del retain  # only a server's messages are kept
        message = encode_publication(Publication(Kind.PUBLISH, topic, payload))
        if len(message) > LARGEST_MESSAGE:
            raise UserError(f"a message of {len(payload):,} bytes is too long for udp://")
        while True:
            session = self._session
            if session is None:
                await self._change()
                continue
            number = session.post(message)
            self._flush(session)
            while self._session is session:
                if session.acknowledged >= number or (not acknowledged and session.queued < MOST_WAITING):
                    await asyncio.sleep(0)
                    return
                await self._change()
            if not acknowledged:
                return

    async def subscribe(self, *topics: str) -> None:
        """Do nothing: the server knows what is for this device."""

    def arrivals(self) -> AsyncIterator[Arrival]:
        """Yield what comes in."""
        return self._inbox.arrivals()

    async def until_connected(self) -> None:
        """Wait for the first session."""
        while self._session is None:
            await self._change()

    def close(self) -> None:
        """Tell the server that this device leaves."""
        if self._session is not None:
            self._send_datagram(self._session.bye(self._now()))
            self._session = None

    def _change(self) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().create_future()
        self._changed.append(future)
        return future

    def _notify(self) -> None:
        waiting, self._changed = self._changed, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    # Datagrams

    def receive(self, datagram: bytes) -> None:
        """Take a datagram from anybody."""
        head = kind_and_device(datagram)
        if head is None or head[1] != self._device:
            return
        session, now = self._session, self._now()
        if head[0] == SEALED and session is not None:
            taken = session.take(datagram, now)
            if taken is None:
                return
            for answer in taken.datagrams:
                self._send_datagram(answer)
            for message in taken.messages:
                self._take_message(message)
            if taken.beacon is not None:
                self._take_beacon(taken.beacon, now)
            self._notify()
            if session.forged:  # by another device: this one has the server repeat it, and listens no more
                self._trusts_group = False
            if session.over or session.forged:
                self._lose()
        elif head[0] == UNKNOWN and session is not None and now - session.heard > SURELY_SILENT:
            self._lose()
        else:
            self._take_welcome(datagram, now)

    def receive_from_group(self, datagram: bytes) -> None:
        """Take a datagram from anybody who sends to the multicast group."""
        session, group, now = self._session, self._group, self._now()
        said = None if group is None else group.receive(datagram)
        if said is None:
            return
        if isinstance(said, TimedBeacon):
            self._take_beacon(said, now)
        if session is not None and session.group is group and not self._hears_group:
            self._hears_group = True
            session.post(encode_publication(Publication(Kind.HEARS, "", b"")))
            self._flush(session)

    def _take_offer(self, payload: bytes) -> None:
        """Listen to the group of the server, from now on or still."""
        offer = Offer.decode(payload)
        if offer is None or self._session is None or not self._trusts_group:
            return
        if self._group is None or self._group.offer != offer:
            self._group = GroupReceiver(offer)
        self._session.group, self._hears_group = self._group, False
        self._join(offer.group)

    def _take_beacon(self, beacon: TimedBeacon, now: float) -> None:
        if self._heard_beacon is not None:
            self._heard_beacon(beacon.frame, nanoseconds(now) - beacon.age_ns)

    # Time of slots

    def hear_beacons(self, heard: Callable[[bytes, int], None] | None) -> None:
        """Call a function with the frame of each beacon, and when its slot began; None: no more."""
        self._heard_beacon = heard

    def local_ns(self) -> int:
        """Return the time by this device's clock."""
        return nanoseconds(self._now())

    async def sleep_until(self, local_ns: int) -> None:
        """Wait until this device's clock shows a time."""
        while (left := local_ns - self.local_ns()) > 0:
            await self._sleep(left / BILLION)

    def unreachable(self) -> None:
        """Note that the server's address is not listening."""
        if self._session is not None and self._now() - self._session.heard > SURELY_SILENT:
            self._lose()

    def _take_message(self, message: bytes) -> None:
        said = decode_publication(message)
        if said is not None and said.kind == Kind.GROUP:
            self._take_offer(said.payload)
        elif said is not None and said.kind in (Kind.PUBLISH, Kind.RETAINED):
            self._inbox.put(Message(said.topic, said.payload, said.kind == Kind.RETAINED))

    def _take_welcome(self, datagram: bytes, now: float) -> None:
        """Begin the session that the server has offered, if it is the answer to the last hello."""
        welcome = parse_welcome(datagram)
        if welcome is None or self._session is not None or welcome.client_random != self._random:
            return
        keys = SessionKeys(self._secret, welcome.client_random, welcome.server_random)
        if not is_proof(keys.welcome, bytes(NONCE_BYTES), welcome.said, welcome.tag):
            return
        sealer, opener = Sealer(keys.to_server), Opener(keys.to_device)
        session = self._session = Session(self._device, sealer, opener, welcome.frame_bytes, now)
        self._random, self._pause = b"", FIRST_HELLO
        self.connections += 1
        self._inbox.put(Connected(self.connections))
        will = Publication(Kind.CONNECT, self._will.topic, self._will.payload, self._keepalive)
        session.post(encode_publication(will))
        self._flush(session)
        self._report(True)
        self._notify()

    # Time

    def tick(self) -> float:
        """Send what is due; return the seconds until the next call."""
        now, session = self._now(), self._session
        if session is None:
            return self._say_hello(now)
        if now - session.heard > LOST_PINGS * self._keepalive / PINGS:
            self._lose()
            return 0.0
        self._flush(session)
        ping_at = max(session.heard, session.spoken) + self._keepalive / PINGS
        if now >= ping_at:
            self._send_datagram(session.ping(now))
            ping_at = now + self._keepalive / PINGS
        due = session.next_due
        return max(0.005, min(ping_at, ping_at if due is None else due) - now)

    def _say_hello(self, now: float) -> float:
        if now >= self._hello_at:
            if not self._random:
                self._random = secrets.token_bytes(RANDOM_BYTES)
            said = hello_said(self._device, self._random)
            self._send_datagram(said + proof(hello_key(self._secret), self._random[:NONCE_BYTES], said))
            self._hello_at, self._pause = now + self._pause, min(2 * self._pause, LONGEST_HELLO)
        return self._hello_at - now

    def _flush(self, session: Session) -> None:
        for datagram in session.due(self._now()):
            self._send_datagram(datagram)

    def _lose(self) -> None:
        """End the session; the next one begins with a hello."""
        self._session, self._hello_at = None, self._now()
        self._report(False)
        self._notify()
