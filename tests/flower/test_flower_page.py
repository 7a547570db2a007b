"""The Python blocks of docs/flower.md run one after another, and give what they say."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/flower.md"


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
def test_the_blocks_of_the_page_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    executed = [block for block in blocks if "@app.main" not in block]  # which needs a SuperLink
    assert len(executed) >= 2
    values: dict[str, object] = {}
    for block in executed:
        exec(block, values)
        for expression, shown in re.findall(r"^(\S.*?)  # (\(.*\))$", block, re.MULTILINE):
            assert repr(eval(expression, values)) == shown
