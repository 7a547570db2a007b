"""A ClientApp as a task: pure, with a state per device, and the same bits for any number of workers."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ArrayRecord, MetricRecord
from flwr.clientapp import ClientApp

from slotwise import InputError, Scenario, TrainingStart, UserError, flower_task, resume, run, simulate, train
from slotwise.learning import History
from slotwise.learning.engine import TrainingObserver
from slotwise.runs import RunConfig
from slotwise.runs.checkpoints import Checkpoints

MakeProject = Callable[..., Path]
SCENARIO = Scenario(devices=4, group_size=2, compute_slots=3)


class StopAfter(TrainingObserver):
    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def round_done(self, round_number: int) -> None:
        self.left -= 1

    def wants_stop(self) -> bool:
        return self.left <= 0


def same(one: History, other: History) -> bool:
    """Compare everything that a checkpoint keeps."""
    states = [
        {n: {k: a.tolist() for k, a in s.items()} for n, s in h.device_states.items()} for h in (one, other)
    ]
    points = [[(p.slot, p.round, p.loss, p.metrics) for p in h.points] for h in (one, other)]
    return np.array_equal(one.model, other.model) and states[0] == states[1] and points[0] == points[1]


def test_arrays_keep_their_names_shapes_and_types(make_project: MakeProject) -> None:
    task = flower_task(make_project(), devices=4)
    arrays = task.named_arrays(task.initial_model())
    assert {name: array.shape for name, array in arrays.items()} == {"0": (2, 3), "1": (1,)}
    update = task.local_update(task.initial_model(), TrainingStart(1, 0)).update
    assert update[-1] == -2  # whole numbers travel as numbers


def test_a_call_is_a_function_of_its_arguments(make_project: MakeProject) -> None:
    task = flower_task(make_project(), devices=4, seed=3)
    model = task.initial_model()
    first = task.local_update(model, TrainingStart(2, 0, 4))
    random.seed(9)
    before = random.getstate(), np.random.get_state()[1].tolist()
    again = task.local_update(model, TrainingStart(2, 0, 4))
    assert np.array_equal(first.update, again.update)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    other = task.local_update(model, TrainingStart(2, 1, 4))
    assert not np.array_equal(first.update, other.update)
    assert first.samples == 20
    assert first.metrics == {"trainings": 1.0, "round": 5.0}


def test_the_state_of_a_device_goes_into_its_next_training(make_project: MakeProject) -> None:
    task = flower_task(make_project(), devices=4)
    model = task.initial_model()
    first = task.local_update(model, TrainingStart(1, 0))
    second = task.local_update(model, TrainingStart(1, 1, state=first.state))
    assert second.metrics["trainings"] == 2
    found = task.evaluate_devices(model, {1: first.state, 2: second.state})
    assert found.metrics == {"seen": pytest.approx((1 * 1 + 2 * 2) / 10)}
    assert found.accuracy == pytest.approx((2 * 0.25 + 3 * 0.5 + 4 * 0.75) / 10)


@pytest.mark.parametrize("policy", ["sync", "async", "idfl"])
def test_any_number_of_workers_gives_the_same_bits(make_project: MakeProject, policy: str) -> None:
    task = flower_task(make_project(), devices=4)
    timeline = simulate(SCENARIO, policy, rounds=6)
    one = train(timeline, task, aggregation="fedavg", evaluate_every=5)
    three = train(timeline, task, aggregation="fedavg", evaluate_every=5, workers=3)
    assert same(one, three)
    trainings = np.bincount(timeline.device, minlength=5)[1:]
    assert one.points[-1].metrics["seen"] == pytest.approx(trainings @ [1, 2, 3, 4] / 10)


def test_states_are_part_of_a_checkpoint(make_project: MakeProject, tmp_path: Path) -> None:
    task, timeline = flower_task(make_project(), devices=4), simulate(SCENARIO, "async", rounds=8)
    whole = train(timeline, task, evaluate_every=5)
    first = train(timeline, task, evaluate_every=5, observer=StopAfter(3))
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.save(first)
    loaded, _ = checkpoints.load()
    assert loaded is not None
    assert same(first, loaded)
    resumed = train(timeline, task, evaluate_every=5, resume=loaded)
    assert np.array_equal(whole.model, resumed.model)
    assert whole.points[-1] == resumed.points[-1]


def test_a_run_in_a_folder_is_resumed(make_project: MakeProject, tmp_path: Path) -> None:
    options = {"flower_app": str(make_project()), "devices": 4, "group_size": 2, "deadline": 60}
    config = RunConfig.from_options({**options, "compute_slots": 3, "bits": 8, "schedule": "async"})
    whole = run(config, tmp_path / "whole", workers=1)
    run(config, tmp_path / "parts", workers=1, observer=StopAfter(3))
    resumed = resume(tmp_path / "parts", workers=2)
    assert same(whole.history, resumed.history)


def test_a_seed_of_the_model_draws_another_first_model(make_project: MakeProject) -> None:
    folder = make_project()
    first, same_seed = flower_task(folder, devices=4), flower_task(folder, devices=4)
    other = flower_task(folder, devices=4, model_seed=1)
    assert np.array_equal(first.initial_model(), same_seed.initial_model())
    assert not np.array_equal(first.initial_model(), other.initial_model())


def test_the_configuration_of_the_app_can_be_changed(make_project: MakeProject) -> None:
    folder = make_project()
    updates = [
        flower_task(folder, devices=4, run_config=given).local_update(
            np.ones(7, dtype=np.float32), TrainingStart(1, 0)
        )
        for given in ("rate=0.25", {"rate": 0.25}, None)
    ]
    assert np.array_equal(updates[0].update, updates[1].update)
    assert not np.array_equal(updates[0].update, updates[2].update)


def test_an_app_object_and_a_server_side_evaluation() -> None:
    app = ClientApp()

    @app.train()
    def train_app(message, context):  # type: ignore[no-untyped-def]
        from flwr.app import Message, RecordDict

        arrays = ArrayRecord([array + 1 for array in message.content["arrays"].to_numpy_ndarrays()])
        metrics = MetricRecord({"num-examples": 5})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        return MetricRecord(
            {"loss": float(arrays.to_numpy_ndarrays()[0].sum()), "accuracy": 0.5, "train_loss": 1}
        )

    task = flower_task(app, devices=4, arrays=ArrayRecord([np.zeros((2, 2))]), evaluate=evaluate)
    history = train(simulate(SCENARIO, "sync", rounds=2), task, workers=2)
    assert history.points[-1].loss == 8
    assert history.points[-1].metrics == {"client/train_loss": 1.0}
    with pytest.raises(InputError, match="arrays"):
        flower_task(app, devices=4)


WRONG_CLIENTS = {
    "raises": ("raise ValueError('no data')", "ValueError: no data"),
    "no message": ("return None", "must return a Message"),
    "no num-examples": (
        "return Message(RecordDict({'a': message.content['arrays'], "
        "'m': MetricRecord({'x': 1})}), reply_to=message)",
        "num-examples",
    ),
    "wrong shape": (
        "return Message(RecordDict({'a': ArrayRecord([np.zeros((3, 2)), np.zeros(1)]), "
        "'m': MetricRecord({'num-examples': 1})}), reply_to=message)",
        r"\[2, 3\] and returned as \[3, 2\]",
    ),
    "other arrays": (
        "return Message(RecordDict({'a': ArrayRecord([np.zeros((2, 3))]), "
        "'m': MetricRecord({'num-examples': 1})}), reply_to=message)",
        "without 1",
    ),
    "no arrays": (
        "return Message(RecordDict({'m': MetricRecord({'num-examples': 1})}), reply_to=message)",
        "one ArrayRecord",
    ),
}


@pytest.mark.parametrize("name", list(WRONG_CLIENTS))
@pytest.mark.parametrize("workers", [1, 2])
def test_a_wrong_reply_is_one_clear_line(
    make_project: MakeProject, name: str, workers: int, client_source: str
) -> None:
    body, expected = WRONG_CLIENTS[name]
    source = client_source.replace(
        "def train(message, context):\n", f"def train(message, context):\n    {body}\n"
    )
    task = flower_task(make_project(client=source), devices=4)
    with pytest.raises(UserError, match=expected) as raised:
        train(simulate(SCENARIO, "async", rounds=2), task, workers=workers)
    assert "\n" not in str(raised.value)
    assert "device" in str(raised.value)


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("app = 3", "must be a ClientApp"),
        ("from flwr.clientapp import ClientApp\napp = ClientApp(lambda context: None)", "client_fn"),
    ],
    ids=["no app", "client_fn"],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_wrong_client_app_is_one_clear_line(make_project: MakeProject, client: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected) as raised:
        flower_task(make_project(client=client), devices=4)
    assert "\n" not in str(raised.value)


def test_a_run_with_a_wrong_app_leaves_nothing_behind(
    make_project: MakeProject, tmp_path: Path, client_source: str
) -> None:
    source = client_source.replace('"eval_loss"', '"something"')
    options = {"flower_app": str(make_project(client=source)), "devices": 4, "group_size": 2, "deadline": 90}
    with pytest.raises(InputError, match="ends in loss") as raised:
        run(RunConfig.from_options(options), tmp_path / "run")
    assert raised.value.parameter == "flower_evaluate"
    assert not (tmp_path / "run").exists()


def test_the_examples_train_under_every_schedule(example: Path) -> None:
    task = flower_task(example, devices=4)
    for policy in ("sync", "async", "idfl"):
        history = train(simulate(SCENARIO, policy, rounds=3), task, aggregation="fedavg", evaluate_every=6)
        assert history.rounds == 3
        assert np.isfinite(history.loss).all()
