from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.schedule import (
    Deliver,
    Delivered,
    Delivery,
    Event,
    Grant,
    Joined,
    Left,
    Lost,
    Ready,
    Scheduler,
    Sent,
)
from slotwise.schedule.policies import Participants
from slotwise.schedule.policy import FixedDelay


def ready(*devices: int, slot: int = 2, version: int = 0) -> list[Ready]:
    return [Ready(device, slot, version) for device in devices]


def play(delivery: Delivery) -> list[object]:
    """A start, two uplinks, a broadcast and the next uplink, as they were answered."""
    scheduler = Scheduler(2, delivery)
    steps = [ready(1, 2, 3, 4), [Sent(1)], [Sent(2)], [Delivered(1)], [Sent(3)]]
    return [scheduler.start(), *(scheduler.step(events) for events in steps)]


def started(group_size: int = 2, delivery: Delivery | None = None) -> Scheduler:
    scheduler = Scheduler(group_size, delivery or FixedDelay(6, group_size))
    scheduler.start()
    return scheduler


def test_a_round_is_granted_uplink_by_uplink_and_closed_by_a_broadcast_to_its_senders() -> None:
    assert play(FixedDelay(4, 2)) == [
        Deliver(0, [1, 2, 3, 4]),
        Grant(1, round=0, version=0),
        Grant(2, round=0, version=0),
        Deliver(1, [1, 2]),
        Grant(3, round=1, version=0),
        Grant(4, round=1, version=0),
    ]


@pytest.mark.parametrize("order", list(permutations(ready(5, slot=3) + ready(2, 4, slot=4))))
def test_the_order_of_events_within_a_call_does_not_matter(order: tuple[Ready, ...]) -> None:
    scheduler = started(group_size=3)
    granted = [scheduler.step(order), scheduler.step([Sent(5)]), scheduler.step([Sent(2)])]
    assert [action.device for action in granted if isinstance(action, Grant)] == [5, 2, 4]


def test_an_uplink_and_a_device_that_gets_ready_in_its_last_slot_may_come_in_any_order() -> None:
    for events in permutations([Sent(1), *ready(2, slot=3)]):
        scheduler = started()
        scheduler.step(ready(1))
        assert scheduler.step(events) == Grant(2, 0, 0)


def test_who_finished_first_sends_first_even_if_heard_of_last() -> None:
    scheduler = started()
    scheduler.step(ready(1))
    scheduler.step(ready(3, slot=5))
    scheduler.step(ready(4, slot=4))
    assert scheduler.step([Sent(1)]) == Grant(4, 0, 0)


def test_ties_go_to_the_lower_index() -> None:
    assert started().step(ready(6, 3, 5)) == Grant(3, 0, 0)


def test_nothing_is_granted_while_an_uplink_takes_the_channel() -> None:
    scheduler = started()
    assert scheduler.step(ready(1)) == Grant(1, 0, 0)
    assert scheduler.step(ready(2, slot=3)) is None
    assert scheduler.step(ready(3, slot=4)) is None


def test_nothing_is_granted_while_a_broadcast_takes_the_channel() -> None:
    scheduler = started(group_size=1)
    scheduler.step(ready(1))
    assert scheduler.step([Sent(1)]) == Deliver(1, [1])
    assert scheduler.step(ready(2, slot=3)) is None
    assert scheduler.step([Delivered(1)]) == Grant(2, 1, 0)


def test_the_channel_waits_while_nobody_is_ready() -> None:
    scheduler = started()
    scheduler.step(ready(1))
    assert scheduler.step([Sent(1)]) is None
    assert scheduler.step(ready(4, slot=9)) == Grant(4, 0, 0)


def test_a_full_round_is_closed_before_anyone_else_sends() -> None:
    scheduler = started(group_size=1)
    scheduler.step(ready(1, 2))
    assert scheduler.step([Sent(1)]) == Deliver(1, [1])


def test_a_grant_names_the_model_that_the_device_received_last() -> None:
    scheduler = started(group_size=1, delivery=FixedDelay(2, 1))
    scheduler.step(ready(1))
    scheduler.step([Sent(1)])
    scheduler.step([Delivered(1)])
    assert scheduler.step(ready(1, slot=9, version=1)) == Grant(1, round=1, version=1)


