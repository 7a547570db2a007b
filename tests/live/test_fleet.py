"""Devices in one process."""

import pytest

from slotwise.live.fleet import ShutOut


@pytest.mark.parametrize(
    ("devices", "line"),
    [
        ([5], "device 5: the server has shut it out after bad or missing updates in a row"),
        ([1, 2], "devices 1, 2: the server has shut them out after bad or missing updates in a row"),
    ],
)
def test_all_who_are_shut_out_are_named(devices, line):
    assert str(ShutOut(devices)) == line
