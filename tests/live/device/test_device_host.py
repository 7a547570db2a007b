"""Options of devices, and devices in one process."""

import pytest

from slotwise.errors import InputError
from slotwise.live.device.device_host import DeviceConfig, Excluded, run_device, run_fleet


@pytest.mark.parametrize("devices", [[5], [1, 2]])
def test_all_excluded_devices_are_named(devices):
    error = Excluded(devices)
    assert error.devices == tuple(devices)
    assert ", ".join(map(str, devices)) in str(error)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("timeout", -1.0),
        ("timeout", float("inf")),
        ("keepalive", 0),
        ("keepalive", 70_000),
        ("task", "nosuch"),
        ("task", "nosuch:make"),
    ],
)
def test_options_out_of_range_are_refused(option, value):
    with pytest.raises(InputError) as error:
        DeviceConfig(**{option: value})
    assert error.value.parameter == option


@pytest.mark.parametrize(
    ("parameter", "run"),
    [
        ("id", lambda: run_device(0)),
        ("devices", lambda: run_fleet(0)),
        ("devices", lambda: run_fleet(10_001)),
        ("first", lambda: run_fleet(1, first=0)),
        ("workers", lambda: run_fleet(1, workers=0)),
    ],
    ids=["id", "no devices", "too many devices", "first", "workers"],
)
def test_numbers_out_of_range_are_refused(parameter, run):
    with pytest.raises(InputError) as error:
        run()
    assert error.value.parameter == parameter
