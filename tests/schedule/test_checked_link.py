"""A link of your own is checked where it is asked: no answer gives an impossible timeline."""

from collections.abc import Sequence
from math import nan
from typing import Any

import numpy as np
import pytest

from slotwise import Scenario, UserError, simulate
from slotwise.schedule.policies import Asynchronous
from slotwise.schedule.selections import best_channel

SCENARIO = Scenario(devices=4, group_size=2, compute_slots=2)
WRONG = [0, -1, 1.5, 2.0, nan, None, "2", True, 10**10, np.array([1, 2])]
SNR = np.zeros(4)


class OwnLink:
    """A link with fixed answers."""

    planned_slots: Any = (1, 1, 1, 1)
    planned_broadcast_slots: Any = 1

    def __init__(self, uplink: Any = (1, False), broadcast: Any = 1, snr: Any = SNR) -> None:
        self._uplink, self._broadcast, self._snr = uplink, broadcast, snr

    def uplink(self, device: int, slot: int, attempt: int) -> Any:
        return self._uplink

    def broadcast(self, receivers: Sequence[int], slot: int) -> Any:
        return self._broadcast

    def snr_db(self, slot: int) -> Any:
        return self._snr


class OwnBlockLink(OwnLink):
    """A link that is constant in blocks."""

    coherence_slots: Any = 4
    fixed_slots: Any = 2
    update_bits: Any = 8
    give_up_slots: Any = 10
    snr: Any = 0.0
    bits: Any = 4

    def tables(self, first_block: int, blocks: int) -> Any:
        return np.full((blocks, 4), self.snr), np.full((blocks, 4), self.bits)


def played(link: Any) -> Any:
    return simulate(SCENARIO, Asynchronous(selection=best_channel), link=link, rounds=3)


@pytest.mark.parametrize("method", ["uplink", "broadcast", "snr_db"])
def test_an_error_in_a_link_is_one_line_with_its_place(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OwnLink, method, lambda *_: 1 // 0)
    match = rf"^link OwnLink: {method}: ZeroDivisionError: .* \(test_checked_link.py, line \d+\)$"
    with pytest.raises(UserError, match=match):
        played(OwnLink())


@pytest.mark.parametrize("slots", WRONG, ids=repr)
def test_slots_that_cannot_be_are_refused(slots: Any) -> None:
    for link in (OwnLink(uplink=(slots, False)), OwnLink(broadcast=slots)):
        with pytest.raises(UserError, match=r"^link OwnLink: "):
            played(link)


@pytest.mark.parametrize("name", ["planned_broadcast_slots", "planned_slots", "device"])
@pytest.mark.parametrize("slots", WRONG, ids=repr)
def test_planned_slots_that_cannot_be_are_refused(name: str, slots: Any) -> None:
    link = OwnLink()
    if name == "device":
        link.planned_slots = [1, 1, 1, slots]
    else:
        setattr(link, name, slots)
    with pytest.raises(UserError, match=r"^link OwnLink: planned"):
        played(link)


@pytest.mark.parametrize(
    "link",
    [
        OwnLink(uplink=3),
        OwnLink(uplink=(3, nan)),
        OwnLink(uplink=(3, False, 2.0)),
        OwnLink(uplink=(3, False, 0)),
        OwnLink(uplink=(3, False, 0.5, 1)),
        OwnLink(snr=np.zeros(3)),
        OwnLink(snr=np.full(4, nan)),
        OwnLink(snr=[0.0] * 4),
    ],
)
def test_other_wrong_answers_are_refused(link: OwnLink) -> None:
    with pytest.raises(UserError, match=r"^link OwnLink: "):
        played(link)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("coherence_slots", 0),
        ("fixed_slots", -1),
        ("bits", -1),
        ("bits", 0.5),
        ("snr", nan),
        ("give_up_slots", nan),
    ],
)
def test_wrong_tables_are_refused(name: str, value: Any) -> None:
    pytest.importorskip("numba")
    link = OwnBlockLink()
    setattr(link, name, value)
    with pytest.raises(UserError, match=r"^link OwnBlockLink: "):
        played(link)


def test_numpy_integers_will_do() -> None:
    link = OwnLink(
        uplink=(np.int64(2), np.bool_(False)), broadcast=np.int32(3), snr=np.zeros(4, dtype=np.int64)
    )
    link.planned_slots, link.planned_broadcast_slots = np.ones(4, dtype=np.int64), np.int64(1)
    timeline = played(link)
    assert set((timeline.end - timeline.start).tolist()) == {2}
    assert set((timeline.broadcast_end - timeline.broadcast_start).tolist()) == {3}


def test_a_link_of_blocks_takes_the_fast_path() -> None:
    pytest.importorskip("numba")
    timeline = played(OwnBlockLink())
    assert set((timeline.end - timeline.start).tolist()) == {2}


def test_a_link_cannot_change_the_receivers() -> None:
    class Sorting(OwnLink):
        def broadcast(self, receivers: Any, slot: int) -> int:
            receivers.clear()
            return 1

    with pytest.raises(UserError, match="AttributeError"):
        played(Sorting())
