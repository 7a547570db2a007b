"""Whose credentials they are: the broker throws a client out when another comes under its name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.errors import UserError

if TYPE_CHECKING:
    from slotwise.live.mqtt import Broker


def refuse_credentials_of_others(broker: Broker, client: str) -> None:
    """``client`` is server or device-7, as in an enrolment; brokers of other kinds have names of their own.

    Raises:
        UserError: these credentials were made for another client.
    """
    holder = broker.user or _common_name(broker.certificate)
    if re.fullmatch("server|device-[0-9]+", holder) and holder != client:
        raise UserError(f"these credentials are those of {holder}, and this is {client}")


def _common_name(certificate: Path | None) -> str:
    """Whose certificate it is; one that cannot be read is told when it is used."""
    if certificate is None:
        return ""
    from cryptography import x509  # noqa: PLC0415

    try:
        subject = x509.load_pem_x509_certificate(certificate.read_bytes()).subject
    except (OSError, ValueError):
        return ""
    return "".join(str(name.value) for name in subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME))
