"""SCAFFOLD and FedDyn: their formulas, on compiled networks and in torch; runs, messages and refusals."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.aggregation import Correction, FedDyn, Scaffold, Vector
from slotwise.base.errors import InputError, UserError
from slotwise.learning import Evaluation, Processes, Task, Training, TrainingStart, train
from slotwise.learning.drift_task import CONTROL, KEPT, DriftTask, for_rule
from slotwise.live.server.server_config import LivePlan
from slotwise.runs import RunConfig, SavedRun, resume, run
from slotwise.runs.execution import build_task, memory_needed
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate

DEVICES, SIZE, STEPS, RATE, ALPHA, SERVER_RATE = 6, 4, 3, 0.1, 0.5, 0.8
Array = NDArray[np.float64]
TINY = {"devices": 6, "group_size": 2, "compute_slots": 2, "deadline": 60, "network": "logistic"}
TINY |= {"samples_per_device": 20, "local_steps": 3}
everywhere = pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])


class Quadratics(Task):
    """Device n has the loss ‖A_n w − b_n‖²/2 and takes full-gradient steps."""

    def __init__(self) -> None:
        draw = np.random.default_rng(0)
        self.a, self.b = draw.normal(size=(DEVICES, SIZE, SIZE)) / 2, draw.normal(size=(DEVICES, SIZE))

    def initial_model(self) -> Vector:
        return np.ones(SIZE, np.float32)

    def gradient(self, device: int, w: Any) -> Any:
        return self.a[device - 1].T @ (self.a[device - 1] @ w - self.b[device - 1])

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        w = model
        for _ in range(STEPS):
            w = w - np.float32(RATE) * start.corrected(self.gradient(start.device, w).astype(np.float32), w)
        return model - w

    def evaluate(self, model: Vector) -> Evaluation:
        errors = self.a @ model - self.b
        return Evaluation(float((errors**2).sum()), float("nan"))


def senders(timeline: Timeline, k: int) -> list[tuple[int, int]]:
    """Return device and version of every uplink of a round."""
    rows = timeline.uplinks(k)
    return list(zip(timeline.device[rows].tolist(), timeline.version[rows].tolist(), strict=True))


def scaffold(task: Quadratics, timeline: Timeline) -> Array:
    """Algorithm 1 of SCAFFOLD with option II; a device has the c that was sent with its model."""
    x, c, own = [np.ones(SIZE)], [np.zeros(SIZE)], np.zeros((DEVICES + 1, SIZE))
    for k in range(timeline.rounds):
        moved: list[Array] = []
        changed: list[Array] = []
        for i, v in senders(timeline, k):
            y = x[v]
            for _ in range(STEPS):
                y = y - RATE * (task.gradient(i, y) - own[i] + c[v])
            new = own[i] - c[v] + (x[v] - y) / (STEPS * RATE)
            moved.append(y - x[v])
            changed.append(new - own[i])
            own[i] = new
        x.append(x[k] + SERVER_RATE * np.mean(moved, axis=0))
        c.append(c[k] + np.sum(changed, axis=0) / DEVICES)
    return np.concatenate([x[-1], c[-1]])


def feddyn(task: Quadratics, timeline: Timeline) -> Array:
    """Algorithm 1 of FedDyn, with gradient steps for its argmin."""
    x, h, g = [np.ones(SIZE)], np.zeros(SIZE), np.zeros((DEVICES + 1, SIZE))
    for k in range(timeline.rounds):
        ends = []
        for i, v in senders(timeline, k):
            y = x[v]
            for _ in range(STEPS):
                y = y - RATE * (task.gradient(i, y) - g[i] + ALPHA * (y - x[v]))
            g[i] = g[i] - ALPHA * (y - x[v])
            h = h - ALPHA / DEVICES * (y - x[v])
            ends.append(y)
        x.append(np.mean(ends, axis=0) - h / ALPHA)
    return x[-1]


@everywhere
@pytest.mark.parametrize(
    ("rule", "formula"),
    [(Scaffold(SERVER_RATE), scaffold), (FedDyn(ALPHA), feddyn)],
    ids=["scaffold", "feddyn"],
)
def test_models_follow_the_algorithm_of_the_paper(
    schedule: str, rule: Any, formula: Callable[[Quadratics, Timeline], Array]
) -> None:
    timeline = simulate(Scenario(devices=DEVICES, group_size=2, compute_slots=5), schedule, rounds=25)
    history = train(timeline, Quadratics(), aggregation=rule, workers=2)
    assert history.model == pytest.approx(formula(Quadratics(), timeline), rel=1e-3, abs=1e-4)


def test_they_end_where_the_mean_does_not() -> None:
    """On unequal data the optimum of all devices is a fixed point, and that of the mean is another."""
    task = Quadratics()
    best = np.linalg.lstsq(task.a.reshape(-1, SIZE), task.b.ravel(), rcond=None)[0]
    timeline = simulate(Scenario(devices=DEVICES, group_size=2, compute_slots=5), "sync", rounds=3000)
    rules: dict[str, Any] = {"mean": "mean", "scaffold": "scaffold", "feddyn": FedDyn(ALPHA)}
    models = {name: train(timeline, task, aggregation=rule).model[:SIZE] for name, rule in rules.items()}
    far = {name: float(np.abs(model - best).max()) for name, model in models.items()}
    assert far["scaffold"] < 1e-3
    assert far["feddyn"] < 1e-3
    assert far["mean"] > 1e-2


def starts(kept: Vector) -> Sequence[TrainingStart]:
    return [TrainingStart(device, 0, state={KEPT: kept}) for device in (1, 2)]


@pytest.mark.parametrize("rule", [Scaffold(), FedDyn(ALPHA)], ids=["scaffold", "feddyn"])
def test_compiled_networks_correct_every_gradient(rule: Any) -> None:
    config = RunConfig.from_options(TINY)
    task: Any = build_task(config)
    corrected, draw = DriftTask(task, rule), np.random.default_rng(1)
    model: Vector = draw.normal(size=corrected.initial_model().size).astype(np.float32) / 100
    kept = draw.normal(size=task.initial_model().size).astype(np.float32) / 100
    w0, *control = model.reshape(rule.message_parts, -1)
    for start, result in zip(starts(kept), corrected.local_updates(model, starts(kept)), strict=True):
        w = w0
        for rows in task.samples.batches(task.training, start):
            shift = control[0] - kept if control else ALPHA * (w - w0) - kept
            w = w - np.float32(task.training.learning_rate) * (task.gradient(w, rows) + shift)
        sent, *told = result.update.reshape(rule.message_parts, -1)
        assert sent == pytest.approx(w0 - w, abs=1e-6)
        if control:
            option_2 = kept - control[0] + (w0 - w) / (3 * np.float32(task.training.learning_rate))
            assert result.state[KEPT] == pytest.approx(option_2, abs=1e-4)
            assert told[0] == pytest.approx(kept - result.state[KEPT], abs=1e-6)
        else:
            assert result.state[KEPT] == pytest.approx(kept + ALPHA * sent, abs=1e-6)


@pytest.mark.parametrize("rule", [Scaffold(), FedDyn(ALPHA)], ids=["scaffold", "feddyn"])
def test_torch_corrects_as_the_compiled_kernels_do(rule: Any) -> None:
    pytest.importorskip("torch")
    found = []
    for backend in ("numba", "torch"):
        task = DriftTask(build_task(RunConfig.from_options(TINY | {"backend": backend})), rule)
        model = task.initial_model()
        for _ in range(2):
            (result,) = task.local_updates(model, [TrainingStart(1, 0)])
            model = model - result.update
        found.append((model, result.state[KEPT]))
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-5)
    assert found[0][1] == pytest.approx(found[1][1], abs=1e-4)


def test_tensors_are_corrected_as_arrays_are() -> None:
    torch = pytest.importorskip("torch")
    draw = np.random.default_rng(0)
    vector, start, gradient, weights = draw.normal(size=(4, 5)).astype(np.float32)
    array, tensor = Correction(vector, start, 0.5), Correction(vector, start, 0.5)
    for _ in range(2):
        one = array.apply(gradient, weights)
        other = tensor.apply(torch.from_numpy(gradient), torch.from_numpy(weights))
        assert other.numpy() == pytest.approx(one, abs=1e-6)
    assert tensor.mean_gradient == pytest.approx(array.mean_gradient)


@pytest.mark.parametrize("name", ["scaffold", "feddyn"])
def test_results_do_not_depend_on_workers_or_on_an_interrupt(name: str, tmp_path: Path) -> None:
    config = RunConfig.from_options(TINY | {"aggregation": name})
    kinds: dict[str, Any] = {"1": 1, "3": 3, "processes": Processes(2)}
    results = {kind: run(config, tmp_path / kind, workers=workers) for kind, workers in kinds.items()}
    whole, timeline = results["1"].history, results["1"].timeline
    with Training(timeline, build_task(config), aggregation=config.rule) as training:
        for _ in range(timeline.rounds // 2):
            training.advance()
        half = training.history()
    rest = train(timeline, build_task(config), aggregation=config.rule, resume=half)
    plain = RunConfig.from_options(TINY)
    along = train(timeline, build_task(plain), aggregation=name)  # the engine adds the devices' half
    models = {
        each.model.tobytes() for each in (rest, along, *(result.history for result in results.values()))
    }
    assert len(models) == 1
    assert resume(tmp_path / "1").history == whole  # with the states of rule and devices
    assert set(whole.device_states) == set(timeline.device.tolist())
    assert SavedRun.read(tmp_path / "1").config == config


def test_what_is_sent_with_the_model_takes_slots() -> None:
    options = TINY | {"deadline": 600, "bits_per_slot": 10_000, "network": "logistic"}
    numbers = {"mean": 7850, "scaffold": 2 * 7850, "feddyn": 7850}
    for name, count in numbers.items():
        config = RunConfig.from_options(options | {"aggregation": name})
        task, slots = build_task(config), -(-count * 32 // 10_000)
        assert config.message_bits() == (count * 32,) * 2 == (task.update_bits, task.model_bits)
        assert config.channel.link_slots == slots
        timeline = config.simulate()
        assert set((timeline.end - timeline.start).tolist()) == {slots}
    compressed = RunConfig.from_options(options | {"aggregation": "scaffold", "bits": 8})
    assert compressed.message_bits()[0] == build_task(compressed).update_bits == 2 * (7850 * 8 + 2 * 32)


def test_over_the_radio_the_bits_are_those_of_the_messages() -> None:
    both = [
        RunConfig.from_options(TINY | {"radio_link": "rate-adaptive", "aggregation": name})
        for name in ("mean", "scaffold")
    ]
    bits = [(config.radio().bits, config.radio().broadcast_bits) for config in both]  # type: ignore[attr-defined]
    assert bits[1] == tuple(2 * each for each in bits[0])
    with_bits = [config.with_bits_of(build_task(config)).link for config in both]
    assert with_bits == [config.radio() for config in both]


def test_the_model_file_has_the_arrays_of_the_network_and_what_is_sent_with_them() -> None:
    task = DriftTask(build_task(RunConfig.from_options(TINY)), Scaffold())
    names = list(task.named_arrays(task.initial_model()))
    assert names == [*names[:2], *(CONTROL + name for name in names[:2])]


def test_memory_is_that_of_every_device_and_of_longer_messages() -> None:
    needed = {
        name: memory_needed(RunConfig.from_options(TINY | {"aggregation": name}), 1)
        for name in ("mean", "scaffold", "feddyn")
    }
    assert needed["scaffold"]["devices"] == needed["feddyn"]["devices"] == 6 * 7850 * 4
    assert needed["scaffold"]["network"] == 2 * needed["mean"]["network"]


def test_a_task_that_does_not_correct_is_refused(least_squares: Callable[[int, int], Task]) -> None:
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), rounds=4)
    with pytest.raises(UserError, match="task LeastSquares: local_update must add start"):
        train(timeline, least_squares(6, 1), aggregation="scaffold")


def test_a_task_made_for_another_rule_is_refused() -> None:
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), rounds=4)
    task = for_rule(Quadratics(), Scaffold())
    assert for_rule(task, Scaffold()) is task
    for rule in ("mean", "feddyn", Scaffold(2.0)):
        with pytest.raises(
            UserError, match=r"must be Scaffold\(server_rate=1.0\), for which the task was made"
        ):
            train(timeline, task, aggregation=rule)


@pytest.mark.parametrize("name", ["scaffold", "feddyn"])
def test_a_live_run_refuses_them(name: str) -> None:
    with pytest.raises(InputError, match="devices of a live run keep nothing") as caught:
        LivePlan.of(RunConfig.from_options({"aggregation": name}))
    assert caught.value.parameter == "aggregation"


def test_parts_of_a_model_without_gradient_are_refused() -> None:
    with pytest.raises(UserError, match="3 of 5 numbers of the model have a gradient"):
        Correction(np.zeros(5, np.float32), np.zeros(5, np.float32)).apply(np.zeros(3), np.zeros(3))
