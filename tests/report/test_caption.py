from slotwise.report.caption import amount, describe, span
from slotwise.schedule import Timeline


def test_what_was_asked_for_and_what_came_out(six_idfl: Timeline) -> None:
    assert describe(six_idfl) == (
        "6 devices, 2 uplinks a round, 2 slots to compute, 1 per uplink or broadcast",
        "idfl, delay 1: 6 rounds in 20 slots; staleness 1 at most, 0.83 on average",
    )


def test_only_idfl_has_a_delay(six_async: Timeline) -> None:
    assert describe(six_async)[1].startswith("async: 6 rounds")


def test_amounts() -> None:
    assert [amount(1, "slot"), amount(1000, "slot")] == ["1 slot", "1,000 slots"]


def test_spans_name_the_last_slot() -> None:
    assert [span(4, 5), span(5, 7)] == ["slot 4", "slots 5–6"]


def test_unequal_devices_are_described_by_their_range(unequal: Timeline) -> None:
    assert describe(unequal) == (
        "6 devices, 2 uplinks a round, 2–9 slots to compute (jitter 20%), 1–2 per uplink, 1 per broadcast",
        "idfl, just in time: 9 rounds in 43 slots; staleness 3 at most, 0.89 on average; 8 uplinks lost",
    )
