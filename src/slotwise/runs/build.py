"""From parameters to the things they name: data set, partition, task."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.data import Dataset, dirichlet, iid, k_labels, load_cifar10, load_mnist, one_label
from slotwise.learning.local_sgd import DeviceSamples
from slotwise.learning.quantised import UNQUANTISED, Quantised
from slotwise.learning.randomness import Purpose, generator
from slotwise.learning.task import Task
from slotwise.runs.own_task import find_maker, own_task
from slotwise.runs.parameters import RunParameters


def build_task(parameters: RunParameters, dataset: Dataset | None = None) -> Task:
    """The task a run trains; its devices send in as many bits as the run says.

    ``dataset`` is the data set that the parameters name, if it is loaded already.
    """
    task = _unquantised_task(parameters, dataset)
    return task if parameters.bits == UNQUANTISED else Quantised(task, parameters.bits, parameters.seed)


def check_task(parameters: RunParameters) -> None:
    """Refuse a network that does not fit, or a task of the user's own that is not there; loads no data."""
    if parameters.task is None:
        parameters.network()
    else:
        find_maker(parameters.task)


def _unquantised_task(parameters: RunParameters, dataset: Dataset | None) -> Task:
    if parameters.task is not None:
        return own_task(parameters.task, parameters)
    network = parameters.network()  # refused, if it does not fit, before anything is loaded
    dataset = load(parameters) if dataset is None else dataset
    samples = DeviceSamples(dataset, partition(parameters, dataset))
    offset, scale = dataset.offset, dataset.scale
    if parameters.input_scale == "unit":
        offset, scale = tuple(0.0 for _ in offset), tuple(1.0 for _ in scale)
    # Both back-ends take long to import; a run needs only one of them.
    if parameters.backend == "torch":
        from slotwise.learning.torch_task import TorchTask, sequential  # noqa: PLC0415

        return TorchTask(sequential(network), samples, parameters.sgd(), offset=offset, scale=scale)
    from slotwise.learning.cnn_task import CnnTask  # noqa: PLC0415

    return CnnTask(samples, network, parameters.sgd(), offset=offset, scale=scale)


def load(parameters: RunParameters) -> Dataset:
    """The data set."""
    return load_mnist() if parameters.data == "mnist" else load_cifar10()


def partition(parameters: RunParameters, dataset: Dataset) -> NDArray[np.int32]:
    """Which samples each device holds, [devices, samples]."""
    draw = generator(parameters.seed, Purpose.PARTITION)
    division = (dataset.train_labels, parameters.devices, parameters.samples_per_device, draw)
    match parameters.partition:
        case "one-label":
            return one_label(*division)
        case "k-labels":
            return k_labels(*division, parameters.labels_per_device)
        case "dirichlet":
            return dirichlet(*division, parameters.concentration)
        case "iid":
            return iid(*division)
