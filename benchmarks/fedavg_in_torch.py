"""FedAvg on MNIST as a plain loop in PyTorch: the rounds to 97 %, to compare with docs/validation.md.

    python benchmarks/fedavg_in_torch.py --step 0.22
    python benchmarks/fedavg_in_torch.py --step 0.22 --shards

Nothing of slotwise is used but the images: 100 devices with 600 each, dense layers of 200 and 200 with
PyTorch's first weights, ten devices a round, one epoch, batches of ten, models averaged, inputs 0..1.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from slotwise import load_mnist

DEVICES, PARTICIPANTS, BATCH, TARGET = 100, 10, 10, 0.97


def device_rows(labels: Tensor, *, is_sorted: bool) -> Tensor:
    """Return the rows of each device: any, or two shards of images sorted by label."""
    if not is_sorted:
        return torch.randperm(len(labels)).reshape(DEVICES, -1)
    shards = labels.argsort(stable=True).reshape(2 * DEVICES, -1)
    return shards[torch.randperm(2 * DEVICES)].reshape(DEVICES, -1)


def local_model(net: nn.Module, images: Tensor, labels: Tensor, step: float) -> Tensor:
    """Train one epoch; return the parameters."""
    optimizer = torch.optim.SGD(net.parameters(), lr=step)
    for batch in torch.randperm(len(labels)).split(BATCH):
        optimizer.zero_grad()
        functional.cross_entropy(net(images[batch]), labels[batch]).backward()
        optimizer.step()
    return nn.utils.parameters_to_vector(net.parameters()).detach()


def accuracies(step: float, *, is_sorted: bool) -> Iterator[float]:
    """Train; yield the test accuracy after each round."""
    data = load_mnist()
    images, tests = (torch.tensor(own).flatten(1) / 255 for own in (data.train_inputs, data.test_inputs))
    labels, expected = (torch.tensor(own).long() for own in (data.train_targets, data.test_targets))
    rows = device_rows(labels, is_sorted=is_sorted)
    net = nn.Sequential(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10))
    while True:
        start = nn.utils.parameters_to_vector(net.parameters()).detach().clone()
        ends = []
        for own in rows[torch.randperm(DEVICES)[:PARTICIPANTS]]:
            nn.utils.vector_to_parameters(start.clone(), net.parameters())
            ends.append(local_model(net, images[own], labels[own], step))
        nn.utils.vector_to_parameters(torch.stack(ends).mean(0), net.parameters())
        with torch.no_grad():
            yield (net(tests).argmax(1) == expected).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--step", type=float, default=0.22)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shards", action="store_true", help="two shards of sorted images for each device")
    parser.add_argument("--most", type=int, default=1000, help="rounds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    found = zip(range(1, options.most + 1), accuracies(options.step, is_sorted=options.shards), strict=False)
    k, accuracy = next(((k, one) for k, one in found if one >= TARGET), (options.most, None))
    reached = "not reached" if accuracy is None else f"{accuracy:.2%}"
    print(f"step {options.step:g}, seed {options.seed}: {reached} after {k} rounds")


if __name__ == "__main__":
    main()
