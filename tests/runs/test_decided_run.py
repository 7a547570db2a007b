"""Runs whose schedule is decided by what is learned: the same bits however they are trained, and resumed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Toy
from slotwise import (
    InputError,
    Observer,
    ProgressBar,
    RunConfig,
    RunFolder,
    Task,
    UserError,
    resume,
    run,
    train,
)
from slotwise.runs.execution import build_task
from slotwise.runs.run_folder import model_sha256

BASE: dict[str, Any] = {
    **{"devices": 8, "group_size": 2, "compute_slots": 3, "deadline": 90, "network": "logistic"},
    **{"samples_per_device": 12, "batch_size": 4, "local_steps": 2, "evaluate_every": 10},
}
OFDMA: dict[str, Any] = {
    **{"radio_link": "rate-adaptive", "radio_coherence_slots": 4, "access": "ofdma", "ofdma_devices": 3},
    **{"resource_blocks": 24, "allocation": "own_agents:divide", "deadline": 200},
}
CASES: dict[str, dict[str, Any]] = {
    "power-of-choice": {"schedule": "sync", "participation": "power-of-choice", "choice_candidates": 4},
    "oort": {"schedule": "sync", "participation": "oort", "uplink_loss": 0.2, "retransmission": "erasure"},
    "loss-proportional": {"schedule": "sync", "participation": "loss-proportional", "jitter": 0.3},
    "group rule": {"schedule": "idfl", "delay": 1, "group_rule": "shrink-when-stalled", "stall_rounds": 2},
    "own": {"schedule": "async", "selection": "own_agents:largest", "selection_options": {"weight": 2.0}},
    "blocks": {**OFDMA, "group_size": 3, "allocation_options": {"weight": 2.0}},
    "sender and blocks": {**OFDMA, "group_size": 3, "schedule": "async", "selection": "own_agents:largest"},
}
OWN = """
import numpy as np

def largest(decision, learning, *, weight: float = 1.0):
    score = np.nan_to_num(learning.norms, nan=9.0) + weight * np.nan_to_num(learning.losses, nan=9.0)
    return max(decision.allowed, key=lambda n: score[n - 1])

def divide(decision, learning, *, weight: float = 1.0):
    norms = np.nan_to_num(learning.norms, nan=1.0)[np.array(decision.allowed) - 1]
    share = norms + weight * decision.group.snr / decision.group.snr.sum()
    return 1 + np.floor((decision.count - len(norms)) * share / share.sum()).astype(int)

def wrong(decision, learning, *, answer=99):
    return answer

def fails(decision, learning, *, answer=99):
    raise ValueError("no idea")
