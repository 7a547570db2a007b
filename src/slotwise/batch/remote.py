"""Trainer: what trains points on a node of a cluster. It knows nothing of the cluster."""

from __future__ import annotations

import platform
import tempfile
import threading
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from slotwise.batch.folder import SweepFolder
from slotwise.batch.parcel import Outbox, Parcel, unpack
from slotwise.batch.point import Order, Tasks, Words, train_point
from slotwise.data import Dataset

SECONDS_BETWEEN_NEWS, SECONDS_BETWEEN_LOOKS = 1.0, 0.1


@dataclass
class News:
    """What has happened since the last news: how far the point has come, and files that are new."""

    words: Words | None = None
    files: Parcel = field(default_factory=dict)
    over: bool = False
    reason: str | None = None


class Trainer:
    """Trains one point after another, each in a folder that is gone when its last news are fetched.

    A trainer that is killed leaves the folder of its point among the temporary files of its node.
    `news` and `stop` are called while `begin`'s training goes on in a thread of its own.
    """

    def __init__(self) -> None:
        self._tasks = Tasks()
        self._stopping = threading.Event()

    def hello(self) -> tuple[str, str]:
        """The node, and the slotwise it has."""
        return platform.node(), version("slotwise")

    def begin(self, order: Order, parcel: Parcel, dataset: Dataset) -> None:
        """Train a point from what the parcel holds."""
        self._tasks.keep(dataset)
        self._scratch = tempfile.TemporaryDirectory(prefix="slotwise-")
        folder = SweepFolder(Path(self._scratch.name))
        unpack(parcel, folder.run(order.name))
        self._outbox = Outbox(folder.run(order.name))
        self._words: Words | None = None
        self._reason: str | None = None
        self._over = threading.Event()
        threading.Thread(target=self._train, args=(folder, order), daemon=True).start()

    def news(self) -> News:
        """After a second, or as soon as there is a checkpoint or the point is over."""
        end = time.monotonic() + SECONDS_BETWEEN_NEWS
        while not (over := self._over.wait(SECONDS_BETWEEN_LOOKS)) and not self._outbox.full:
            if time.monotonic() >= end:
                break
        news = News(self._words, self._outbox.changed(over=over), over, self._reason)
        if over:
            self._scratch.cleanup()
        return news

    def stop(self) -> None:
        """End early, with a checkpoint."""
        self._stopping.set()

    def _train(self, folder: SweepFolder, order: Order) -> None:
        try:
            self._reason = train_point(folder, order, self._tasks.make, self._hear, self._stopping.is_set)
        except Exception as error:  # the sweep is waiting for an answer, whatever has happened
            self._reason = f"{type(error).__name__}: {error}"
        finally:
            self._over.set()

    def _hear(self, words: Words) -> None:
        self._words = words
