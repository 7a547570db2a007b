"""Python blocks of pages: running them, and checking the values and the output that a page shows."""

import ast
import doctest
import re
from math import inf
from types import ModuleType

from doc_pages import Block

VALUE = re.compile(r"^(\S.*?)  # ([(\['].*|True)$", re.MULTILINE)
# A number that may differ a little between machines: it has a decimal point or is in percent.
_MEASURED = re.compile(r"(?<![\w.])[-−]?\d+(?:\.\d+|(?=%))")
TOLERANCE = 0.05


def run_code(block: Block, main: ModuleType) -> None:
    """Run a block, and compare the values in its comments."""
    exec(compile("\n" * block.line + block.text, block.page, "exec"), vars(main))
    for expression, shown in VALUE.findall(block.text):
        assert repr(eval(expression, vars(main))) == shown, f"{block.place}: {expression}"


def run_session(block: Block, main: ModuleType) -> None:
    """Run a block with prompts of Python, and compare what it prints."""
    test = doctest.DocTestParser().get_doctest(
        block.text, vars(main), block.place, str(block.page), block.line
    )
    result = doctest.DocTestRunner().run(test, clear_globs=False)
    vars(main).update(test.globs)
    assert result.attempted > 0
    assert result.failed == 0


def import_only(block: Block) -> None:
    """Parse a block and make its imports."""
    tree = ast.parse(block.text)
    tree.body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    exec(compile(tree, block.page, "exec"), {})


def unprinted(shown: str, printed: str) -> list[str]:
    """Return the lines that a page shows and nothing printed; some that were printed may be left out.

    Words and whole numbers must be the same. Spaces do not count, because tables get wider or narrower.
    """
    candidates = [_parts(line) for line in printed.splitlines()]
    wanted = [line for line in shown.splitlines() if line.strip() not in {"", "...", "…"}]
    return [line for line in wanted if not any(_is_close(_parts(line), other) for other in candidates)]


def _parts(line: str) -> tuple[list[str], list[float]]:
    """Return the words of a line and its measured numbers."""
    numbers = [float(number.replace("−", "-")) for number in _MEASURED.findall(line)]
    return _MEASURED.sub("NUMBER", line).split(), numbers


def _is_close(shown: tuple[list[str], list[float]], printed: tuple[list[str], list[float]]) -> bool:
    numbers = zip(shown[1], printed[1], strict=True) if shown[0] == printed[0] else [(0.0, inf)]
    return all(abs(one - other) <= TOLERANCE * max(1, abs(one)) for one, other in numbers)
