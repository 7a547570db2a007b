"""Observers: several observers as one."""

from typing import Any

import pytest

from slotwise.observer import Observer, Observers

CALLBACKS = [name for name in vars(Observer) if not name.startswith("_") and name != "wants_stop"]


@pytest.mark.parametrize("callback", CALLBACKS)
def test_every_callback_reaches_every_observer_in_order(callback: str) -> None:
    told: list[tuple[int, object]] = []
    several = [Observer(), Observer()]
    for number, observer in enumerate(several):
        setattr(observer, callback, lambda value, number=number: told.append((number, value)))
    getattr(Observers(*several), callback)("something")
    assert told == [(0, "something"), (1, "something")]


def test_a_subclass_may_add_to_a_callback() -> None:
    told: list[str] = []

    class Inner(Observer):
        def job_ended(self, job: object, reason: str | None) -> None:
            told.append("inner")

    class Outer(Observers):
        def job_ended(self, job: Any, reason: str | None) -> None:
            told.append("outer")
            super().job_ended(job, reason)

    Outer(Inner()).job_ended(None, None)
    assert told == ["outer", "inner"]


def test_one_observer_is_enough_to_stop() -> None:
    class Stop(Observer):
        def wants_stop(self) -> bool:
            return True

    assert not Observers(Observer(), Observer()).wants_stop()
    assert Observers(Observer(), Stop()).wants_stop()
