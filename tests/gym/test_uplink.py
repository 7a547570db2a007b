"""slotwise/Uplink-v0: what gymnasium asks for; timelines, rewards and seeds; refusals; baselines."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slotwise.gym as sg
from slotwise import InputError, Setting, Timeline, simulate
from slotwise.schedule.selections import SELECTIONS
from slotwise.schedule.simulation import timeline_of

gymnasium = pytest.importorskip("gymnasium")
CELL: Mapping[str, Any] = pytest.importorskip("slotwise.gym.uplink").CELL
check_env = pytest.importorskip("gymnasium.utils.env_checker").check_env

SHORT = {**CELL, "deadline": 400}
FIXED = {"devices": 6, "group_size": 2, "compute_slots": 4, "deadline": 200, "schedule": "async"}
BATTERIES = {"battery_joules": 30.0, "computing_joules": 1.0, "sending_joules": 1.0, "harvest_joules": 0.5}
CASES: Mapping[str, Mapping[str, Any]] = {
    "cell": SHORT,
    "fixed": FIXED,
    "losses": {**FIXED, "uplink_loss": 0.3},
    "batteries": {**FIXED, **BATTERIES},
    "idfl": {**SHORT, "schedule": "idfl", "delay": 1},
    "sync": {**SHORT, "schedule": "sync"},
    "sub-channels": {**FIXED, "sub_channels": 2, "devices": 8},
    "leaving": {**FIXED, "mean_present": 40.0, "mean_away": 20.0},
}
cases = pytest.mark.parametrize("options", CASES.values(), ids=CASES)


def make(options: Mapping[str, Any] = SHORT, **more: Any) -> Any:
    return gymnasium.make("slotwise/Uplink-v0", setting=options, **more).unwrapped


def play(env: Any, agent: Any, seed: int) -> list[float]:
    observation, _ = env.reset(seed=seed)
    rewards, ended = [], False
    while not ended:
        observation, reward, terminated, ended, _ = env.step(agent(env, observation))
        assert not terminated
        assert env.observation_space.contains(observation)
        rewards.append(reward)
    return rewards


@cases
@pytest.mark.parametrize("reward", ["age", "rounds"])
def test_gymnasium_finds_no_fault(options: Mapping[str, Any], reward: str) -> None:
    check_env(make(options, reward=reward), skip_render_check=True)


@cases
@pytest.mark.parametrize("name", sg.BASELINES)
def test_a_baseline_gives_the_timeline_of_the_built_in_selection(
    options: Mapping[str, Any], name: str
) -> None:
    env = make(options)
    play(env, sg.BASELINES[name], seed=3)
    drawn = int(np.random.default_rng(np.random.SeedSequence(3)).integers(2**32 - 1))
    setting = Setting.from_options({**options, "seed": drawn})
    policy, fleet, link = setting.ready_parts()
    selection = SELECTIONS[name]
    if name == "best-channel" and "radio_link" not in options:  # refused where all channels are equal
        selection = lambda waiting, *_: min(waiting, key=lambda one: one.device)  # noqa: E731
    built_in = replace(policy, selection=selection)  # type: ignore[type-var]
    expected = simulate(setting.channel, built_in, fleet=fleet, link=link)
    assert rows(env.episode.timeline) == rows(expected)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(
    devices=st.integers(2, 8),
    size=st.integers(1, 4),
    schedule=st.sampled_from(["async", "idfl", "sync"]),
    compute=st.integers(1, 30),
    seed=st.integers(0, 2**31),
)
def test_the_best_channel_agent_gives_the_timeline_of_best_channel(
    devices: int, size: int, schedule: str, compute: int, seed: int
) -> None:
    options = {**CELL, "devices": devices, "group_size": min(size, devices), "compute_slots": compute}
    options |= {"deadline": 150, "schedule": schedule, **({"delay": 0} if schedule == "idfl" else {})}
    env = make(options)
    play(env, sg.BASELINES["best-channel"], seed)
    drawn = int(np.random.default_rng(np.random.SeedSequence(seed)).integers(2**32 - 1))
    setting = Setting.from_options({**options, "selection": "best-channel", "seed": drawn})
    policy, fleet, link = setting.ready_parts()
    expected = timeline_of(setting.channel, policy, fleet, link)
    assert rows(env.episode.timeline) == rows(expected)


def rows(timeline: Timeline) -> tuple[Any, ...]:
    names = ("round", "device", "version", "start", "end", "broadcast_start", "broadcast_end", "receiver")
    return tuple(getattr(timeline, name).tolist() for name in names)


def test_the_return_is_rounds_or_minus_the_mean_age() -> None:
    for options in (SHORT, FIXED):
        env = make(options, reward="rounds")
        assert sum(play(env, sg.BASELINES["largest-age"], 1)) == env.episode.rounds > 10
        env = make(options)
        _, info = env.reset(seed=1)
        deadline, arrived, since = env.setting.deadline, env.episode.arrived, info["slot"] * 0
        total, ages, slot, ended = 0.0, 0.0, info["slot"], False
        while not ended:
            _, reward, _, ended, info = env.step(sg.BASELINES["largest-age"](env, None))
            last = deadline if ended else info["slot"]
            ages += sum(np.mean(now + 0.5 - since) for now in range(slot, last))
            total, slot = total + reward, last
            since = np.where(env.episode.arrived > arrived, slot, since)
            arrived = env.episode.arrived
        assert total == pytest.approx(-ages / deadline)
        assert (
            exact_age(env.episode.timeline, deadline)
            <= -total
            <= 1.3 * exact_age(env.episode.timeline, deadline)
        )


def exact_age(timeline: Timeline, deadline: int) -> float:
    """Return the mean age if it falls at the end of an uplink, and not at the decision after it."""
    ages, since = 0.0, np.zeros(timeline.scenario.devices)
    ends = dict(zip(timeline.end.tolist(), timeline.device.tolist(), strict=True))
    for slot in range(deadline):
        if slot in ends:
            since[ends[slot] - 1] = slot
        ages += float((slot - since).mean())
    return ages / deadline


def test_who_does_not_wait_cannot_send() -> None:
    env = make(FIXED)
    _, info = env.reset(seed=0)
    while info["action_mask"].all():
        _, _, _, _, info = env.step(0)
    absent = int(np.flatnonzero(info["action_mask"] == 0)[0])
    assert env.action_masks().tolist() == (info["action_mask"] == 1).tolist()
    longest = env.episode.decision.allowed[0]
    env.step(absent)
    assert env.episode.answers[-1] == longest != absent + 1


def test_a_seed_is_a_channel_and_none_goes_on() -> None:
    env = make()
    first = [play(env, sg.BASELINES["random"], seed) for seed in (5, 6, 5)]
    assert first[0] == first[2] != first[1]
    env.reset(seed=5)
    continued = [env.reset()[0] for _ in range(2)]
    env.reset(seed=5)
    again = [env.reset()[0] for _ in range(2)]
    assert np.array_equal(continued, again)
    assert not np.array_equal(*continued)


@pytest.mark.parametrize("mode", ["sync", pytest.param("async", marks=pytest.mark.slow)])
def test_vectors_are_the_environments_beside_each_other(mode: str) -> None:
    how = {"context": "spawn"} if mode == "async" else {}
    together = gymnasium.make_vec(
        "slotwise/Uplink-v0", num_envs=2, vectorization_mode=mode, vector_kwargs=how, setting=SHORT
    )
    try:
        observations, _ = together.reset(seed=[1, 2])
        alone = [make() for _ in range(2)]
        expected = [env.reset(seed=seed)[0] for env, seed in zip(alone, (1, 2), strict=True)]
        for _ in range(20):
            assert np.array_equal(observations, expected)
            observations, rewards, _, _, _ = together.step(np.array([3, 4]))
            steps = [env.step(action) for env, action in zip(alone, (3, 4), strict=True)]
            expected = [step[0] for step in steps]
            assert rewards.tolist() == [step[1] for step in steps]
    finally:
        together.close()


def test_agents_are_compared_on_the_same_channels() -> None:
    found = sg.compare(make(), {**sg.BASELINES, "again": sg.BASELINES["random"]}, range(3))
    assert found.seeds == (0, 1, 2)
    assert found.gain("again", "random") == (0.0, 0.0)
    ahead, error = found.gain("largest-age", "random")
    assert ahead == pytest.approx(found.returns["largest-age"].mean() - found.returns["random"].mean())
    assert 0 < error < ahead
    lines = str(found).splitlines()
    assert len(lines) == len(found.returns) + 1
    assert lines[-1].split()[0] in ("best-channel", "random", "again")
    with pytest.raises(InputError, match="at least one"):
        sg.compare(make(), sg.BASELINES, [])
    with pytest.raises(InputError, match=r"seeds = 3: must be several numbers, such as range\(5\)"):
        sg.compare(make(), sg.BASELINES, 3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^agents = a SelectionAgent: must be a Mapping$"):
        sg.compare(make(), sg.BASELINES["random"], [1])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="agent one = <lambda>: must be a function of 2 arguments"):
        sg.compare(make(), {"one": lambda env: 0}, [1])  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({"reward": "loss"}, "reward"),
        ({"setting": {**FIXED, "deadline": 2}}, "deadline"),
        ({"setting": {**FIXED, "selection": "random"}}, "selection"),
        ({"setting": {**SHORT, "schedule": "idfl"}}, "delay"),
        ({"setting": {"devices": 0}}, "devices"),
        ({"setting": 3}, "setting"),
    ],
)
def test_what_cannot_be_decided_is_refused(arguments: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InputError) as caught:
        sg.UplinkEnv(**arguments).reset(seed=0)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize("action", [-1, 6, 1.5, "2", None, [1, 2]])
def test_an_action_that_is_no_device_is_refused(action: Any) -> None:
    env = make(FIXED)
    env.reset(seed=0)
    with pytest.raises(InputError, match=r"^action .*: must be a whole number from 0 to 5$"):
        env.step(action)
    assert env.episode.answers == ()


def test_an_ended_episode_asks_for_a_reset() -> None:
    env = make(FIXED)
    with pytest.raises(gymnasium.error.ResetNeeded, match="has not begun"):
        env.step(0)
    play(env, sg.BASELINES["first-ready"], 0)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    assert not env.action_masks().any()
