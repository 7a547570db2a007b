from itertools import permutations

import pytest

from slotwise import Scheduler
from slotwise.schedule import Delayed, Deliver, Delivered, Delivery, Grant, Ready, Sent, Synchronous


def ready(*devices: int, slot: int = 2, version: int = 0) -> list[Ready]:
    return [Ready(device, slot, version) for device in devices]


def play(delivery: Delivery) -> list[object]:
    """A start, two uplinks, a broadcast and the next uplink, as they were answered."""
    scheduler = Scheduler(2, delivery)
    steps = [ready(1, 2, 3, 4), [Sent(1)], [Sent(2)], [Delivered(1)], [Sent(3)]]
    return [scheduler.start(), *(scheduler.step(events) for events in steps)]


def started(group_size: int = 2, delivery: Delivery | None = None) -> Scheduler:
    scheduler = Scheduler(group_size, delivery or Delayed(6, group_size))
    scheduler.start()
    return scheduler


def test_a_round_is_granted_uplink_by_uplink_and_closed_by_a_broadcast_to_its_senders() -> None:
    assert play(Delayed(4, 2)) == [
        Deliver(0, [1, 2, 3, 4]),
        Grant(1, round=0, version=0),
        Grant(2, round=0, version=0),
        Deliver(1, [1, 2]),
        Grant(3, round=1, version=0),
        Grant(4, round=1, version=0),
    ]


def test_the_same_events_give_the_same_actions() -> None:
    assert play(Delayed(4, 2)) == play(Delayed(4, 2))


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
    scheduler = started(group_size=1, delivery=Delayed(2, 1))
    scheduler.step(ready(1))
    scheduler.step([Sent(1)])
    scheduler.step([Delivered(1)])
    assert scheduler.step(ready(1, slot=9, version=1)) == Grant(1, round=1, version=1)


def test_with_delay_the_first_models_go_to_those_who_have_not_started() -> None:
    assert play(Delayed(6, 2, delay=1))[0] == Deliver(0, [1, 2, 3, 4])
    assert play(Delayed(6, 2, delay=1))[3] == Deliver(1, [5, 6])


def test_with_delay_the_senders_of_a_round_receive_a_later_model() -> None:
    scheduler = started(group_size=1, delivery=Delayed(3, 1, delay=1))
    scheduler.step(ready(1, 2))
    assert scheduler.step([Sent(1)]) == Deliver(1, [3])
    scheduler.step([Delivered(1)])
    assert scheduler.step([Sent(2)]) == Deliver(2, [1])


def test_synchronous_devices_wait_for_the_last_of_their_round() -> None:
    scheduler = started(group_size=3, delivery=Synchronous(6, 3))
    assert scheduler.step(ready(3)) is None
    assert scheduler.step(ready(1, slot=4)) is None
    assert scheduler.step(ready(2, slot=8)) == Grant(3, 0, 0)
    assert scheduler.step([Sent(3)]) == Grant(1, 0, 0)


def test_a_synchronous_round_is_broadcast_to_the_next_participants() -> None:
    scheduler = started(group_size=1, delivery=Synchronous(3, 1))
    scheduler.step(ready(1))
    assert scheduler.step([Sent(1)]) == Deliver(1, [2])
