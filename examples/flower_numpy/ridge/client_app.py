"""The ClientApp: a few gradient steps on the partition of the node; it counts its trainings."""

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from ridge.task import gradient, load_data, loss

app = ClientApp()


def _data(context: Context):
    return load_data(context.node_config["partition-id"], context.node_config["num-partitions"])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Take gradient steps from the received model."""
    weights, bias = message.content["arrays"].to_numpy_ndarrays()
    inputs, targets = _data(context)
    rate = message.content["config"]["lr"]
    for _ in range(context.run_config["local-steps"]):
        weight_gradient, bias_gradient = gradient(weights, bias, inputs, targets)
        weights, bias = weights - rate * weight_gradient, bias - rate * bias_gradient
    trainings = context.state["memory"]["trainings"] + 1 if "memory" in context.state else 1
    context.state["memory"] = ConfigRecord({"trainings": trainings})
    metrics = {
        "train_loss": loss(weights, bias, inputs, targets),
        "trainings": trainings,
        "num-examples": len(targets),
    }
    content = RecordDict({"arrays": ArrayRecord([weights, bias]), "metrics": MetricRecord(metrics)})
    return Message(content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Return the loss on the partition."""
    weights, bias = message.content["arrays"].to_numpy_ndarrays()
    inputs, targets = _data(context)
    metrics = {"eval_loss": loss(weights, bias, inputs, targets), "num-examples": len(targets)}
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)
