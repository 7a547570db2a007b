"""Flower without telemetry, and projects for the tests; most of these need it installed."""

import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
if find_spec("flwr") is None and not os.environ.get("SLOTWISE_REQUIRE_FLOWER"):
    tests = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    collect_ignore = sorted(tests - {"test_project.py"})

EXAMPLES = Path(__file__).parents[2] / "examples"
PYPROJECT = """
[tool.flwr.app.components]
serverapp = "{name}.server_app:app"
clientapp = "{name}.client_app:app"
[tool.flwr.app.config]
rate = 0.5
name = "plain"
nested.key = 3
"""
SERVER = """
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid, context):
    FedAvg(fraction_evaluate=1.0).start(
        grid=grid,
        initial_arrays=ArrayRecord([np.random.rand(2, 3), np.zeros(1, dtype=np.int64)]),
        train_config=ConfigRecord({"rate": context.run_config["rate"]}),
        evaluate_config=ConfigRecord({"part": "all"}),
        num_rounds=2,
    )
"""
CLIENT = """
import random

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message, context):
    first, second = message.content["arrays"].to_numpy_ndarrays()
    config = message.content["config"]
    first = first - config["rate"] * first + 0.01 * np.random.rand(2, 3) + 0.01 * random.random()
    memory = context.state.config_records.get("memory")
    trainings = memory["trainings"] + 1 if memory else 1
    context.state["memory"] = ConfigRecord({"trainings": trainings})
    metrics = {
        "trainings": trainings,
        "round": config["server-round"],
        "num-examples": 10 * (1 + context.node_config["partition-id"]),
    }
    arrays = ArrayRecord([first, second + 2])
    return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord(metrics)}), reply_to=message)


@app.evaluate()
def evaluate(message, context):
    assert message.content["config"]["part"] == "all"
    memory = context.state.config_records.get("memory")
    metrics = {
        "eval_loss": float(np.abs(message.content["arrays"].to_numpy_ndarrays()[0]).sum()),
        "eval_acc": context.node_config["partition-id"] / context.node_config["num-partitions"],
        "seen": memory["trainings"] if memory else 0,
        "list": [1.0, 2.0],
        "num-examples": 1 + context.node_config["partition-id"],
    }
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)
"""

MakeProject = Callable[..., Path]


@pytest.fixture
def make_project(tmp_path: Path) -> Iterator[MakeProject]:
    """Write a project whose package has a name of its own; its modules are forgotten at the end."""
    names: list[str] = []

    def make(client: str = CLIENT, server: str = SERVER, pyproject: str = PYPROJECT) -> Path:
        name = f"app{len(names)}_{abs(hash(str(tmp_path)))}"
        names.append(name)
        folder = tmp_path / name
        package = folder / name
        package.mkdir(parents=True)
        (folder / "pyproject.toml").write_text(pyproject.format(name=name))
        (package / "__init__.py").write_text("")
        (package / "server_app.py").write_text(server)
        (package / "client_app.py").write_text(client)
        return folder

    path = list(sys.path)
    yield make
    sys.path[:] = path
    for module in [module for module in sys.modules if module.partition(".")[0] in names]:
        del sys.modules[module]


@pytest.fixture(params=["flower_numpy", "flower_pytorch"])
def example(request: pytest.FixtureRequest) -> Path:
    return EXAMPLES / str(request.param)


@pytest.fixture
def numpy_example() -> Path:
    return EXAMPLES / "flower_numpy"


@pytest.fixture
def client_source() -> str:
    return CLIENT


@pytest.fixture
def server_source() -> str:
    return SERVER
