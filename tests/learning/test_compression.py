"""Compressors: bits, unbiasedness, contraction, error feedback, and runs with them."""

from collections.abc import Callable
from math import ceil, log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from slotwise.base.errors import InputError, UserError
from slotwise.learning import (
    COMPRESSORS,
    Compressor,
    NoCompression,
    RandomK,
    Sign,
    Task,
    TopK,
    Training,
    TrainingResult,
    TrainingStart,
    train,
)
from slotwise.learning.compression import REST, Compressed, OwnCompressor
from slotwise.learning.randomness import Purpose, generator
from slotwise.live.server.server_config import LivePlan
from slotwise.runs import RunConfig, SavedRun, resume, run
from slotwise.runs.execution import build_task
from slotwise.scenario import Scenario
from slotwise.schedule import simulate

UPDATES = arrays(np.float32, st.integers(1, 60), elements=st.floats(-1e3, 1e3, width=32))
SHARES = st.floats(0.01, 1.0)
MakeTask = Callable[[int, int], Task]


def draw(training: int = 0) -> np.random.Generator:
    return generator(0, Purpose.COMPRESSION, 1, training)


def sent(compressor: Compressor, update: Any, bits: int = 32, training: int = 0) -> Any:
    return compressor.sent(update, [len(update)], bits, draw(training))


@given(update=UPDATES, share=SHARES)
def test_top_k_keeps_the_largest_numbers(update: Any, share: float) -> None:
    kept = max(1, round(share * len(update)))
    order = sorted(range(len(update)), key=lambda place: (-abs(update[place]), place))
    expected = np.zeros_like(update)
    expected[order[:kept]] = update[order[:kept]]
    assert sent(TopK(kept_share=share), update).tolist() == expected.tolist()


@given(update=UPDATES, share=SHARES, seed=st.integers(0, 50))
def test_what_is_not_sent_is_a_share_of_the_update(update: Any, share: float, seed: int) -> None:
    """‖x − C(x)‖² ≤ (1 − k/P)‖x‖² for top-k, and (1 − ‖x‖₁²/(P‖x‖²))‖x‖² for signs."""
    x, length = update.astype(np.float64), float(np.square(update, dtype=np.float64).sum())
    kept = max(1, round(share * len(update)))
    assert np.square(x - sent(TopK(kept_share=share), update)).sum() <= (1 - kept / len(x)) * length + 1e-3
    signs = length - np.abs(x).sum() ** 2 / len(x)
    assert np.square(x - sent(Sign(), update)).sum() == pytest.approx(
        signs, rel=1e-3, abs=1e-2 + 1e-5 * length
    )
    whole = RandomK(kept_share=share, error_feedback="on")
    assert np.square(x - sent(whole, update, training=seed)).sum() <= length + 1e-3


@pytest.mark.parametrize("bits", [32, 4])
def test_random_k_is_unbiased(bits: int) -> None:
    update = np.random.default_rng(3).normal(size=12).astype(np.float32)
    found = np.array([sent(RandomK(kept_share=0.25), update, bits, k) for k in range(6000)], np.float64)
    assert (np.count_nonzero(found, axis=1) <= 3).all()
    error = found.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - update) < 5 * error).all()


@given(sizes=st.lists(st.integers(1, 400), min_size=1, max_size=4), share=SHARES, bits=st.integers(2, 32))
def test_bits_are_those_of_what_is_sent(sizes: list[int], share: float, bits: int) -> None:
    size = sum(sizes)
    kept, scale = max(1, round(share * size)), 32 if bits < 32 else 0
    places = min(kept * ceil(log2(size)), size) if size > 1 else 0
    assert NoCompression().update_bits(sizes, bits) == size * bits + scale * len(sizes)
    assert TopK(kept_share=share).update_bits(sizes, bits) == kept * bits + scale + places
    assert RandomK(kept_share=share).update_bits(sizes, bits) == kept * bits + scale
    assert Sign().update_bits(sizes, 32) == size + 32 * len(sizes)


def written(numbers: Any) -> str:
    """Numbers of 32 bits as ones and zeros."""
    return "".join(f"{number:032b}" for number in np.asarray(numbers, np.float32).view(np.uint32).tolist())


def read(bits: str) -> Any:
    return np.array([int(bits[i : i + 32], 2) for i in range(0, len(bits), 32)], np.uint32).view(np.float32)


@given(update=UPDATES, share=SHARES)
def test_what_top_k_sends_fits_into_its_bits_and_is_read_from_them(update: Any, share: float) -> None:
    compressor, size = TopK(kept_share=share), len(update)
    vector, kept = sent(compressor, update), max(1, round(share * size))
    chosen = np.argsort(vector == 0, kind="stable")[:kept]  # all that are not zero
    width = (size - 1).bit_length()
    masked = size < kept * width
    chosen = np.sort(chosen)
    mask = "".join("01"[place in chosen] for place in range(size))
    listed = "".join(f"{place:0{width}b}" for place in chosen.tolist()) if width else ""
    bits = written(vector[chosen]) + (mask if masked else listed)
    assert len(bits) == compressor.update_bits([size], 32)
    numbers, places = bits[: 32 * kept], bits[32 * kept :]
    found = np.zeros(size, np.float32)
    where = (
        [place for place, bit in enumerate(places) if bit == "1"]
        if masked
        else [int(places[i * width : (i + 1) * width] or "0", 2) for i in range(kept)]
    )
    found[where] = read(numbers)
    assert found.tolist() == vector.tolist()


