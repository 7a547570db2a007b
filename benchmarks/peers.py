"""The common job in other simulators, in turns with slotwise; each in an environment of its own.

    python benchmarks/peers.py --repeats 3 --rounds 20 slotwise=PYTHON loop=PYTHON flower=PYTHON …
    PYTHON benchmarks/peers.py --only pfl --rounds 20        # one measurement: a line of JSON

PYTHON is the interpreter of an environment with slotwise[torch] and the peer: flwr and ray, appfl, flgo, pfl.
The job is that of `slotwise bench`: 100 devices with 250 MNIST samples each, 10 a round, 5 SGD steps of batch
64 with step size 0.01, the paper's CNN of 21,840 parameters, mean of the updates, no evaluation. Each peer
samples devices and batches in its own way. Both cores may be used: by two threads of PyTorch where the
simulator trains one client after another, by two workers with one thread each where it trains clients side by
side (Flower, slotwise). Starting is not counted, nor is the first round.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0", WANDB_MODE="disabled")

from slotwise import bench as suite
from slotwise.base.machine import describe_machine
from slotwise.bench import DEVICES, GROUP_SIZE, NETWORK, SGD
from slotwise.data import load_mnist

THREADS = 2
STEPS_PER_ROUND = GROUP_SIZE * SGD.local_steps
# The data set and the model, for peers that import them from a file.
JOB_FILE = """
import torch
from torch.utils.data import TensorDataset
from peers import device_tensors, network

def get_model():
    return network()

def device_data(device):
    return TensorDataset(*device_tensors(device)), TensorDataset(*device_tensors(device))

class Loss(torch.nn.CrossEntropyLoss):
    pass

def accuracy(true, predicted):
    return 0.0
"""
_cache: dict[str, Any] = {}


def network() -> Any:
    """Return the network of the common job."""
    from slotwise.torch.networks import sequential

    return sequential(NETWORK)


def device_tensors(device: int) -> tuple[Any, Any]:
    """Return images and labels of a device, from 0, as float and integer tensors."""
    import numpy as np
    import torch

    if not _cache:
        _cache["samples"] = suite.common_samples(load_mnist())
    samples = _cache["samples"]
    data, rows = samples.dataset, samples.rows[device]
    offset, scale = (np.float32(given).reshape(1, -1, 1, 1) for given in (data.offset, data.scale))
    images = (np.asarray(data.train_inputs[rows], np.float32) / 255 - offset) / scale
    return torch.from_numpy(images), torch.from_numpy(data.train_targets[rows].astype(np.int64))


def slotwise_rate(rounds: int) -> float:
    """Return SGD steps per second of the numba kernels with two workers."""
    from slotwise.learning.cnn_task import CnnTask

    task = CnnTask(suite.common_samples(load_mnist()), NETWORK, SGD)
    suite.steps_per_second(suite.common_timeline(2), task, THREADS)
    return suite.steps_per_second(suite.common_timeline(10 * rounds), task, THREADS)


def torch_task_rate(rounds: int) -> float:
    """Return SGD steps per second of TorchTask with two workers."""
    from slotwise.torch.task import TorchTask

    task = TorchTask(network(), suite.common_samples(load_mnist()), SGD, compile=False)
    suite.steps_per_second(suite.common_timeline(2), task, THREADS)
    return suite.steps_per_second(suite.common_timeline(2 * rounds), task, THREADS)


def loop_rate(rounds: int) -> float:
    """Return SGD steps per second of a plain PyTorch loop with two threads."""
    samples = suite.common_samples(load_mnist())
    suite.torch_loop_steps_per_second(samples, 1, THREADS)
    return suite.torch_loop_steps_per_second(samples, rounds, THREADS)


def flower_rate(rounds: int) -> float:
    """Return SGD steps per second of Flower's simulation with two actors on Ray."""
    from flower import flower_rate as rate

    logging.getLogger("flwr").setLevel(logging.ERROR)
    return rate(rounds, THREADS)


