"""The Scheduler on a real network: a server, devices, and the channel between them.

`server` and `device` are thin loops around the Scheduler and a Task. They know a `Channel` and no MQTT, so
the tests drive them in memory and a deployment through any broker.
"""
