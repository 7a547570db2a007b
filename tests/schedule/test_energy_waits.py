"""What a wait for energy means to the others, and to `Timeline.waits`."""

from slotwise import Scenario, simulate
from slotwise.fleet import Absence, Batteries, Fleet
from slotwise.schedule.timeline import NEVER_CHARGED


def test_a_participant_that_charges_to_send_again_blocks_no_other() -> None:
    # Device 1 loses its first uplink, and then has to charge for many slots before it can send again.
    batteries = Batteries(capacity=(3.0,), computing=(1.0,), sending=(1.0,), harvest=(0.05,))
    losses = (0.99, 0.0, 0.0)
    slots = {"compute_slots": (2,) * 3, "link_slots": (1,) * 3}
    fleet = Fleet(**slots, device_uplink_loss=losses, batteries=batteries, seed=1)
    scenario = Scenario(devices=3, group_size=3, compute_slots=2, deadline=20_000)
    timeline = simulate(scenario, "sync", fleet=fleet, rounds=1)
    assert timeline.lost[0].tolist()[1:4] == [1, 0, 2]
    assert timeline.waits[0].tolist()[:3] == [1, 0, 3]
    # Devices 2 and 3 send while it charges.
    assert list(zip(timeline.device.tolist(), timeline.start.tolist(), strict=True))[:2] == [(2, 3), (3, 4)]


def test_a_wait_ends_when_the_battery_could_pay_or_never() -> None:
    batteries = Batteries(
        capacity=(4.0,), initial=(4.0, 0.0), computing=(1.0,), sending=(1.0,), harvest=(0.1,)
    )
    slots = {"compute_slots": (2, 2), "link_slots": (1, 1)}
    fleet = Fleet(**slots, batteries=batteries, absences=(Absence(2, 10, 15),))
    scenario = Scenario(devices=2, group_size=1, compute_slots=2, deadline=60)
    timeline = simulate(scenario, "async", fleet=fleet)
    assert [2, 0, 0, 30] in timeline.waits.tolist()
    batteries = Batteries(capacity=(4.0,), computing=(1.0,), sending=(1.0,), harvest=(0.0,))
    fleet = Fleet(compute_slots=(2, 2), link_slots=(1, 1), batteries=batteries)
    timeline = simulate(Scenario(devices=2, group_size=1, compute_slots=2, deadline=60), "async", fleet=fleet)
    assert set(timeline.waits[:, 3].tolist()) == {NEVER_CHARGED}
