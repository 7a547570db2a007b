"""The ClientApp: SGD on the images of the node."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits.task import Net, load_data
from digits.task import test as run_test
from digits.task import train as run_training

app = ClientApp()


def _net_and_data(message: Message, context: Context):
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    node, config = context.node_config, context.run_config
    return net, *load_data(node["partition-id"], node["num-partitions"], config["samples"])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the received model on the node's images."""
    net, images, labels = _net_and_data(message, context)
    config = message.content["config"]
    train_loss = run_training(
        net,
        images,
        labels,
        steps=context.run_config["local-steps"],
        batch_size=context.run_config["batch-size"],
        rate=config["lr"],
        seed=1000 * config["server-round"] + context.node_config["partition-id"],
    )
    metrics = MetricRecord({"train_loss": train_loss, "num-examples": len(labels)})
    arrays = ArrayRecord(net.state_dict())
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Test the received model on the node's images."""
    net, images, labels = _net_and_data(message, context)
    loss, accuracy = run_test(net, images, labels)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(labels)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
