"""Slots as time: grants ahead of time on a shared medium, emulated in virtual time.

- `frames`: what is on the air: beacons with the coming grants, and pieces of messages.
- `medium`: one shared medium; transmissions that overlap are lost.
- `slot_counter`: the clock of a device and the slot counter that beacons synchronise.
- `plan_ahead`: the Scheduler, and the same Scheduler some grants ahead.
- `slot_device`, `slot_server`: the two ends.
- `emulation`: `run_on_medium` executes the plan of a run.
"""
