"""Tasks of a configuration: built in, or the user's own."""

import sys
from pathlib import Path

import numpy as np
import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.data import Dataset, load_mnist
from slotwise.learning import TrainingStart
from slotwise.learning.cnn_task import CnnTask
from slotwise.learning.randomness import Purpose, generator
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.execution import build_task, check_task

from .conftest import train_in

ROOT = Path(__file__).parents[2]
EXAMPLE = "examples.own_task.logistic:make_task"


def partition(config, dataset):
    draw = generator(config.seed, Purpose.PARTITION)
    return np.stack(config.dataset.divide(dataset, config.channel.devices, draw))


@pytest.fixture(scope="module")
def mnist() -> Dataset:
    return load_mnist()


def test_unit_inputs_reach_the_task_and_layers_must_fit_the_image() -> None:
    assert RunConfig().network().parameters == 21_840
    with pytest.raises(InputError, match="channels") as caught:
        build_task(RunConfig().with_options(channels=(1, 1, 1)))
    assert "\n" not in str(caught.value)
    options = {"devices": 2, "group_size": 1, "samples_per_device": 8, "channels": (2,), "hidden": ()}
    standard, unit = (
        build_task(RunConfig().with_options(**options, input_scale=scale))  # type: ignore[arg-type]
        for scale in ("standard", "unit")
    )
    assert isinstance(standard, CnnTask)
    model = standard.initial_model()
    assert standard.evaluate(model).loss != unit.evaluate(model).loss


def test_the_default_devices_hold_250_images_of_one_label(mnist: Dataset) -> None:
    rows = partition(RunConfig(), mnist)
    assert rows.shape == (100, 250)
    assert all(len(np.unique(mnist.train_targets[own])) == 1 for own in rows)


@pytest.mark.parametrize(
    ("options", "fewest", "most"),
    [
        ({"partition": "k-labels", "labels_per_device": 3}, 3, 3),
        ({"partition": "dirichlet", "concentration": 0.01}, 1, 5),
        ({"partition": "iid"}, 9, 10),
    ],
)
def test_other_partitions_mix_labels(
    options: dict[str, object], fewest: int, most: int, mnist: Dataset
) -> None:
    rows = partition(RunConfig().with_options(devices=20, **options), mnist)  # type: ignore[arg-type]
    labels = [len(np.unique(mnist.train_targets[own])) for own in rows]
    assert fewest <= min(labels)
    assert max(labels) <= most


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
        "from slotwise.base.errors import UserError\n"
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
        "    def local_update(self, model, start): pass\n"
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
    outcome = train_in(folder, example)
    first, last = outcome.history.points[0], outcome.history.points[-1]
    assert outcome.status == "finished"
    assert last.loss < 0.8 * first.loss
    assert folder.parameters() == example


def test_an_own_task_may_be_quantised(example: RunConfig) -> None:
    quantised = build_task(RunConfig.from_options({**options(EXAMPLE), "bits": 4}))
    model = quantised.initial_model()
    exact = build_task(example).local_update(model, TrainingStart(1, 0))
    assert not np.array_equal(quantised.local_update(model, TrainingStart(1, 0)), exact)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("missing", "has no missing"),
        ("number", "number is not callable"),
        ("nothing", "None has no .*initial_model"),
        ("fails", r"failed: ValueError: two lines \(own_.*\.py, line 5\)"),
        ("ends", "failed: SystemExit"),
        ("refuses", "^the file is missing$"),
        ("Half", "a Half has no local_update"),
        ("Listed", "initial_model must return .*; it returned a list"),
        ("Nameless", "0 of 3 numbers"),
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


def test_a_first_model_that_is_not_finite_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "own_nan.py").write_text(
        "import numpy\n"
        "class Task:\n"
        "    def __init__(self, parameters): pass\n"
        "    def initial_model(self): return numpy.full(3, numpy.nan, dtype='float32')\n"
        "    def local_update(self, model, start): pass\n"
        "    def evaluate(self, model): pass\n"
        "    def named_arrays(self, model): return {'all': model}\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="finite"):
        build_task(RunConfig.from_options(options("own_nan:Task")))


def test_the_rate_of_the_link_counts_the_bits_of_your_own_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    options = {"task": EXAMPLE, "devices": 10, "group_size": 2, "bits_per_slot": 1000}
    whole = RunConfig.from_options(options)
    update, model = whole.message_bits()
    assert (whole.channel.link_slots, update) == (-(-model // 1000), model)
    quantised = RunConfig.from_options({**options, "bits": 8})
    assert quantised.fleet.uplinks.uplink_slots == -(-quantised.message_bits()[0] // 1000)


def test_the_rate_of_the_link_counts_what_a_compressor_sends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "own_compressor.py").write_text(
        "from slotwise.learning import TaskWrapper\n"
        f"from {EXAMPLE.partition(':')[0]} import make_task\n"
        "def compressed(config):\n"
        "    task = TaskWrapper(make_task(config))\n"
        "    task.update_bits = 100\n"
        "    return task\n"
    )
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.chdir(tmp_path)
    options = {"devices": 10, "group_size": 2, "bits_per_slot": 50, "task": "own_compressor:compressed"}
    config = RunConfig.from_options(options)
    assert config.fleet.uplinks.uplink_slots == 2
    assert config.channel.link_slots == -(-config.message_bits()[1] // 50) > 2
