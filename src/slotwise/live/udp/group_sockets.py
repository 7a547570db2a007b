"""Sockets of a multicast group: one that sends to it, and one of each device that listens."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address

from slotwise.live.transport.udp_login import MulticastGroup
from slotwise.live.udp.datagrams import LARGEST_DATAGRAM

LOOPBACK = 127  # first byte of its addresses
BUFFER_BYTES = 1 << 20  # of datagrams that wait to be read, if the system allows as many


class GroupSpeaker:
    """Sends to a group on the network of the server's own socket, and not beyond the next router."""

    def __init__(self, own: asyncio.DatagramTransport, group: MulticastGroup) -> None:
        self.group, self._socket = group, socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        address = _address_of(own)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, address)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, int(address[0] != LOOPBACK))

    def send(self, datagram: bytes) -> None:
        """Send a datagram, if the system takes it: sessions repeat what is missing."""
        with suppress(OSError):  # no route to the group, or the buffer is full
            self._socket.sendto(datagram, self.group)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class GroupListener:
    """Joins the group that a server offers, on the interface on which the device reaches the server."""

    def __init__(self, own: asyncio.DatagramTransport) -> None:
        self._own, self._group = own, MulticastGroup("", 0)
        self._socket: socket.socket | None = None
        self.receive: Callable[[bytes], None] = lambda _: None

    def join(self, group: MulticastGroup) -> None:
        """Listen to a group; where that is not possible, the server sends copies to this device."""
        if group == self._group:
            return
        self.close()
        listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        listening.setblocking(False)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # other devices on this machine
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            listening.bind(group)
            membership = socket.inet_aton(group.address) + _address_of(self._own)
            listening.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        except OSError:
            listening.close()
            return
        self._socket, self._group = listening, group
        asyncio.get_running_loop().add_reader(listening, self.read)

    def read(self) -> None:
        """Read all that has come. Before a datagram to this device alone, which may ask what has come."""
        with suppress(OSError):
            while self._socket is not None:
                self.receive(self._socket.recv(LARGEST_DATAGRAM + 1))

    def close(self) -> None:
        """Leave the group."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
        self._socket, self._group = None, MulticastGroup("", 0)


def _address_of(own: asyncio.DatagramTransport) -> bytes:
    """Return the IPv4 address of a socket; zeros, for the usual interface, if it has none."""
    address = ip_address(own.get_extra_info("sockname")[0])
    return address.packed if address.version == 4 else bytes(4)