def test_with_delay_the_first_models_go_to_those_who_have_not_started() -> None:
    assert play(FixedDelay(6, 2, delay=1))[0] == Deliver(0, [1, 2, 3, 4])
    assert play(FixedDelay(6, 2, delay=1))[3] == Deliver(1, [5, 6])


def test_with_delay_the_senders_of_a_round_receive_a_later_model() -> None:
    scheduler = started(group_size=1, delivery=FixedDelay(3, 1, delay=1))
    scheduler.step(ready(1, 2))
    assert scheduler.step([Sent(1)]) == Deliver(1, [3])
    scheduler.step([Delivered(1)])
    assert scheduler.step([Sent(2)]) == Deliver(2, [1])


def test_synchronous_devices_wait_for_the_last_of_their_round() -> None:
    scheduler = started(group_size=3, delivery=Participants(6, 3))
    assert scheduler.step(ready(3)) is None
    assert scheduler.step(ready(1, slot=4)) is None
    assert scheduler.step(ready(2, slot=8)) == Grant(3, 0, 0)
    assert scheduler.step([Sent(3)]) == Grant(1, 0, 0)


def test_a_synchronous_round_is_broadcast_to_the_next_participants() -> None:
    scheduler = started(group_size=1, delivery=Participants(3, 1))
    scheduler.step(ready(1))
    assert scheduler.step([Sent(1)]) == Deliver(1, [2])


def test_a_lost_update_waits_behind_those_who_are_ready_by_then() -> None:
    scheduler = started()
    scheduler.step(ready(1, 2))
    assert scheduler.step([Lost(1, 3), *ready(4, slot=3)]) == Grant(2, 0, 0)
    assert scheduler.step([Sent(2)]) == Grant(4, 0, 0)  # ready in the same slot


def test_the_place_of_a_lost_update_may_lie_in_the_future() -> None:
    scheduler = started()
    scheduler.step(ready(1, 2, slot=3))
    scheduler.step([Lost(1, 3)])
    assert scheduler.state.ready == [(4, 1, 0)]  # one slot after device 2, which waits since slot 3
    scheduler.step(ready(3, slot=3))
    assert scheduler.step([Sent(2)]) == Grant(3, 0, 0)  # ready before that place


def test_a_lost_update_can_be_sent_again_at_once() -> None:
    scheduler = Scheduler(2, FixedDelay(6, 2), retransmission="at-once")
    scheduler.start()
    scheduler.step(ready(2))
    scheduler.step(ready(1))  # heard of late, with an earlier turn
    assert scheduler.step([Lost(2, 3)]) == Grant(2, 0, 0)
    assert scheduler.step([Lost(2, 4)]) == Grant(2, 0, 0)
    assert scheduler.step([Sent(2)]) == Grant(1, 0, 0)


def test_a_lost_update_does_not_count() -> None:
    scheduler = started(group_size=1)
    scheduler.step(ready(1))
    assert scheduler.step([Lost(1, 3)]) == Grant(1, 0, 0)
    assert scheduler.step([Sent(1)]) == Deliver(1, [1])


def test_an_uplink_of_a_device_that_has_left_takes_the_channel_until_its_slots_are_over() -> None:
    scheduler = started()
    scheduler.step(ready(1, 2))
    assert scheduler.step([Left(1)]) is None
    assert scheduler.step([Lost(1, 3)]) == Grant(2, 0, 0)


def test_a_device_that_left_and_returned_during_its_uplink_does_not_send_it_again() -> None:
    scheduler = started()
    scheduler.step(ready(1, 2, 3))
    scheduler.step([Left(1)])
    scheduler.step([Joined(1)])
    assert scheduler.step([Lost(1, 6)]) == Grant(2, 0, 0)
    assert scheduler.step([Sent(2)]) == Grant(3, 0, 0)
    assert scheduler.step([Sent(3)]) == Deliver(1, [1, 2, 3])


