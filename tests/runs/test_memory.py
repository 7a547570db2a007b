"""Runs that need more memory than there is are refused, with the option to blame."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.base.errors import InputError
from slotwise.runs import RunConfig, execution

HUGE = 10**9


@pytest.mark.parametrize(
    ("options", "blamed"),
    [
        ({"hidden": [4000]}, "hidden"),
        ({"network": "mlp", "hidden": [4000]}, "hidden"),
        ({"channels": [500, 500], "hidden": [], "batch_size": 1}, "channels"),
        ({"channels": [], "hidden": []}, "network"),
        ({"network": "logistic"}, "network"),
        ({"network": "resnet8-gn", "backend": "torch", "batch_size": 1}, "network"),
        ({"samples_per_device": HUGE, "batch_size": 1}, "samples_per_device"),
        ({"device_samples": [HUGE] * 100, "batch_size": 1}, "device_samples"),
        (
            {"data": "femnist", "partition": "natural", "devices": HUGE, "network": "logistic"},
            "devices",
        ),
        ({"batch_size": HUGE, "samples_per_device": HUGE // 1000}, "batch_size"),
        ({"local_steps": HUGE}, "local_steps"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else str(value),
)
def test_the_option_to_blame_is_one_that_can_be_given(
    options: dict[str, Any], blamed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "total_memory", lambda: 1)
    monkeypatch.setattr(execution, "available_cores", lambda: 1)
    config = RunConfig.from_options(options)
    with pytest.raises(InputError) as refused:
        execution.refuse_too_much_memory(config)
    assert refused.value.parameter == blamed
    assert blamed not in config.without_effect()


def test_the_samples_of_a_data_folder_are_blamed_on_it(tmp_path: Path) -> None:
    for name in ("device-1", "test"):
        np.savez(tmp_path / f"{name}.npz", x=np.zeros((4, 1, 8, 8), np.uint8), y=np.arange(4))
    config = RunConfig.from_options({"data_folder": str(tmp_path), "group_size": 1, "network": "logistic"})
    assert {"data_folder", "network"} < {*execution.memory_needed(config, 1)}


def test_the_paper_s_cases_fit() -> None:
    for data in ("mnist", "cifar10"):
        execution.refuse_too_much_memory(RunConfig.from_options({"data": data}))
