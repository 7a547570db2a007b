"""Learning rates are searched together with schedules and group sizes."""

from pathlib import Path

import numpy as np
import pytest

from slotwise.aggregation import Vector
from slotwise.base.errors import InputError
from slotwise.learning import Evaluation, Task, TrainingStart
from slotwise.recommendation.search import recommend
from slotwise.runs import RunConfig, RunFolder

from .conftest import OPTIONS, Pulling

RATES = (0.01, 0.2, 50.0)  # slow, suitable, and one that diverges


class PullingByRate(Pulling):
    """Devices pull by the learning rate of the run."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._rate = np.float32(config.training.learning_rate)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        with np.errstate(over="ignore", invalid="ignore"):
            update: Vector = self._rate / np.float32(0.3) * super().local_update(model, start)
        return update

    def evaluate(self, model: Vector) -> Evaluation:
        with np.errstate(over="ignore", invalid="ignore"):
            return super().evaluate(model)


@pytest.fixture(autouse=True)
def pulling(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(_: object, config: RunConfig) -> Task:
        return PullingByRate(config)

    monkeypatch.setattr("slotwise.recommendation.candidates.TaskCache.make", make)


@pytest.fixture
def config() -> RunConfig:
    return RunConfig.from_options(OPTIONS)


def test_the_best_rate_is_a_part_of_the_answer(config: RunConfig, tmp_path: Path) -> None:
    answer = recommend(config, group_sizes=[1, 2], learning_rates=RATES[::-1], seeds=2, out=tmp_path)
    assert answer.config.training.learning_rate == 0.2
    assert dict(answer.best.candidate.others) == {"learning_rate": 0.2}
    assert " a learning rate of 0.2: " in str(answer)
    assert answer.columns()["learning_rate"][0] == 0.2
    assert not any("was tried" in caution for caution in answer.cautions)
    diverged = {standing.candidate.others for standing in answer.standings if standing.diverged}
    assert diverged == {(("learning_rate", 50.0),)}
    pilots = {path.name: RunFolder(path).parameters() for path in (tmp_path / "pilots").iterdir()}
    assert pilots["async-S2-rate0.01-seed0"].training.learning_rate == 0.01


def test_a_rate_at_the_edge_is_named(config: RunConfig) -> None:
    answer = recommend(config, group_sizes=[1], learning_rates=RATES[:2], seeds=1)
    assert [caution for caution in answer.cautions if "highest that was tried" in caution]


def test_more_rates_share_the_pilots(config: RunConfig, tmp_path: Path) -> None:
    recommend(config, group_sizes=[1], learning_rates=RATES[1:2], seeds=1, out=tmp_path)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "pilots").glob("*rate0.2*/history.csv")}
    recommend(config, group_sizes=[1], learning_rates=RATES[:2], seeds=1, out=tmp_path)
    assert times
    assert {path: path.stat().st_mtime_ns for path in times} == times


@pytest.mark.parametrize("rate", [0, -1.0, float("nan"), "0.1"])
def test_other_rates_are_refused(rate: object, config: RunConfig) -> None:
    with pytest.raises(InputError) as caught:
        recommend(config, learning_rates=[0.1, rate])  # type: ignore[list-item]
    assert caught.value.parameter == "learning_rates"
    with pytest.raises(InputError, match="at least one learning rate"):
        recommend(config, learning_rates=[])
