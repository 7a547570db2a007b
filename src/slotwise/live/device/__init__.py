"""Devices of a live run, and the processes that host them."""
