"""What all devices together have spent by a slot, mostly in joules; totals are in test_usage.py."""

from slotwise import Scenario, simulate
from slotwise.energy import Powers, joules
from slotwise.fleet import Absence, Fleet
from slotwise.fleet.distributions import random_absences
from slotwise.schedule import usage_until

ONE_DEVICE = Scenario(devices=1, group_size=1, compute_slots=3, link_slots=2, deadline=14)


def test_a_device_alone_computes_sends_and_receives_in_turns() -> None:
    timeline = simulate(ONE_DEVICE)  # slots 0-2 compute, 3-4 send, 5-6 receive, and once more
    powers = Powers(computing=100.0, sending=10.0, receiving=1.0, idle=1000.0)
    spent = joules(usage_until(timeline, [0, 1, 3, 4, 5, 7, 8, 14]), powers)
    assert spent.tolist() == [0, 100, 300, 310, 320, 322, 422, 644]


def test_a_slot_has_seconds() -> None:
    powers = Powers(computing=1.0, sending=1.0, receiving=1.0, idle=1.0, slot_seconds=0.5)
    scenario = Scenario(devices=6, group_size=2, compute_slots=2, deadline=50)
    timeline = simulate(scenario)
    assert joules(usage_until(timeline, [timeline.last_slot]), powers) == [6 * timeline.last_slot / 2]


def test_unequal_devices_spend_what_they_compute_and_send() -> None:
    scenario = Scenario(devices=2, group_size=1, compute_slots=9, link_slots=1, deadline=9)
    fleet = Fleet(compute_slots=(2, 5), link_slots=(1, 2))
    timeline = simulate(scenario, "async", fleet=fleet)
    # Device 1: compute 0-1, send 2, receive 3, compute 4-5, …; device 2: compute 0-4, send from 5 on.
    computing = Powers(computing=1, sending=0, receiving=0)
    assert joules(usage_until(timeline, [0, 2, 4, 5]), computing).tolist() == [0, 4, 6, 8]
    sending = Powers(computing=0, sending=1, receiving=0)
    assert joules(usage_until(timeline, [2, 3, 5, 7]), sending).tolist() == [0, 1, 1, 3]


def test_lost_uplinks_cost_and_absent_devices_do_not() -> None:
    scenario = Scenario(devices=6, group_size=2, compute_slots=3, link_slots=2, deadline=300)
    lossy = Fleet(compute_slots=(3,) * 6, link_slots=(2,) * 6, loss=0.4, seed=1)
    timeline = simulate(scenario, "async", fleet=lossy)
    sending = Powers(computing=0, sending=1, receiving=0)
    assert len(timeline.lost) > 5
    assert joules(usage_until(timeline, [timeline.last_slot]), sending) == [
        2 * (len(timeline) + len(timeline.lost))
    ]
    absent = Fleet(compute_slots=(3,) * 6, link_slots=(2,) * 6, absences=(Absence(6, 0), Absence(5, 50, 90)))
    timeline = simulate(scenario, "async", fleet=absent)
    everything = Powers(computing=1, sending=1, receiving=1, idle=1)
    last = timeline.last_slot
    assert joules(usage_until(timeline, [50, 90, last]), everything).tolist() == [250, 410, 5 * last - 40]


def test_jitter_and_absences_never_leave_less_than_no_time_to_idle() -> None:
    scenario = Scenario(devices=5, group_size=2, compute_slots=7, link_slots=1, deadline=400)
    absences = random_absences(5, 400, mean_present=30, mean_away=9, seed=2)
    for loss, schedule in ((0.0, "async"), (0.3, "idfl"), (0.3, "sync")):
        fleet = Fleet(
            compute_slots=(7, 3, 9, 12, 1),
            link_slots=(1, 2, 1, 3, 1),
            jitter=0.5,
            loss=loss,
            absences=absences,
            seed=4,
        )
        timeline = simulate(scenario, schedule, fleet=fleet)  # type: ignore[arg-type]
        idling = Powers(computing=0, sending=0, receiving=0, idle=1)
        idle = joules(usage_until(timeline, range(timeline.last_slot + 1)), idling)
        assert (idle[1:] >= idle[:-1]).all()
