"""Synchronous training with all devices gives the models of Flower's own simulation, round by round."""

import os
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, MetricRecord
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from slotwise import Scenario, flower_task, simulate
from slotwise.flower.project import FlowerProject
from slotwise.flower.server_probe import first_messages
from slotwise.learning import Training

ROUNDS, DEVICES = 3, 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_fedavg_gives_the_same_models(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, task = FlowerProject.read(example), flower_task(example, devices=DEVICES)
    app, first = project.load("clientapp"), first_messages(project, DEVICES, 0)
    # The workers of Ray import the project, and run_simulation passes no run configuration.
    paths = [str(example), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    client, run_config = ClientApp(), dict(project.run_config)

    @client.train()
    def train(message: Message, context: Context) -> Message:
        node = (context.run_id, context.node_id, context.node_config, context.state)
        return app(message, Context(*node, run_config))

    server, models = ServerApp(), []

    def note(server_round: int, arrays: object) -> MetricRecord:
        models.append(np.concatenate([array.numpy().ravel() for array in arrays.values()]))  # type: ignore[attr-defined]
        return MetricRecord({"loss": 0.0})

    @server.main()
    def main(grid: object, context: Context) -> None:
        config = ConfigRecord({"lr": run_config["learning-rate"]})
        strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=DEVICES, min_available_nodes=DEVICES)
        strategy.start(
            grid=grid,
            initial_arrays=first.arrays,
            train_config=config,
            num_rounds=ROUNDS,
            evaluate_fn=note,
        )

    resources = {
        # A cluster of its own, whatever else runs on this machine.
        "init_args": {"address": "local", "num_cpus": 2, "include_dashboard": False},
        "client_resources": {"num_cpus": 1},
    }
    run_simulation(server, client, DEVICES, backend_config=resources)
    scenario = Scenario(devices=DEVICES, group_size=DEVICES, compute_slots=5)
    with Training(simulate(scenario, "sync", rounds=ROUNDS), task, aggregation="fedavg") as training:
        ours = [task.initial_model(), *(training.model for _ in training)]
    assert len(models) == len(ours) == ROUNDS + 1
    for flowers, own in zip(models, ours, strict=True):
        assert own == pytest.approx(flowers, rel=1e-5, abs=1e-6)
    assert np.abs(ours[-1] - ours[0]).max() > 1e-3