@given(update=UPDATES, share=SHARES, training=st.integers(0, 9))
def test_what_random_k_sends_is_read_with_the_places_of_the_seed(
    update: Any, share: float, training: int
) -> None:
    compressor, size = RandomK(kept_share=share), len(update)
    vector, kept = sent(compressor, update, training=training), max(1, round(share * size))
    places = np.sort(draw(training).choice(size, kept, replace=False, shuffle=False))  # the server's
    bits, found = written(vector[places]), np.zeros(size, np.float32)
    assert len(bits) == compressor.update_bits([size], 32)
    found[places] = read(bits)
    assert found.tolist() == vector.tolist()


@given(update=UPDATES, cut=st.integers(0, 60))
def test_signs_are_read_from_a_bit_each_and_a_number_for_each_array(update: Any, cut: int) -> None:
    sizes = [len(update)] if cut >= len(update) or cut == 0 else [cut, len(update) - cut]
    vector = Sign().sent(update, sizes, 32, draw())
    firsts = np.cumsum([0, *sizes[:-1]])
    bits = written(np.abs(vector[firsts])) + "".join("01"[bool(one)] for one in np.signbit(vector))
    assert len(bits) == Sign().update_bits(sizes, 32)
    scales, signs = read(bits[: 32 * len(sizes)]), np.array([*bits[32 * len(sizes) :]]) == "1"
    found = np.where(signs, -1, 1) * np.repeat(scales, sizes)
    assert found.tolist() == vector.tolist()


@pytest.mark.parametrize(
    "compressor", [TopK(kept_share=0.3), RandomK(kept_share=0.3, error_feedback="on"), Sign()]
)
def test_feedback_sends_everything_in_the_end(compressor: Compressor, least_squares: MakeTask) -> None:
    """What was sent plus the rest is what was computed, training after training."""
    task = least_squares(4, 1)
    compressed = Compressed(task, compressor, seed=2)
    model, state = task.initial_model(), {}
    computed, total = np.zeros(len(model)), np.zeros(len(model))
    for training in range(8):
        start = TrainingStart(1, training, state=state)
        result = compressed.local_update(model, start)
        assert isinstance(result, TrainingResult)
        computed += task.local_update(model, start)  # type: ignore[operator]
        total += result.update
        state = result.state
        assert total + state[REST] == pytest.approx(computed, abs=1e-4)


def test_results_do_not_depend_on_workers_or_on_an_interrupt(tmp_path: Path) -> None:
    options = {"devices": 6, "group_size": 2, "compute_slots": 2, "deadline": 60, "network": "logistic"}
    options |= {"samples_per_device": 20, "compressor": "top-k", "kept_share": 0.05, "bits": 8}
    config = RunConfig.from_options(options)
    results = [run(config, tmp_path / f"{workers}", workers=workers) for workers in (1, 3)]
    models = {result.history.model.tobytes() for result in results}
    whole = results[0].history
    timeline, task = results[0].timeline, build_task(config)
    with Training(timeline, task) as training:
        for _ in range(timeline.rounds // 2):
            training.advance()
        half = training.history()
    rest = train(timeline, task, resume=half)
    assert len({*models, rest.model.tobytes()}) == 1
    assert resume(tmp_path / "1").history == whole
    assert SavedRun.read(tmp_path / "1").config == config


def test_slots_of_uplinks_follow_from_the_bits() -> None:
    options = {"devices": 6, "group_size": 2, "compute_slots": 2, "deadline": 600, "bits_per_slot": 10_000}
    whole = RunConfig.from_options(options)
    small = RunConfig.from_options(options | {"compressor": "top-k"})
    assert (whole.simulate().end - whole.simulate().start).tolist()[0] == 70
    assert (small.simulate().end - small.simulate().start).tolist()[0] == 2
    assert small.channel.link_slots == 70  # of a broadcast


def test_a_live_run_refuses_them() -> None:
    for name in COMPRESSORS:
        if name != "none":
            with pytest.raises(InputError) as caught:
                LivePlan.of(RunConfig.from_options({"compressor": name}))
            assert caught.value.parameter == "compressor"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda update, draw: update, "must return an array of 5 numbers and its bits"),
        (lambda update, draw: (update[:2], 64), "must return an array of 5 numbers and its bits"),
        (lambda update, draw: 1 // 0, "ZeroDivisionError"),
        (lambda update, draw: (update, 1 + int(update[0] == 1)), "took 2 bits; another update took 1"),
    ],
)
def test_a_function_that_does_not_work_is_refused(function: Any, message: str) -> None:
    own = OwnCompressor(function=function, name="mine")
    with pytest.raises(UserError, match=message):
        sent(own, np.ones(5, np.float32))


def test_updates_that_are_not_finite_are_noticed(least_squares: MakeTask) -> None:
    task = least_squares(6, 1)
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), rounds=4)
    history = train(timeline, Compressed(task, Sign()))
    assert np.isfinite(history.model).all()
    broken = Compressed(task, Sign())
    start = TrainingStart(1, 0, state={REST: np.full(5, np.nan, np.float32)})
    assert np.isfinite(broken.local_update(task.initial_model(), TrainingStart(1, 0)).update).all()  # type: ignore[union-attr]
    assert isinstance(broken.local_update(task.initial_model(), start), np.ndarray)
