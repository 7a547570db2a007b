"""A choice of participants: whoever was heard longest ago takes part, near devices a little more often."""


def rarely_heard(waiting, round_number, last_sender, *, rounds_per_slot: float = 0.0):
    """Choose the device with the largest age, less some rounds for each slot that its uplink takes."""
    return max(waiting, key=lambda one: (one.age - rounds_per_slot * one.planned_slots, -one.device))
