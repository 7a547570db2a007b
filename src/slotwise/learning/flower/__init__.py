"""A Flower ClientApp as a Task. Needs the extra ``slotwise[flower]``.

- `server_probe`: the first model and the messages of its ServerApp.
- `array_layout`: arrays of a message as one vector.
- `app_messages`: messages to a ClientApp, and what is taken from its replies.
- `app_call`: one call of a ClientApp.
- `app_task`: `FlowerTask`, which `learning.flower_task` makes.
"""

from slotwise.errors import UserError

try:
    import flwr.app  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "flwr":
        raise
    raise UserError("Flower is not installed: pip install 'slotwise[flower]'") from None
