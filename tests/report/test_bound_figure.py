"""The picture of the bounds: what is in it, read from the text of the SVG."""

from functools import cache

import pytest

from slotwise import Scenario
from slotwise.learning.estimation import Measurement
from slotwise.report.bound_figure import bound_figure
from slotwise.runs.bound_case import BoundCase
from slotwise.theory.bound import Constants, Setting

CONSTANTS = Constants(
    smoothness=2.0,
    gradient_noise=1.0,
    noise_growth=1.5,
    heterogeneity=1.0,
    initial_gap=2.0,
    initial_gradient2=1.0,
)
MEASURED = Measurement(CONSTANTS, (0, 10, 99), (1.0, 0.5, 0.2))


def setting(rate: float) -> Setting:
    scenario = Scenario(devices=12, group_size=3, compute_slots=2)
    return Setting(scenario=scenario, rounds=100, batch_size=4, learning_rate=rate)


@cache
def drawn(rate: float, measurement: Measurement | None = None) -> str:
    return bound_figure(BoundCase(setting(rate), CONSTANTS, measurement), "svg").decode()


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_each_kind_of_file_is_what_it_says(kind: str, start: bytes) -> None:
    assert bound_figure(BoundCase(setting(0.01), CONSTANTS, MEASURED), kind).startswith(start)


@pytest.mark.parametrize("kind", ["svg", "pdf"])
def test_the_same_values_give_the_same_bytes(kind: str) -> None:
    pictures = {bound_figure(BoundCase(setting(0.01), CONSTANTS), kind) for _ in range(2)}
    assert len(pictures) == 1


def test_theorems_say_what_they_cover_and_the_title_the_case() -> None:
    names = ("published bound", "corrected bound", "round robin bound")
    assert all(name in drawn(0.01) for name in names)
    assert "corrected (does not hold here)" in drawn(0.3)
    assert "round robin: no bound here" in drawn(1.0)
    assert drawn(1e3).count("no bound here") == 3
    assert "measured mean" in drawn(0.01, MEASURED)
    assert "measured mean" not in drawn(0.01)
    text = drawn(0.01)
    assert "N = 12, S = 3, staleness 3, step size 0.01, batch 4" in text
    assert "L = 2 (devices 2), σ² = 1, M = 1.5, Γ² = 1" in text
    scenario = Scenario(devices=2, group_size=1, compute_slots=2)
    single = Setting(scenario=scenario, rounds=1, batch_size=1, learning_rate=0.01)
    assert bound_figure(BoundCase(single, CONSTANTS), "png").startswith(b"\x89PNG")
