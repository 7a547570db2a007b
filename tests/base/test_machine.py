import subprocess
from pathlib import Path

import pytest

from slotwise.base import machine
from slotwise.base.machine import (
    OtherLoad,
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
