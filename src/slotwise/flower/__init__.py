"""Everything that knows Flower: its apps as tasks, its nodes as devices, its strategies in virtual slots.

- `project`: a project's files; `FlowerApp`, the model of a run; `flower_task`, its ClientApp as a task.
- `task`: that task.
- `server_probe`: the first model and the messages of a ServerApp.
- `app_call`, `app_messages`, `array_layout`: one call of a ClientApp, its messages, and arrays as one vector.
- `node_server`: `serve`, the Scheduler on Flower's nodes, called in a ServerApp.
- `slot_grid`: `SlotGrid` and `run_strategy`, a Grid that charges virtual slots, for any strategy of Flower.

Names are imported when they are first used. All but `project` needs the extra ``slotwise[flower]``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slotwise.base.extras import importing

if TYPE_CHECKING:
    from slotwise.flower.node_server import NodesOutcome, serve
    from slotwise.flower.project import flower_task
    from slotwise.flower.slot_grid import SlotGrid, StrategyRun, run_strategy

_HOMES = {
    "NodesOutcome": "node_server",
    "SlotGrid": "slot_grid",
    "StrategyRun": "slot_grid",
    "flower_task": "project",
    "run_strategy": "slot_grid",
    "serve": "node_server",
}

__all__ = ["NodesOutcome", "SlotGrid", "StrategyRun", "flower_task", "run_strategy", "serve"]


def __getattr__(name: str) -> Any:
    """Import a name from the module that defines it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'slotwise.flower' has no attribute {name!r}")
    with importing():
        value = getattr(import_module(f"slotwise.flower.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
