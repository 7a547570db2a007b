"""Estimate of the memory that a training takes, to refuse sizes that cannot work before anything starts."""

from __future__ import annotations

from slotwise.base.errors import InputError
from slotwise.base.machine import available_cores, total_memory
from slotwise.learning.models import NetworkModel
from slotwise.learning.networks import Logistic, Network
from slotwise.runs.config import RunConfig

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
    models = NUMBER * network.parameters * (min(groups, 100) + MODELS_PER_WORKER * workers)
    channels, height, width = network.input_shape
    widest = max([channels * height * width, *(count * height * width for count in layers.channels)])
    return {
        _widest_layers(layers): models,
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
