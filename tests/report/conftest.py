"""The worked example, played by both asynchronous schedules, and by devices that are not equal."""

import pytest

from slotwise.fleet import Absence, Fleet
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate

SIX = Scenario(devices=6, group_size=2, compute_slots=2)


@pytest.fixture
def six_async() -> Timeline:
    return simulate(SIX, "async", rounds=6)


@pytest.fixture
def six_idfl() -> Timeline:
    return simulate(SIX, "idfl", rounds=6)


@pytest.fixture
def hundred() -> Timeline:
    """A hundred devices in groups of ten, with intentional delay."""
    return simulate(Scenario(devices=100, group_size=10, compute_slots=50), "idfl", rounds=20)


@pytest.fixture
def hundred_alone() -> Timeline:
    """A hundred devices that send one by one: 450 slots."""
    return simulate(Scenario(devices=100, group_size=1, compute_slots=50), "async", rounds=200)


@pytest.fixture
def unequal() -> Timeline:
    """Six devices of several speeds: uplinks get lost, 2 is away for a while, 4 leaves, 5 joins late."""
    fleet = Fleet(
        compute_slots=(2, 2, 3, 4, 5, 9),
        link_slots=(1, 1, 1, 2, 1, 2),
        jitter=0.2,
        uplink_loss=0.2,
        seed=4,
        absences=(Absence(2, 7, 16), Absence(5, 0, 11), Absence(4, 10)),
    )
    return simulate(SIX, "idfl", fleet=fleet, rounds=9)
