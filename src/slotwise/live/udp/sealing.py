"""Sealed frames: ChaCha20-Poly1305 (RFC 8439) under keys of one session, with a window against replays.

Server and device share a secret of 32 bytes, written by slotwise enroll. Each session has keys of its own,
derived with HKDF-SHA256 (RFC 5869) from that secret and a random number of either side, so a counter never
meets the same key twice. Who learns a device's secret can read what was recorded before: there is no
Diffie-Hellman exchange.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

NONCE_BYTES: Final = 12
KEY_BYTES: Final = 32
REPLAY_WINDOW: Final = 1024  # frames that may overtake each other
_INFO = b"slotwise udp 1 "


def derive(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    """Return a key of 32 bytes: HKDF-SHA256 of RFC 5869, whose first block is long enough."""
    extracted = hmac.digest(salt or bytes(32), secret, hashlib.sha256)
    return hmac.digest(extracted, _INFO + purpose + b"\x01", hashlib.sha256)


class SessionKeys:
    """The keys of one session, the same on both sides."""

    def __init__(self, secret: bytes, client_random: bytes, server_random: bytes) -> None:
        salt = client_random + server_random
        self.welcome = derive(secret, salt, b"welcome")
        self.to_server = derive(secret, salt, b"to server")
        self.to_device = derive(secret, salt, b"to device")


def hello_key(secret: bytes) -> bytes:
    """Return the key that proves a device's first datagram."""
    return derive(secret, b"", b"hello")


def proof(key: bytes, nonce: bytes, said: bytes) -> bytes:
    """Return a tag over ``said``, which is sent in clear."""
    return ChaCha20Poly1305(key).encrypt(nonce, b"", said)


def is_proof(key: bytes, nonce: bytes, said: bytes, tag: bytes) -> bool:
    """Return whether ``tag`` is the `proof` of ``said``."""
    try:
        ChaCha20Poly1305(key).decrypt(nonce, tag, said)
    except InvalidTag:
        return False
    return True


class Signer:
    """Signs what everybody in a group may read, and nobody else in it may write: Ed25519 (RFC 8032)."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

        self._key = Ed25519PrivateKey.generate()
        self.public = self._key.public_key().public_bytes_raw()

    def sign(self, said: bytes) -> bytes:
        """Return the signature."""
        return self._key.sign(said)


def is_signed(public: bytes, said: bytes, signature: bytes) -> bool:
    """Return whether the owner of the public key has signed ``said``."""
    # Imported when there are beacons: a device that waits does not need it.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, said)
    except InvalidSignature:
        return False
    return True


class Sealer:
    """Seals frames, each with the next counter."""

    def __init__(self, key: bytes) -> None:
        self._cipher, self.counter = ChaCha20Poly1305(key), 0

    def before_content(self, header: bytes) -> bytes:
        """Return the beginning of the next sealed frame."""
        return header + self.counter.to_bytes(8, "little")

    def seal(self, header: bytes, content: bytes) -> bytes:
        """Return header, counter and sealed content."""
        said = self.before_content(header)
        counter = said[len(header) :]
        self.counter += 1
        return said + self._cipher.encrypt(bytes(4) + counter, content, said)


class Opener:
    """Opens sealed frames, each once."""

    def __init__(self, key: bytes) -> None:
        self._cipher, self._window = ChaCha20Poly1305(key), ReplayWindow()
        self.replayed = 0

    def open(self, datagram: bytes, header_bytes: int) -> bytes | None:
        """Return the content; None if it was not sealed by the peer, or has been opened before."""
        end = header_bytes + 8
        counter = datagram[header_bytes:end]
        if len(counter) < 8:
            return None
        try:
            content = self._cipher.decrypt(bytes(4) + counter, datagram[end:], datagram[:end])
        except InvalidTag:
            return None
        if not self._window.accept(int.from_bytes(counter, "little")):
            self.replayed += 1
            return None
        return content


class ReplayWindow:
    """Accepts each counter once; counters older than the window are refused, as they cannot be told apart."""

    def __init__(self, size: int = REPLAY_WINDOW) -> None:
        self._size, self._newest, self._seen = size, -1, 0  # bit n of _seen: the counter _newest - n

    def accept(self, counter: int) -> bool:
        """Return whether a counter is new, and remember it."""
        ahead = counter - self._newest
        if ahead > 0:
            kept = (1 << self._size) - 1
            self._seen = 1 if ahead >= self._size else ((self._seen << ahead) | 1) & kept
            self._newest = counter
            return True
        if -ahead >= self._size or self._seen >> -ahead & 1:
            return False
        self._seen |= 1 << -ahead
        return True
