"""As much of Ray as slotwise uses, in this process: actors are objects, and a test decides who is lost."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from slotwise.workers import ray_cluster
from slotwise.workers.ray_cluster import RayCluster, RayHost

Fate = Callable[[int, str], Exception | None]


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class RayActorError(RayError):
    pass


class ObjectStoreFullError(RayError):
    pass


class OutOfDiskError(RayError):
    pass


class Actor:
    """An actor; ``fate`` may put an error in the place of an answer of a method."""

    def __init__(self, number: int, host: RayHost, fate: Fate) -> None:
        self._number, self._host, self._fate = number, host, fate

    def __getattr__(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(remote=lambda *values: self._called(name, values))

    def _called(self, name: str, values: tuple[Any, ...]) -> Callable[[], object]:
        def answer() -> object:
            if error := self._fate(self._number, values[0] if name == "call" else name):
                raise error
            return getattr(self._host, name)(*values)

        return answer

    def end(self) -> None:
        """Its threads are threads of the tests."""
        if hasattr(self._host._object, "close"):
            self._host._object.close()


class SimulatedRay:
    """The module, connected to a cluster of two cores on one node that is alive."""

    exceptions = SimpleNamespace(
        RayError=RayError,
        RayTaskError=RayTaskError,
        RayActorError=RayActorError,
        ObjectStoreFullError=ObjectStoreFullError,
        OutOfDiskError=OutOfDiskError,
    )

    def __init__(self, fate: Fate = lambda number, name: None, *, ready: bool = True) -> None:
        self._fate, self._ready = fate, ready
        self.made = self.shut = 0
        self.options: list[dict[str, Any]] = []
        self.puts: list[object] = []

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False, "Resources": {"CPU": 64.0}}]

    def put(self, value: object) -> object:
        self.puts.append(value)
        return value

    def remote(self, **options: Any) -> Callable[[type[RayHost]], SimpleNamespace]:
        def make(kind: type[RayHost], *values: Any) -> Actor:
            self.made += 1
            self.options.append(options)
            return Actor(self.made, kind(*values), self._fate)

        return lambda kind: SimpleNamespace(remote=lambda *values: make(kind, *values))

    def wait(self, calls: list[object], timeout: float) -> tuple[list[object], list[object]]:
        return (calls, []) if self._ready else ([], calls)

    def get(self, call: Callable[[], object]) -> object:
        return call()

    def kill(self, actor: Actor) -> None:
        actor.end()

    def shutdown(self) -> None:
        self.shut += 1


def cluster_of(ray: SimulatedRay, monkeypatch: pytest.MonkeyPatch, *, answers: bool = True) -> RayCluster:
    """A connection to a cluster, whose head answers or does not."""
    monkeypatch.setattr(ray_cluster, "answers", lambda head: answers)
    return RayCluster(ray, "head:1")
