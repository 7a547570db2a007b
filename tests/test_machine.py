import pytest

from slotwise import machine
from slotwise.machine import OtherLoad, available_cores, busy_seconds, describe_machine, processor


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
