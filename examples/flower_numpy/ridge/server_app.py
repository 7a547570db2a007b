"""The ServerApp: federated averaging from zero weights."""

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from ridge.task import FEATURES
from slotwise.flower import serve

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train with Flower's FedAvg, or in the order of one of slotwise's schedules."""
    config = context.run_config
    arrays = ArrayRecord([np.zeros(FEATURES), np.zeros(1)])
    train_config = ConfigRecord({"lr": config["learning-rate"]})
    if config["schedule"] == "fedavg":
        rounds = config["num-server-rounds"]
        FedAvg().start(grid=grid, initial_arrays=arrays, train_config=train_config, num_rounds=rounds)
        return
    options = {name: config[name] for name in ("schedule", "devices", "group_size", "deadline")}
    options |= {"compute_slots": 5, "aggregation": "fedavg", "evaluate_every": config["deadline"]}
    serve(
        grid,
        options,
        arrays=arrays,
        train_config=train_config,
        message_timeout=config["message-timeout"],
        checkpoint_every=0,
        out=config["out"],
    )