def pfl_rate(rounds: int) -> float:
    """Return SGD steps per second of pfl-research's simulated backend with two threads."""
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = network()

        def loss(self, images: Any, labels: Any, is_eval: bool = False) -> Any:
            self.train(not is_eval)
            return torch.nn.functional.cross_entropy(self.layers(images), labels)

        def metrics(self, *_: Any, **__: Any) -> dict[str, Any]:
            return {}

    class Clock(TrainingProcessCallback):
        def after_central_iteration(self, *_: Any, **__: Any) -> Any:
            times.append(time.perf_counter())
            return False, Metrics()

    torch.set_num_threads(THREADS)
    times: list[float] = []
    users = {n: PyTorchTensorDataset(device_tensors(n), user_id=str(n)) for n in range(DEVICES)}
    data = FederatedDataset(users.__getitem__, get_user_sampler("minimize_reuse", list(users)))
    net = Net()
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    FederatedAveraging().run(
        NNAlgorithmParams(rounds + 1, 10**9, GROUP_SIZE, None),
        SimulatedBackend(training_data=data, val_data=data),
        model,
        NNTrainHyperParams(
            local_num_epochs=None,
            local_num_steps=SGD.local_steps,
            local_learning_rate=SGD.learning_rate,
            local_batch_size=SGD.batch_size,
        ),
        NNEvalHyperParams(local_batch_size=None),
        [Clock()],
    )
    return rounds * STEPS_PER_ROUND / (times[-1] - times[0])


def flgo_rate(rounds: int) -> float:
    """Return SGD steps per second of FLGo's FedAvg with two threads, clients one after another."""
    import flgo
    from flgo.algorithm import fedavg
    from flgo.benchmark.partition import BasicPartitioner
    from flgo.benchmark.toolkits.cv.classification import FromDatasetPipe

    class Devices(BasicPartitioner):
        def __call__(self, *_: Any) -> list[list[int]]:
            size = suite.SAMPLES
            return [list(range(n * size, (n + 1) * size)) for n in range(DEVICES)]

    class Server(fedavg.Server):
        def iterate(self) -> Any:
            found = super().iterate()
            times.append(time.perf_counter())
            return found

    class Algorithm:
        pass

    # PyTorch 2.13 asks for this method, which FLGo 0.4.4 does not have.
    FromDatasetPipe.TaskDataset.__getitems__ = lambda data, rows: [data[row] for row in rows]
    Algorithm.Server, Algorithm.Client = Server, fedavg.Client  # type: ignore[attr-defined]
    times: list[float] = []
    whole = "torch.utils.data.ConcatDataset([device_data(n)[0] for n in range(100)])"
    Path("job.py").write_text(f"{JOB_FILE}\ntrain_data = {whole}\ntest_data = device_data(0)[0]\n", "utf-8")
    benchmark = flgo.gen_benchmark_from_file("common_job", "job.py", overwrite=True)
    sys.path.insert(0, str(Path.cwd()))
    flgo.gen_task_by_(__import__(benchmark), Devices(), "task")
    options = {
        **{"num_rounds": rounds + 1, "num_steps": SGD.local_steps, "batch_size": SGD.batch_size},
        **{
            "learning_rate": SGD.learning_rate,
            "learning_rate_decay": 1.0,
            "proportion": GROUP_SIZE / DEVICES,
        },
        **{"sample": "uniform", "train_holdout": 0.0, "eval_interval": 10**9, "torch_num_threads": THREADS},
        **{"no_log_console": True, "log_level": "ERROR", "no_tqdm": True},
    }
    flgo.init("task", Algorithm, options).run()
    return rounds * STEPS_PER_ROUND / (times[-1] - times[0])


