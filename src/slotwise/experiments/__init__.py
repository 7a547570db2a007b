"""The paper's results, one file each, and what makes them all in one folder."""

from slotwise.experiments.catalogue import PAPER, QUICK, Experiment, all_runs
from slotwise.experiments.run import Run

__all__ = ["PAPER", "QUICK", "Experiment", "Run", "all_runs"]
