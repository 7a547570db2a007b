"""A selection that lets the update made from the newest model send first."""


def freshest_first(waiting, round_number, last_sender):
    """Choose the update made from the newest model; ties go to the one that waits longest."""
    return min(waiting, key=lambda update: (-update.version, update.slot))