def appfl_rate(rounds: int) -> float:
    """Return SGD steps per second of APPFL's virtual-time simulation, which trains clients one by one."""
    import torch
    from appfl.agent import ClientAgent, ServerAgent
    from appfl.vsim import ClientProfile, SyncSimDriver, VsimLogger
    from omegaconf import OmegaConf

    class Driver(SyncSimDriver):
        def _select_participants(self) -> Any:
            times.append(time.perf_counter())
            return super()._select_participants()

    torch.set_num_threads(THREADS)
    times: list[float] = []
    Path("job.py").write_text(JOB_FILE, "utf-8")
    quiet = {"optimize_memory": False}  # otherwise every part collects garbage several times a training
    training = {
        **{"trainer": "VanillaTrainer", "mode": "step", "num_local_steps": SGD.local_steps, "device": "cpu"},
        **{"optim": "SGD", "optim_args": {"lr": SGD.learning_rate}, "train_batch_size": SGD.batch_size},
        **{"loss_fn_path": "job.py", "loss_fn_name": "Loss", "do_validation": False},
        **{"metric_path": "job.py", "metric_name": "accuracy", "do_pre_validation": False},
        **quiet,
    }
    server = {
        **{"num_clients": DEVICES, "device": "cpu", "num_global_epochs": rounds + 2, **quiet},
        **{"scheduler": "SyncScheduler", "scheduler_kwargs": {"same_init_model": True, **quiet}},
        **{"aggregator": "FedAvgAggregator", "aggregator_kwargs": {"client_weights_mode": "equal", **quiet}},
    }
    model = {"model_path": "job.py", "model_name": "get_model"}
    config = {"client_configs": {"train_configs": training, "model_configs": model}, "server_configs": server}
    agent = ServerAgent(server_agent_config=OmegaConf.create(config))
    clients = []
    for device in range(DEVICES):
        data = {"dataset_path": "job.py", "dataset_name": "device_data", "dataset_kwargs": {"device": device}}
        own = {"client_id": f"c{device}", "train_configs": {"device": "cpu"}, "data_configs": data, **quiet}
        clients.append(ClientAgent(client_agent_config=OmegaConf.create(own)))
        clients[-1].load_config(agent.get_client_configs())
    Driver(
        agent,
        clients,
        {client.get_id(): ClientProfile() for client in clients},
        participants_per_round=GROUP_SIZE,
        mode="count",
        min_responses=GROUP_SIZE,
        target_rounds=rounds + 2,
        logger=VsimLogger(logging_id="vsim", file_dir="logs", file_name="vsim"),
        base_step_time=0.01,
    ).run()
    return rounds * STEPS_PER_ROUND / (times[-1] - times[1])


PEERS: dict[str, tuple[str, Callable[[int], float]]] = {
    "slotwise": ("slotwise", slotwise_rate),
    "torch-task": ("slotwise", torch_task_rate),
    "loop": ("torch", loop_rate),
    "flower": ("flwr", flower_rate),
    "appfl": ("appfl", appfl_rate),
    "flgo": ("flgo", flgo_rate),
    "pfl": ("pfl", pfl_rate),
}


def measure(peer: str, python: str, rounds: int) -> dict[str, Any]:
    """Measure a peer in a process of its interpreter."""
    command = [python, "-W", "ignore", str(Path(__file__).resolve()), "--only", peer, "--rounds", str(rounds)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{peer}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("peers", nargs="*", metavar="PEER=PYTHON", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--only", choices=PEERS, help="measure one peer in this process")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    if options.only:
        sys.path.insert(0, str(Path(__file__).parent))
        package, rate = PEERS[options.only]
        found = {"peer": options.only, "version": version(package), "rate": round(rate(options.rounds), 1)}
        print("\n" + json.dumps(found), flush=True)
        return
    print(f"{describe_machine()}; medians of {options.repeats} turns", flush=True)
    pairs = [pair.split("=", 1) for pair in options.peers]
    rates: dict[str, list[float]] = {peer: [] for peer, _ in pairs}
    for _ in range(options.repeats):
        for peer, python in pairs:
            found = measure(peer, python, options.rounds)
            rates[peer].append(found["rate"])
            print(f"  {peer} {found['version']}: {found['rate']}", flush=True)
    for peer, values in rates.items():
        print(f"{peer}: {statistics.median(values):.0f} SGD steps/s ({min(values):.0f} to {max(values):.0f})")


if __name__ == "__main__":
    main()
