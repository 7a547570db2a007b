"""The candidates, what is left out, and the figures of the exact schedule."""

import pytest

from slotwise.base.errors import InputError
from slotwise.recommendation.candidates import Field, field_of
from slotwise.runs import RunConfig

PAPER_SIZES = (1, 5, 10, 25, 50, 100)


@pytest.fixture(scope="module")
def base() -> RunConfig:
    return RunConfig.from_options({"group_size": 1})


@pytest.fixture(scope="module")
def paper(base: RunConfig) -> Field:
    return field_of(base, PAPER_SIZES, (0,))


def labels(field: Field) -> list[str]:
    return [candidate.label for candidate in field.candidates]


def reason(field: Field, label: str) -> str:
    return next(out.reason for out in field.left_out if out.label == label)


def test_every_schedule_of_every_size_is_tried_once_or_left_out_with_a_reason(paper: Field) -> None:
    both = [f"{schedule} S={size}" for size in (1, 5, 10, 25) for schedule in ("sync", "async", "idfl")]
    assert labels(paper) == [*both, "sync S=50", "async S=50", "sync S=100"]
    assert len(paper.candidates) + len(paper.left_out) == 3 * len(PAPER_SIZES)
    assert reason(paper, "idfl S=50") == "the same run as async S=50"
    assert reason(paper, "async S=100") == "the same run as sync S=100"
    assert {c.group_size: c.delay for c in paper.candidates if c.schedule == "idfl"} == {
        1: 74,
        5: 10,
        10: 4,
        25: 1,
    }


def test_the_grid_counts_every_training_once(paper: Field, base: RunConfig) -> None:
    asynchronous = {1: 24_975, 5: 8_325, 10: 4_540, 25: 1_921, 50: 979}
    synchronous = {1: 961, 5: 892, 10: 819, 25: 657, 50: 495, 100: 331}
    twice = sum(size * rounds for size, rounds in asynchronous.items() if size < 50)
    once = sum(size * rounds for table in (asynchronous, synchronous) for size, rounds in table.items())
    assert paper.updates() == once + twice


def test_a_prospect_counts_rounds_and_updates_by_each_sixteenth(base: RunConfig) -> None:
    (sync,) = field_of(base, (100,), (0,)).candidates
    prospect = sync.prospects[0]
    assert prospect.rounds == tuple(50_000 * k // 16 // 151 for k in range(17))
    assert prospect.updates == tuple(100 * rounds for rounds in prospect.rounds)


def test_a_deadline_with_too_few_or_too_many_rounds_is_refused() -> None:
    base = RunConfig.from_options({"devices": 100, "compute_slots": 1, "deadline": 100, "group_size": 1})
    field = field_of(base, (1, 100), (0,))
    assert reason(field, "sync S=100") == "no round ends by the deadline"
    assert "sync S=1" in labels(field)
    base = RunConfig.from_options({"devices": 10, "compute_slots": 50, "deadline": 50, "group_size": 1})
    with pytest.raises(InputError) as error:
        field_of(base, (1, 10), (0,))
    assert error.value.parameter == "deadline"
    options = {"devices": 10, "compute_slots": 1, "group_size": 1, "selection": "round-robin"}
    with pytest.raises(InputError, match="smaller") as error:
        field_of(RunConfig.from_options({**options, "deadline": 10_000_000}), (1,), (0,))
    assert error.value.parameter == "deadline"


def test_in_an_unequal_fleet_idfl_has_fewer_rounds_and_fresher_updates_than_async() -> None:
    options = {"devices": 12, "deadline": 2000, "group_size": 1}
    base = RunConfig.from_options({**options, "compute_distribution": "two-classes:5:40:0.5", "jitter": 0.3})
    field = field_of(base, (2,), (0, 1))
    plain, just_in_time = (
        next(c for c in field.candidates if c.schedule == name) for name in ("async", "idfl")
    )
    assert just_in_time.delay is None
    assert just_in_time.rounds < plain.rounds
    assert just_in_time.mean_staleness < plain.mean_staleness


@pytest.mark.parametrize(("seeds", "delay"), [((0, 4), 1), ((1,), None), ((0, 1), "auto")])
def test_the_delay_of_unequal_devices_is_that_of_every_seed(seeds: tuple[int, ...], delay: object) -> None:
    """With seeds 0 and 4 a fixed delay is fresher than just-in-time delivery, with seed 1 it is not."""
    options = {"devices": 13, "deadline": 500, "group_size": 6, "compute_distribution": "uniform:1:3"}
    field = field_of(RunConfig.from_options(options), (6,), seeds)
    assert [c.delay for c in field.candidates if c.schedule == "idfl"] == [delay]
