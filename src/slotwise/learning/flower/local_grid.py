"""LocalGrid: what all grids of Flower in this process share."""

from __future__ import annotations

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run


class LocalGrid(Grid):
    """A grid without a SuperLink: it makes messages, and describes a run that is nowhere else."""

    def __init__(self) -> None:
        self._run = Run.create_empty(1)

    def set_run(self, run: Run) -> None:
        """Set what `run` returns."""
        self._run = run

    @property
    def run(self) -> Run:
        """Description of the run, which Flower asks for."""
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Return a new message to a node."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)
