"""Live runs: the Scheduler on a real network, with a server, devices and a broker between them.

- `protocol`: topics and the wire format.
- `transport`: the `Channel` interface, in memory and on MQTT; which broker to use, and how to log in.
- `server`: `serve` and `resume_live`; messages of devices are checked in `server.inbox`.
- `device`: `run_device` and `run_fleet`.
- `enroll`: keys, passwords and access rules for a broker with TLS.
"""

from slotwise.live.replay import replay
from slotwise.live.server.live_status import LiveStatus
from slotwise.live.server.server_config import ServerConfig
from slotwise.live.server.serving import resume_live, serve

__all__ = ["LiveStatus", "ServerConfig", "replay", "resume_live", "serve"]
