"""When a certificate ends, read from its file; a small device has no library for that."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

UTC_TIME, GENERALIZED_TIME, SEQUENCE = 0x17, 0x18, 0x30  # tags of ASN.1
SOON_DAYS = 30


def certificate_end(path: Path) -> datetime | None:
    """Return the last moment at which the first certificate in a PEM file is valid; None if it has none."""
    try:
        _, rest = path.read_text(encoding="ascii").split(ssl.PEM_HEADER, 1)
        pem = f"{ssl.PEM_HEADER}{rest.split(ssl.PEM_FOOTER)[0]}{ssl.PEM_FOOTER}\n"
        (_, certificate), *_ = _elements(ssl.PEM_cert_to_DER_cert(pem))
        (_, signed), *_ = _elements(certificate)
        # RFC 5280: of the sequences in the signed part, the validity is the one of two times.
        for tag, content in _elements(signed):
            if tag == SEQUENCE and content[:1] in (bytes([UTC_TIME]), bytes([GENERALIZED_TIME])):
                return _time(*list(_elements(content))[1])
    except (OSError, ValueError, IndexError):
        pass
    return None


def ends_soon(path: Path, now: datetime | None = None) -> str:
    """Return a warning if a certificate ends soon or has ended; empty otherwise."""
    end = certificate_end(path)
    if end is None:
        return ""
    days = (end - (now or datetime.now(UTC))).total_seconds() / 86400
    when = f"has ended on {end:%Y-%m-%d}" if days < 0 else f"ends on {end:%Y-%m-%d}, in {days:.0f} days"
    return f"{path} {when}: renew it with slotwise enroll --renew" if days < SOON_DAYS else ""


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of the elements of ASN.1 (DER), one after another."""
    at = 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length >= 0x80:
            count = length - 0x80
            length, at = int.from_bytes(data[at : at + count]), at + count
        if at + length > len(data):
            raise ValueError("cut off")
        yield tag, data[at : at + length]
        at += length


def _time(tag: int, content: bytes) -> datetime:
    text = content.decode("ascii")
    if tag == UTC_TIME:  # two digits of the year: 1950 to 2049
        text = ("19" if text[:2] >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
