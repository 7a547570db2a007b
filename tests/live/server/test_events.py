import json
from datetime import UTC, datetime

from slotwise.live.server.events import LogEvent

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
EVENT = LogEvent("warning", "left", {"device": 3, "reason": "no answer", "norm": 1.23456789, "loss": None})


def test_text_is_one_line_of_pairs_whatever_a_field_holds():
    expected = '2026-01-02T12:00:00Z warning left device=3 reason="no answer" norm=1.23457 loss=None'
    assert EVENT.text(NOON) == expected
    assert "\n" not in LogEvent("info", "x", {"topic": "a\nb\x1b[1m", "empty": ""}).text()


def test_json_is_one_object_without_numbers_that_json_does_not_have():
    line = LogEvent("info", "clipped", {"norm": float("inf"), "device": 1}).json(NOON)
    assert json.loads(line) == {
        "time": "2026-01-02T12:00:00Z",
        "level": "info",
        "event": "clipped",
        "norm": None,
        "device": 1,
    }


def test_levels_are_ordered():
    assert [EVENT.is_at_least(level) for level in ("debug", "info", "warning", "error")] == [
        True,
        True,
        True,
        False,
    ]
