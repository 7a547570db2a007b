"""The blocks of docs/guide.md run one after another, as cells of a notebook do, and give what they say."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

PAGE = Path(__file__).parents[1] / "docs/guide.md"
TEXT = PAGE.read_text(encoding="utf-8")
VALUE = re.compile(r"^(\S.*?)  # ([(\['].*|True)$", re.MULTILINE)


def _blocks() -> list[tuple[int, str]]:
    """Return the Python blocks and the lines of the page on which they start."""
    found = re.finditer(r"```python\n(.*?)```", TEXT, re.DOTALL)
    return [(TEXT.count("\n", 0, block.start(1)), block.group(1)) for block in found]


def _table(text: str) -> dict[str, tuple[object, ...]]:
    """Return the figures of the comparison by schedule; losses differ a little between machines."""
    rows = re.findall(r"^(async|idfl|sync) +(\d+) +([\d.]+) +([\d.]+) +(\d+)%$", text, re.MULTILINE)
    assert len(rows) == 3
    return {
        name: (rounds, staleness, pytest.approx(float(loss), abs=0.1), pytest.approx(int(accuracy), abs=5))
        for name, rounds, staleness, loss, accuracy in rows
    }


@pytest.mark.slow
def test_every_block_of_the_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    for line, block in _blocks():
        exec(compile("\n" * line + block, PAGE, "exec"), vars(main))
        for expression, shown in VALUE.findall(block):
            assert repr(eval(expression, vars(main))) == shown
    assert _table(capsys.readouterr().out) == _table(TEXT)
    last_results = vars(main)["result"], vars(main)["batch"]
    assert [last_results[0].status, last_results[1].is_finished] == ["finished", True]
    pictures = {path.name for path in tmp_path.iterdir() if path.suffix in {".png", ".pdf", ".svg"}}
    assert pictures == {"local-training.png", "idfl.pdf", "schedule.svg", "batch.png"}


def test_the_table_of_contents_names_every_section() -> None:
    anchors = set(re.findall(r"\]\(#([\w-]+)\)", TEXT))
    headings = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert anchors == made
