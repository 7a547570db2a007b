"""Build the task a configuration describes."""

from __future__ import annotations

from slotwise.data import Dataset
from slotwise.learning.local_sgd import DeviceSamples
from slotwise.learning.quantised import UNQUANTISED, Quantised
from slotwise.learning.randomness import Purpose, generator
from slotwise.learning.task import Task
from slotwise.runs.config import RunConfig
from slotwise.runs.own_task import own_task
from slotwise.user_code import load_function


def build_task(config: RunConfig, dataset: Dataset | None = None) -> Task:
    """Return the task a run trains, with quantised updates if the configuration asks for them.

    ``dataset`` is the data set that the configuration names, if it is loaded already.
    """
    task = _unquantised_task(config, dataset)
    return task if config.bits == UNQUANTISED else Quantised(task, config.bits, config.seed)


def check_task(config: RunConfig) -> None:
    """Refuse a network that does not fit, or a task that cannot be imported; loads no data."""
    if config.model.task is None:
        config.network()
    else:
        load_function("task", config.model.task)


def _unquantised_task(config: RunConfig, dataset: Dataset | None) -> Task:
    if config.model.task is not None:
        return own_task(config.model.task, config)
    network = config.network()  # a network that does not fit is refused before data is loaded
    dataset = config.dataset.load() if dataset is None else dataset
    draw = generator(config.seed, Purpose.PARTITION)
    samples = DeviceSamples(dataset, config.dataset.divide(dataset, config.channel.devices, draw))
    offset, scale = config.dataset.standardisation(dataset)
    # Both back-ends take long to import; a run needs only one of them.
    if config.model.backend == "torch":
        from slotwise.learning.torch_task import TorchTask, sequential  # noqa: PLC0415

        return TorchTask(sequential(network), samples, config.training, offset=offset, scale=scale)
    from slotwise.learning.cnn_task import CnnTask  # noqa: PLC0415

    return CnnTask(samples, network, config.training, offset=offset, scale=scale)
