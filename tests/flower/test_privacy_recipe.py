"""The accountant of the privacy recipe agrees with its formula.

dp-accounting needs an older attrs than the main environment has, so it is installed in that of Flower.
"""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs/cookbook/privacy.md"


def functions() -> dict[str, Any]:
    """Run the blocks of the page that define the formula and the accountant."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    values: dict[str, Any] = {}
    for block in blocks:
        if "def epsilon" in block or "import dp_accounting" in block:
            exec(block, values)
    return values


def test_it_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    functions()
    printed = capsys.readouterr().out.strip()
    assert printed == "ε = 4.38 and 4.84"
    assert f"# {printed}\n" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("updates", "noise", "delta"), [(1, 1.0, 1e-5), (16, 4.0, 1e-5), (19, 4.0, 1e-6), (400, 30.0, 1e-5)]
)
def test_formula_and_accountant_agree(updates: int, noise: float, delta: float) -> None:
    of_page = functions()
    known = of_page["epsilon"](updates, noise, delta)
    assert of_page["accounted"](updates, noise, delta) == pytest.approx(known, rel=2e-3)
