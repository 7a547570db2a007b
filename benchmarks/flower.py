"""A Flower ClientApp in slotwise against Flower's simulation on Ray, in turns; and the overhead of a call.

    python benchmarks/flower.py [--repeats 3] [--rounds 20] [--calls 40]

Needs slotwise[flower,torch,ray]. The app is examples/flower_pytorch: the paper's CNN, 5 SGD steps of batch 64
on 250 images; 100 devices, 10 a round, no evaluation. Flower has as many actors as there are cores, one core
each; so has slotwise, with processes. Starting them is not counted, nor is the first round.

The overhead is that of a call by itself: a ClientApp that trains with a TorchTask, against that TorchTask, in
CPU time.
"""

# ruff: noqa: E402

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import time
from functools import partial
from pathlib import Path

os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0")
APP = Path(__file__).parents[1] / "examples/flower_pytorch"
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(APP), os.environ.get("PYTHONPATH")]))
sys.path.insert(0, str(APP))

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

import slotwise as sw
from slotwise.base.machine import available_cores, describe_machine
from slotwise.bench import NETWORK, SGD, common_samples, interleaved, median_ratio
from slotwise.flower.project import FlowerProject
from slotwise.learning import Training
from slotwise.torch.networks import sequential

DEVICES, GROUP, STEPS = 100, 10, 5
CONFIG = {"samples": 250, "batch-size": 64, "local-steps": STEPS, "learning-rate": 0.01}


def slotwise_rate(schedule: str, rounds: int, workers: int) -> float:
    """Return SGD steps per second in slotwise."""
    task = sw.flower_task(APP, devices=DEVICES, run_config=CONFIG)
    scenario = sw.Scenario(devices=DEVICES, group_size=GROUP, compute_slots=50)
    timeline = sw.simulate(scenario, schedule, rounds=rounds + 1)
    with Training(timeline, task, aggregation="fedavg", workers=workers) as training:
        training._due = frozenset()  # no evaluation
        while getattr(training._workers, "ready", workers) < workers:
            time.sleep(0.1)  # until all processes are there
        training.advance()
        began = time.perf_counter()
        for _ in training:
            pass
        return rounds * GROUP * STEPS / (time.perf_counter() - began)


def flower_rate(rounds: int, workers: int) -> float:
    """Return SGD steps per second in Flower's simulation."""
    project = FlowerProject.read(APP, CONFIG)
    app, run_config = project.load("clientapp"), dict(project.run_config)
    client, server, times = ClientApp(), ServerApp(), []

    @client.train()
    def train(message: Message, context: Context) -> Message:
        node = (context.run_id, context.node_id, context.node_config, context.state)
        return app(message, Context(*node, run_config))

    def note(number: int, arrays: ArrayRecord) -> MetricRecord:
        del number, arrays
        times.append(time.perf_counter())
        return MetricRecord({"loss": 0.0})

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        del context
        from digits.task import Net

        strategy = FedAvg(
            fraction_train=GROUP / DEVICES,
            fraction_evaluate=0.0,
            min_train_nodes=GROUP,
            min_available_nodes=DEVICES,
        )
        strategy.start(
            grid=grid,
            initial_arrays=ArrayRecord(Net().state_dict()),
            train_config=ConfigRecord({"lr": run_config["learning-rate"]}),
            num_rounds=rounds + 1,
            evaluate_fn=note,
        )

    resources = {
        "init_args": {"num_cpus": workers, "include_dashboard": False},
        "client_resources": {"num_cpus": 1},
    }
    run_simulation(server, client, DEVICES, backend_config=resources)
    return rounds * GROUP * STEPS / (times[-1] - times[1])


def call_ratio(calls: int) -> tuple[float, float]:
    """Return the milliseconds of TorchTask, and a ClientApp that uses it in multiples of them."""
    task = sw.TorchTask(
        lambda: sequential(NETWORK), common_samples(sw.load_mnist()), SGD, device="cpu", compile=False
    )
    names = list(task.named_arrays(task.initial_model()))
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        arrays = message.content["arrays"].to_numpy_ndarrays()
        model = np.concatenate([array.ravel() for array in arrays])
        end = model - task.local_update(model, sw.TrainingStart(context.node_id, 0))
        reply = ArrayRecord(list(task.named_arrays(end).values()))
        metrics = MetricRecord({"num-examples": 250})
        return Message(RecordDict({"arrays": reply, "metrics": metrics}), reply_to=message)

    model = task.initial_model()
    arrays = ArrayRecord([task.named_arrays(model)[name] for name in names])
    flower = sw.flower_task(app, devices=DEVICES, arrays=arrays)
    ways = {"app": flower.local_update, "task": task.local_update}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(calls + 3):
        for name, update in ways.items():
            began = time.process_time()
            update(model, sw.TrainingStart(1 + number % DEVICES, 0))
            if number >= 3:
                seconds[name].append(time.process_time() - began)
    ratios = [mine / other for mine, other in zip(seconds["app"], seconds["task"], strict=True)]
    return 1000 * statistics.median(seconds["task"]), statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=40)
    options = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    workers = available_cores()
    print(f"{describe_machine()}; medians of {options.repeats} turns", flush=True)
    milliseconds, ratio = call_ratio(options.calls)
    print(f"a call: TorchTask {milliseconds:.1f} ms, ClientApp {ratio:.3f}×", flush=True)
    ways = {
        "slotwise, sync": partial(slotwise_rate, "sync", options.rounds, workers),
        "slotwise, async": partial(slotwise_rate, "async", options.rounds, workers),
        "flower": partial(flower_rate, options.rounds, workers),
    }
    rates = interleaved(ways, options.repeats, lambda: None)
    for way, found in rates.items():
        ratio = median_ratio(found, rates["flower"])
        print(f"{way}: {statistics.median(found):.1f} SGD steps/s, {ratio:.2f}× Flower")


if __name__ == "__main__":
    main()
