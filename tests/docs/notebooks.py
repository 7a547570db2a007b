"""Notebooks under examples/. `python tests/docs/notebooks.py` runs them and stores their outputs."""

import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
# Settings and history of the user's own Jupyter must not matter, nor the kernel write to them.
JUPYTER_FOLDERS = ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")


def execute(path: Path, folder: Path) -> Any:
    """Run a notebook from a clean kernel in a new folder, and return it with its outputs."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    work = folder / "work"
    work.mkdir()
    before = {name: os.environ.get(name) for name in JUPYTER_FOLDERS}
    os.environ.update({name: str(folder / name.lower()) for name in JUPYTER_FOLDERS})
    try:
        resources = {"metadata": {"path": str(work)}}
        NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    return notebook


def store(path: Path) -> None:
    """Run a notebook and write it with its outputs, without what differs from run to run."""
    import nbformat

    with TemporaryDirectory() as folder:
        notebook = execute(path, Path(folder))
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata = {}
    nbformat.write(notebook, path)


def texts(cell: Any) -> str:
    """Return the text that a cell printed, or that a reader sees as its value; a picture has none."""
    return "\n".join(output.get("text", "") + _seen(output.get("data", {})) for output in cell.outputs)


def _seen(data: dict[str, str]) -> str:
    if "image/png" in data:
        return ""
    html = re.sub(r"<style.*?</style>", "", data.get("text/html", ""), flags=re.DOTALL)
    return re.sub(r"<[^>]+>", " ", html.replace("\n", " ").replace("</tr>", "\n")) or data.get(
        "text/plain", ""
    )


def kinds(cell: Any) -> list[list[str]]:
    """Return the kinds of the outputs of a cell, such as image/png."""
    return [sorted(output.get("data", {output.get("name"): ""})) for output in cell.outputs]


if __name__ == "__main__":
    for path in [Path(name) for name in sys.argv[1:]] or NOTEBOOKS:
        store(path)
        print(f"stored the outputs of {path}")
