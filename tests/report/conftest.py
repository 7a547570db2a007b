"""The worked example, played by both asynchronous schedules."""

import pytest

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
