"""Every public name survives pickle and deepcopy, and errors come back from other processes."""

import copy
import inspect
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slotwise as sw
from slotwise.base.errors import MissingError, NoEffectError
from slotwise.base.frozen import same_numbers
from slotwise.batch.axes import Axis
from slotwise.live.calibration import DeviceTimes
from slotwise.recommendation.elimination import Finding, Question

SCENARIO = sw.Scenario(devices=4, group_size=2, compute_slots=2, deadline=60)
BATTERIES = sw.fleet.Batteries(capacity=(9.0,), computing=(1.0,), sending=(1.0,), harvest=(1.0,))
FLEET = sw.Fleet(compute_slots=(2, 2, 3, 4), link_slots=(1, 1, 1, 2), batteries=BATTERIES)
POWERS = sw.Powers(computing=2.0, sending=1.0, receiving=0.5)
ARRAY = np.arange(3, dtype=np.float32)
START = sw.TrainingStart(1, 0, state={"count": ARRAY})
POINT = sw.learning.Point(3, 1, float("nan"), 0.5, 0, {"f1": float("nan")})


def timeline() -> sw.Timeline:
    made = sw.simulate(SCENARIO, "idfl", fleet=FLEET)
    assert made.staleness.size  # cached, and so part of the object
    return made


def history() -> sw.History:
    return sw.History((POINT,), {1: ARRAY}, 1, {"m": ARRAY}, {2: {"count": ARRAY}}, timeline())


def dataset() -> sw.Dataset:
    images, labels = np.zeros((8, 1, 4, 4), dtype=np.uint8), np.arange(8) % 2
    return sw.Dataset("own", images, labels, images, labels, 2, offset=(0.5,), scale=(0.5,))


def samples() -> sw.DeviceSamples:
    return sw.DeviceSamples(dataset(), [np.arange(4), np.arange(4, 8)])


def torch_samples() -> Any:
    data = pytest.importorskip("torch").utils.data.TensorDataset
    numbers = pytest.importorskip("torch").zeros(4, 2)
    return sw.torch.TorchSamples([data(numbers, numbers)], data(numbers, numbers))


def torch_task() -> Any:
    nn = pytest.importorskip("torch").nn
    module = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    return sw.TorchTask(module, samples(), sw.LocalTraining(local_steps=1, batch_size=2))


def cnn_task() -> Any:
    pytest.importorskip("numba")
    network = sw.learning.Architecture((1, 4, 4), (), (3,), 2)
    return sw.CnnTask(samples(), network, sw.LocalTraining(local_steps=1, batch_size=2))


def radio_link() -> Any:
    options = {"radio_link": "rate-adaptive", "devices": 4, "group_size": 2, "compute_slots": 2}
    return sw.RunConfig.from_options({**options, "deadline": 60}).make_link()


def recommendation() -> sw.Recommendation:
    base = sw.RunConfig.from_options({"devices": 4, "group_size": 1, "compute_slots": 2, "deadline": 320})
    # Without candidates, which only a search has: the text of the answer would name the best of them.
    return sw.Recommendation(Finding(Question(base, (1, 2), (0,)), {}, (), 3, complete=True), Path("out"))


def scheduler() -> sw.schedule.Scheduler:
    return sw.schedule.Scheduler(2, sw.Asynchronous().delivery(SCENARIO, sw.Fleet.equal(SCENARIO), None))


