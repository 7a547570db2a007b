"""Live runs: the Scheduler on a real network, with a server, devices and a broker between them.

- `protocol`, `parts`: topics, the wire format, comparing versions, and long messages.
- `transport`: the `Channel` interface, in memory and on MQTT; which broker to use, and how to log in.
- `server`: `serve` and `resume_live`; messages of devices are checked in `server.inbox`.
- `device`: `run_device` and `run_fleet`.
- `enroll`: keys, passwords and access rules for a broker with TLS.
- `replaying`: computes the models of a run again from its files.
- `calibration`: a fleet from the measured times of a run.

Names are imported when they are first used: a device does not load the server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slotwise.live.replaying import replay
    from slotwise.live.server.events import LiveObserver
    from slotwise.live.server.live_status import LiveStatus
    from slotwise.live.server.server_config import ServerConfig
    from slotwise.live.server.serving import resume_live, serve

_HOMES = {
    "LiveObserver": "server.events",
    "LiveStatus": "server.live_status",
    "ServerConfig": "server.server_config",
    "replay": "replaying",
    "resume_live": "server.serving",
    "serve": "server.serving",
}

__all__ = ["LiveObserver", "LiveStatus", "ServerConfig", "replay", "resume_live", "serve"]


def __getattr__(name: str) -> Any:
    """Import a name from the module that defines it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'slotwise.live' has no attribute {name!r}")
    value = getattr(import_module(f"slotwise.live.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
