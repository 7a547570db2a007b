"""UdpHub: the server's channel on UDP; it is also the broker, and knows which device may do what.

A device publishes below ``from/N/`` and receives what is for it, as with the access rules of a broker. There
is at most one session with a device, and at most a few that are being opened, so nothing that a stranger
sends takes memory.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Literal, get_args

from slotwise.base.errors import UserError
from slotwise.live.protocol import FromDevice, Topics
from slotwise.live.transport import Arrival, Connected, Message
from slotwise.live.transport.arrival_queue import ArrivalQueue
from slotwise.live.udp import datagrams
from slotwise.live.udp.datagrams import (
    LARGEST_MESSAGE,
    RANDOM_BYTES,
    SEALED,
    UNKNOWN,
    Hello,
    TimedBeacon,
    encode_timed_beacon,
    header,
    kind_and_device,
    parse_hello,
)
from slotwise.live.udp.group import GroupCopy, GroupSender
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

Address = tuple[Any, ...]
Refusal = Literal["no datagram", "unknown device", "wrong tag", "replayed", "not allowed"]
OPENING = 4  # sessions with one device that are being opened
LOST_AFTER = 1.5  # times the keepalive without a frame
FIRST_PING, LONGEST_PING = 0.25, 60.0  # seconds until a device that does not hear the group is tried again
MOST_QUEUED = 64 << 20  # bytes for one device; one that does not take them is lost


class _Opening:
    """A session that was offered to a device, and becomes its session with its first frame."""

    def __init__(self, secret: bytes, hello: Hello, frame_bytes: int, now: float) -> None:
        self.client_random = hello.client_random
        server_random = secrets.token_bytes(RANDOM_BYTES)
        keys = SessionKeys(secret, hello.client_random, server_random)
        said = datagrams.welcome_said(hello.device, frame_bytes, hello.client_random, server_random)
        self.welcome = said + proof(keys.welcome, bytes(NONCE_BYTES), said)
        sealer, opener = Sealer(keys.to_device), Opener(keys.to_server)
        self.session = Session(hello.device, sealer, opener, frame_bytes, now)


class _Client:
    """An enrolled device."""

    def __init__(self, secret: bytes) -> None:
        self.secret, self.hello_key = secret, hello_key(secret)
        self.opening: deque[_Opening] = deque(maxlen=OPENING)
        self.session: Session | None = None
        self.address: Address = ()
        self.will: Message | None = None
        self.hears = False  # the multicast group, in this session
        self.ping_at, self.ping_pause = 0.0, FIRST_PING
        self.lost_after = LOST_AFTER


class UdpHub:
    """The sessions of a server; `receive` and `tick` are called with what comes in and what time it is.

    Attributes:
        refused: Datagrams that were refused, by reason.
        bytes_sent: Bytes of datagrams to single devices.
        group: Sends to the multicast group, if there is one.
    """

    connected, connections = True, 1

    def __init__(
        self,
        keys: Mapping[int, bytes],
        topics: Topics,
        frame_bytes: int,
        send: Callable[[bytes, Address], None],
        now: Callable[[], float],
        group: GroupSender | None = None,
    ) -> None:
        self._clients = {number: _Client(secret) for number, secret in keys.items()}
        self._topics, self._frame_bytes = topics, frame_bytes
        self._send_on_socket, self.now = send, now
        self.group, self.bytes_sent = group, 0
        self._retained: dict[str, bytes] = {}
        self._inbox = ArrivalQueue()
        self._inbox.put(Connected(self.connections))
        self._busy: set[int] = set()  # devices whose session may have something to send
        self.refused: Counter[Refusal] = Counter()

    # As a channel

    async def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, acknowledged: bool = True
    ) -> None:
        """Send a message to the devices it is for that have a session."""
        del acknowledged  # the server repeats what counts; frames are repeated while there is a session
        if retain and payload:
            self._retained[topic] = payload
        elif retain:
            self._retained.pop(topic, None)
        if len(topic) + len(payload) > LARGEST_MESSAGE - 16:
            raise UserError(f"a message of {len(payload):,} bytes is too long for udp://; lower packet_kib")
        message = encode_publication(Publication(Kind.PUBLISH, topic, payload))
        receivers = [*self._receivers(topic)]
        hearing = [number for number in receivers if self._clients[number].hears]
        copy = self._to_group(message) if len(hearing) > 1 else None
        for number in receivers:
            self._post(number, message, copy if number in hearing else None)

    async def subscribe(self, *topics: str) -> None:
        """Do nothing: the server receives all that devices publish."""

    def arrivals(self) -> AsyncIterator[Arrival]:
        """Yield what comes in."""
        return self._inbox.arrivals()

    def _receivers(self, topic: str) -> Iterable[int]:
        """Return the enrolled devices that may read a topic."""
        branch, _, rest = topic.removeprefix(f"{self._topics.root}/").partition("/")
        levels = rest.split("/")
        if branch == "to":
            named = levels[:1]
        elif levels[0] == "model":
            named = levels[1:]
        else:
            return self._clients
        return [int(n) for n in named if re.fullmatch("[0-9]{1,5}", n) and int(n) in self._clients]

    # As the sender of beacons

    def send_beacon(self, frame: bytes, age_ns: int) -> None:
        """Send the beacon of a slot that began so many nanoseconds ago: to the group, and to each other."""
        content = encode_timed_beacon(TimedBeacon(age_ns, frame))
        if self.group is not None and any(one.hears for one in self._clients.values()):
            self.group.beacon(content)
        now = self.now()
        for one in self._clients.values():
            if one.session is not None and not one.hears:
                self._send_datagram(one.session.beacon(content, now), one.address)

    def arriving_since(self, device: int) -> float | None:
        """Return when the message began that is coming in from a device; None if none is."""
        session = self._clients[device].session if device in self._clients else None
        return None if session is None else session.arriving

    def _to_group(self, message: bytes) -> GroupCopy | None:
        """Send a message to the group, if it is long enough to be worth the question whether it has come."""
        if self.group is None or len(message) <= self.group.piece_bytes:
            return None
        copy = self.group.post(message)
        self.group.due(self.now())
        return copy

    def _post(self, number: int, message: bytes, copy: GroupCopy | None = None) -> None:
        client = self._clients[number]
        if client.session is None:
            return
        client.session.post(message, copy)
        self._busy.add(number)
        if client.session.queued > MOST_QUEUED:
            self._lose(client)
        else:
            self._flush(client)

    # Datagrams

    def receive(self, datagram: bytes, address: Address) -> None:
        """Take a datagram from anybody."""
        refusal = self._refusal(datagram, address)
        if refusal is not None:
            self.refused[refusal] += 1

    def _refusal(self, datagram: bytes, address: Address) -> Refusal | None:
        """Take a datagram, or return why it is refused."""
        head = kind_and_device(datagram)
        if head is None:
            return "no datagram"
        kind, number = head
        client = self._clients.get(number)
        if client is None:
            return "unknown device"
        if kind == SEALED:
            return self._take_sealed(number, client, datagram, address)
        hello = parse_hello(datagram)
        if hello is None:
            return "no datagram"
        if not is_proof(client.hello_key, hello.client_random[:NONCE_BYTES], hello.said, hello.tag):
            return "wrong tag"
        offered = next((one for one in client.opening if one.client_random == hello.client_random), None)
        if offered is None:
            offered = _Opening(client.secret, hello, self._frame_bytes, self.now())
            client.opening.append(offered)
        self._send_datagram(offered.welcome, address)
        return None

    def _take_sealed(self, number: int, client: _Client, datagram: bytes, address: Address) -> Refusal | None:
        session, now = client.session, self.now()
        before = 0 if session is None else session.replayed
        taken = None if session is None else session.take(datagram, now)
        if taken is None and session is not None and session.replayed > before:
            return "replayed"
        for one in tuple(client.opening) if taken is None else ():
            taken = one.session.take(datagram, now)
            if taken is not None:
                client.opening.clear()  # also those of replayed hellos
                session = client.session = one.session
                client.address = address
                self._offer_group(number, client)
                self._send_retained(number)
                break
        if taken is None or session is None:
            if session is None:
                self._send_datagram(header(UNKNOWN, number), address)
            return "wrong tag"
        client.address = address
        for answer in taken.datagrams:
            self._send_datagram(answer, address)
        self._busy.add(number)
        allowed = all(self._take_message(number, client, one, taken.begun) for one in taken.messages)
        if session.over:
            client.session, client.hears = None, False
        return None if allowed else "not allowed"

    def _take_message(self, number: int, client: _Client, message: bytes, begun: float) -> bool:
        """Take a message of a device; False if it may not send it."""
        said = decode_publication(message)
        if said is None:
            return False
        if said.kind == Kind.HEARS:
            client.hears = self.group is not None
            return True
        sender = self._topics.sender(said.topic)
        if sender is None or sender[0] != number or sender[1] not in get_args(FromDevice):
            return False
        if said.kind == Kind.CONNECT:
            client.will = Message(said.topic, said.payload)
            client.lost_after = LOST_AFTER * max(1, said.seconds)
        else:
            self._inbox.put(Message(said.topic, said.payload, begun=begun))
        return True

    def _offer_group(self, number: int, client: _Client) -> None:
        """Tell a device of the group; until it has heard it, it is sent a copy of everything."""
        client.hears, client.ping_at, client.ping_pause = False, self.now(), FIRST_PING
        if self.group is not None:
            offer = Publication(Kind.GROUP, "", self.group.offer.encode())
            self._post(number, encode_publication(offer))

    def _send_retained(self, number: int) -> None:
        for topic, payload in self._retained.items():
            if number in self._receivers(topic):
                self._post(number, encode_publication(Publication(Kind.RETAINED, topic, payload)))

    # Time

    @property
    def is_busy(self) -> bool:
        """Whether a device has not acknowledged all messages that are for it."""
        return any(one.session is not None and one.session.queued for one in self._clients.values())

    def close(self) -> None:
        """Tell the devices that this server is gone; they look for the next one."""
        for client in self._clients.values():
            if client.session is not None:
                self._send_datagram(client.session.bye(self.now()), client.address)

    def tick(self) -> float:
        """Send what is due, and notice devices that are lost; return the seconds until the next call."""
        now, soonest = self.now(), 1.0
        for client in self._clients.values():
            if client.session is not None and now - client.session.heard > client.lost_after:
                self._lose(client)
        soonest = min(soonest, self._serve_group(now))
        for number in tuple(self._busy):
            session = self._clients[number].session
            due = None if session is None else session.next_due
            if due is None:
                self._busy.discard(number)
                continue
            if due <= now:
                self._flush(self._clients[number])
            soonest = min(soonest, max(0.005, due - now))
        return soonest

    def _serve_group(self, now: float) -> float:
        """Send what is due to the group; return the seconds until the next call."""
        if self.group is None:
            return 1.0
        if self.group.due(now):  # sessions have waited for that
            self._busy.update(number for number, one in self._clients.items() if one.hears)
        deaf = [one for one in self._clients.values() if one.session is not None and not one.hears]
        if tried := [one for one in deaf if one.ping_at <= now]:
            self.group.ping()
        for one in tried:
            one.ping_at, one.ping_pause = now + one.ping_pause, min(2 * one.ping_pause, LONGEST_PING)
        due = self.group.next_due
        return 1.0 if due is None else max(0.005, due - now)

    def _send_datagram(self, datagram: bytes, address: Address) -> None:
        self.bytes_sent += len(datagram)
        self._send_on_socket(datagram, address)

    def _flush(self, client: _Client) -> None:
        if client.session is not None:
            for datagram in client.session.due(self.now()):
                self._send_datagram(datagram, client.address)

    def _lose(self, client: _Client) -> None:
        """End a session, and tell the server what the device has left as its last will."""
        client.session, client.hears = None, False
        if client.will is not None:
            self._inbox.put(client.will)
