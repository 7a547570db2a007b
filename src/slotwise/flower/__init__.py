"""Flower's own nodes and strategies with slotwise's schedule and clock. Needs the extra ``slotwise[flower]``.

- `serve(grid, config)`: the Scheduler on Flower's nodes, called in a ServerApp.
- `SlotGrid`, `run_strategy`: a Grid that charges virtual slots, for any strategy of Flower.
- `flower_task`: an unmodified ClientApp as a task; also `slotwise.flower_task`.
"""

from slotwise.errors import UserError

try:
    import flwr.app  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "flwr":
        raise
    raise UserError("Flower is not installed: pip install 'slotwise[flower]'") from None

from slotwise.flower.node_server import NodesOutcome, serve
from slotwise.flower.slot_grid import SlotGrid, StrategyRun, run_strategy
from slotwise.learning.flower_task import flower_task

__all__ = ["NodesOutcome", "SlotGrid", "StrategyRun", "flower_task", "run_strategy", "serve"]
