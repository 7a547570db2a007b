"""The notebooks under examples/ run from a clean kernel, and are stored with the outputs that this gives."""

from pathlib import Path
from typing import Any

import pytest
from notebooks import NOTEBOOKS, execute, kinds, texts
from python_blocks import unprinted

nbformat = pytest.importorskip("nbformat")
MOST_BYTES = 600_000


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_valid_small_and_stored_with_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert any("image/png" in kind for cell in cells for output in kinds(cell) for kind in output)
    assert path.stat().st_size < MOST_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_outputs_of_a_notebook_are_current(path: Path, tmp_path: Path) -> None:
    """Numbers with a decimal point may differ a little between machines, pictures in their pixels."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("torch")
    now = execute(path, tmp_path)  # a cell that fails raises its error
    for stored, new in zip(code_cells(nbformat.read(path, as_version=4)), code_cells(now), strict=True):
        hint = f"run: python tests/docs/notebooks.py {path}"
        assert kinds(stored) == kinds(new), hint
        assert unprinted(texts(stored), texts(new)) == [] == unprinted(texts(new), texts(stored)), hint
        assert not [output for output in new.outputs if output.get("name") == "stderr"]  # no warnings
