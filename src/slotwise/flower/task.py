"""FlowerTask: an unmodified Flower ClientApp as a task, of a project or as an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, MessageType, MetricRecord
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.base.errors import InputError, MissingError, UserError
from slotwise.base.user_code import check_arguments, describe_error, load_function
from slotwise.flower.app_call import CALLING, AppCall, AppDescription, seed_of, seeded
from slotwise.flower.app_messages import MessageForm, evaluation_of, mean_metrics
from slotwise.flower.array_layout import ArrayLayout
from slotwise.flower.project import FlowerProject
from slotwise.flower.server_probe import first_messages
from slotwise.learning.randomness import Purpose
from slotwise.learning.task import (
    NO_DEVICE_STATE,
    DeviceState,
    Evaluation,
    Task,
    TrainingResult,
    TrainingStart,
)

EvaluateFunction = Callable[[int, ArrayRecord], MetricRecord | Mapping[str, float] | None]


class FlowerTask(Task):
    """Learning with a Flower ClientApp, which is called without changes.

    Devices are nodes with partition-id 0 to N−1. The app may use the global random generators, so a process
    makes one call at a time, and several workers are processes. An app object that is not part of a project
    is always called in this process.

    """

    devices: int

    def __init__(
        self,
        description: AppDescription,
        arrays: ArrayRecord,
        *,
        app: ClientApp | None = None,
        evaluate: EvaluateFunction | None = None,
    ) -> None:
        """Start from ``arrays``; ``evaluate`` is a server-side evaluation instead of that of the devices."""
        self.devices = description.devices
        self._description, self._evaluate = description, evaluate
        self._layout = description.layout
        self._first = self._layout.vector(arrays)
        self._call = AppCall(description, app)
        self.one_per_process = description.project is not None

    def initial_model(self) -> Vector:
        """Return the arrays that the ServerApp sends first."""
        return self._first.copy()

    def local_update(self, model: Vector, start: TrainingStart) -> TrainingResult:
        """Return the update of one train message, with the metrics of the reply and the state of the app."""
        return self._call.train(model, start)

    def evaluate(self, model: Vector) -> Evaluation:
        """Return the evaluation by devices without a state."""
        return self.evaluate_devices(model, {})

    def evaluate_devices(self, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation:
        """Return the server-side evaluation, or else the mean over devices, weighted by num-examples."""
        if self._evaluate is not None:
            return self._evaluate_on_server(model)
        found = [
            self._call.evaluate(model, device, states.get(device, NO_DEVICE_STATE))
            for device in range(1, self.devices + 1)
        ]
        try:
            return evaluation_of(mean_metrics(found))
        except UserError as error:
            needed = f"a server-side evaluation, or evaluate of {self._description.label} {error}"
            raise MissingError("flower_evaluate", needed) from None

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        """Return the arrays by their names in the ArrayRecord."""
        return self._layout.named_arrays(model)

    def _evaluate_on_server(self, model: Vector) -> Evaluation:
        assert self._evaluate is not None
        name = f"evaluate function {getattr(self._evaluate, '__name__', '')}"
        try:
            with CALLING, seeded(seed_of(self._description.seed, Purpose.APP_EVALUATION, 0)):
                found = self._evaluate(0, self._layout.record(model))
        except (Exception, SystemExit) as error:
            raise UserError(f"{self._description.label}: {name} failed: {describe_error(error)}") from error
        try:
            return evaluation_of(found)
        except UserError as error:
            raise UserError(f"{self._description.label}: {name} {error}") from None


def project_task(
    project: FlowerProject,
    devices: int,
    seed: int,
    model_seed: int,
    arrays: ArrayRecord | None,
    evaluate: str | EvaluateFunction | None,
) -> FlowerTask:
    """Return the task of a project; `flower_task` describes the arguments."""
    project.load("clientapp")
    first = first_messages(project, devices, seed_of(model_seed, Purpose.MODEL, 0))
    begin = first.arrays if arrays is None else arrays
    description = AppDescription(
        f"flower app {project.name}",
        project,
        ArrayLayout.of(begin),
        first.train,
        first.evaluate,
        devices,
        seed,
        project.run_config,
    )
    return FlowerTask(description, begin, evaluate=_evaluate_function(evaluate))


def object_task(
    app: ClientApp,
    devices: int,
    seed: int,
    run_config: str | Mapping[str, Any] | None,
    arrays: ArrayRecord | None,
    evaluate: str | EvaluateFunction | None,
) -> FlowerTask:
    """Return the task of an app object, with the messages that Flower's strategies send."""
    if not isinstance(app, ClientApp):
        raise InputError("app", type(app).__name__, "the folder of a Flower project, or a ClientApp")
    if arrays is None:
        raise MissingError("arrays", "the first model, because a ClientApp does not have it")
    if isinstance(run_config, str):
        raise InputError("run_config", run_config, "a mapping with a ClientApp object")
    train, test = map(MessageForm.usual, (MessageType.TRAIN, MessageType.EVALUATE))
    layout, config = ArrayLayout.of(arrays), dict(run_config or {})
    description = AppDescription("flower app", None, layout, train, test, devices, seed, config)
    return FlowerTask(description, arrays, app=app, evaluate=_evaluate_function(evaluate))


def _evaluate_function(evaluate: str | EvaluateFunction | None) -> EvaluateFunction | None:
    """Return the function; the folder of the project is on the search path by now."""
    if isinstance(evaluate, str):
        function: EvaluateFunction = load_function("flower_evaluate", evaluate, 2)
        return function
    if evaluate is not None:
        check_arguments("evaluate", evaluate, 2)
    return evaluate
