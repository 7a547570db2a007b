"""Scripts that no test runs import names of slotwise that exist."""

import ast
import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted([*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "docs").rglob("*.py")])


def imported(script: Path) -> list[tuple[str, str]]:
    """Return the modules of slotwise and the names that a script takes from them."""
    nodes = ast.walk(ast.parse(script.read_text(encoding="utf-8")))
    wanted = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return [
        (str(node.module), alias.name)
        for node in wanted
        for alias in node.names
        if str(node.module).split(".")[0] == "slotwise"
    ]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_script_imports_exists(script: Path) -> None:
    for module, name in imported(script):
        exists = hasattr(importlib.import_module(module), name) or find_spec(f"{module}.{name}")
        assert exists, f"{module} has no {name}"