# An object of every public class that can have one.
OBJECTS: dict[str, Callable[[], Any]] = {
    "Scenario": lambda: SCENARIO,
    "Fleet": lambda: FLEET,
    "Devices": sw.Devices,
    "Setting": sw.Setting,
    "Absence": lambda: sw.fleet.Absence(1, 2, 3),
    "Batteries": lambda: BATTERIES,
    "BatteryBalance": lambda: sw.schedule.BatteryBalance.of(timeline()),
    "RadioLink": radio_link,
    "Plan": lambda: sw.plan(devices=4, compute_slots=2, deadline=60)[0],
    "Timeline": timeline,
    "Episode": lambda: sw.Episode(SCENARIO, rounds=3),
    "Synchronous": sw.Synchronous,
    "Asynchronous": sw.Asynchronous,
    "IntentionalDelay": sw.IntentionalDelay,
    "Waiting": lambda: sw.schedule.Waiting(1, 2, 3),
    "Scheduler": scheduler,
    "Tdma": sw.Tdma,
    "Ofdma": lambda: sw.Ofdma(devices=3),
    "Noma": lambda: sw.Noma(devices=3),
    "OverTheAir": lambda: sw.OverTheAir(snr_db=3.0),
    "Costs": lambda: sw.Costs.of(timeline(), POWERS),
    "Powers": lambda: POWERS,
    "TrainingStart": lambda: START,
    "TrainingResult": lambda: sw.learning.TrainingResult(ARRAY, 3),
    "Evaluation": lambda: sw.Evaluation(0.5, float("nan")),
    "History": history,
    "Point": lambda: sw.learning.Point(0, 0, 1.0, 0.5, 0),
    "Diverged": lambda: sw.Diverged(3, "model", history()),
    "Interrupted": lambda: sw.Interrupted(history()),
    "Threads": lambda: sw.learning.Threads(2),
    "Processes": lambda: sw.learning.Processes(2),
    "RayActors": sw.learning.RayActors,
    "TorchTask": torch_task,
    "TorchSamples": torch_samples,
    "CnnTask": cnn_task,
    "Architecture": lambda: sw.learning.Architecture((1, 4, 4), (), (3,), 2),
    "LocalTraining": sw.LocalTraining,
    "StepContext": lambda: sw.learning.StepContext(sw.LocalTraining(), START, ARRAY, 0.1),
    "Observer": sw.Observer,
    "Observers": lambda: sw.Observers(sw.Observer()),
    "ProgressBar": sw.ProgressBar,
    "Dataset": dataset,
    "DeviceSamples": samples,
    "Contribution": lambda: sw.rules.Contribution(ARRAY, 1, ARRAY),
    "StalenessWeightedMean": sw.rules.StalenessWeightedMean,
    "FedAsync": sw.rules.FedAsync,
    "FedBuff": sw.rules.FedBuff,
    "DelayAdaptive": lambda: sw.rules.DelayAdaptive(3),
    "ServerMomentum": sw.rules.ServerMomentum,
    "FedAdam": sw.rules.FedAdam,
    "FedYogi": sw.rules.FedYogi,
    "FedAdagrad": sw.rules.FedAdagrad,
    "TrimmedMean": sw.rules.TrimmedMean,
    "Krum": sw.rules.Krum,
    "MultiKrum": sw.rules.MultiKrum,
    "NormClipping": lambda: sw.rules.NormClipping(1.0),
    "RunConfig": sw.RunConfig,
    "RunResult": lambda: sw.RunResult("finished", history(), timeline(), Path("out")),
    "RunFolder": lambda: sw.RunFolder(Path("out")),
    "BatchSpec": lambda: sw.BatchSpec((Axis("seed", (0, 1)),), (), POWERS),
    "BatchResults": lambda: sw.BatchResults((Axis("seed", (0, 1)),), ()),
    "Recommendation": recommendation,
    "ServerConfig": sw.live.ServerConfig,
    "Calibration": lambda: sw.live.Calibration(
        1.0, (DeviceTimes(1, 2, 0, 0.5, 0.1),), (2,), (1,), 1, 0.0, (), ()
    ),
    "UserError": lambda: sw.UserError("wrong"),
    "InputError": lambda: sw.InputError("seed", -1, "at least 0"),
    "ConflictError": lambda: sw.ConflictError("seed", "policy", "a hint"),
    "MissingError": lambda: MissingError("seed", "given"),
    "NoEffectError": lambda: NoEffectError("seed", 1, "with schedule idfl"),
}
# Abstract: users write subclasses; an Episode is saved as its answers.
WITHOUT_OBJECTS = {"Policy", "Delivery", "Selection", "Task", "Episode"}
COPIES = [
    pytest.param(lambda value: pickle.loads(pickle.dumps(value)), id="pickle"),
    pytest.param(copy.deepcopy, id="deepcopy"),
]


def test_the_table_has_every_public_class() -> None:
    classes = {name for name in sw.__all__ if inspect.isclass(getattr(sw, name))}
    assert classes - WITHOUT_OBJECTS <= set(OBJECTS)


@pytest.mark.parametrize("name", [name for name in sw.__all__ if not inspect.ismodule(getattr(sw, name))])
def test_every_public_name_can_be_pickled(name: str) -> None:
    value = getattr(sw, name)
    assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize("make_copy", COPIES)
@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_survives(name: str, make_copy: Callable[[Any], Any]) -> None:
    value = OBJECTS[name]()
    made = make_copy(value)
    assert type(made) is type(value)
    assert repr(made) == repr(value) or "object at 0x" in repr(value)
    if type(value).__eq__ not in (object.__eq__, BaseException.__eq__):
        assert same_numbers(value, made)
    assert _read_only_arrays(made) == _read_only_arrays(value)


@pytest.mark.parametrize("make_copy", COPIES)
@pytest.mark.parametrize("name", ["InputError", "ConflictError", "MissingError", "NoEffectError"])
def test_an_error_keeps_its_parts_and_notes(name: str, make_copy: Callable[[Any], Any]) -> None:
    error = OBJECTS[name]()
    error.add_note("in the worker")
    made = make_copy(error)
    assert vars(made) == vars(error)
    assert made.described(str.upper) == error.described(str.upper)


@pytest.mark.parametrize("make_copy", COPIES)
def test_an_error_keeps_its_history(make_copy: Callable[[Any], Any]) -> None:
    for error in (sw.Diverged(3, "model", history()), sw.Interrupted(history())):
        assert make_copy(error).history == error.history


def test_errors_come_back_from_other_processes() -> None:
    names = ["UserError", "InputError", "ConflictError", "MissingError", "NoEffectError", "Diverged"]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for name in names:
            with pytest.raises(type(OBJECTS[name]())) as caught:
                pool.apply_async(_raise, [name]).get(timeout=60)
            assert str(caught.value) == str(OBJECTS[name]())
        # A Pool loses a task that raises a KeyboardInterrupt, whatever its class; a result comes back.
        assert isinstance(pool.apply_async(_made, ["Interrupted"]).get(timeout=60), sw.Interrupted)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        for name in [*names, "Interrupted"]:
            assert str(executor.submit(_raise, name).exception(timeout=60)) == str(OBJECTS[name]())


def _made(name: str) -> Any:
    return OBJECTS[name]()


def _raise(name: str) -> None:
    raise _made(name)


def _read_only_arrays(value: object) -> set[str]:
    attributes = {name: getattr(value, name) for name in getattr(value, "__dataclass_fields__", ())}
    return {
        name for name, item in attributes.items() if isinstance(item, np.ndarray) and not item.flags.writeable
    }
