"""The paper's results, one file each, and what makes them all in one folder."""

from slotwise.batch.job import Run
from slotwise.paper.catalogue import PAPER, QUICK, Experiment, all_runs

__all__ = ["PAPER", "QUICK", "Experiment", "Run", "all_runs"]
