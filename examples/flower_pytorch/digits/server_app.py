"""The ServerApp: federated averaging, and a test on images that no node has."""

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from digits.task import Net, held_out_data, test
from slotwise.flower import serve

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train with Flower's FedAvg, or in the order of one of slotwise's schedules."""
    config = context.run_config
    torch.manual_seed(0)
    arrays = ArrayRecord(Net().state_dict())
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


def global_evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """Test a model on the test images."""
    del server_round
    net = Net()
    net.load_state_dict(arrays.to_torch_state_dict())
    loss, accuracy = test(net, *held_out_data())
    return MetricRecord({"loss": loss, "accuracy": accuracy})
