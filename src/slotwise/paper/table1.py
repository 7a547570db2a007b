"""Table 1: how many models each group size gives within the deadline, the paper's figures beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from slotwise.batch.job import Run
from slotwise.scenario import Scenario
from slotwise.schedule import completed_rounds


class Cell(NamedTuple):
    """One group size: the paper's number, and ours."""

    group_size: int
    paper: int
    ours: int

    @property
    def equal(self) -> bool:
        """Whether the number came out exactly."""
        return self.paper == self.ours


class Row(NamedTuple):
    """One data set of the table."""

    title: str
    devices: int
    compute_slots: int
    deadline: int
    printed: tuple[tuple[int, int], ...]

    def cells(self) -> tuple[Cell, ...]:
        """The models w_0 … w_K that the exact schedule completes; the table counts w_0."""
        return tuple(Cell(size, paper, self._models(size)) for size, paper in self.printed)

    def _models(self, group_size: int) -> int:
        return completed_rounds(self._scenario(group_size)) + 1

    def _scenario(self, group_size: int) -> Scenario:
        return Scenario(
            devices=self.devices,
            group_size=group_size,
            compute_slots=self.compute_slots,
            deadline=self.deadline,
        )


MNIST = Row("MNIST", 100, 50, 50_000, ((1, 24976), (5, 8326), (10, 4541), (25, 1922), (50, 980), (100, 332)))
CIFAR10 = Row("CIFAR-10", 20, 4, 100_000, ((1, 49999), (2, 33333), (5, 16667), (10, 9091), (20, 4001)))


@dataclass(frozen=True, kw_only=True)
class TableOne:
    """The paper's table "Total number of training rounds"; always at the paper's own deadlines.

    Attributes:
        mnist: N=100, tau_comp=50, r=1, T=50000, and the printed figure for each S.
        cifar10: N=20, tau_comp=4, r=1, T=100000, likewise.
    """

    mnist: Row = MNIST
    cifar10: Row = CIFAR10

    name = "table1"
    study = "schedule"

    def rows(self) -> tuple[Row, ...]:
        """Both halves of the table."""
        return (self.mnist, self.cifar10)

    def runs(self, seed: int) -> tuple[Run, ...]:
        """The table needs no training."""
        del seed
        return ()
