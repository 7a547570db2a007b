"""Observers: the part that all share, several as one, and the request to stop that they pass on.

A package that reports progress declares its own callbacks beside the code that calls them: a training
(`learning.engine`), a run (`runs.session`, the public `Observer`), a batch (`batch.job`), a search
(`recommendation.elimination`), a live run (`live.server.events`). Any observer may be given anywhere: it is
told what it has a callback for.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Self, cast

from slotwise.base.errors import InputError
from slotwise.base.user_code import describe_value


class BaseObserver:
    """Callbacks of every kind of work; they do nothing, and subclasses override the ones they need."""

    def notice(self, message: str) -> None:
        """Receive a one-line message that is no error, such as that a damaged checkpoint was skipped."""

    def wants_stop(self) -> bool:
        """Return whether to stop early, with a checkpoint."""
        return False

    @classmethod
    def of(cls, observer: BaseObserver | None) -> Self:
        """Return ``observer`` as one of this class; callbacks that it does not have do nothing."""
        if observer is None:
            return cls()
        if not hasattr(observer, "wants_stop"):
            raise InputError("observer", describe_value(observer), "an Observer")
        known = isinstance(observer, cls | Observers)
        return cast(Self, observer if known else Observers(observer))


class Observers(BaseObserver):
    """Several observers as one: each is told what it has a callback for, and each may ask to stop."""

    def __init__(self, *observers: BaseObserver) -> None:
        self._observers = observers

    def notice(self, message: str) -> None:
        """Pass a message on to all."""
        self.__getattr__("notice")(message)

    def wants_stop(self) -> bool:
        """Return whether one of the observers asks to stop."""
        return any(observer.wants_stop() for observer in self._observers)

    def __getattr__(self, callback: str) -> Callable[..., None]:
        """Return a function that calls this callback of all observers that have it, in order."""
        if callback.startswith("_"):  # looked for by copy and pickle
            raise AttributeError(callback)

        def tell(*arguments: object, **named: object) -> None:
            for observer in self._observers:
                if (method := getattr(observer, callback, None)) is not None:
                    method(*arguments, **named)

        return tell


@dataclass
class Stop:
    """Flag that the user has asked to stop early."""

    requested: bool = False


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Turn the first Ctrl-C (or SIGTERM) into a request to stop with a checkpoint; the second interrupts."""
    stop = Stop()

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
