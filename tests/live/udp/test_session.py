"""Sessions over a network that loses, doubles and reorders datagrams."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slotwise.live.udp.datagrams import LARGEST_MESSAGE, SEALED, WINDOW, Piece, encode_piece, header
from slotwise.live.udp.sealing import Opener, Sealer
from slotwise.live.udp.session import Session

KEYS = b"s" * 32, b"d" * 32


def pair(frame_bytes=220):
    server = Session(7, Sealer(KEYS[0]), Opener(KEYS[1]), frame_bytes, 0.0)
    device = Session(7, Sealer(KEYS[1]), Opener(KEYS[0]), frame_bytes, 0.0)
    return server, device


def talk(server, device, seed, loss, double=0.0, jitter=0.01, seconds=600.0):
    """Carry datagrams both ways until nobody has anything to send; return what came at each end."""
    draw, now, ends = random.Random(seed), 0.0, (server, device)
    came, on_the_way, sent = ([], []), [], 0

    def send(end, datagrams):
        nonlocal sent
        for datagram in datagrams:
            sent += 1
            for _ in range(1 + (draw.random() < double)):
                if draw.random() >= loss:
                    on_the_way.append((now + 0.001 + jitter * draw.random(), 1 - end, datagram))

    while now < seconds:
        for end in (0, 1):
            send(end, ends[end].due(now))
        if not on_the_way and all(one.next_due is None for one in ends):
            break
        on_the_way.sort(key=lambda one: one[0])
        dues = [one.next_due for one in ends if one.next_due is not None]
        if on_the_way and on_the_way[0][0] <= min(dues, default=now + 1):
            arrival, end, datagram = on_the_way.pop(0)
            now = max(now, arrival)
            taken = ends[end].take(datagram, now)
            if taken is not None:
                came[end].extend(taken.messages)
                send(end, taken.datagrams)
        else:
            now = max(now, min(dues))
    return came, sent, now


MESSAGES = st.lists(st.binary(min_size=1, max_size=3000), max_size=5)


@settings(deadline=None, max_examples=60)
@given(
    MESSAGES, MESSAGES, st.integers(0, 2**32), st.sampled_from([0.0, 0.1, 0.4]), st.sampled_from([128, 220])
)
def test_all_messages_arrive_in_order_and_once(down, up, seed, loss, frame_bytes):
    server, device = pair(frame_bytes)
    for message in down:
        server.post(message)
    for message in up:
        device.post(message)
    came, _, _ = talk(server, device, seed, loss, double=loss)
    assert came == (up, down)
    assert server.acknowledged == len(down)
    assert server.queued == device.queued == 0


def test_a_model_of_the_papers_network_takes_one_datagram_for_each_piece_if_nothing_is_lost():
    server, device = pair()
    server.post(bytes(4 * 21_840))
    came, sent, _ = talk(server, device, 0, 0.0, jitter=0.0)
    pieces = -(-4 * 21_840 // 178)
    assert [len(message) for message in came[1]] == [4 * 21_840]
    assert sent == pieces + -(-pieces // WINDOW)  # and an answer for each window


def test_a_tenth_of_losses_costs_little_more_than_what_is_lost():
    server, device = pair()
    server.post(bytes(500_000))
    _, sent, _ = talk(server, device, 1, 0.1, jitter=0.0)
    assert sent < 1.4 * 500_000 / 178


@pytest.mark.parametrize("frame_bytes", [128, 220, 1472])
def test_no_datagram_is_longer_than_a_frame(frame_bytes):
    server, _ = pair(frame_bytes)
    server.post(bytes(10_000))
    lengths = [len(datagram) for datagram in server.due(0.0)]
    assert max(lengths) == frame_bytes


def test_pieces_of_a_message_that_is_too_long_or_out_of_turn_are_not_kept():
    server, _ = pair()
    evil = Sealer(KEYS[1])

    def send(*piece):
        datagram = evil.seal(header(SEALED, 7), encode_piece(Piece(*piece)))
        return server.take(datagram, 0.0)

    too_many = LARGEST_MESSAGE // 178 + 2
    for piece in [
        (0, 0, too_many, 1, b"x"),  # longer than any message
        (5, 0, 2, 1, b"x"),  # not the next message
        (0, 300, 400, 1, b"x"),  # not within the window
        (0, 0, 400, 1, bytes(1000)),  # longer than a piece
    ]:
        assert send(*piece).messages == []
    assert not server._incoming._pieces
    assert send(0, 1, 400, 1, b"first").messages == []
    send(0, 0, 3, 1, b"second")  # another length of the same message
    assert dict(server._incoming._pieces) == {1: b"first"}


def test_bytes_that_the_peer_did_not_seal_change_nothing():
    server, device = pair()
    device.post(b"hello")
    (datagram,) = device.due(0.0)
    for garbage in (b"", b"\x53", datagram[:-1], datagram + b"x", bytes(len(datagram))):
        assert server.take(garbage, 1.0) is None
    assert server.heard == 0.0
    assert server.take(datagram, 2.0).messages == [b"hello"]
    assert server.take(datagram, 3.0) is None  # a replay
    assert (server.heard, server.replayed) == (2.0, 1)


def test_a_peer_that_does_not_answer_is_sent_one_piece_at_a_time_less_and_less_often():
    server, _ = pair()
    server.post(bytes(100_000))
    assert len(server.due(0.0)) == WINDOW
    moments = []
    while server.next_due < 10.0:
        moments.append(server.next_due)
        assert len(server.due(moments[-1])) == 1
    assert moments[:4] == [0.25, 0.75, 1.75, 2.75]
