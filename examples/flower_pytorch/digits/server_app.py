"""The ServerApp: federated averaging, and a test on images that no node has."""

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from digits.task import Net, held_out_data, test

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds of the configuration."""
    torch.manual_seed(0)
    strategy = FedAvg()
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        train_config=ConfigRecord({"lr": context.run_config["learning-rate"]}),
        num_rounds=context.run_config["num-server-rounds"],
    )


def global_evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """Test a model on the test images."""
    del server_round
    net = Net()
    net.load_state_dict(arrays.to_torch_state_dict())
    loss, accuracy = test(net, *held_out_data())
    return MetricRecord({"loss": loss, "accuracy": accuracy})
