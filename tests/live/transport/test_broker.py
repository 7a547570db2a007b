from pathlib import Path

import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.live.transport.broker import (
    Broker,
    BrokerOptions,
    listen_address,
    parse_address,
    public_address_warning,
    read_credentials,
)


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
    "address",
    [
        *("", "host", "http://host", "mqtt://", "mqtt://host:x", "mqtt://host:0", "mqtt://host/a"),
        *("mqtt://host?a", "mqtt://host#a", "mqtt://u:p@host", "mqtt://two..dots", f"mqtt://{'x' * 64}"),
    ],
)
def test_other_addresses_are_refused(address):
    with pytest.raises(InputError) as error:
        parse_address(address)
    assert error.value.parameter == "broker"


def test_credentials_name_files_beside_themselves_and_must_be_there(tmp_path):
    file = tmp_path / "device-1.toml"
    file.write_text('broker = "mqtts://h"\nname = "n"\nuser = "u"\npassword = "p"\nca = "ca.crt"\n')
    expected = Broker("h", 8883, tls=True, user="u", password="p", ca=tmp_path / "ca.crt", channel="n")
    assert read_credentials(file) == expected
    with pytest.raises(InputError) as error:
        read_credentials(Path("/nowhere/x.toml"))
    assert error.value.parameter == "credentials"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('user = "u"', "broker is required"),
        ('broker = "mqtt://h"\nusr = "u"', "usr: allowed are broker, name, user"),
        ('broker = "mqtt://h"\nuser = 3', "user: allowed are"),
        ('broker = "mqtt://h"\npassword = "p"', "user is required"),
        ("broker = ", "valid TOML"),
        (f"broker = {'1' * 5000}", "valid TOML"),  # Python refuses to read so long a number
    ],
)
def test_bad_credentials_are_told_in_a_line(tmp_path, text, what):
    file = tmp_path / "x.toml"
    file.write_text(text)
    with pytest.raises(UserError, match=what):
        read_credentials(file)


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


@pytest.mark.parametrize(
    ("listen", "public"),
    [
        ("127.0.0.1:1883", False),
        ("localhost:1883", False),
        ("[::1]:1883", False),
        ("0.0.0.0:1883", True),
        ("[::]:1883", True),
        ("192.168.1.5:1883", True),
        ("broker.lan:1883", True),
    ],
)
def test_an_embedded_broker_that_others_can_reach_is_warned_about(listen, public):
    assert (public_address_warning(listen) is not None) == public


@pytest.mark.parametrize("given", [{"user": "server"}, {"password_file": Path("password")}])
def test_a_user_that_is_missing_or_of_another_client_is_refused_by_name(given):
    with pytest.raises(InputError) as error:
        BrokerOptions(broker="mqtt://host", **given).login("device-1")
    assert error.value.parameter == "user"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_secrets_that_everybody_can_read_are_warned_about(tmp_path, mode):
    credentials, key = tmp_path / "device-1.toml", tmp_path / "device-1.key"
    credentials.write_text('broker = "mqtts://host"\ncertificate = "device-1.crt"\nkey = "device-1.key"\n')
    key.write_text("secret")
    for path in (credentials, key):
        path.chmod(mode)
    warnings = BrokerOptions(credentials=credentials).warnings()
    assert len(warnings) == (2 if mode == 0o644 else 0)
    password = tmp_path / "password"
    password.write_text("secret")
    password.chmod(mode)
    assert len(BrokerOptions(broker="mqtt://host", password_file=password).warnings()) == (mode == 0o644)
