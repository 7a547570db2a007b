"""Flower without telemetry. Where it is not installed, the tests of this folder do not exist."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
if find_spec("flwr") is None and not os.environ.get("SLOTWISE_REQUIRE_FLOWER"):
    collect_ignore_glob = ["test_*.py"]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(params=["flower_numpy", "flower_pytorch"])
def example(request: pytest.FixtureRequest) -> Path:
    return EXAMPLES / str(request.param)


@pytest.fixture
def numpy_example() -> Path:
    return EXAMPLES / "flower_numpy"
