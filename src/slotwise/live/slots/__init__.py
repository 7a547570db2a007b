"""Slots as time: grants ahead of time on a shared medium, emulated in virtual time.

- `frames`: what is on the air: beacons with the coming grants, and pieces of messages.
- `medium`: one shared medium; transmissions that overlap are lost.
- `slot_counter`: the clock of a device and the slot counter that beacons synchronise.
- `plan_ahead`: the Scheduler, and the same Scheduler some grants ahead.
- `announcing`: when there is a beacon, and what it says.
- `slot_layout`, `fitting`: the parts of a slot, and how long they have to be.
- `slot_use`: what became of a granted uplink.
- `slot_device`, `slot_server`: the two ends.
- `emulation`: `run_on_medium` executes the plan of a run.
"""