"""


@pytest.fixture(autouse=True)
def _own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_agents.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))


class StopAt(Observer):
    """Stops after a round."""

    def __init__(self, round_number: int) -> None:
        self.last, self.stopped = round_number, False

    def round_done(self, round_number: int) -> None:
        self.stopped = round_number >= self.last

    def wants_stop(self) -> bool:
        return self.stopped


def sha256_of(folder: Path) -> str:
    return str(json.loads((folder / "run.json").read_text())["model_sha256"])


@pytest.mark.parametrize("case", CASES)
def test_any_workers_and_the_recorded_timeline_give_the_same_model(case: str, tmp_path: Path) -> None:
    config = RunConfig.from_options({**BASE, **CASES[case]})
    found = set()
    for workers in (1, 2, 4):
        folder = tmp_path / f"{workers}"
        run(config, folder, workers=workers, observer=StopAt(workers), checkpoint_every=0)
        assert RunFolder.open(folder).status == "interrupted"
        result = resume(folder, workers=workers)
        assert result.status == "finished"
        found.add(sha256_of(folder))
        assert RunFolder.open(folder).read().planned == result.timeline
    how: dict[str, Any] = {"aggregation": config.rule, "evaluate_every": 10}
    history = train(result.timeline, build_task(config), workers=2, **how)
    found.add(model_sha256(history.model))
    assert len(found) == 1
    assert [point[:4] for point in history.points] == [point[:4] for point in result.history.points]
    assert result.timeline.rounds > 6
    assert resume(folder).timeline == result.timeline  # as it is


def test_a_progress_bar_follows_it(tmp_path: Path) -> None:
    config = RunConfig.from_options({**BASE, **CASES["oort"]})
    assert run(config, tmp_path / "out", observer=ProgressBar()).status == "finished"


def test_a_damaged_newest_checkpoint_costs_rounds_and_no_bits(tmp_path: Path) -> None:
    config = RunConfig.from_options({**BASE, **CASES["oort"]})
    run(config, tmp_path / "whole")
    run(config, tmp_path / "cut", observer=StopAt(5), checkpoint_every=0)
    newest = RunFolder.open(tmp_path / "cut").checkpoints
    paths = sorted(newest.folder.glob("*.checkpoint"))
    paths[-1].write_bytes(paths[-1].read_bytes()[:-9])
    resume(tmp_path / "cut")
    assert sha256_of(tmp_path / "cut") == sha256_of(tmp_path / "whole")


@pytest.mark.parametrize("given", [{}, {"answer": 98}], ids=["plain", "with parameters"])
@pytest.mark.parametrize(("name", "message"), [("wrong", "must be"), ("fails", "ValueError: no idea")])
def test_an_own_function_that_fails_is_one_line(
    name: str, message: str, given: dict[str, int], tmp_path: Path
) -> None:
    options = {**BASE, "schedule": "async", "selection": f"own_agents:{name}", "selection_options": given}
    with pytest.raises(UserError, match=rf"^selection own_agents:{name}: .*{message}"):
        run(RunConfig.from_options(options), tmp_path / "out")


def test_a_task_without_losses_is_refused_where_they_are_needed(tmp_path: Path) -> None:
    options = {**BASE, **CASES["power-of-choice"], "network": None}
    toy: Task = Toy()
    config = RunConfig.from_options({name: value for name, value in options.items() if value is not None})
    with pytest.raises(InputError, match=r"^participation = power-of-choice: must be used with a task"):
        run(config, tmp_path / "out", task=toy)


@pytest.mark.parametrize("rule", ["scaffold", "feddyn"])
@pytest.mark.parametrize("case", ["power-of-choice", "group rule"])
def test_losses_are_those_of_the_model_in_a_message(case: str, rule: str, tmp_path: Path) -> None:
    config = RunConfig.from_options({**BASE, **CASES[case], "aggregation": rule})
    result = run(config, tmp_path / "out", workers=2)
    assert result.status == "finished"
    history = train(result.timeline, build_task(config), aggregation=config.rule)
    assert model_sha256(history.model) == sha256_of(tmp_path / "out")


def test_a_rule_for_group_sizes_that_are_given_is_refused() -> None:
    with pytest.raises(InputError, match=r"^group_rule = shrink-when-stalled: must be fixed if group_size"):
        RunConfig.from_options({**BASE, **CASES["group rule"], "group_size": "4@0,2@30"})


def test_the_schedule_is_refused_where_nothing_is_trained() -> None:
    config = RunConfig.from_options({**BASE, **CASES["oort"]})
    with pytest.raises(InputError, match="nothing is learned here"):
        config.simulate()
    assert np.any(config.without_learning().simulate().device)


def test_a_decision_that_fails_at_once_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_rule.py").write_text("def boom(decision, learning):\n    raise ValueError('boom')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    options = {"devices": 4, "group_size": 2, "compute_slots": 3, "deadline": 60, "network": "logistic"}
    config = RunConfig.from_options({**options, "samples_per_device": 8, "group_rule": "failing_rule:boom"})
    with pytest.raises(UserError, match="group_rule failing_rule:boom: ValueError: boom"):
        run(config, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_update_norms_need_channels_that_differ_or_all_devices() -> None:
    options = {"devices": 30, "group_size": 2, "schedule": "sync", "participation": "update-norm"}
    with pytest.raises(InputError) as caught:
        RunConfig.from_options(options)
    assert caught.value.parameter == "norm_candidates"
    RunConfig.from_options({**options, "norm_candidates": 30})
    RunConfig.from_options({**options, "radio_link": "rate-adaptive"})


@pytest.mark.parametrize(
    ("participation", "option"),
    [("power-of-choice", "choice_candidates"), ("update-norm", "norm_candidates")],
)
def test_fewer_candidates_than_participants_are_refused(participation: str, option: str) -> None:
    options = {"devices": 9, "group_size": "5@0,3@30", "schedule": "sync", "participation": participation}
    options |= {"deadline": 200, "radio_link": "rate-adaptive"}
    with pytest.raises(InputError, match=rf"^{option} = 4: must be at least 5, the group size"):
        RunConfig.from_options({**options, option: 4})
    RunConfig.from_options({**options, option: 5})


def test_groups_do_not_shrink_below_what_the_aggregation_rule_needs() -> None:
    with pytest.raises(InputError, match="must be fixed with aggregation krum"):
        RunConfig.from_options({"aggregation": "krum", "group_rule": "shrink-when-stalled"})
    RunConfig.from_options({"aggregation": "median", "group_rule": "shrink-when-stalled"})


def test_an_allocation_by_what_is_learned_is_refused_where_nothing_is_learned() -> None:
    config = RunConfig.from_options({**BASE, **CASES["blocks"]})
    with pytest.raises(
        InputError, match=r"^allocation = own_agents:divide: must be used with train or sweep"
    ):
        config.simulate()
    assert config.without_learning().simulate().rounds


def test_powers_of_shared_density_follow_from_decided_blocks(tmp_path: Path) -> None:
    config = RunConfig.from_options({**BASE, **CASES["blocks"], "ofdma_power": "shared"})
    timeline = run(config, tmp_path / "out").timeline
    starts = {int(start) for _, start, _, _ in timeline.reduced}
    shares = [sum(part for _, one, _, part in timeline.reduced.tolist() if one == start) for start in starts]
    assert 0 < max(shares) <= 1.0 + 1e-12
    assert all(abs(part * 24 - round(part * 24)) < 1e-9 for *_, part in timeline.reduced.tolist())
