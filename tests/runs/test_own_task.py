"""A task of the user's own: found, made, checked, trained; and what is said when it is none."""

import sys
from pathlib import Path

import numpy as np
import pytest

from slotwise.errors import ConflictError, InputError, UserError
from slotwise.learning import Evaluation
from slotwise.runs import RunConfig, RunFolder, execute
from slotwise.runs.build import build_task, check_task
from slotwise.runs.own_task import OwnTask

ROOT = Path(__file__).parents[2]
EXAMPLE = "examples.own_task.logistic:make_task"


def options(task: str) -> dict[str, object]:
    return {
        "task": task,
        "devices": 6,
        "group_size": 2,
        "compute_slots": 2,
        "deadline": 300,
        "samples_per_device": 40,
    }


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The name of a module in the current directory, forgotten afterwards."""
    name = f"own_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(
        "from slotwise.errors import UserError\n"
        "number = 3\n"
        "def nothing(parameters): pass\n"
        "def fails(parameters):\n"
        "    raise ValueError('two\\nlines')\n"
        "def ends(parameters): raise SystemExit(0)\n"
        "def refuses(parameters): raise UserError('the file is missing')\n"
        "class Half:\n"
        "    def __init__(self, parameters): pass\n"
        "    def initial_model(self): return [1.0]\n"
        "    def evaluate(self, model): pass\n"
        "class Listed(Half):\n"
        "    def local_update(self, model, device, training): pass\n"
        "    def named_arrays(self, model): return {}\n"
        "class Nameless(Listed):\n"
        "    def initial_model(self):\n"
        "        import numpy\n"
        "        return numpy.zeros(3, dtype='float32')\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    return name


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> RunConfig:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(ROOT)
    return RunConfig.from_options(options(EXAMPLE))


def test_the_example_learns_and_its_run_can_be_read_back(example: RunConfig, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", example)
    outcome = execute(folder, example)
    first, last = outcome.history.points[0], outcome.history.points[-1]
    assert outcome.status == "finished"
    assert last.loss < 0.8 * first.loss
    assert folder.parameters() == example


def test_any_number_of_workers_gives_the_example_the_same_bits(example: RunConfig, tmp_path: Path) -> None:
    folders = [RunFolder.create(tmp_path / str(workers), example) for workers in (1, 2)]
    one, two = (execute(folder, example, workers=n + 1) for n, folder in enumerate(folders))
    assert np.array_equal(one.history.model, two.history.model)


def test_an_own_task_may_be_quantised(example: RunConfig) -> None:
    quantised = build_task(RunConfig.from_options({**options(EXAMPLE), "bits": 4}))
    model = quantised.initial_model()
    exact = build_task(example).local_update(model, 1, 0)
    assert not np.array_equal(quantised.local_update(model, 1, 0), exact)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("missing", "has no missing"),
        ("number", "number is not callable"),
        ("nothing", "must return a slotwise.learning.Task; None has no initial_model"),
        ("fails", r"failed: ValueError: two lines \(own_.*\.py, line 5\)"),
        ("ends", "failed: SystemExit"),
        ("refuses", "^the file is missing$"),
        ("Half", "a Half has no local_update, named_arrays"),
        ("Listed", "initial_model must give a flat float32 array; it gave a list"),
        ("Nameless", "its named_arrays hold 0 of the 3 numbers"),
    ],
)
def test_what_is_no_task_is_told_in_a_line(module: str, function: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        build_task(RunConfig.from_options(options(f"{module}:{function}")))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["no_such_module:f", "json.no_such_part:f"])
def test_a_module_that_is_not_there_is_told_with_where_it_was_looked_for(module: str, name: str) -> None:
    with pytest.raises(InputError, match=f"there is no module .* in {Path.cwd()}"):
        check_task(RunConfig.from_options(options(name)))


def test_a_module_that_cannot_be_imported_is_told_with_its_own_reason(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}_2.py").write_text("import no_such_thing_at_all\n")
    with pytest.raises(UserError, match=r"import failed: .*no_such_thing_at_all"):
        check_task(RunConfig.from_options(options(f"{module}_2:f")))


@pytest.mark.parametrize("name", ["module", "module:", ":function", "a-b:c", "a:b:c", "a..b:c", "a:b c"])
def test_a_name_that_is_no_module_and_function_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="module:function, as in"):
        RunConfig.from_options(options(name))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("data", "cifar10"),
        ("input_scale", "unit"),
        ("channels", [4]),
        ("hidden", []),
        ("backend", "torch"),
        ("bits_per_slot", 1000),
    ],
)
def test_what_describes_the_built_in_networks_is_refused_beside_a_task(option: str, value: object) -> None:
    with pytest.raises(ConflictError) as caught:
        RunConfig.from_options({**options("a:b"), option: value})
    assert (caught.value.parameter, caught.value.other) == (option, "task")


class Odd:
    """Gives what it is told to."""

    def __init__(self, update: object = None, evaluation: object = None) -> None:
        self.update, self.evaluation = update, evaluation

    def initial_model(self) -> np.ndarray:
        return np.zeros(3, dtype=np.float32)

    def local_update(self, model: np.ndarray, device: int, training: int) -> object:
        return self.update

    def evaluate(self, model: np.ndarray) -> object:
        return self.evaluation

    def named_arrays(self, model: np.ndarray) -> dict[str, np.ndarray]:
        return {"all": model}


def odd(**gives: object) -> OwnTask:
    return OwnTask("mine:make", Odd(**gives), 3)  # type: ignore[arg-type]


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
    wanted = "task mine:make: local_update must give a float32 array as long as its model, 3; it gave "
    with pytest.raises(UserError, match=f"^{wanted}{found}$"):
        odd(update=update).local_update(np.zeros(3, dtype=np.float32), 1, 0)


def test_an_update_in_other_floats_is_taken_in_float32() -> None:
    update = odd(update=np.array([0.1, 0.2, 0.3])).local_update(np.zeros(3, dtype=np.float32), 1, 0)
    assert update.dtype == np.float32


@pytest.mark.parametrize("evaluation", [None, 1.0, ("much", 0.5), (1.0, 2.0, 3.0)])
def test_an_evaluation_that_is_none_is_told_in_a_line(evaluation: object) -> None:
    with pytest.raises(
        UserError, match=r"^task mine:make: evaluate must give a slotwise.learning.Evaluation; it"
    ):
        odd(evaluation=evaluation).evaluate(np.zeros(3, dtype=np.float32))


def test_an_evaluation_may_have_numbers_of_any_kind() -> None:
    found = odd(evaluation=(np.float32(0.5), np.float64(0.25))).evaluate(np.zeros(3, dtype=np.float32))
    assert found == Evaluation(0.5, 0.25)
    assert {type(number) for number in found} == {float}


def test_a_first_model_that_is_not_finite_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "own_nan.py").write_text(
        "import numpy\n"
        "class Task:\n"
        "    def __init__(self, parameters): pass\n"
        "    def initial_model(self): return numpy.full(3, numpy.nan, dtype='float32')\n"
        "    def local_update(self, model, device, training): pass\n"
        "    def evaluate(self, model): pass\n"
        "    def named_arrays(self, model): return {'all': model}\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="initial_model must give finite numbers"):
        build_task(RunConfig.from_options(options("own_nan:Task")))
