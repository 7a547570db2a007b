import base64

import pytest

from slotwise.base.errors import InputError
from slotwise.live.enroll.enrolment import (
    MAX_DEVICES,
    Enrolment,
    broker_configuration,
    hash_password,
    new_password,
    parse_host,
    password_file,
)


@pytest.mark.parametrize(
    "host", ["localhost", "broker.example", "my_broker", "192.0.2.7", "2001:db8::7", "a1"]
)
def test_a_name_or_an_address_is_a_host(host: str) -> None:
    assert str(parse_host(host)) == host


@pytest.mark.parametrize(
    "host",
    ["", "a b", "broker:8883", "mqtts://broker", "*.example", "-a", "a..b", "192.0.2", "300.1.1.1", "bröker"],
)
def test_anything_else_is_none(host: str) -> None:
    with pytest.raises(InputError, match="a host name"):
        parse_host(host)


@pytest.mark.parametrize(
    ("hosts", "listener"),
    [
        (["localhost"], "listener 8883 localhost"),
        (["127.0.0.1", "localhost"], "listener 8883 127.0.0.1"),
        (["broker.lan"], "listener 8883"),
        (["localhost", "192.168.1.5"], "listener 8883"),
    ],
)
def test_a_broker_of_this_machine_listens_on_this_machine_only(hosts: list[str], listener: str) -> None:
    assert listener in broker_configuration(Enrolment(hosts)).splitlines()


def test_clients_use_the_first_host_and_free_numbers_are_given_out_first() -> None:
    assert Enrolment(["broker.example", "localhost"], 1234).address == "mqtts://broker.example:1234"
    assert Enrolment(["2001:db8::7"]).address == "mqtts://[2001:db8::7]:8883"
    enrolment = Enrolment(["localhost"], devices={1: "$7$x", 12: "$7$y"}, server="$7$z")
    assert Enrolment.from_json(enrolment.to_json()) == Enrolment(
        ["localhost"], devices={1: "$7$x", 12: "$7$y"}, server="$7$z", revoked=[]
    )
    assert Enrolment(["localhost"], devices=dict.fromkeys([1, 3, 4], "")).free_numbers(3) == [2, 5, 6]
    with pytest.raises(InputError, match=f"at most {MAX_DEVICES}"):
        Enrolment(["localhost"], devices={1: ""}).free_numbers(MAX_DEVICES)


@pytest.mark.parametrize("text", ["", "{}", "[]", "3", '{"format": 2}', '{"format": 1, "devices": {"x": 1}}'])
def test_anything_else_is_not_read(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (json's own among them)
        Enrolment.from_json(text)


# Written by: mosquitto_passwd -c -b FILE x 'correct horse' (mosquitto 2.0.11)
LINE = (
    "x:$7$101$06KO7BHq8Hatp6QL$"
    "vNUUgBxDJusuvq2wkAFQevlA3L6atFTsaqkLc5R+IRox/tNYH0P7MtAIZHoigUiUOALEcjhzUzOO77imjTKv/g==\n"
)


def test_passwords_are_long_unlike_and_kept_as_mosquitto_passwd_does() -> None:
    salt = base64.b64decode("06KO7BHq8Hatp6QL")
    assert password_file({"x": hash_password("correct horse", salt)}) == LINE
    assert hash_password("correct horse") != hash_password("correct horse")
    passwords = {new_password() for _ in range(100)}
    assert len(passwords) == 100
    assert all(len(base64.urlsafe_b64decode(password + "=")) == 32 for password in passwords)
