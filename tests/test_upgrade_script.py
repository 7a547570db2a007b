"""The script that upgrades a device, with programs in place of systemctl and python3."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "deploy" / "slotwise-upgrade"
PYTHON = """\
#!/bin/bash
mkdir -p "$3/bin"
printf '#!/bin/bash\\ntest "$3" != broken-package && echo "$3" > "%s/package"\\n' "$3" > "$3/bin/pip"
chmod +x "$3/bin/pip"
"""
SYSTEMCTL = """\
#!/bin/bash
echo "$1 $(readlink "$SLOTWISE_ROOT/slotwise")" >> "$SLOTWISE_ROOT/calls"
test ! -e "$SLOTWISE_ROOT/slotwise/does-not-start"
"""


class Machine:
    """A device with its programs."""

    def __init__(self, root: Path) -> None:
        self.root = root / "opt"
        programs = root / "bin"
        for folder in (programs, self.root / "slotwise"):
            folder.mkdir(parents=True)
        for name, text in (("python3", PYTHON), ("systemctl", SYSTEMCTL)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self._environment = {"PATH": f"{programs}:{os.environ['PATH']}", "SLOTWISE_ROOT": str(self.root)}

    def upgrade(self, *arguments: str) -> int:
        command = [str(SCRIPT), *arguments]
        done = subprocess.run(
            command, check=False, env={**os.environ, **self._environment}, capture_output=True
        )
        return done.returncode

    @property
    def version(self) -> str:
        return str((self.root / "slotwise").readlink())

    @property
    def calls(self) -> list[str]:
        path = self.root / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_version_is_installed_beside_the_one_in_use_and_back(machine: Machine) -> None:
    assert machine.upgrade("0.2.0", "slotwise-device==0.2.0") == 0
    assert machine.version == "slotwise-0.2.0"
    assert (machine.root / "slotwise" / "package").read_text() == "slotwise-device==0.2.0\n"
    assert machine.upgrade("0.3.0", "slotwise-device==0.3.0") == 0
    assert machine.upgrade("--back") == 0
    assert machine.version == "slotwise-0.2.0"
    assert machine.upgrade("--back") == 1  # neither further nor forth
    assert machine.version == "slotwise-0.2.0"
    assert "restart slotwise-0.3.0" in machine.calls
    assert (machine.root / "slotwise-first").is_dir()


def test_the_first_installation_is_what_the_first_upgrade_goes_back_to(machine: Machine) -> None:
    assert machine.upgrade("0.2.0", "package") == 0
    assert machine.upgrade("--back") == 0
    assert machine.version == "slotwise-first"


def test_a_package_that_cannot_be_installed_changes_nothing(machine: Machine) -> None:
    machine.upgrade("0.2.0", "package")
    calls = machine.calls
    assert machine.upgrade("0.3.0", "broken-package") != 0
    assert (machine.version, machine.calls) == ("slotwise-0.2.0", calls)
    assert machine.upgrade("0.3.0", "package") == 0  # what was half installed is made anew
    assert machine.version == "slotwise-0.3.0"


def test_units_that_do_not_start_bring_the_version_before_back(machine: Machine) -> None:
    machine.upgrade("0.2.0", "package")
    broken = machine.root / "slotwise-0.3.0"
    broken.mkdir()
    for name in ("installed", "does-not-start"):
        (broken / name).touch()
    assert machine.upgrade("0.3.0", "package") == 1
    assert machine.version == "slotwise-0.2.0"
    assert machine.calls[-1] == "--quiet slotwise-0.2.0"  # is-active


def test_the_version_in_use_is_not_restarted(machine: Machine) -> None:
    machine.upgrade("0.2.0", "package")
    calls = machine.calls
    assert machine.upgrade("0.2.0", "package") == 0
    assert machine.calls == calls


@pytest.mark.parametrize("arguments", [(), ("0.2.0",), ("../0.2.0", "package"), ("previous", "package")])
def test_what_is_no_version_is_refused(machine: Machine, arguments: tuple[str, ...]) -> None:
    assert machine.upgrade(*arguments) == 2
    assert not (machine.root / "slotwise").is_symlink()


def test_without_a_version_before_there_is_no_way_back(machine: Machine) -> None:
    assert machine.upgrade("--back") == 1
