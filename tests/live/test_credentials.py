from pathlib import Path

import pytest

from slotwise.errors import InputError, UserError
from slotwise.live.credentials import read_credentials
from slotwise.live.mqtt import Broker, broker_of


@pytest.mark.parametrize(
    ("address", "broker"),
    [
        ("mqtt://host", Broker("host", 1883)),
        ("mqtts://host", Broker("host", 8883, tls=True)),
        ("mqtt://10.0.0.1:99", Broker("10.0.0.1", 99)),
        ("mqtts://[::1]:7/", Broker("::1", 7, tls=True)),
    ],
)
def test_addresses_of_brokers(address, broker):
    assert broker_of(address) == broker
    assert broker_of(str(broker)) == broker


@pytest.mark.parametrize(
    "address", ["", "host", "http://host", "mqtt://", "mqtt://host:x", "mqtt://host/a", "mqtt://u:p@host"]
)
def test_other_addresses_are_refused(address):
    with pytest.raises(InputError, match="broker"):
        broker_of(address)


def test_credentials_name_files_beside_themselves(tmp_path):
    file = tmp_path / "device-1.toml"
    file.write_text('broker = "mqtts://h"\nname = "n"\nuser = "u"\npassword = "p"\nca = "ca.crt"\n')
    expected = Broker("h", 8883, tls=True, user="u", password="p", ca=tmp_path / "ca.crt", channel="n")
    assert read_credentials(file) == expected


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('user = "u"', "broker: missing"),
        ('broker = "mqtt://h"\nusr = "u"', "usr: allowed are broker, name, user"),
        ('broker = "mqtt://h"\nuser = 3', "user: allowed are"),
        ("broker = ", "valid TOML"),
    ],
)
def test_bad_credentials_are_told_in_a_line(tmp_path, text, what):
    file = tmp_path / "x.toml"
    file.write_text(text)
    with pytest.raises(UserError, match=what):
        read_credentials(file)


def test_credentials_that_are_not_there_are_told():
    with pytest.raises(InputError, match="readable"):
        read_credentials(Path("/nowhere/x.toml"))
