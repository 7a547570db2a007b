from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.base.errors import InputError, UserError
from slotwise.learning import Diverged, Evaluation, Task, TrainingStart, train
from slotwise.learning.quantisation import Quantised, link_slots_of, quantise
from slotwise.learning.randomness import Purpose, generator
from slotwise.scenario import Scenario
from slotwise.schedule import simulate

MakeTask = Callable[[int, int], Task]
vectors = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=20).map(
    lambda numbers: np.array(numbers, dtype=np.float32)
)
DRAWS = 4000


class TwoLayers:
    """A large layer and a small one; the update is always the same."""

    UPDATE = np.array([100.0, 30.0, -7.0, 0.01, -0.004], dtype=np.float32)

    def initial_model(self) -> Vector:
        return np.zeros(5, dtype=np.float32)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        return self.UPDATE.copy()

    def evaluate(self, model: Vector) -> Evaluation:
        return Evaluation(0.5, 0.25)

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        return {"large": model[:3].reshape(1, 3), "small": model[3:]}


def draw(training: int = 0) -> np.random.Generator:
    return generator(0, Purpose.QUANTISATION, 1, training)


def many(numbers: Vector, bits: int) -> NDArray[np.float64]:
    return np.array([quantise(numbers, bits, draw(k)) for k in range(DRAWS)], dtype=np.float64)


def test_levels_signs_zeros_and_thresholds_by_hand() -> None:
    # 3 bits: s = 3 levels above 0, which are a third, two thirds and all of 6.
    on_levels = np.array([6.0, -4.0, 2.0, 0.0, -6.0], dtype=np.float32)
    assert quantise(on_levels, 3, draw()).tolist() == on_levels.tolist()
    numbers = np.array([8.0, 3.0, -5.0, 0.5], dtype=np.float32)
    assert np.unique(many(numbers, 2)).tolist() == [-8.0, 0.0, 8.0]
    assert quantise(np.zeros(3, dtype=np.float32), 4, draw()).tolist() == [0.0, 0.0, 0.0]
    # s = 1: 2 of 8 becomes 8 with probability ¼. 4000 draws: 1000 on average, deviation 27.
    ups = int((many(np.array([8.0, 2.0], dtype=np.float32), 2)[:, 1] == 8.0).sum())
    assert 890 < ups < 1110


@given(vectors, st.integers(2, 12), st.integers(0, 99))
def test_every_number_becomes_one_of_its_two_neighbouring_levels(
    numbers: Vector, bits: int, training: int
) -> None:
    largest = float(np.abs(numbers).max())
    step = largest / (2 ** (bits - 1) - 1)
    error = np.abs(quantise(numbers, bits, draw(training)).astype(np.float64) - numbers)
    assert (error <= step + 1e-6 * largest).all()


@given(vectors, st.integers(2, 31))
def test_signs_stay_and_the_largest_stays_as_it_is(numbers: Vector, bits: int) -> None:
    rounded = quantise(numbers, bits, draw())
    assert (rounded * numbers >= 0).all()
    assert np.abs(rounded).max() == np.abs(numbers).max()


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_it_is_right_on_average(bits: int) -> None:
    numbers = generator(1, Purpose.MODEL).normal(size=50).astype(np.float32)
    step = float(np.abs(numbers).max()) / (2 ** (bits - 1) - 1)
    # One draw deviates by at most half a step, so the mean of 4000 by at most step/126.
    errors = many(numbers, bits).mean(axis=0) - numbers
    assert np.abs(errors).max() < 5 * step / 126


@pytest.mark.parametrize("size", [1, 10, 300])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_its_variance_keeps_the_bound_of_qsgd(bits: int, size: int) -> None:
    numbers = generator(2, Purpose.MODEL).normal(size=size).astype(np.float32)
    steps = 2 ** (bits - 1) - 1
    variance = ((many(numbers, bits) - numbers) ** 2).sum(axis=1).mean()
    length = float((numbers.astype(np.float64) ** 2).sum())
    assert variance <= min(size / steps**2, size**0.5 / steps) * length


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_comes_through(poison: float) -> None:
    assert not np.isfinite(quantise(np.array([1.0, poison], dtype=np.float32), 4, draw())).all()


def test_the_numbers_are_the_ones_of_earlier_versions() -> None:
    # A change here changes every result ever published with a seed.
    update = Quantised(TwoLayers(), 4, seed=3).local_update(
        np.zeros(5, dtype=np.float32), TrainingStart(2, 1)
    )
    assert (update[:3] * 7 / 100).round(3).tolist() == [7.0, 3.0, 0.0]
    assert (update[3:] * 7 / 0.01).round(3).tolist() == [7.0, -2.0]


def test_every_array_has_a_scale_and_all_else_is_the_task_s() -> None:
    # With one scale of 100 and 127 levels the small layer would be 0 or 0.79.
    quantised = Quantised(TwoLayers(), 8)
    small = [
        quantised.local_update(np.zeros(5, dtype=np.float32), TrainingStart(1, k))[3:] for k in range(50)
    ]
    assert np.abs(np.array(small) - TwoLayers.UPDATE[3:]).max() <= 0.01 / 127
    task, quantised = TwoLayers(), Quantised(TwoLayers(), 8)
    assert quantised.initial_model().tolist() == task.initial_model().tolist()
    assert quantised.evaluate(task.initial_model()) == Evaluation(0.5, 0.25)
    assert list(quantised.named_arrays(task.initial_model())) == ["large", "small"]


