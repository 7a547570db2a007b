"""Training while deciding gives the bits of training along the timeline that was recorded."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slotwise import Episode, Evaluation, History, InputError, Scenario, Task, TrainingStart, UserError, train
from slotwise.aggregation import Contribution, UplinkRadio, Vector
from slotwise.fleet import Fleet
from slotwise.learning import Training
from slotwise.radio import ChannelModel, Noma, Ofdma, RateAdaptive, Rayleigh
from slotwise.rules import Mifa
from slotwise.schedule import Decision, Learning
from slotwise.schedule.decisions import OF_GROUPS, DecisionKind

CASES: dict[str, tuple[str, tuple[DecisionKind, ...], dict[str, Any]]] = {
    "sender": ("async", ("sender",), {}),
    "participants": ("sync", ("participants",), {}),
    "sizes of sync": ("sync", ("group_size", "participants"), {}),
    "everything": ("idfl", ("sender", "group_size", "delay"), {"delay": 1}),
    "blocks": ("async", ("blocks",), {}),
    "powers of noma": ("async", ("power",), {"access": Noma}),
    "a group": ("idfl", ("sender", "blocks", "power", "group_size"), {"delay": 1}),
}
SCENARIO = Scenario(devices=6, group_size=2, compute_slots=3, deadline=120)
RADIO = RateAdaptive(
    channel=ChannelModel(fading=Rayleigh(coherence_slots=4), seed=2), bits=40_000, broadcast_bits=40_000
)
FLEET = Fleet(
    compute_slots=(3, 5, 2, 4, 7, 3), link_slots=(1, 1, 2, 1, 1, 3), jitter=0.3, uplink_loss=0.2, seed=4
)

LOSSLESS = replace(FLEET, uplink_loss=0.0)


def by_learning(decision: Decision, learning: Learning) -> Any:
    """Answer by all that is known, so that anything another way changes the timeline."""
    score = np.nan_to_num(learning.norms, nan=9.0) + np.nan_to_num(learning.losses, nan=1.0)
    score = score + 0.1 * np.nansum(learning.round_losses)
    if decision.kind in OF_GROUPS:
        score = score[np.array(decision.allowed) - 1]
    if decision.kind == "blocks":
        return [1 + int(30 * one) % (decision.count // len(decision.allowed)) for one in score]
    if decision.kind == "power":
        return [(1 + int(30 * one) % 4) / 4 for one in score]
    if decision.kind == "participants":
        return sorted(decision.allowed, key=lambda n: -score[n - 1])[: decision.count]
    if decision.kind == "sender":
        return max(decision.allowed, key=lambda n: (score[n - 1], n))
    return decision.allowed[int(1000 * score.sum()) % len(decision.allowed)]


def episode_of(case: str, **changes: Any) -> Episode:
    policy, decide, options = CASES[case]
    if not set(decide).intersection(OF_GROUPS):
        return Episode(replace(SCENARIO, **changes), policy, decide=decide, fleet=FLEET, **options)
    at_once = changes.pop("sub_channels", 2)
    scenario = replace(SCENARIO, **changes)
    access = {"access": Ofdma, **options}["access"](devices=at_once)
    link = access.link(RADIO.link(scenario))
    others = {name: value for name, value in options.items() if name != "access"}
    return Episode(scenario, policy, decide=decide, fleet=LOSSLESS, link=link, **others)


def same(one: History, other: History) -> bool:
    return bool((one.model == other.model).all()) and one.points == other.points


class Measured(Task):
    """A task with a loss of each device."""

    def __init__(self, task: Task) -> None:
        self.task: Any = task

    def initial_model(self) -> Vector:
        return self.task.initial_model()  # type: ignore[no-any-return]

    def local_update(self, model: Vector, start: TrainingStart) -> Any:
        return self.task.local_update(model, start)

    def evaluate(self, model: Vector) -> Evaluation:
        return self.task.evaluate(model)  # type: ignore[no-any-return]

    def device_loss(self, model: Vector, device: int) -> float:
        errors = (self.task.inputs[device - 1] * model).sum(axis=1) - self.task.targets[device - 1]
        return float((errors**2).mean())


@pytest.fixture
def task(least_squares: Callable[[int, int], Task]) -> Task:
    return Measured(least_squares(6, 1))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sub_channels", [1, 3])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_it_gives_the_bits_of_the_recorded_timeline(
    case: str, sub_channels: int, workers: int, task: Task
) -> None:
    episode = episode_of(case, sub_channels=sub_channels)
    deciding = train(episode, task, agent=by_learning, workers=workers, evaluate_every=7, aggregation=Mifa())
    timeline = episode.timeline
    along = train(timeline, task, workers=workers, evaluate_every=7, aggregation=Mifa())
    assert timeline.rounds > 7
    assert same(deciding, along)
    alone = episode_of(case, sub_channels=sub_channels)
    train(alone, task, agent=by_learning, workers=1, evaluate_every=7, aggregation=Mifa())
    assert alone.timeline == timeline


def by_energy(model: Vector, contributions: Sequence[Contribution]) -> Vector:
    """Weigh updates by the joules of their uplinks."""
    joules = np.array([one.uplink.joules for one in contributions], dtype=np.float32)
    updates = np.stack([one.update for one in contributions])
    return model - (joules / joules.sum()) @ updates  # type: ignore[no-any-return]


@pytest.mark.parametrize("case", ["powers of noma", "a group"])
def test_rules_see_the_energy_that_was_decided(case: str, task: Task) -> None:
    episode = episode_of(case)
    radio = UplinkRadio(episode.link, sending_joules=(2.0,))
    deciding = train(episode, task, agent=by_learning, evaluate_every=7, aggregation=by_energy, radio=radio)
    assert len(episode.timeline.reduced)
    along = train(episode.timeline, task, evaluate_every=7, aggregation=by_energy, radio=radio)
    assert same(deciding, along)
    blind = train(episode.timeline, task, evaluate_every=7)
    assert not same(along, blind)


@settings(max_examples=30)
@given(case=st.sampled_from(sorted(CASES)), cut=st.integers(0, 12), ahead=st.integers(0, 5))
def test_it_resumes_in_the_middle(
    case: str, cut: int, ahead: int, least_squares: Callable[[int, int], Task]
) -> None:
    task = Measured(least_squares(6, 1))
    whole = episode_of(case)
    expected = train(whole, task, agent=by_learning, workers=1, evaluate_every=7)
    with Training(episode_of(case), task, agent=by_learning, evaluate_every=7) as training:
        for _ in range(min(cut, whole.rounds)):
            training.advance()
        state = training.history()
    # The state has the decisions of its rounds; they may have been taken already.
    again = episode_of(case)
    again.replay(whole.answers_of(min(whole.rounds, ahead)), state.rounds)
    resumed = train(again, task, agent=by_learning, workers=1, evaluate_every=7, resume=state)
    assert same(resumed, expected)
    assert again.timeline == whole.timeline
    assert again.answers == whole.answers


@pytest.mark.parametrize("case", CASES)
def test_the_caller_may_decide_instead_of_an_agent(case: str, task: Task) -> None:
    expected = episode_of(case)
    history = train(expected, task, agent=by_learning, workers=1, evaluate_every=7)
    episode = episode_of(case)
    with Training(episode, task, evaluate_every=7) as training:
        while episode.decision is not None:
            episode.answer(by_learning(episode.decision, training.learning))
        training.catch_up()
        assert training.finished
        assert same(training.history(), history)
    assert episode.timeline == expected.timeline


def test_models_that_no_device_has_are_dropped(task: Task) -> None:
    with Training(episode_of("everything"), task, agent=by_learning) as training:
        for _ in training:
            history = training.history()
            assert len(history.models) <= SCENARIO.devices + 2
            assert history.rounds in history.models


def test_it_ends_at_a_target_with_the_same_model(task: Task) -> None:
    losses = [p.loss for p in train(episode_of("sender"), task, agent=by_learning, evaluate_every=7).points]
    target = f"loss={sorted(losses)[len(losses) // 2]}"
    episode = episode_of("sender")
    deciding = train(episode, task, agent=by_learning, evaluate_every=7, stop_at=target)
    along = train(episode.timeline, task, evaluate_every=7, stop_at=target)
    assert deciding.rounds == along.rounds < episode.timeline.rounds
    assert same(deciding, along)


def test_what_is_known_of_the_learning(task: Task) -> None:
    known: list[Learning] = []

    def remembering(decision: Decision, learning: Learning) -> Sequence[int]:
        known.append(learning)
        return [1] if decision.round % 2 else [2, 3]

    episode = Episode(replace(SCENARIO, deadline=30), "sync", decide="participants")
    history = train(episode, task, agent=remembering, workers=1)
    first = task.initial_model()
    assert np.isnan(known[0].losses).all()
    assert known[0].round_losses.size == 0
    assert known[0].samples.tolist() == [1] * 6
    # Before round 1 the server has the updates of devices 2 and 3, made from w_0.
    expected = [task.device_loss(first, n) for n in (2, 3)]
    assert known[1].losses[1:3].tolist() == expected
    assert np.isnan(known[1].losses[[0, 3, 4, 5]]).all()
    assert known[1].round_losses.tolist() == [np.mean(expected)]
    update = task.local_update(first, TrainingStart(2, 0))
    assert isinstance(update, np.ndarray)
    assert known[1].norms[1] == pytest.approx(float(np.linalg.norm(update)))
    assert history.learning["losses"].tolist() != known[1].losses.tolist()


def test_an_agent_cannot_change_what_is_known(task: Task) -> None:
    def writing(decision: Decision, learning: Learning) -> int:
        learning.losses[0] = 0.0
        return decision.allowed[0]

    with pytest.raises(ValueError, match="read-only"):
        train(episode_of("sender"), task, agent=writing)


def test_an_agent_for_a_timeline_is_refused(task: Task) -> None:
    with pytest.raises(InputError, match="agent"):
        train(episode_of("sender").timeline, task, agent=by_learning)
    with pytest.raises(InputError, match="agent = <lambda>: must be a function of 2 arguments"):
        train(episode_of("sender"), task, agent=lambda decision: 1)  # type: ignore[arg-type, misc]
    with pytest.raises(
        InputError, match="agent is missing; it must be given: the episode has decisions left"
    ):
        train(episode_of("sender"), task)
    with Training(episode_of("sender"), task) as training, pytest.raises(UserError, match="not decided yet"):
        training.advance()


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("timeline", "a Timeline or an Episode"),
        ("resume", "a History"),
        ("radio", "an UplinkRadio"),
        ("observer", "an Observer"),
    ],
)
def test_arguments_of_other_types_are_refused(name: str, allowed: str, task: Task) -> None:
    arguments: dict[str, Any] = {"timeline": episode_of("sender"), "agent": by_learning, name: 3}
    with pytest.raises(InputError, match=f"^{name} = an int: must be {allowed}$"):
        train(task=task, **arguments)


@pytest.mark.parametrize("other", ["participants", "everything"])
def test_a_history_of_another_episode_is_refused(other: str, task: Task) -> None:
    history = train(episode_of("sender"), task, agent=by_learning, stop_at="loss=0.9", evaluate_every=1)
    assert history.rounds
    with pytest.raises(UserError, match=r"^resume: the history is of another episode: "):
        train(episode_of(other), task, agent=by_learning, resume=history)


def test_a_target_is_text_or_a_target(task: Task) -> None:
    with pytest.raises(InputError, match=r"^stop_at = 3: must be accuracy=X"):
        train(episode_of("sender"), task, agent=by_learning, stop_at=3)  # type: ignore[arg-type]
