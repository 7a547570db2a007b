"""The Scheduler on nodes, in memory with a grid of this process."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Error, Message

from slotwise import RunConfig, Scenario, UserError, flower_task, train
from slotwise.aggregation import Vector
from slotwise.flower import NodesOutcome, SlotGrid, node_server, serve
from slotwise.flower.node_server import MOST_FAILURES
from slotwise.flower.node_task import NodeTask
from slotwise.flower.project import FlowerProject
from slotwise.learning import TrainingStart
from slotwise.live.server import live_run
from slotwise.live.server.events import LiveObserver
from slotwise.runs import RunFolder

OPTIONS = {"devices": 3, "group_size": 1, "compute_slots": 4, "aggregation": "fedavg"}


class Notices(LiveObserver):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def notice(self, message: str) -> None:
        self.lines.append(message)


class Nodes(SlotGrid):
    """Three nodes; node 2 fails with its message number ``when``: it answers wrongly, or never again."""

    def __init__(self, example: Path, kind: str = "none", when: int = 2) -> None:
        project, scenario = FlowerProject.read(example), Scenario(devices=3, group_size=1, compute_slots=4)
        super().__init__(project.load("clientapp"), scenario, run_config=project.run_config)
        self.kind, self.left = kind, when

    def get_node_ids(self):  # type: ignore[no-untyped-def]
        return [1, 3] if self.kind == "leaves" and self.left <= 0 else [1, 2, 3]

    def _call(self, message: Message) -> Message:
        if message.metadata.dst_node_id == 2 and message.metadata.message_type == "train":
            self.left -= 1
            if self.left <= 0 and self.kind == "error":
                return Message(Error(0, "out of memory"), reply_to=message)
        return super()._call(message)

    def pull_messages(self, message_ids):  # type: ignore[no-untyped-def]
        wanted = list(message_ids)
        if self.left <= 0 and self.kind in ("leaves", "silent"):
            wanted = [i for i in wanted if i in self._replies and self._replies[i].metadata.src_node_id != 2]
        return super().pull_messages(wanted)


def serve_async(grid: SlotGrid, out: Path, deadline: int = 40, **options: Any) -> NodesOutcome:
    """Train the app of examples/flower_numpy, by default with an evaluation of the server."""
    given = {"evaluate_fn": lambda number, arrays: {"loss": 1.0}, "train_config": {"lr": 0.02}, **options}
    config = {**OPTIONS, "schedule": "async", "deadline": deadline}
    return serve(grid, config, arrays=ArrayRecord([np.zeros(8), np.zeros(1)]), out=out, **given)


@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
def test_nodes_give_the_models_of_the_simulation(example: Path, tmp_path: Path, schedule: str) -> None:
    task, notices = flower_task(example, devices=3), Notices()
    options = {**OPTIONS, "schedule": schedule, "deadline": 24, "evaluate_every": 12}
    config = RunConfig.from_options(options)
    kind = np.float64 if example.name == "flower_numpy" else np.float32
    first = {n: Array(a.astype(kind)) for n, a in task.named_arrays(task.initial_model()).items()}
    rate = FlowerProject.read(example).run_config["learning-rate"]
    outcome = serve(
        Nodes(example),
        config,
        arrays=ArrayRecord(first),
        train_config={"lr": rate},
        out=tmp_path / "run",
        observer=notices,
    )
    expected = train(config.simulate(), task, aggregation="fedavg")
    assert outcome.live.status == "finished"
    assert outcome.live.comparison is not None
    assert outcome.live.comparison.first_difference is None
    model = np.concatenate([array.numpy().ravel() for array in outcome.arrays.values()])
    assert model == pytest.approx(expected.model, rel=1e-4, abs=1e-5)
    messages = json.loads((tmp_path / "run" / "messages.json").read_text())
    assert messages["messages"] >= len(config.simulate())
    assert messages["unanswered"] == 0
    assert any("slots of" in line for line in notices.lines)


@pytest.mark.parametrize("kind", ["error", "leaves", "silent"])
def test_a_failing_node_leaves_and_the_others_go_on(numpy_example: Path, tmp_path: Path, kind: str) -> None:
    notices = Notices()
    grid = Nodes(numpy_example, kind)
    outcome = serve_async(grid, tmp_path / "run", message_timeout=2.0, observer=notices)
    assert outcome.live.status == "finished"
    senders = [uplink[1] for uplink in outcome.live.state.record.uplinks]
    assert senders.count(2) == 1
    assert any("device 2 has left" in line for line in notices.lines)
    failures = sum("out of memory" in line for line in notices.lines)
    assert failures == (MOST_FAILURES if kind == "error" else 0)
    assert outcome.latency.unanswered == (0 if kind == "error" else 1)


def test_an_unexpected_error_of_a_device_makes_it_leave(
    numpy_example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = NodeTask.local_update

    def fail(self: NodeTask, model: Vector, start: TrainingStart) -> Vector:
        if start.device == 2 and start.training == 1:
            raise ZeroDivisionError("in a reply")
        return original(self, model, start)

    monkeypatch.setattr(NodeTask, "local_update", fail)
    monkeypatch.setattr(node_server, "REJOIN_DELAY", 0.0)
    notices = Notices()
    waits = {"message_timeout": 20.0, "timeout": 5.0}
    outcome = serve_async(Nodes(numpy_example), tmp_path / "run", observer=notices, **waits)
    assert outcome.live.status == "finished"
    failures = [line for line in notices.lines if "ZeroDivisionError: in a reply" in line]
    assert len(failures) == MOST_FAILURES
    assert all(line.startswith("device 2 has left") for line in failures)


def test_the_end_does_not_wait_for_trainings_on_the_last_model(numpy_example: Path, tmp_path: Path) -> None:
    rounds = RunConfig.from_options({**OPTIONS, "schedule": "async", "deadline": 24}).simulate().rounds

    class SilentAtTheEnd(Nodes):
        """No node answers to a train message with the last model."""

        def pull_messages(self, message_ids):  # type: ignore[no-untyped-def]
            last = str(rounds + 1)
            wanted = [i for i in message_ids if i in self._replies]
            return super().pull_messages([i for i in wanted if self._replies[i].metadata.group_id != last])

    outcome = serve_async(SilentAtTheEnd(numpy_example), tmp_path / "run", 24, message_timeout=20.0)
    assert outcome.live.status == "finished"
    assert outcome.latency.unanswered == 0  # nobody waited until it counts as lost


@pytest.mark.parametrize("evaluation", [{}, {"evaluate_fn": None}], ids=["evaluate_fn", "evaluate messages"])
@pytest.mark.parametrize(
    ("method", "call"), [("get_node_ids", 1), ("push_messages", 1), ("push_messages", 6)]
)
def test_a_lost_connection_to_flower_ends_the_run(
    numpy_example: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    call: int,
    evaluation: dict[str, Any],
) -> None:
    grid, left = Nodes(numpy_example), call
    original = getattr(grid, method)

    def lose(*arguments):  # type: ignore[no-untyped-def]
        nonlocal left
        left -= 1
        if left <= 0:
            raise ConnectionError("no route")
        return original(*arguments)

    monkeypatch.setattr(grid, method, lose)
    monkeypatch.setattr(live_run, "STOP_TIMEOUT", 0.0)
    with pytest.raises(UserError, match="connection to Flower failed: no route"):
        serve_async(grid, tmp_path / "run", 400, **evaluation)
    assert RunFolder.open(tmp_path / "run").status == "interrupted"


def test_a_run_is_resumed(numpy_example: Path, tmp_path: Path) -> None:
    class StopAfter(LiveObserver):
        rounds = 0

        def round_done(self, round_number: int) -> None:
            self.rounds += 1

        def wants_stop(self) -> bool:
            return self.rounds >= 3

    models = []
    for name, stopped in (("whole", False), ("parts", True), ("parts", False)):
        out = tmp_path / name
        how = {"observer": StopAfter() if stopped else None, "resume": out.exists()}
        outcome = serve_async(Nodes(numpy_example), out, 30, **how)
        models.append((outcome.live.status, outcome.arrays.to_numpy_ndarrays()))
    assert [status for status, _ in models] == ["finished", "interrupted", "finished"]
    assert all(np.array_equal(one, other) for one, other in zip(models[0][1], models[2][1], strict=True))


@pytest.mark.parametrize(
    "wrong",
    [
        {"config": {"scheduel": "async"}},
        {"config": {**OPTIONS, "uplink_loss": 0.1}},
        {"config": {**OPTIONS, "flower_app": "."}},
        {"message_timeout": 0},
        {"arrays": [1, 2]},
        {"slot_ms": -1},
    ],
    ids=str,
)
def test_wrong_arguments_write_nothing(numpy_example: Path, tmp_path: Path, wrong: dict[str, Any]) -> None:
    right = {"config": {**OPTIONS, "deadline": 30}, "arrays": ArrayRecord([np.zeros(8)])}
    with pytest.raises(UserError):
        serve(Nodes(numpy_example), out=tmp_path / "run", **{**right, **wrong})
    assert not (tmp_path / "run").exists()
