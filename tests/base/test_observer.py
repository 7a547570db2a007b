"""Observers: several as one, and any of them where another kind is asked for."""

import inspect
import pickle

import pytest

from slotwise.base.observer import BaseObserver, Observers
from slotwise.batch.job import BatchObserver
from slotwise.learning.engine import TrainingObserver
from slotwise.live.server.events import LiveObserver
from slotwise.recommendation.elimination import SearchObserver
from slotwise.report.progress import BatchProgress
from slotwise.runs import Observer

KINDS = (BaseObserver, TrainingObserver, Observer, BatchObserver, SearchObserver, LiveObserver)


class Stop(BaseObserver):
    def wants_stop(self) -> bool:
        return True


def callbacks(kind: type[BaseObserver]) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_") and name not in ("of", "wants_stop")]


@pytest.mark.parametrize("kind", KINDS)
def test_every_callback_reaches_every_observer_in_order(kind: type[BaseObserver]) -> None:
    for callback in callbacks(kind):
        told: list[tuple[int, object]] = []
        several = [kind(), kind()]
        for number, observer in enumerate(several):
            setattr(observer, callback, lambda value, number=number, told=told: told.append((number, value)))
        getattr(Observers(*several), callback)("something")
        assert told == [(0, "something"), (1, "something")]


@pytest.mark.parametrize("kind", KINDS)
def test_any_observer_may_be_given_and_is_told_what_it_has_a_callback_for(kind: type[BaseObserver]) -> None:
    told: list[str] = []

    class Rounds(BaseObserver):
        def round_done(self, round_number: int) -> None:
            told.append(f"round {round_number}")

        def job_ended(self, job: object, reason: str | None) -> None:
            told.append(f"job {job} {reason}")

    known = {"round_done": (3,), "job_ended": ("a", None)}
    for given in (Rounds(), Observers(Rounds()), None):
        observer = kind.of(given)
        for name in callbacks(kind):
            getattr(observer, name)(*known.get(name, [None] * _arguments(kind, name)))
    expected = [
        text
        for name, text in {"job_ended": "job a None", "round_done": "round 3"}.items()
        if name in dir(kind)
    ]
    assert told == 2 * expected


def _arguments(kind: type[BaseObserver], name: str) -> int:
    return len(inspect.signature(getattr(kind, name)).parameters) - 1


def test_several_observers_stop_if_one_does_and_can_be_pickled() -> None:
    observer = Observer()
    assert TrainingObserver.of(observer) is observer
    both = Observers(observer)
    assert LiveObserver.of(both) is both
    assert not Observers(Observer(), BatchObserver()).wants_stop()
    assert Observers(Observer(), Stop()).wants_stop()
    assert BatchObserver.of(Stop()).wants_stop()
    assert pickle.loads(pickle.dumps(Observers(Observer(), Stop()))).wants_stop()


def test_bars_of_a_batch_have_callbacks_of_a_search() -> None:
    # The bars are in a layer below, so they cannot derive from the class that declares them.
    own = {name: inspect.signature(method) for name, method in vars(BatchProgress).items() if name[0] != "_"}
    del own["message"]
    for name, signature in own.items():
        assert list(signature.parameters) == list(inspect.signature(getattr(SearchObserver, name)).parameters)
