"""Random selection draws anew for every choice, also after losses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from slotwise import Scenario, simulate
from slotwise.base.random_streams import mixed_all
from slotwise.schedule import Transmission
from slotwise.schedule.link import Floats
from slotwise.schedule.ready_kernel import lowest_number


@dataclass(frozen=True)
class LossyLink:
    """A link that loses uplinks by device and slot."""

    devices: int
    loses: Callable[[int, int], bool]
    planned_broadcast_slots = 1

    @property
    def planned_slots(self) -> Sequence[int]:
        return (1,) * self.devices

    def uplink(self, device: int, slot: int, attempt: int) -> Transmission:
        return Transmission(1, self.loses(device, slot))

    def broadcast(self, receivers: Sequence[int], slot: int) -> int:
        return 1

    def snr_db(self, slot: int) -> Floats:
        return np.zeros(self.devices)


def test_every_choice_after_a_loss_is_a_new_draw() -> None:
    # About a thousand choices of one round.
    link = LossyLink(4, lambda device, slot: slot < 1_000)
    scenario = Scenario(devices=4, group_size=1, compute_slots=1)
    senders = simulate(scenario, "async", link=link, selection="random", rounds=1).lost[:, 1].tolist()
    assert all(200 < senders.count(n) < 300 for n in range(1, 5))
    # Independent of the last sender: one choice in four is the same device again.
    assert 200 < sum(one == following for one, following in pairwise(senders)) < 300


def test_a_device_out_of_reach_takes_no_more_than_its_share_of_the_slots() -> None:
    scenario = Scenario(devices=5, group_size=1, compute_slots=2, deadline=2_000)
    link = LossyLink(5, lambda device, slot: device == 1)
    rounds = [simulate(scenario, "async", link=link, selection="random", seed=n).rounds for n in range(9)]
    assert min(rounds) > 700


def test_the_compiled_choice_is_the_lowest_number_of_all_that_are_ready() -> None:
    draw, nobody = np.random.default_rng(0), np.zeros(300, dtype=np.bool_)
    assert lowest_number(np.uint64(1), nobody) == -1
    for devices in (1, 64, 255, 256, 257, 1000):
        for share in (0.01, 0.5, 1.0):
            state, ready = np.uint64(draw.integers(2**63)), draw.random(devices) < share
            ready[draw.integers(devices)] = True
            states = np.full(devices, state, dtype=np.uint64)
            numbers = mixed_all(states, np.arange(1, devices + 1, dtype=np.uint64)) >> np.uint64(11)
            wanted = min(np.flatnonzero(ready).tolist(), key=numbers.__getitem__)
            assert lowest_number(state, ready) == wanted
