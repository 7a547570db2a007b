"""Property tests without a time limit per example: the machines that run them are shared and noisy."""

from hypothesis import settings

settings.register_profile("slotwise", deadline=None)
settings.load_profile("slotwise")