@pytest.mark.parametrize("bits", [2, 8, 31])
def test_an_update_is_a_function_of_seed_device_and_training(bits: int) -> None:
    model = np.zeros(5, dtype=np.float32)
    first = Quantised(TwoLayers(), bits, seed=1)
    again = Quantised(TwoLayers(), bits, seed=1)
    assert (
        first.local_update(model, TrainingStart(3, 4)).tobytes()
        == first.local_update(model, TrainingStart(3, 4)).tobytes()
    )
    assert (
        first.local_update(model, TrainingStart(3, 4)).tobytes()
        == again.local_update(model, TrainingStart(3, 4)).tobytes()
    )


def test_another_seed_device_or_training_rounds_otherwise() -> None:
    class Wide(TwoLayers):
        UPDATE = np.linspace(0, 1, 100, dtype=np.float32)

        def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
            return {"all": model}

        def initial_model(self) -> Vector:
            return np.zeros(100, dtype=np.float32)

    task = Wide()
    keys = [(seed, device, training) for seed in (0, 1) for device in (1, 2) for training in (0, 1)]
    updates = {
        Quantised(task, 3, seed).local_update(task.initial_model(), TrainingStart(n, k)).tobytes()
        for seed, n, k in keys
    }
    assert len(updates) == len(keys)


def test_32_bits_change_nothing_to_the_bit(least_squares: MakeTask) -> None:
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=20)
    plain = train(timeline, least_squares(6, 0), evaluate_every=1)
    wrapped = train(timeline, Quantised(least_squares(6, 0), 32), evaluate_every=1)
    assert wrapped.points == plain.points
    assert wrapped.model.tobytes() == plain.model.tobytes()


@pytest.mark.parametrize("bits", [2, 8])
def test_the_number_of_workers_does_not_matter(bits: int, least_squares: MakeTask) -> None:
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=20)
    task = Quantised(least_squares(6, 0), bits, seed=5)
    one, two, four = (train(timeline, task, workers=n).model.tobytes() for n in (1, 2, 4))
    assert one == two == four


def test_divergence_is_seen_through_it() -> None:
    class Poisoned(TwoLayers):
        def local_update(self, model: Vector, start: TrainingStart) -> Vector:
            return np.full(5, np.nan, dtype=np.float32)

    timeline = simulate(Scenario(devices=1, group_size=1, compute_slots=2), "async", rounds=2)
    with pytest.raises(Diverged, match="round 0"):
        train(timeline, Quantised(Poisoned(), 4))


@pytest.mark.parametrize("bits", [1, 0, -3, 33, 8.0, True, "8", None])
def test_bits_outside_2_to_32_are_refused(bits: object) -> None:
    with pytest.raises(InputError) as caught:
        Quantised(TwoLayers(), bits)  # type: ignore[arg-type]
    assert caught.value.parameter == "bits"
    assert "from 2 to 32" in caught.value.allowed


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5])
def test_a_seed_must_fit_64_bits(seed: object) -> None:
    with pytest.raises(InputError, match=r"^seed = .*: must be a whole number from 0 to \d+$"):
        Quantised(TwoLayers(), 8, seed)  # type: ignore[arg-type]


def test_named_arrays_that_leave_something_out_are_refused() -> None:
    class Incomplete(TwoLayers):
        def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
            return {"large": model[:3]}

    with pytest.raises(UserError, match="named_arrays"):
        Quantised(Incomplete(), 8)


@pytest.mark.parametrize(
    ("bits", "rate", "slots"),
    [
        # 21,840 parameters in 8 arrays: 698,880 bits as they are, 174,720 + 256 in 8 bits.
        (32, 698_880, 1),
        (32, 698_879, 2),
        (8, 174_976, 1),
        (8, 174_975, 2),
        (8, 10_000, 18),
        (32, 10_000, 70),
        (2, 1, 43_936),
    ],
)
def test_link_slots_are_the_bits_over_the_rate_rounded_up(bits: int, rate: int, slots: int) -> None:
    assert link_slots_of(21_840, bits, rate, arrays=8) == slots


def test_link_slots_are_exact_where_floats_are_not() -> None:
    assert link_slots_of(10**9, 31, 3) == -(-(31 * 10**9 + 32) // 3) == 10_333_333_344


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 8, 100), "parameters = 0: must be a whole number of at least 1"),
        ((10, 40, 100), "bits = 40: must be a whole number from 2 to 32"),
        ((10, 8, 0), "bits_per_slot = 0: must be a whole number of at least 1"),
        ((10, 8, 2.5), "bits_per_slot = 2.5: must be a whole number of at least 1"),
        ((10, 8, 100, 0), "arrays = 0: must be a whole number of at least 1"),
    ],
)
def test_link_slots_of_impossible_links_are_refused(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError) as caught:
        link_slots_of(*arguments)
    assert str(caught.value) == message
