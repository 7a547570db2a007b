"""The task of a configuration: the built-in network on a data set, or the user's own task, tried once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from slotwise.aggregation import RULE, Aggregation, Contribution, UplinkRadio, message_parts, next_model
from slotwise.base.errors import InputError
from slotwise.base.machine import available_cores, total_memory
from slotwise.data import Dataset
from slotwise.fastcnn.architecture import Architecture
from slotwise.learning import Task, TrainingResult, TrainingStart
from slotwise.learning.attack import Attack, Attacked
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.compression import compressor_of
from slotwise.learning.drift_task import for_rule
from slotwise.learning.models import NetworkModel
from slotwise.learning.networks import Logistic, Network
from slotwise.learning.optimizer import Optimizer
from slotwise.learning.over_the_air import refuse_other_rules
from slotwise.options import loaded
from slotwise.runs.config import RunConfig
from slotwise.runs.device_data import check_images, device_samples
from slotwise.schedule import Timeline


def build_task(
    config: RunConfig, dataset: Dataset | None = None, *, devices: Collection[int] | None = None
) -> Task:
    """Return the task of a run; ``dataset`` is the one that the configuration names, if it is loaded already.

    Of a data folder only the files of ``devices`` are read, if they are given: then only these can train.

    Raises:
        UserError: the network does not fit, data are missing, or the user's own task is not valid.
    """
    task: Task
    if not isinstance(config.model, NetworkModel):
        task = config.model.make_task(config)
    else:
        config.model.check()
        network = config.network()  # what does not fit is refused before data is loaded
        refuse_too_much_memory(config)
        samples = device_samples(config, dataset, devices)
        check_images(config, samples.dataset)
        offset, scale = config.dataset.standardisation(samples.dataset)
        how: dict[str, Any] = {"offset": offset, "scale": scale, "model_seed": config.model_seed}
        # Both back-ends take long to import; a run needs only one of them.
        if config.model.backend == "torch":
            from slotwise.torch.networks import build_network  # noqa: PLC0415
            from slotwise.torch.task import TorchTask  # noqa: PLC0415

            module = build_network(config.model.network_name, network)
            task = TorchTask(module, samples, config.training, initial="seed", compile=False, **how)
        else:
            from slotwise.learning.cnn_task import CnnTask  # noqa: PLC0415

            assert isinstance(network, Architecture)  # others need the torch back-end
            task = CnnTask(samples, network, config.training, **how)
    return as_sent(task, config)


def as_sent(task: Task, config: RunConfig) -> Task:
    """Return the task with your own metric, and updates as devices send them.

    Gradients are corrected by the devices' half of the rule; updates are attacked and compressed.
    """
    CheckedTask.of(task).check_devices(config.channel.devices)
    task = for_rule(config.metric.measured(task), config.rule)
    if isinstance(config.adversary, Attack):  # attackers compress what they send, as all devices do
        task = Attacked(task, config.adversary, config.channel.devices, config.seed)
    return compressor_of(config.compressor).compressed(task, config.bits, config.seed)


def check_task(config: RunConfig) -> None:
    """Refuse a network or sizes that do not fit, or a task or rule that cannot be imported; load no data."""
    loaded(config.rule)
    config.metric.check()
    compressor_of(config.compressor)
    config.model.check()
    if isinstance(config.model, NetworkModel):
        loaded(config.dataset.partition)
        Optimizer(config.training)
        config.network()
        refuse_too_much_memory(config)


def try_own_code(
    config: RunConfig, task: CheckedTask, rule: Aggregation, timeline: Timeline, *, is_object: bool
) -> None:
    """Call the user's own task or rule once, only to see whether it works.

    Built-in tasks and rules are known to work. ``is_object``: the task was made in Python.
    """
    is_own = is_object or config.model.is_own
    radio = config.uplink_radio(task.update_bits)
    refuse_other_rules(rule, radio, timeline, task)
    if RULE.is_own(config.rule) and not is_own:
        _try_rule(task, rule, timeline, radio)
    if is_own or config.training.local_step:
        _try_once(task, rule, timeline, radio)


def _try_once(task: CheckedTask, rule: Aggregation, timeline: Timeline, radio: UplinkRadio) -> None:
    """Compute the first update, apply it and evaluate the first model, only to see whether that works."""
    model = task.initial_model()
    if timeline.rounds and (senders := timeline.device[timeline.uplinks(0)].tolist()):
        _try_rule(task, rule, timeline, radio, task.train(model, TrainingStart(senders[0], 0)))
    task.evaluate(model)


def _try_rule(
    task: CheckedTask,
    rule: Aggregation,
    timeline: Timeline,
    radio: UplinkRadio,
    result: TrainingResult | None = None,
) -> None:
    """Apply the rule to ``result`` as if all first senders had sent it, only to see whether that works.

    Without a result the first model is taken for an update: computing one compiles kernels for seconds.
    """
    model = task.initial_model()
    sent = result or TrainingResult(model.copy())
    devices, rows = timeline.scenario.devices, timeline.uplinks(0) if timeline.rounds else slice(0)
    columns = (timeline.device[rows], timeline.start[rows], timeline.end[rows])
    uplinks = [radio.reception(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]
    with np.errstate(over="ignore", invalid="ignore"):
        next_model(
            rule,
            model,
            [
                Contribution(sent.update, 0, model, n, 0, task.sample_count(n), sent.metrics, devices, uplink)
                for n, uplink in zip(columns[0].tolist(), uplinks, strict=True)
            ],
        )


NUMBER = 4  # bytes of a float32 or an int32
MODELS_PER_WORKER = 8  # updates computed ahead, and the weights and gradients of a local training


def refuse_too_much_memory(config: RunConfig) -> None:
    """Raise an InputError that names the option to blame, if a built-in task needs more than all memory."""
    needed, memory = memory_needed(config, available_cores()), total_memory()
    if sum(needed.values()) > memory:
        name = max(needed, key=lambda option: needed[option])
        value = config.options()[name]
        gigabytes = f"{needed[name] / 1e9:,.0f} GB of {memory / 1e9:,.0f} GB"
        shown = ",".join(map(str, value)) if isinstance(value, tuple) else value
        raise InputError(name, shown, f"smaller: it would take about {gigabytes} of memory")


def memory_needed(config: RunConfig, workers: int) -> dict[str, int]:
    """Return bytes by the option that they grow with; roughly, and rather too few than too many."""
    network, devices = config.network(), config.channel.devices
    held, total = config.dataset.sizes.held(devices), config.dataset.sizes.total(devices)
    layers = config.model.network if isinstance(config.model, NetworkModel) else Logistic()
    groups, batch = config.channel.groups, min(max(config.training.batch_sizes), held)
    batching = config.training.batching
    # The order of the samples in every step or epoch is drawn at once, as 8-byte integers, twice.
    positions = batching.amount * held
    # Models are kept until the last update computed from them has arrived: those of about one turn of groups.
    message = NUMBER * message_parts(config.rule) * network.parameters
    models = message * (min(groups, 100) + MODELS_PER_WORKER * workers)
    memory = NUMBER * network.parameters * devices if getattr(config.rule, "keeps_updates", False) else 0
    channels, height, width = network.input_shape
    widest = max([channels * height * width, *(count * height * width for count in layers.channels)])
    return {
        _widest_layers(layers): models,
        "devices": memory,
        "batch_size": NUMBER * batch * widest * workers,
        config.dataset.samples_option: NUMBER * total,
        batching.option: 4 * NUMBER * positions * workers,
    }


def _widest_layers(network: Network) -> str:
    """Return the option that decides the size of the network."""
    wide, deep = max(network.channels, default=0), max(network.hidden, default=0)
    if not wide and not deep:  # a network without layers to choose, or with none chosen
        return "network"
    return "channels" if wide > deep else "hidden"
