from pathlib import Path

import pytest

from slotwise.base.errors import UserError
from slotwise.cli.flags import run_flags
from slotwise.runs.toml_options import file_options, read_toml

ONLY_IN_FILES = {
    *("group_size_changes", "batch_size_changes", "compute_changes"),
    *("device_compute_slots", "device_link_slots", "absences", "device_uplink_loss"),
    *("windows", "window_offsets", "owned_slots"),
    *("device_battery_joules", "device_harvest_joules", "harvest_trace"),
    *("radio_distances_m", "radio_schemes"),
    *("device_computing_joules", "device_sending_joules"),
}


def test_a_file_may_have_what_flags_may_have_and_lists_of_devices() -> None:
    assert set(file_options()) == {flag.name for flag in run_flags()} | ONLY_IN_FILES


@pytest.mark.parametrize(
    ("key", "suggested"),
    [("groupsize", "group-size"), ("group-sise", "group-size"), ("group_sise", "group_size")],
)
def test_a_suggestion_is_written_as_in_the_documentation_or_as_the_key(
    key: str, suggested: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.toml"
    path.write_text(f"{key} = 3\n")
    with pytest.raises(UserError, match=f"unknown option {key}: did you mean {suggested}\\?"):
        read_toml(path)


@pytest.mark.parametrize("line", ["folder-shape = [1, 8, 8]", "folder_classes = 3"])
def test_facts_of_a_data_folder_are_no_options(line: str, tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(f'data-folder = "samples"\n{line}\n')
    with pytest.raises(UserError, match=f"unknown option {line.split(maxsplit=1)[0]}"):
        read_toml(path)


@pytest.mark.parametrize("line", ["workers = 2", 'track = "tensorboard"', "checkpoint_every = 3"])
def test_a_flag_that_a_file_cannot_have_is_named_as_a_flag(line: str, tmp_path: Path) -> None:
    path, name = tmp_path / "run.toml", line.split(maxsplit=1)[0]
    path.write_text(f"{line}\n")
    with pytest.raises(UserError, match=f"unknown option {name}: .*--{name.replace('_', '-')}$"):
        read_toml(path)
