"""A run folder on its way between the sweep's folder and a node of a cluster: its files as bytes."""

from __future__ import annotations

from slotwise.files import write_atomically
from slotwise.runs import RunFolder

Parcel = dict[str, bytes]
CHECKPOINT = "checkpoint"
FILES = ("history.csv", "model.npz", "run.json")  # run.json last: its status speaks of the others


def pack(run: RunFolder) -> Parcel:
    """What it takes to go on with a run elsewhere."""
    parcel = {"run.json": (run.path / "run.json").read_bytes()}
    checkpoint = run.checkpoints.newest()
    return parcel if checkpoint is None else {CHECKPOINT: checkpoint, **parcel}


def unpack(parcel: Parcel, run: RunFolder) -> None:
    """Put the files into a run folder, in the order in which a training writes them."""
    run.path.mkdir(parents=True, exist_ok=True)
    if CHECKPOINT in parcel:
        run.checkpoints.receive(parcel[CHECKPOINT])
    for name in FILES:
        if name in parcel:
            write_atomically(run.path / name, parcel[name])


class Outbox:
    """Gives what has changed in a run folder since the last time."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._sent = run.checkpoints.newest_name()

    @property
    def full(self) -> bool:
        """Whether there is a new checkpoint."""
        return self._run.checkpoints.newest_name() != self._sent

    def changed(self, *, over: bool) -> Parcel:
        """A new checkpoint and the curve until then; once the training is over, everything."""
        parcel: Parcel = {}
        name = self._run.checkpoints.newest_name()
        if name != self._sent and (checkpoint := self._run.checkpoints.newest()) is not None:
            self._sent, parcel[CHECKPOINT] = name, checkpoint
        wanted = FILES if over else ("history.csv",) if parcel else ()
        files = {name: self._run.path / name for name in wanted}
        return parcel | {name: path.read_bytes() for name, path in files.items() if path.is_file()}
