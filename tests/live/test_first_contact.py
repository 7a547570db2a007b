"""What is said of a broker that cannot be used."""

from pathlib import Path

import pytest
from aiomqtt import MqttError

from slotwise.live.first_contact import refusal
from slotwise.live.mqtt import Broker


@pytest.mark.parametrize(
    ("ca", "trusted"), [(None, "trusted are the system's"), (Path("a.crt"), "trusted are those in a.crt")]
)
def test_whom_a_client_trusts_is_told_where_it_does_not_trust_the_broker(ca, trusted):
    error = MqttError("certificate verify failed")
    assert refusal(error, Broker("host", 8883, tls=True, ca=ca)) == (
        f": its certificate is not trusted (certificate verify failed); {trusted}"
    )
