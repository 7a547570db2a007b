from pathlib import Path

import pytest

from slotwise.errors import InputError, UserError
from slotwise.live.transport.broker import Broker, listen_address, parse_address, read_credentials


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
    assert parse_address(address) == broker
    assert parse_address(str(broker)) == broker


@pytest.mark.parametrize(
    "address", ["", "host", "http://host", "mqtt://", "mqtt://host:x", "mqtt://host/a", "mqtt://u:p@host"]
)
def test_other_addresses_are_refused(address):
    with pytest.raises(InputError) as error:
        parse_address(address)
    assert error.value.parameter == "broker"


def test_credentials_name_files_beside_themselves(tmp_path):
    file = tmp_path / "device-1.toml"
    file.write_text('broker = "mqtts://h"\nname = "n"\nuser = "u"\npassword = "p"\nca = "ca.crt"\n')
    expected = Broker("h", 8883, tls=True, user="u", password="p", ca=tmp_path / "ca.crt", channel="n")
    assert read_credentials(file) == expected


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('user = "u"', "broker is required"),
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
    with pytest.raises(InputError) as error:
        read_credentials(Path("/nowhere/x.toml"))
    assert error.value.parameter == "credentials"


@pytest.mark.parametrize(
    ("listen", "address"),
    [("127.0.0.1:1883", ("127.0.0.1", 1883)), ("[::1]:7", ("::1", 7)), ("my-host:7", ("my-host", 7))],
)
def test_addresses_where_the_embedded_broker_listens(listen, address):
    assert listen_address(listen) == address


@pytest.mark.parametrize("listen", ["nowhere", "::1:1", "host:0", "host:65536", ":7"])
def test_other_listen_addresses_are_refused(listen):
    with pytest.raises(InputError) as error:
        listen_address(listen)
    assert error.value.parameter == "listen"
