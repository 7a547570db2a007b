"""Time from an input in the explorer until it is redrawn, in headless Chromium, and the size of the page.

The figures in docs/explorer.md.

    python benchmarks/explorer.py [--repeats 15]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/web"))

from browser import Browser, Page
from serving import served

from slotwise.web.explorer_app import Explorer
from slotwise.web.page_files import file_names, read

SIZES = tuple(range(5, 28))
UNEQUAL = "devices=100&deadline=5000&compute_distribution=two-classes:25:100:0.3&uplink_loss=0.1"
# Address, the option that is changed, and its values. Other options than the group size change all curves.
CASES: dict[str, tuple[str, str, Sequence[float]]] = {
    "100 equal devices": ("devices=100&deadline=5000", "group_size", SIZES),
    "100 equal devices, 50,000 slots": ("devices=100&deadline=50000", "group_size", SIZES),
    "100 devices of two classes, uplink losses": (UNEQUAL, "group_size", SIZES),
    "10,000 equal devices, 50,000 slots": ("devices=10000&deadline=50000", "group_size", range(90, 113)),
    "100 equal devices: compute slots": ("devices=100&deadline=5000", "compute_slots", range(51, 74)),
    "100 devices of two classes: uplink loss": (UNEQUAL, "uplink_loss", [k / 100 for k in range(11, 34)]),
}


def redraw(page: Page, name: str, value: float) -> tuple[float, float]:
    """Milliseconds until cards and chart are redrawn, and until the curves over all group sizes are too."""
    first, whole = page.run(
        "new Promise(done => { const began = performance.now(); "
        f"sw.form.give('{name}', '{value}'); "
        f"const look = () => {{ if (sw.view.{name} === {value}) requestAnimationFrame(() => {{ "
        "const first = performance.now() - began; "
        "sw.settled().then(() => done([first, performance.now() - began])); }); "
        "else requestAnimationFrame(look); }; look(); })"
    )
    return first, whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15, help="changes in each row (default 15)")
    repeats = parser.parse_args().repeats
    shown = Table("", "chart and figures, ms: best, median, worst", "and all group sizes")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(Path(folder) / "profile")
        try:
            with served(Explorer(None, Path(folder) / "runs").app) as server:
                for name, (query, option, values) in CASES.items():
                    with browser.page(f"{server.address}?{query}") as page:
                        for value in values[:3]:  # what is computed for the first time
                            redraw(page, option, value)
                        again = [values[3 + k % (len(values) - 3)] for k in range(repeats)]
                        times = [redraw(page, option, value) for value in again]
                    cells = (
                        f"{min(column):.0f}, {statistics.median(column):.0f}, {max(column):.0f}"
                        for column in zip(*times, strict=True)
                    )
                    shown.add_row(name, *cells)
        finally:
            browser.close()
    Console().print(shown)
    print(
        f"page: {sum(len(read(name).encode()) for name in file_names()):,} bytes in {len(file_names())} files"
    )


if __name__ == "__main__":
    main()
