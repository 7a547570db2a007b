"""Logistic regression with the arithmetic of slotwise_device.c, operation by operation."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

import slotwise as sw

FEATURES, SAMPLES, BATCH, STEPS, RATE = 8, 64, 16, 4, 0.5
TEST_DEVICE = 0  # its samples are nobody's
MASK = 2**64 - 1


def mixed(state: int) -> int:
    """Return 64 bits that look random: SplitMix64."""
    state = (state + 0x9E3779B97F4A7C15) & MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def sample_of(device: int, sample: int) -> tuple[list[float], float]:
    """Return inputs and label of one sample of a device."""
    first = (device * SAMPLES + sample) * FEATURES
    inputs = [(mixed(first + number) >> 11) * 2.0**-52 - 1.0 for number in range(FEATURES)]
    total = 0.25
    for number, value in enumerate(inputs):
        total += (-1.0 if number % 2 else 1.0) * value
    return inputs, 1.0 if total > 0 else 0.0


def predicted(weights: list[float], inputs: list[float]) -> float:
    """Return the probability of label 1."""
    z = weights[FEATURES]
    for weight, value in zip(weights, inputs, strict=False):
        z += weight * value
    return 1.0 / (1.0 + math.exp(-z))


class LogisticRegression:
    """Two classes, eight features; samples follow from the number of the device."""

    def __init__(self, devices: int) -> None:
        self._devices = devices

    def initial_model(self) -> sw.Vector:
        """Return a model of zeros: the weights and the bias."""
        return np.zeros(FEATURES + 1, dtype=np.float32)

    def local_update(self, model: sw.Vector, start: sw.TrainingStart) -> sw.Vector:
        """Return the update of a few steps of mini-batch gradient descent."""
        weights = [float(number) for number in model]
        for step in range(STEPS):
            gradient = [0.0] * (FEATURES + 1)
            for position in range(BATCH):
                sample = ((start.training * STEPS + step) * BATCH + position) % SAMPLES
                inputs, label = sample_of(start.device, sample)
                error = predicted(weights, inputs) - label
                for number, value in enumerate(inputs):
                    gradient[number] += error * value
                gradient[FEATURES] += error
            weights = [w - RATE / BATCH * g for w, g in zip(weights, gradient, strict=True)]
        return np.array(
            [float(before) - after for before, after in zip(model, weights, strict=True)], dtype=np.float32
        )

    def evaluate(self, model: sw.Vector) -> sw.Evaluation:
        """Return the loss on the devices' samples and the accuracy on others."""
        weights = [float(number) for number in model]
        losses = []
        for device in range(1, self._devices + 1):
            for sample in range(SAMPLES):
                inputs, label = sample_of(device, sample)
                probability = predicted(weights, inputs)
                losses.append(-math.log(max(probability if label else 1.0 - probability, 1e-12)))
        tested = [sample_of(TEST_DEVICE, sample) for sample in range(SAMPLES)]
        right = sum((predicted(weights, inputs) > 0.5) == (label > 0.5) for inputs, label in tested)
        return sw.Evaluation(sum(losses) / len(losses), right / SAMPLES)

    def named_arrays(self, model: sw.Vector) -> Mapping[str, sw.Vector]:
        """Return weights and bias by name."""
        return {"weights": model[:FEATURES], "bias": model[FEATURES:]}


def make(config: sw.RunConfig) -> LogisticRegression:
    """Return the task of a run."""
    return LogisticRegression(config.channel.devices)
