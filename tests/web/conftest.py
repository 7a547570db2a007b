"""A server with the explorer and a browser, each started once."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # browser.py and serving.py

from browser import CHROMIUM, Browser
from serving import Served, served

from slotwise.web.explorer_app import Explorer


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None and not os.environ.get("SLOTWISE_REQUIRE_BROWSER"):
        pytest.skip("chromium is not installed")
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture
def explorer(tmp_path: Path) -> Iterator[Served]:
    """The explorer; its new runs are in tmp_path/runs."""
    with served(Explorer(None, tmp_path / "runs").app) as server:
        yield server
