"""A channel on UDP: sealed datagrams between one server and its enrolled devices, without a broker.

- `sealing`: keys of a session, sealed frames, and the window that refuses replayed ones.
- `datagrams`: what is in a datagram.
- `session`: messages in order, in frames with bitmaps of acknowledgement; no clock and no socket.
- `group`, `group_sockets`: a multicast group, to which the server sends a message once for all devices.
- `hub`: the server's end, which is also the broker.
- `udp_channel`: a device's end.
"""
