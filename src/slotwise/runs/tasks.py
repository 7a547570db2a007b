"""Build the task of a configuration: the built-in network on a data set, or the user's own task."""

from __future__ import annotations

from slotwise.data import Dataset
from slotwise.errors import UserError
from slotwise.learning.local_sgd import DeviceSamples
from slotwise.learning.quantisation import UNQUANTISED, Quantised
from slotwise.learning.randomness import Purpose, generator
from slotwise.learning.task import CheckedTask, Task
from slotwise.runs.config import RunConfig
from slotwise.user_code import describe_error, load_function


def build_task(config: RunConfig, dataset: Dataset | None = None) -> Task:
    """Return the task of a run, with quantised updates if the configuration asks for them.

    ``dataset`` is the data set that the configuration names, if it is loaded already.

    Raises:
        UserError: the network does not fit, data are missing, or the user's own task is not valid.
    """
    own = config.model.task
    task = _built_in_task(config, dataset) if own is None else _user_task(own, config)
    return task if config.bits == UNQUANTISED else Quantised(task, config.bits, config.seed)


def check_task(config: RunConfig) -> None:
    """Refuse a network that does not fit, or a task or rule that cannot be imported; load no data."""
    config.rule.rule()
    if config.model.task is None:
        config.network()
    else:
        load_function("task", config.model.task)


def _built_in_task(config: RunConfig, dataset: Dataset | None) -> Task:
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


def _user_task(name: str, config: RunConfig) -> Task:
    """Call the user's function ``module:function`` with the configuration; check the task it returns."""
    make_task = load_function("task", name)
    try:
        return CheckedTask(name, make_task(config))
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"task {name} failed: {describe_error(error)}") from error