@pytest.mark.parametrize("delay", [0, 1])
def test_a_device_that_left_and_returned_after_its_update_had_arrived_is_booked_once(delay: int) -> None:
    scheduler = started(group_size=2, delivery=FixedDelay(4, 2, delay))
    scheduler.step(ready(1, 2))
    scheduler.step([Left(1)])
    scheduler.step([Joined(1)])
    assert scheduler.step([Sent(1)]) == Grant(2, 0, 0)
    delivered = scheduler.step([Sent(2)])
    assert isinstance(delivered, Deliver)
    assert delivered.receivers.count(1) == 1
    assert all(1 not in devices for devices in scheduler.state.booked.values())


def places(scheduler: Scheduler) -> list[int]:
    """Each device once for everything it does or waits for."""
    state = scheduler.state
    waiting = [device for devices in state.booked.values() for device in devices]
    return [*waiting, *state.computing, *(device for _, device, _ in state.ready), *state.senders]


DELIVERIES = [FixedDelay(4, 2), FixedDelay(4, 2, delay=1), FixedDelay(5, 1, delay=2), FixedDelay(3, 3)]


@given(delivery=st.sampled_from(DELIVERIES), data=st.data())
def test_who_comes_and_goes_is_never_in_two_places(delivery: FixedDelay, data: st.DataObject) -> None:
    scheduler = Scheduler(delivery.group_size, delivery)
    action: object = scheduler.start()
    taken: list[Event] = [Delivered(0)]  # what frees the channel
    for slot in range(1, data.draw(st.integers(5, 40), label="slots")):
        if isinstance(action, Grant):
            taken = [data.draw(st.sampled_from([Sent(action.device), Lost(action.device, slot + 2)]))]
        elif isinstance(action, Deliver):
            taken = [Delivered(action.version)]
        computing = [Ready(device, slot, version) for device, version in scheduler.state.computing.items()]
        device = data.draw(st.integers(1, delivery.devices), label="device")
        moves = [[Left(device)], [Joined(device)], [Left(device), Joined(device)]]
        events: list[Event] = data.draw(st.sampled_from([taken, computing, *moves]), label="events")
        taken = [] if events is taken else taken
        action = scheduler.step(events)
        assert len(set(places(scheduler))) == len(places(scheduler))


def test_what_a_device_finishes_after_it_left_means_nothing() -> None:
    scheduler = started(group_size=1)
    scheduler.step([Left(1)])
    assert scheduler.step(ready(1)) is None
    scheduler.step([Joined(1)])
    assert scheduler.step(ready(1)) is None


def test_a_device_that_joins_receives_the_model_of_the_current_round() -> None:
    scheduler = Scheduler(1, FixedDelay(3, 1), absent=[3])
    assert scheduler.start() == Deliver(0, [1, 2])
    scheduler.step(ready(1))
    assert scheduler.step([Joined(3)]) is None
    assert scheduler.step([Sent(1)]) == Deliver(1, [1, 3])


def test_a_device_that_joins_twice_is_served_once() -> None:
    scheduler = Scheduler(1, FixedDelay(2, 1), absent=[2])
    scheduler.start()
    scheduler.step([Joined(2)])
    scheduler.step([Joined(2), *ready(1)])
    assert scheduler.step([Sent(1)]) == Deliver(1, [1, 2])


def test_a_device_that_leaves_after_sending_counts_but_receives_nothing() -> None:
    scheduler = started(group_size=2, delivery=FixedDelay(3, 2))
    scheduler.step(ready(1, 2))
    scheduler.step([Sent(1), Left(1)])
    assert scheduler.step([Sent(2)]) == Deliver(1, [2])


def test_a_round_ends_early_when_nobody_is_left_who_could_add_to_it() -> None:
    scheduler = started(group_size=2, delivery=FixedDelay(2, 2))
    scheduler.step(ready(1))
    assert scheduler.step([Sent(1)]) is None
    assert scheduler.step([Left(2)]) == Deliver(1, [1])


def test_the_channel_waits_when_everybody_has_gone() -> None:
    scheduler = started(group_size=1, delivery=FixedDelay(1, 1))
    assert scheduler.step([Left(1)]) is None
    assert scheduler.step([Joined(1)]) == Deliver(1, [1])


def test_when_nobody_can_start_the_next_in_line_are_called_in() -> None:
    scheduler = Scheduler(1, FixedDelay(3, 1, delay=2), absent=[1, 2])
    assert scheduler.start() == Deliver(0, [])
    assert scheduler.step([Delivered(0)]) == Deliver(1, [3])
