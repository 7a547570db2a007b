"""How much there is to compute, in one unit for all runs: what the time left is estimated from."""

from __future__ import annotations

from typing import Protocol

from slotwise.runs import RunConfig

# Images a network sees in one evaluation: all devices' samples and the test set.
TEST_IMAGES = 10_000
# An evaluation is a forward pass: about a third of the arithmetic of a step on the same image.
FORWARD_PART = 1 / 3


class Extent(Protocol):
    """How long a run is: its timeline, or what is remembered of it."""

    @property
    def rounds(self) -> int:
        """Within the deadline."""

    @property
    def last_slot(self) -> int:
        """When the last of them ends."""


def round_work(parameters: RunConfig) -> float:
    """Of the trainings of one round, in multiply-adds."""
    images = parameters.channel.group_size * parameters.training.local_steps * parameters.training.batch_size
    return images * _per_image(parameters)


def run_work(parameters: RunConfig, extent: Extent) -> float:
    """Of a whole run, evaluations included."""
    return extent.rounds * (round_work(parameters) + evaluation_work_per_round(parameters, extent))


def evaluation_work_per_round(parameters: RunConfig, extent: Extent) -> float:
    """Of the evaluations, spread over the rounds."""
    evaluations = 1 + extent.last_slot / parameters.slots_between_evaluations
    images = parameters.channel.devices * parameters.dataset.samples_per_device + TEST_IMAGES
    return evaluations * images * FORWARD_PART * _per_image(parameters) / max(1, extent.rounds)


def _per_image(parameters: RunConfig) -> float:
    if parameters.model.task is not None:
        return 1.0  # what a task of the user's own computes is not known; its samples count alike
    return float(parameters.network().dense_multiply_adds)
