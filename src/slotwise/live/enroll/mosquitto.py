"""mosquitto.conf, and the names of the files that it speaks of."""

from __future__ import annotations

from slotwise.live.enroll.enrolment import Enrolment

CONFIGURATION = "mosquitto.conf"
ACCESS = "access"
PASSWORDS = "passwords"
REVOKED = "revoked.crl"
AUTHORITY = "ca.crt"
CERTIFICATE = "broker.crt"
KEY = "broker.key"

WORDS = 1 << 18  # bytes of a packet beside its numbers: a broadcast names its receivers

_HEAD = """\
# A broker for slotwise: TLS only, and nobody without a name. Written once: change what you like.
# Files are named relative to this folder, so that it can be copied anywhere. Start mosquitto from here:
#     mosquitto -c mosquitto.conf

listener {port}
tls_version tlsv1.2
certfile {certificate}
keyfile {key}
cafile {authority}
"""

_BY_PASSWORD = """
# Everybody has a password.
allow_anonymous false
password_file {passwords}
"""

_BY_CERTIFICATE = """
# Everybody has a certificate, and is who it says.
allow_anonymous false
require_certificate true
use_identity_as_username true
crlfile {revoked}
"""

_TAIL = """
# Who may say what. A client's identifier is its name: nobody can throw another out by taking it.
acl_file {access}
use_username_as_clientid true

# Room for a model of {largest_model} numbers. Of a larger packet not even the rest is read: its sender is
# disconnected.
max_packet_size {packet}

# Hundreds of devices answer a call at once; short messages should not wait for others to fill a packet up.
max_queued_messages 10000
set_tcp_nodelay true

# Nothing has to survive a restart: server and devices say again what matters.
persistence false

log_dest stderr
log_timestamp_format %Y-%m-%dT%H:%M:%S
"""


def configuration(enrolment: Enrolment) -> str:
    """The file."""
    middle = _BY_CERTIFICATE if enrolment.by_certificate else _BY_PASSWORD
    return (_HEAD + middle + _TAIL).format(
        port=enrolment.port,
        authority=AUTHORITY,
        certificate=CERTIFICATE,
        key=KEY,
        passwords=PASSWORDS,
        revoked=REVOKED,
        access=ACCESS,
        largest_model=enrolment.largest_model,
        packet=4 * enrolment.largest_model + WORDS,
    )
