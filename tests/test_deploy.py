"""The units and the compose file call slotwise with options that it has."""

import shlex
from pathlib import Path

import pytest

from slotwise.cli.app import build_app

DEPLOY = Path(__file__).parents[1] / "deploy"


def options_of(command: str) -> set[str]:
    arguments = build_app(command)[command].assemble_argument_collection()
    return {name for argument in arguments for name in argument.names}


def check(words: list[str]) -> None:
    given = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
    assert given
    assert given <= options_of(words[0])


UNITS = ["slotwise-server.service", "slotwise-device@.service", "slotwise-server.service.d/campaign.conf"]


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_calls_slotwise_as_it_is(unit: str) -> None:
    lines = (DEPLOY / unit).read_text().splitlines()
    # A drop-in empties the command of its unit first.
    (start,) = [line for line in lines if line.startswith("ExecStart=") and line != "ExecStart="]
    program, *words = shlex.split(start.removeprefix("ExecStart="))
    if unit.startswith("slotwise-device"):  # slotwise-device has no program of the name slotwise
        assert program.endswith("/python")
        assert words[:2] == ["-m", "slotwise"]
        words = words[2:]
    else:
        assert program.endswith("/slotwise")
    check(words)


def test_the_compose_file_calls_slotwise_as_it_is() -> None:
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    called = [service["command"] for service in services.values() if service["image"] == "slotwise"]
    assert len(called) == 4
    for words in called:
        check(words)


def test_containers_share_nothing_and_have_health_checks_limits_and_own_credentials() -> None:
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    named = [volume for service in services.values() for volume in service["volumes"] if volume[0] != "."]
    assert len(named) == len(set(named)) == 4
    for service in services.values():
        assert service["healthcheck"]["test"]
        assert service["mem_limit"]
    for name, service in services.items():
        files = {volume.split(":")[0] for volume in service["volumes"] if volume.startswith("./fleet")}
        own = {"./fleet/broker"} if name == "mosquitto" else {"./fleet/ca.crt", f"./fleet/{name}.toml"}
        assert files == own


@pytest.mark.parametrize("unit", ["slotwise-server.service", "slotwise-device@.service"])
def test_units_limit_memory_and_do_not_silence_the_log(unit: str) -> None:
    text = (DEPLOY / unit).read_text()
    assert "MemoryMax=" in text
    assert "--quiet" not in text
