"""Steps of a local training on flat arrays: SGD, Adam, a step of the user's own; decays of the step size.

A step changes the weights in place. It gets numpy arrays, or torch tensors if the task computes on a GPU, so
it is written with operators that both have. To add an optimiser or a decay, write a class and name it in
`OPTIMIZERS` or `DECAYS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import cos, floor, pi
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from slotwise.base.errors import UserError
from slotwise.base.user_code import check_arguments, describe_value
from slotwise.learning.task import TrainingStart
from slotwise.options import Choice, Range, UserFunction, loaded
from slotwise.options.checks import LARGEST, LARGEST_NUMBER, Value
from slotwise.options.declarations import importable_name

if TYPE_CHECKING:
    from slotwise.learning.local_training import LocalTraining

Array = Any  # a numpy array, or a torch tensor on a GPU
Step = Callable[[Array, Array, "StepContext"], Any]
# Steps are computed in float32.
Weight = Annotated[float, Range(least=0, most=LARGEST_NUMBER)]
Positive = Annotated[float, Range(least=1 / LARGEST_NUMBER, most=LARGEST_NUMBER)]
Share = Annotated[float, Range(least=0, below=1)]


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


@dataclass(frozen=True, kw_only=True)
class BuiltInStep(Value, ABC):
    """A step along the gradient of the loss with penalties.

    Attributes:
        weight_decay: Weight of the L2 penalty.
        gradient_clip: Longest gradient of a step, as Euclidean norm; longer ones are shortened to it.
        proximal: FedProx's mu, the weight of the squared distance to the start.
    """

    weight_decay: Weight = 0.0
    gradient_clip: Positive | None = None
    proximal: Weight = 0.0

    @abstractmethod
    def __call__(self, weights: Array, gradient: Array, context: StepContext) -> None:
        """Change the weights in place."""

    def penalised(self, weights: Array, gradient: Array, context: StepContext) -> Array:
        """Return the gradient with the proximal term, clipped, with the L2 penalty.

        The proximal term is mu/2·‖w − w_start‖² (Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, "Federated
        Optimization in Heterogeneous Networks", MLSys 2020). It belongs to the loss, so it is clipped too.
        """
        if self.proximal:
            gradient = gradient + self.proximal * (weights - context.start_weights)
        if self.gradient_clip is not None:
            length = float((gradient * gradient).sum()) ** 0.5
            if length > self.gradient_clip:
                gradient = gradient * (self.gradient_clip / length)
        if self.weight_decay:
            gradient = gradient + self.weight_decay * weights
        return gradient


@dataclass(frozen=True, kw_only=True)
class Sgd(BuiltInStep):
    """Stochastic gradient descent: v ← momentum·v + g, w ← w − eta·v.

    Attributes:
        momentum: Momentum of SGD.
    """

    momentum: Share = 0.0

    def __call__(self, weights: Array, gradient: Array, context: StepContext) -> None:
        """Change the weights in place."""
        direction = self.penalised(weights, gradient, context)
        if self.momentum:
            if context.step:
                direction = self.momentum * context.state["velocity"] + direction
            context.state["velocity"] = direction
        weights -= context.learning_rate * direction


@dataclass(frozen=True, kw_only=True)
class Adam(BuiltInStep):
    """Adam (Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, Algorithm 1).

    Attributes:
        beta1: Decay of Adam's mean gradient.
        beta2: Decay of Adam's mean square gradient.
        epsilon: Term in the denominator of Adam.
    """

    beta1: Share = 0.9
    beta2: Share = 0.999
    epsilon: Positive = 1e-8

    def __call__(self, weights: Array, gradient: Array, context: StepContext) -> None:
        """Change the weights in place."""
        state, count = context.state, context.step + 1
        direction = self.penalised(weights, gradient, context)
        mean, square = (1 - self.beta1) * direction, (1 - self.beta2) * direction * direction
        if context.step:
            mean, square = mean + self.beta1 * state["mean"], square + self.beta2 * state["square"]
        state["mean"], state["square"] = mean, square
        rate = context.learning_rate / (1 - self.beta1**count)
        weights -= rate * mean / ((square / (1 - self.beta2**count)) ** 0.5 + self.epsilon)


@dataclass(frozen=True, kw_only=True)
class OwnStep(Value):
    """A step of the user's own, a function of weights, gradient and context.

    Attributes:
        local_step: Your own step of the optimiser: module:function.
    """

    local_step: Annotated[Any, Choice("local_step", {}, own=(3,))]

    @property
    def name(self) -> str:
        """Module and name of the function; its type if it has none."""
        step = self.local_step
        return step.name if isinstance(step, UserFunction) else importable_name(step) or describe_value(step)


OPTIMIZERS: Mapping[str, type[BuiltInStep]] = {"sgd": Sgd, "adam": Adam}
OPTIMIZER = Choice("optimizer", OPTIMIZERS, unnamed=(OwnStep,))


@dataclass(frozen=True)
class Constant:
    """The step size does not decay."""

    def factor(self, start: TrainingStart) -> float:  # noqa: ARG002
        """Return 1: the step size stays the same."""
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Decay(Value, ABC):
    """The step size decays from 1 over the run, and never rises.

    Attributes:
        rate_unit: Unit in which the decay counts: rounds, slots or trainings of the device.
        rate_period: Units in which the step size halves (step, exponential), falls to a half for the
            first time (inverse) or reaches 0 (cosine).
    """

    rate_unit: Literal["round", "slot", "training"] = "round"
    rate_period: Annotated[int, Range(least=1, most=LARGEST)] = 1000

    def factor(self, start: TrainingStart) -> float:
        """Return the factor of the step size in a local training."""
        return self.after(getattr(start, self.rate_unit) / self.rate_period)

    @abstractmethod
    def after(self, periods: float) -> float:
        """Return the factor after some periods."""


class StepDecay(Decay):
    """The step size is halved after every period."""

    def after(self, periods: float) -> float:
        """Return the factor after some periods."""
        return float(0.5 ** min(floor(periods), 1000))


class ExponentialDecay(Decay):
    """The step size is halved in every period, a little in each unit."""

    def after(self, periods: float) -> float:
        """Return the factor after some periods."""
        return float(0.5 ** min(periods, 1000.0))


class InverseDecay(Decay):
    """The step size is 1/(1 + periods)."""

    def after(self, periods: float) -> float:
        """Return the factor after some periods."""
        return 1 / (1 + periods)


class CosineDecay(Decay):
    """The step size follows half a cosine, down to 0 after one period."""

    def after(self, periods: float) -> float:
        """Return the factor after some periods."""
        return 0.5 * (1 + cos(pi * min(1.0, periods)))


DECAYS: Mapping[str, type[Constant | Decay]] = {
    "constant": Constant,
    "step": StepDecay,
    "exponential": ExponentialDecay,
    "inverse": InverseDecay,
    "cosine": CosineDecay,
}
RATE_DECAY = Choice("rate_decay", DECAYS)


class Optimizer:
    """The optimiser of a `LocalTraining`; it holds no state, so threads can share it."""

    def __init__(self, training: LocalTraining) -> None:
        self._training, step = training, training.optimizer
        self._own = step.name if isinstance(step, OwnStep) else ""
        self._step: Step = loaded(step.local_step) if isinstance(step, OwnStep) else step
        check_arguments("local_step", self._step, 3)

    def begin(self, start: TrainingStart, start_weights: Array) -> StepContext:
        """Return the context of the first step of a local training."""
        return StepContext(self._training, start, start_weights, self._training.rate_at(start))

    def step(self, weights: Array, gradient: Array, context: StepContext) -> None:
        """Change the weights by one step, and the context for the next."""
        gradient = context.start.corrected(gradient, weights)
        if not self._own:
            with np.errstate(over="ignore", invalid="ignore"):  # Diverged says it better than a numpy warning
                self._step(weights, gradient, context)
        elif self._step(weights, gradient, context) is not None:
            raise UserError(f"local_step {self._own}: must change the weights in place and return nothing")
        context.step += 1
