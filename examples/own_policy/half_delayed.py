"""A policy in which the faster half of the devices waits some rounds for a fresher model."""

from dataclasses import dataclass

from slotwise.schedule import Delivery, Policy


@dataclass(frozen=True)
class FastDevicesWait(Delivery):
    devices: int
    fast: frozenset[int]
    wait: int

    def initial(self, absent):
        yield 0, range(1, self.devices + 1)  # all start from w_0

    def after(self, round_number, senders, absent):
        yield round_number + 1, [n for n in senders if n not in self.fast]
        yield round_number + 1 + self.wait, [n for n in senders if n in self.fast]


@dataclass(frozen=True, kw_only=True)
class HalfDelayed(Policy):
    name = "half-delayed"
    wait: int = 3

    def delivery(self, scenario, fleet, rounds):
        everyone = range(1, scenario.devices + 1)
        by_speed = sorted(everyone, key=lambda n: fleet.compute_slots[n - 1])
        return FastDevicesWait(scenario.devices, frozenset(by_speed[: scenario.devices // 2]), self.wait)


def make_policy(seed):
    return HalfDelayed()
