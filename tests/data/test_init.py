import subprocess
import sys

import slotwise.data


def test_importing_brings_no_slow_package() -> None:
    program = (
        "import sys, slotwise; before = set(sys.modules); import slotwise.data;"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    brought = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert not {"pooch", "PIL", "matplotlib", "rich", "requests"} & set(brought.split())


def test_every_public_name_is_there() -> None:
    assert all(hasattr(slotwise.data, name) for name in slotwise.data.__all__)
