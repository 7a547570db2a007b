import resource
import subprocess
from pathlib import Path

import pytest

from slotwise.base import machine
from slotwise.base.errors import InputError
from slotwise.base.machine import (
    SPARE_FILES,
    OtherLoad,
    allow_open_files,
    available_cores,
    busy_seconds,
    describe_machine,
    processor,
    source_commit,
)


def test_the_machine_is_described_in_one_line() -> None:
    assert f"{processor()}, {available_cores()} cores" in describe_machine()
    assert "\n" not in describe_machine()


def test_busy_time_grows_with_work() -> None:
    before = busy_seconds()
    if before is None:
        pytest.skip("this system does not tell")
    while (after := busy_seconds()) == before:
        sum(range(10_000))
    assert after is not None
    assert after > before


@pytest.mark.parametrize(("busy", "share"), [(0.0, 0.0), (1e12, 1.0)])
def test_the_load_of_others_is_a_share_of_all_cores(
    monkeypatch: pytest.MonkeyPatch, busy: float, share: float
) -> None:
    monkeypatch.setattr(machine, "busy_seconds", lambda: 0.0)
    load = OtherLoad()
    monkeypatch.setattr(machine, "busy_seconds", lambda: busy)
    assert load.share() == share


def test_without_figures_the_load_of_others_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "busy_seconds", lambda: None)
    assert OtherLoad().share() is None


@pytest.fixture
def uncached():
    source_commit.cache_clear()
    yield
    source_commit.cache_clear()


def test_the_commit_is_that_of_the_checkout_that_has_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, uncached: None
) -> None:
    package = tmp_path / "src" / "slotwise" / "base"
    package.mkdir(parents=True)
    (package / "machine.py").write_text("")
    monkeypatch.setattr(machine, "__file__", str(package / "machine.py"))
    assert source_commit() is None

    def git(*arguments: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(
            ["git", *who, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "First")
    head = git("rev-parse", "HEAD")
    source_commit.cache_clear()
    assert source_commit() == head[:12]
    (package / "machine.py").write_text("changed = True")
    source_commit.cache_clear()
    assert source_commit() == f"{head[:12]}-dirty"
    monkeypatch.setenv("PATH", "")
    source_commit.cache_clear()
    assert source_commit() is None


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The limit of open files as a list, of which the last counts."""
    found = [(1024, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: found[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: found.append(pair))
    return found


def test_the_limit_of_open_files_is_raised_as_far_as_it_may_be(limits: list[tuple[int, int]]) -> None:
    allow_open_files("devices", 900, "each has a connection")
    assert limits == [(1024, 4096)]
    allow_open_files("devices", 2000, "each has a connection")
    assert limits[1:] == [(2000 + SPARE_FILES, 4096)]
    with pytest.raises(InputError) as caught:
        allow_open_files("devices", 4000, "each has a connection")
    assert "at most 3,996" in str(caught.value)
    assert "ulimit -n 4100, or LimitNOFILE=4100 in a systemd unit" in str(caught.value)
