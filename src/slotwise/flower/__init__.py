"""Everything that knows Flower: its apps as tasks, its nodes as devices, its strategies in virtual slots.

- `project`: a project's files; `FlowerApp`, the model of a run; `flower_task`, its ClientApp as a task.
- `task`: that task.
- `server_probe`: the first model and the messages of a ServerApp.
- `app_call`, `app_messages`, `array_layout`: one call of a ClientApp, its messages, and arrays as one vector.
- `node_server`: `serve`, the Scheduler on Flower's nodes, called in a ServerApp.
- `slot_grid`: `SlotGrid` and `run_strategy`, a Grid that charges virtual slots, for any strategy of Flower.

Names are imported when they are first used. All but `project` needs the extra ``slotwise[flower]``.
"""

from slotwise.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
