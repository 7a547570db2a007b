"""The data of each partition, the gradient and the loss."""

import numpy as np

FEATURES = 8
PENALTY = 0.01


def load_data(partition: int, partitions: int):
    """Return inputs and targets of a partition; partitions differ in size and in their weights."""
    draw = np.random.default_rng([7, partition, partitions])
    samples = 20 + 5 * (partition % 4)
    inputs = draw.normal(size=(samples, FEATURES))
    weights = np.linspace(-1.0, 1.0, FEATURES) + 0.3 * draw.normal(size=FEATURES)
    return inputs, inputs @ weights + 0.5 + 0.1 * draw.normal(size=samples)


def gradient(weights, bias, inputs, targets):
    """Return the gradient of the penalised mean squared error."""
    errors = inputs @ weights + bias - targets
    return 2 * (inputs.T @ errors) / len(targets) + 2 * PENALTY * weights, 2 * errors.mean(keepdims=True)


def loss(weights, bias, inputs, targets):
    """Return the mean squared error."""
    return float(np.mean((inputs @ weights + bias - targets) ** 2))
