import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.base.errors import InputError
from slotwise.learning.course import evaluation_rounds
from slotwise.scenario import Scenario
from slotwise.schedule import simulate

# Rounds end at slots 5, 8, 11, 14, 17.
TIMELINE = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=5)


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        (None, {0, 5}),  # the first and the last
        (1, {0, 1, 2, 3, 4, 5}),
        (5, {0, 1, 2, 4, 5}),  # at slot 5 w_1 is just complete, at 10 it is w_2, at 15 w_4
        (8, {0, 2, 4, 5}),  # at slot 8 w_2, at 16 w_4, then the last
        (17, {0, 5}),
        (1000, {0, 5}),
    ],
)
def test_the_newest_model_at_each_multiple_and_the_last(every: int | None, expected: set[int]) -> None:
    assert evaluation_rounds(TIMELINE, every) == expected


@given(every=st.integers(1, 40), compute=st.integers(1, 20), size=st.integers(1, 6))
def test_it_is_what_a_look_at_the_clock_gives(every: int, compute: int, size: int) -> None:
    timeline = simulate(Scenario(devices=6, group_size=size, compute_slots=compute), "async", rounds=12)
    ends = timeline.broadcast_end
    looks = range(0, timeline.last_slot + 1, every)
    expected = {int(np.count_nonzero(ends <= slot)) for slot in looks} | {12}
    assert evaluation_rounds(timeline, every) == expected


@pytest.mark.parametrize("every", [0, -5, 2.5])
def test_the_interval_must_be_a_whole_number_of_at_least_one(every: object) -> None:
    with pytest.raises(InputError, match="evaluate_every"):
        evaluation_rounds(TIMELINE, every)  # type: ignore[arg-type]
