"""Keys of a session and the window against replays."""

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from slotwise.live.udp.sealing import Opener, ReplayWindow, Sealer, SessionKeys, derive


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=32))
def test_keys_are_those_of_hkdf(secret, salt):
    expected = HKDF(SHA256(), 32, salt, b"slotwise udp 1 to server").derive(secret)
    assert derive(secret, salt, b"to server") == expected


def test_sealing_is_that_of_rfc_8439():
    # RFC 8439, 2.8.2: the key, additional data, nonce, and the beginning of the ciphertext and the tag.
    key = bytes(range(0x80, 0xA0))
    nonce = bytes.fromhex("070000004041424344454647")
    text = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
        b"sunscreen would be it."
    )
    sealed = ChaCha20Poly1305(key).encrypt(nonce, text, bytes.fromhex("50515253c0c1c2c3c4c5c6c7"))
    assert sealed[:16].hex() == "d31a8d34648e60db7b86afbc53ef7ec2"
    assert sealed[-16:].hex() == "1ae10b594f09e26a7e902ecbd0600691"


def test_both_directions_and_both_sessions_have_keys_of_their_own():
    one, two = (SessionKeys(b"k" * 32, b"a" * 16, bytes([n]) * 16) for n in (1, 2))
    assert len({one.to_server, one.to_device, one.welcome, two.to_server, two.to_device, two.welcome}) == 6


def test_a_frame_opens_once_and_only_if_no_bit_was_changed():
    sealer, opener = Sealer(b"k" * 32), Opener(b"k" * 32)
    sealed = sealer.seal(b"abc", b"content")
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        assert opener.open(bytes(changed), 3) is None
    assert opener.open(sealed, 3) == b"content"
    assert opener.open(sealed, 3) is None
    assert opener.replayed == 1


@given(st.lists(st.integers(0, 60), max_size=200), st.integers(1, 20))
def test_the_window_accepts_what_a_set_of_all_counters_would_unless_it_is_too_old(counters, size):
    window, seen = ReplayWindow(size), set()
    for counter in counters:
        old = bool(seen) and counter <= max(seen) - size
        assert window.accept(counter) == (counter not in seen and not old)
        if not old:
            seen.add(counter)
