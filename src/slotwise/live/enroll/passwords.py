"""Passwords, and mosquitto's file of them."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Mapping

SALT_BYTES = 12
# mosquitto's own number. It slows guessing down, and 256 random bits are beyond guessing anyway; the broker
# counts through it once for each connection, and for all of them when it reads its files again.
ITERATIONS = 101


def new_password() -> str:
    """One that nobody guesses: 256 random bits."""
    return secrets.token_urlsafe(32)


def hashed(password: str, salt: bytes | None = None) -> str:
    """What mosquitto keeps of a password: PBKDF2 with SHA-512, marked ``$7$``."""
    grains = secrets.token_bytes(SALT_BYTES) if salt is None else salt
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), grains, ITERATIONS)
    return f"$7${ITERATIONS}${base64.b64encode(grains).decode()}${base64.b64encode(digest).decode()}"


def password_file(hashes: Mapping[str, str]) -> str:
    """The file that mosquitto reads; it knows no comments."""
    return "".join(f"{user}:{proof}\n" for user, proof in hashes.items())
