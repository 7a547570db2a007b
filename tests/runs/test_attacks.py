"""Attackers as options of a run."""

from pathlib import Path

import numpy as np
import pytest

from slotwise.learning import Task, TrainingStart
from slotwise.learning.attack import Attacked
from slotwise.learning.quantisation import Quantised
from slotwise.runs import Observer, RunConfig, RunFolder, run
from slotwise.runs.execution import build_task

SMALL = RunConfig.from_options({"devices": 4, "group_size": 2, "samples_per_device": 20, "local_steps": 1})


class Notes(Observer):
    def __init__(self) -> None:
        self.notices: list[str] = []

    def notice(self, message: str) -> None:
        self.notices.append(message)


def test_attackers_are_shown_and_kept_in_run_json_and_nothing_without(
    tmp_path: Path, toy: Task, parameters: RunConfig
) -> None:
    config = parameters.with_options(attack="noise", attack_share=0.5)
    observer = Notes()
    run(config, tmp_path / "run", task=toy, observer=observer)
    folder = RunFolder.open(tmp_path / "run")
    assert tuple(folder.description()["attackers"]) == config.attackers()
    assert ", ".join(map(str, config.attackers())) in observer.notices[0]
    assert folder.parameters() == config
    observer = Notes()
    folder = run(parameters, tmp_path / "plain", task=toy, observer=observer).folder
    assert "attackers" not in RunFolder(folder).description()
    assert observer.notices == []


@pytest.mark.parametrize("bits", [32, 8])
def test_attackers_send_their_update_scaled_and_quantised_like_any_other(bits: int) -> None:
    config = SMALL.with_options(attack="sign-flip", attack_share=0.25, attack_scale=4.0, bits=bits)
    (attacker,) = config.attackers()
    honest, attacked = build_task(SMALL.with_options(bits=bits)), build_task(config)
    assert isinstance(attacked, Attacked if bits == 32 else Quantised)
    model = honest.initial_model()
    for device in range(1, 5):
        start = TrainingStart(device, 0)
        factor = -4.0 if device == attacker else 1.0
        found, expected = attacked.local_update(model, start), honest.local_update(model, start) * factor
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=0)
        assert attacked.sample_count(device) == 20  # type: ignore[attr-defined]
