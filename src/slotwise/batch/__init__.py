"""Sweeps: every combination of a grid of parameters, on the cores of this machine or on a Ray cluster."""
