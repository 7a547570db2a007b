"""Live runs: the Scheduler on a real network, with a server, devices and a broker between them.

- `protocol`, `parts`: topics, the wire format, comparing versions, and long messages.
- `transport`: the `Channel` interface, in memory and on MQTT; which broker to use, and how to log in.
- `server`: `serve`, `resume_live` and `serve_campaign`; messages of devices are checked in `server.inbox`.
- `device`: `run_device` and `run_fleet`.
- `enroll`: keys, passwords and access rules for a broker with TLS.
- `slots`: `run_on_medium` executes a plan on an emulated shared medium, with grants ahead of time.
- `replaying`: computes the models of a run again from its files.
- `rollout`: upgrading devices, some of them first.
- `calibration`: a fleet from the measured times of a run.

Names are imported when they are first used: a device does not load the server.
"""

from slotwise.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
