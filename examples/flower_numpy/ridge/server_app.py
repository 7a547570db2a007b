"""The ServerApp: federated averaging from zero weights."""

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from ridge.task import FEATURES

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds of the configuration."""
    strategy = FedAvg()
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord([np.zeros(FEATURES), np.zeros(1)]),
        train_config=ConfigRecord({"lr": context.run_config["learning-rate"]}),
        num_rounds=context.run_config["num-server-rounds"],
    )
