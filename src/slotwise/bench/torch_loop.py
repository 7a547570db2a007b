"""What people write themselves: a plain PyTorch loop over the devices of a round."""

from __future__ import annotations

import copy
import time

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from slotwise.bench.job import NETWORK, SGD, common_timeline
from slotwise.learning.local_sgd import DeviceSamples
from slotwise.learning.torch_task import sequential


def torch_loop_steps_per_second(samples: DeviceSamples, rounds: int, threads: int) -> float:
    """SGD steps per second of the common job in a plain loop, with so many threads per operation."""
    torch.set_num_threads(threads)
    dataset, timeline = samples.dataset, common_timeline(rounds)
    images = (torch.from_numpy(np.array(dataset.train_images)).float() / 255 - 0.1307) / 0.3081
    labels = torch.from_numpy(dataset.train_labels.astype(np.int64))
    model = sequential(NETWORK)
    began = time.perf_counter()
    for k in range(rounds):
        deltas = []
        start = parameters_to_vector(model.parameters()).detach()
        for row in range(timeline.uplinks(k).start, timeline.uplinks(k).stop):
            batches = samples.batches(SGD, int(timeline.device[row]), int(timeline.training[row]))
            deltas.append(start - _local_training(model, images, labels, batches))
        vector_to_parameters(start - torch.stack(deltas).mean(dim=0), model.parameters())
    return len(timeline) * SGD.local_steps / (time.perf_counter() - began)


def _local_training(
    model: nn.Module, images: torch.Tensor, labels: torch.Tensor, batches: np.ndarray
) -> torch.Tensor:
    local = copy.deepcopy(model)
    optimiser = torch.optim.SGD(local.parameters(), lr=SGD.learning_rate)
    for batch in batches:
        rows = torch.from_numpy(batch.astype(np.int64))
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(local(images[rows]), labels[rows])
        torch.autograd.backward(loss)
        optimiser.step()
    return parameters_to_vector(local.parameters()).detach()
