"""slotwise/Training-v0: gymnasium's checks, the model of the recorded timeline, rewards and decisions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import slotwise.gym as sg
from slotwise import InputError, RunConfig
from slotwise.learning import train

gymnasium = pytest.importorskip("gymnasium")
training = pytest.importorskip("slotwise.gym.training")
check_env = pytest.importorskip("gymnasium.utils.env_checker").check_env

TINY = {**training.SMALL, "devices": 6, "deadline": 80, "samples_per_device": 8, "batch_size": 4}
MODES: Mapping[str, Mapping[str, Any]] = {
    "group-size": {"decide": "group_size"},
    "idfl": {"decide": "group_size", "config": {**TINY, "schedule": "idfl", "delay": 1}},
    "participants": {"decide": "participants"},
    "scaffold": {"decide": "group_size", "config": {**TINY, "aggregation": "scaffold"}},
}
modes = pytest.mark.parametrize("arguments", MODES.values(), ids=MODES)


def make(**arguments: Any) -> Any:
    return gymnasium.make("slotwise/Training-v0", **{"config": TINY, **arguments}).unwrapped


def play(env: Any, seed: int) -> tuple[float, list[dict[str, Any]]]:
    """Play with random actions; return the sum of the rewards, and what each step told."""
    observation, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    total, told, ended = 0.0, [info], False
    while not ended:
        observation, reward, ended, truncated, info = env.step(env.action_space.sample())
        assert not truncated
        assert env.observation_space.contains(observation)
        total += reward
        told.append(info)
    return total, told


@pytest.mark.parametrize("decide", ["group_size", "participants"])
def test_gymnasium_finds_no_fault(decide: str) -> None:
    check_env(make(decide=decide), skip_render_check=True)


@modes
@pytest.mark.parametrize("workers", [1, 2])
def test_training_along_the_recorded_timeline_gives_the_same_model(
    arguments: Mapping[str, Any], workers: int
) -> None:
    env = make(**arguments, workers=workers)
    total, told = play(env, 2)
    timeline, history = env.episode.timeline, env.history
    assert history.rounds == timeline.rounds > 5
    again = train(timeline, env.task, aggregation=env.config.rule, evaluate_every=10**6)
    assert again.model.tobytes() == history.model.tobytes()
    losses = [told[0]["loss"], told[-1]["loss"]]
    assert losses[1] == again.points[-1].loss
    first = again.points[0].loss
    assert total == pytest.approx((losses[0] - losses[1]) / first, rel=1e-9)


def test_actions_are_sizes_or_the_devices_with_the_largest_numbers() -> None:
    env = make(sizes=(1, 3))
    env.reset(seed=0)
    for action in (1, 0, 1):
        env.step(action)
    assert env.episode.answers == (3, 1, 3)
    env = make(decide="participants")
    env.reset(seed=0)
    env.step(np.array([0.1, 0.9, -0.5, 0.2, 0.0, -1.0], np.float32))
    assert env.episode.answers == ((2, 4),)
    assert env.group_size == 2


def test_selections_choose_participants() -> None:
    env = make(decide="participants")
    env.reset(seed=0)
    for expected in ((1, 2), (3, 4), (5, 6), (1, 2)):
        env.step(sg.BASELINES["round-robin"](env, None))
        assert env.episode.answers[-1] == expected
    sized = make()
    sized.reset(seed=0)
    with pytest.raises(InputError, match="participants: a selection chooses devices"):
        sized.action_like(lambda waiting, k, last: waiting[0])


def test_a_training_that_diverges_ends_the_episode() -> None:
    env = make(config={**TINY, "network": "mlp", "hidden": [4], "learning_rate": 1e30})
    total, told = play(env, 0)
    assert told[-1]["loss"] == pytest.approx(training.DIVERGED * env.history.points[0].loss)
    assert env.episode.decision is not None
    assert total < 0


def test_a_seed_is_a_training() -> None:
    env = make()
    found = [play(env, seed) for seed in (1, 2, 1)]
    assert found[0][0] == found[2][0] != found[1][0]
    assert sg.compare(env, {"third": lambda env, seen: 2}, [1]).returns["third"].shape == (1,)


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({"decide": "sender"}, "decide"),
        ({"sizes": ()}, "sizes"),
        ({"sizes": (7,)}, "sizes"),
        ({"sizes": 3}, "sizes"),
        ({"sizes": (2,), "decide": "participants"}, "sizes"),
        ({"config": 3}, "config"),
        ({"config": {**TINY, "stop_at": "accuracy=0.5"}}, "stop_at"),
        ({"config": {**TINY, "group_rule": "shrink-when-stalled"}}, "group_rule"),
        ({"config": {**TINY, "schedule": "async"}, "decide": "participants"}, "decide"),
        ({"config": {**TINY, "group_size_changes": [[10, 1]]}}, "group_size_changes"),
        ({"config": {**TINY, "deadline": 3}}, "deadline"),
    ],
)
def test_what_cannot_be_decided_is_refused(arguments: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InputError) as caught:
        make(**arguments).reset(seed=0)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(
    ("decide", "actions"),
    [
        ("group_size", [-1, 6, 1.0, "2", None, [1, 2]]),
        ("participants", [None, 1, "abcdef", [1] * 5, [[1] * 6], [float("nan")] * 6]),
    ],
)
def test_actions_that_mean_nothing_are_refused(decide: str, actions: list[Any]) -> None:
    env = make(decide=decide)
    with pytest.raises(gymnasium.error.ResetNeeded, match="has not begun"):
        env.step(actions[0])
    env.reset(seed=0)
    for action in actions:
        with pytest.raises(InputError, match=r"^action"):
            env.step(action)
    env.step(np.array([5]) if decide == "group_size" else [1, 2, 3, 4, 5, 6])
    assert env.episode.answers == ((6,) if decide == "group_size" else ((5, 6),))


def test_a_configuration_is_accepted_as_it_is() -> None:
    config = RunConfig.from_options({**TINY, "schedule": "async"})
    assert make(config=config).config is config


def test_updates_over_the_air_are_noisy_here_too() -> None:
    config = {
        **TINY,
        "group_size": 3,
        "radio_link": "rate-adaptive",
        "access": "over-the-air",
        "air_snr_db": -10.0,
    }
    with pytest.raises(InputError, match="over the air only a sum"):
        make(config={**config, "aggregation": "median"}).reset(seed=0)
    env = make(config=config)
    play(env, 0)
    episode, radio = env.episode, env._radio  # with the seed of the episode
    how = {"workers": 1, "evaluate_every": 1_000}
    noisy = train(episode.timeline, env._task, radio=radio, **how).model
    plain = train(episode.timeline, env._task, **how).model
    assert (env.history.model == noisy).all()
    assert (noisy != plain).any()
