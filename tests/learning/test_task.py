"""CheckedTask: mistakes in what a user's task returns become one line."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from slotwise.base.errors import UserError
from slotwise.learning import Evaluation, Point, Task, TrainingResult, TrainingStart
from slotwise.learning.attack import Attacked, SignFlip
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.quantisation import Quantised
from slotwise.learning.task import COLUMNS, TaskWrapper


class Odd:
    """Gives what it is told to."""

    def __init__(self, update: object = None, evaluation: object = None) -> None:
        self.update, self.evaluation = update, evaluation

    def initial_model(self) -> np.ndarray:
        return np.zeros(3, dtype=np.float32)

    def local_update(self, model: np.ndarray, start: TrainingStart) -> object:
        return self.update

    def evaluate(self, model: np.ndarray) -> object:
        return self.evaluation

    def named_arrays(self, model: np.ndarray) -> dict[str, np.ndarray]:
        return {"all": model}


def odd(**gives: object) -> CheckedTask:
    return CheckedTask("mine:make", Odd(**gives))


@pytest.mark.parametrize(
    ("update", "found"),
    [
        (None, "None"),
        (1.5, "a float"),
        ("text", "a str"),
        (np.zeros(4, dtype=np.float32), r"float32\[4\]"),
        (np.zeros((1, 3), dtype=np.float32), r"float32\[1, 3\]"),
        (np.zeros(3, dtype=np.complex64), r"complex64\[3\]"),
    ],
)
def test_an_update_that_is_none_is_told_in_a_line(update: object, found: str) -> None:
    with pytest.raises(UserError, match=f"^task mine:make: local_update .* it returned {found}$"):
        odd(update=update).local_update(np.zeros(3, dtype=np.float32), TrainingStart(1, 0))


def test_updates_and_evaluations_may_have_numbers_of_any_kind() -> None:
    update = odd(update=np.array([0.1, 0.2, 0.3])).local_update(
        np.zeros(3, dtype=np.float32), TrainingStart(1, 0)
    )
    assert update.dtype == np.float32
    found = odd(evaluation=(np.float32(0.5), np.float64(0.25))).evaluate(np.zeros(3, dtype=np.float32))
    assert found == Evaluation(0.5, 0.25)
    assert {type(number) for number in found[:2]} == {float}
    assert tuple(COLUMNS) == Point._fields[:-1]
    assert odd().sample_count(3) == 1


@pytest.mark.parametrize("evaluation", [None, 1.0, ("much", 0.5), (1.0, 2.0, 3.0)])
def test_an_evaluation_that_is_none_is_told_in_a_line(evaluation: object) -> None:
    with pytest.raises(UserError, match="task mine:make: evaluate must return"):
        odd(evaluation=evaluation).evaluate(np.zeros(3, dtype=np.float32))


@pytest.mark.parametrize("name", ["", "loss", "train_loss", "test_accuracy", "a,b", "line\n", "3d"])
def test_a_metric_that_cannot_be_a_column_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="metric"):
        odd(evaluation=(0.5, 0.25, {name: 1.0})).evaluate(np.zeros(3, dtype=np.float32))


MODEL = np.zeros(3, dtype=np.float32)


def use(task: object) -> None:
    """Call everything that is checked."""
    checked = CheckedTask("mine:make", task)
    checked.local_updates(MODEL, [TrainingStart(1, 0), TrainingStart(2, 0)])
    checked.evaluate(MODEL)
    checked.sample_count(1)


@pytest.mark.parametrize(
    ("attributes", "parts"),
    [
        ({"named_arrays": lambda self, model: None}, ("named_arrays", "None")),
        ({"named_arrays": lambda self, model: [model]}, ("named_arrays", "a list")),
        ({"named_arrays": lambda self, model: {"w": [1, 2, 3]}}, ("named_arrays", "numpy")),
        ({"named_arrays": lambda self, model: {7: model}}, ("named_arrays", "7")),
        ({"named_arrays": lambda self, model: {"file": model}}, ("named_arrays", "'file'")),
        ({"local_updates": 3}, ("local_updates", "function")),
        ({"local_update": lambda self, model, start: TrainingResult(model, state=None)}, ("state", "None")),  # type: ignore[arg-type]
        ({"local_update": lambda self, model, start: TrainingResult(model, 1, [0.5])}, ("metrics", "a list")),  # type: ignore[arg-type]
        ({"local_updates": lambda self, model: []}, ("local_updates", "2 arguments")),
        ({"local_updates": lambda self, model, starts: None}, ("local_updates", "None")),
        ({"local_updates": lambda self, model, starts: [model]}, ("2 updates", "it returned 1")),
        ({"sample_count": lambda self, device: 0}, ("sample_count", "it returned 0")),
        ({"sample_count": lambda self, device: 1.5}, ("sample_count", "a float")),
        ({"evaluate": lambda self, model: Evaluation(1, 1, {"f1": "good"})}, ("f1", "a str")),  # type: ignore[dict-item]
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_mistake_is_named(attributes: dict[str, object], parts: tuple[str, str]) -> None:
    task = type("Mine", (Odd,), attributes)(update=np.ones(3, np.float32), evaluation=(1.0, 0.5))
    with pytest.raises(UserError) as error:
        use(task)
    message = str(error.value)
    assert all(part in message for part in parts), message
    assert "\n" not in message


def test_a_class_or_what_has_not_the_methods_is_no_task() -> None:
    with pytest.raises(UserError, match="Odd is a class"):
        CheckedTask.of(Odd)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"a Some has no evaluate, local_update$"):
        CheckedTask.of(type("Some", (), {"initial_model": Least.initial_model})())


def test_metrics_must_keep_their_names() -> None:
    task = Odd(evaluation=(1.0, 0.5, {"f1": 0.5}))
    checked = CheckedTask("mine:make", task)
    checked.evaluate(MODEL)
    task.evaluation = (1.0, 0.5, {"f1": float("nan")})
    assert np.isnan(checked.evaluate(MODEL).metrics["f1"])
    for metrics in ({}, {"f2": 0.5}, {"f1": 0.5, "f2": 0.5}):
        task.evaluation = (1.0, 0.5, metrics)
        with pytest.raises(UserError, match="same metrics"):
            checked.evaluate(MODEL)


class Least(Task):
    """Has the required methods and nothing else."""

    def initial_model(self) -> np.ndarray:
        return MODEL

    def local_update(self, model: np.ndarray, start: TrainingStart) -> np.ndarray:
        return np.full(3, start.device, np.float32)

    def evaluate(self, model: np.ndarray) -> Evaluation:
        return Evaluation(1.0, 0.5)


class Alike:
    """The same as an object of another class."""

    initial_model, local_update, evaluate = Least.initial_model, Least.local_update, Least.evaluate


@pytest.mark.parametrize("task", [Least(), Alike()])
def test_three_methods_are_a_task(task: Any) -> None:
    checked = CheckedTask.of(task)
    starts = [TrainingStart(1, 0), TrainingStart(2, 0)]
    assert [update[0] for update in checked.local_updates(MODEL, starts)] == [1, 2]
    assert not checked.trains_together
    assert (checked.devices, checked.sample_count(2), checked.one_per_process) == (None, 1, False)
    assert checked.update_bits == checked.model_bits == 3 * 32
    assert list(checked.named_arrays(MODEL)) == ["model"]
    assert checked.evaluate(MODEL, {1: {"kept": MODEL}}) == Evaluation(1.0, 0.5)


class Everything(Least):
    """Has all that is optional too."""

    devices, one_per_process, update_bits = 7, True, 5

    def local_updates(self, model: np.ndarray, starts: Sequence[TrainingStart]) -> list[np.ndarray]:
        return [np.full(3, start.device * 10, np.float32) for start in starts]

    def evaluate_devices(self, model: np.ndarray, states: Mapping[int, Any]) -> Evaluation:
        return Evaluation(float(len(states)), 0.5)

    def named_arrays(self, model: np.ndarray) -> dict[str, np.ndarray]:
        return {"a": model[:1], "b": model[1:]}

    def sample_count(self, device: int) -> int:
        return device


def duck(task: Task) -> Any:
    """Return an object with the same members that does not derive from Task."""
    return SimpleNamespace(**{name: getattr(task, name) for name in vars(Task) if not name.startswith("_")})


@pytest.mark.parametrize(
    "task",
    [
        Everything(),
        duck(Everything()),
        TaskWrapper(Everything()),
        Quantised(duck(Everything()), 32),
        Attacked(Quantised(Everything(), 32), SignFlip(share=0.1), 7),
    ],
    ids=["derived", "duck", "wrapper", "quantised", "attacked"],
)
def test_wrappers_keep_all_that_a_task_has(task: Any) -> None:
    checked, starts = CheckedTask.of(task), [TrainingStart(1, 0), TrainingStart(2, 0)]
    attackers = getattr(task, "attackers", ())
    for update, start in zip(checked.local_updates(MODEL, starts), starts, strict=True):
        assert update[0] == 10 * start.device * (-10 if start.device in attackers else 1)
    assert checked.trains_together
    assert (checked.devices, checked.one_per_process, checked.update_bits) == (7, True, 5)
    assert checked.sample_count(4) == 4
    assert list(checked.named_arrays(MODEL)) == ["a", "b"]
    assert checked.evaluate(MODEL, {1: {}, 2: {}}).loss == 2


def test_a_wrapper_may_override_the_required_methods_alone() -> None:
    class Other(TaskWrapper):
        def local_update(self, model: np.ndarray, start: TrainingStart) -> np.ndarray:
            return np.full(3, -start.device, np.float32)

        def evaluate(self, model: np.ndarray) -> Evaluation:
            return Evaluation(9.0, 0.5)

    checked = CheckedTask.of(Other(Everything()))
    updates = checked.local_updates(MODEL, [TrainingStart(1, 0), TrainingStart(2, 0)])
    assert [update[0] for update in updates] == [-1, -2]
    assert checked.evaluate(MODEL, {1: {}}).loss == 9


@pytest.mark.parametrize(("bits", "sent"), [(32, 5), (8, 8 * 3 + 2 * 32), (3, 3 * 3 + 2 * 32)])
def test_update_bits_are_those_that_are_sent(bits: int, sent: int) -> None:
    assert Quantised(Everything(), bits).update_bits == sent
    assert Quantised(Everything(), bits).model_bits == 3 * 32


@pytest.mark.parametrize("bits", [0, 1.5, True, "many"])
def test_update_bits_are_a_whole_number(bits: object) -> None:
    task = type("Mine", (Least,), {"update_bits": bits})()
    with pytest.raises(UserError, match="update_bits must return a whole number of at least 1"):
        _ = CheckedTask.of(task).update_bits


def test_messages_name_the_task_and_not_its_wrappers() -> None:
    task = type("Mine", (Least,), {"sample_count": lambda self, device: 0})()
    with pytest.raises(UserError, match=r"^task Mine: sample_count"):
        CheckedTask.of(Quantised(task, 8)).sample_count(1)
    assert CheckedTask.of(Quantised(task, 8)).name == "Mine"
