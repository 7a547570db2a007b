import pytest

from slotwise.errors import InputError
from slotwise.live.enroll.enrolment import MOST_DEVICES, Enrolment, enrolment_of, host_of


@pytest.mark.parametrize(
    "host", ["localhost", "broker.example", "my_broker", "192.0.2.7", "2001:db8::7", "a1"]
)
def test_a_name_or_an_address_is_a_host(host: str) -> None:
    assert str(host_of(host)) == host


@pytest.mark.parametrize(
    "host",
    ["", "a b", "broker:8883", "mqtts://broker", "*.example", "-a", "a..b", "192.0.2", "300.1.1.1", "bröker"],
)
def test_anything_else_is_none(host: str) -> None:
    with pytest.raises(InputError, match="a host name"):
        host_of(host)


def test_clients_use_the_first_host() -> None:
    assert Enrolment(["broker.example", "localhost"], 1234).address == "mqtts://broker.example:1234"


def test_an_ipv6_address_is_put_in_brackets() -> None:
    assert Enrolment(["2001:db8::7"]).address == "mqtts://[2001:db8::7]:8883"


def test_what_is_kept_is_read_again() -> None:
    enrolment = Enrolment(["localhost"], devices={1: "$7$x", 12: "$7$y"}, server="$7$z")
    assert enrolment_of(enrolment.to_json()) == Enrolment(
        ["localhost"], devices={1: "$7$x", 12: "$7$y"}, server="$7$z", revoked=[]
    )


@pytest.mark.parametrize("text", ["", "{}", "[]", "3", '{"format": 2}', '{"format": 1, "devices": {"x": 1}}'])
def test_anything_else_is_not_read(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (json's own among them)
        enrolment_of(text)


def test_numbers_that_have_become_free_are_given_out_first() -> None:
    assert Enrolment(["localhost"], devices=dict.fromkeys([1, 3, 4], "")).free_numbers(3) == [2, 5, 6]


def test_there_is_an_end_to_devices() -> None:
    with pytest.raises(InputError, match=f"at most {MOST_DEVICES}"):
        Enrolment(["localhost"], devices={1: ""}).free_numbers(MOST_DEVICES)
