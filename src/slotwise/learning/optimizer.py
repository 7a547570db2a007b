"""Steps of a local training on flat arrays: SGD, Adam, and a step of the user's own.

A step changes the weights in place. It gets numpy arrays, or torch tensors if the task computes on a GPU, so
it is written with operators that both have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from slotwise.errors import ConflictError, UserError
from slotwise.learning.local_training import LocalTraining
from slotwise.learning.task import TrainingStart
from slotwise.user_code import check_arguments, is_function_name, load_function

Array = Any  # a numpy array, or a torch tensor on a GPU
Step = Callable[[Array, Array, "StepContext"], Any]
UNNAMED_STEP = "task:local_step"  # instead of the name of a lambda or of another object without one


@dataclass(eq=False)
class StepContext:
    """Circumstances of one step of a local training.

    Attributes:
        training: Options of local training.
        start: The local training that the step belongs to.
        start_weights: w_start, the weights before its first step.
        learning_rate: Step size, after its decay.
        step: Number of the step, from 0.
        state: Arrays or numbers that the steps of one local training share; empty at its start.
    """

    training: LocalTraining
    start: TrainingStart
    start_weights: Array
    learning_rate: float
    step: int = 0
    state: dict[str, Any] = field(default_factory=dict)


class Optimizer:
    """The optimiser of a `LocalTraining`; it holds no state, so threads can share it."""

    def __init__(self, training: LocalTraining, local_step: Step | None = None) -> None:
        """Take the steps that ``training`` describes, or those of the function ``local_step``."""
        self._training, name = training, training.local_step
        if local_step is not None:
            self._step: Step = local_step
        else:
            self._step = load_function("local_step", name, 3) if name else STEPS[training.optimizer]

    def begin(self, start: TrainingStart, start_weights: Array) -> StepContext:
        """Return the context of the first step of a local training."""
        return StepContext(self._training, start, start_weights, self._training.rate_at(start))

    def step(self, weights: Array, gradient: Array, context: StepContext) -> None:
        """Change the weights by one step, and the context for the next."""
        returned: object
        if self._training.local_step is not None:
            returned = self._step(weights, gradient, context)
        else:
            with np.errstate(over="ignore", invalid="ignore"):  # Diverged says it better than a numpy warning
                returned = self._step(weights, gradient, context)
        if returned is not None:
            name = self._training.local_step
            raise UserError(f"local_step {name}: must change the weights in place and return nothing")
        context.step += 1


def with_own_step(training: LocalTraining, local_step: Step | None) -> LocalTraining:
    """Return the options of a training whose steps a function takes; refuse those that it would not use."""
    if local_step is None:
        return training
    if training.local_step is not None:
        raise ConflictError("local_step", "training.local_step")
    check_arguments("local_step", local_step, 3)
    name = f"{getattr(local_step, '__module__', '')}:{getattr(local_step, '__name__', '')}"
    return replace(training, local_step=name if is_function_name(name) else UNNAMED_STEP)


def sgd(weights: Array, gradient: Array, context: StepContext) -> None:
    """v ← momentum·v + g, w ← w − eta·v."""
    direction = penalised(weights, gradient, context)
    if context.training.momentum:
        if context.step:
            direction = context.training.momentum * context.state["velocity"] + direction
        context.state["velocity"] = direction
    weights -= context.learning_rate * direction


def adam(weights: Array, gradient: Array, context: StepContext) -> None:
    """Adam (Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, Algorithm 1)."""
    options, state, count = context.training, context.state, context.step + 1
    direction = penalised(weights, gradient, context)
    mean, square = (1 - options.beta1) * direction, (1 - options.beta2) * direction * direction
    if context.step:
        mean, square = mean + options.beta1 * state["mean"], square + options.beta2 * state["square"]
    state["mean"], state["square"] = mean, square
    rate = context.learning_rate / (1 - options.beta1**count)
    weights -= rate * mean / ((square / (1 - options.beta2**count)) ** 0.5 + options.epsilon)


def penalised(weights: Array, gradient: Array, context: StepContext) -> Array:
    """Return the gradient with the proximal term, clipped, with the L2 penalty.

    The proximal term is mu/2·‖w − w_start‖² (Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, "Federated
    Optimization in Heterogeneous Networks", MLSys 2020). It belongs to the loss, so it is clipped as well.
    """
    options = context.training
    if options.proximal:
        gradient = gradient + options.proximal * (weights - context.start_weights)
    if options.gradient_clip is not None:
        length = float((gradient * gradient).sum()) ** 0.5
        if length > options.gradient_clip:
            gradient = gradient * (options.gradient_clip / length)
    if options.weight_decay:
        gradient = gradient + options.weight_decay * weights
    return gradient


STEPS: dict[str, Step] = {"sgd": sgd, "adam": adam}
