"""Shortest uplink: the fewest slots first (Smith, 1956); for FL: Nishio and Yonetani, ICC 2019."""

from collections.abc import Sequence

from slotwise.schedule.selection import Waiting


def shortest_uplink(waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:  # noqa: ARG001
    """Choose the fewest planned slots; among equals the update that was ready first."""
    return min(waiting, key=lambda update: (update.planned_slots, update))
