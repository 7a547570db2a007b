"""AppCall: calls of a ClientApp in this process, as a function of model, device, training and state.

An app may draw from the global random generators: they are seeded for one call, and restored after it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp

from slotwise.aggregation import Vector
from slotwise.base.errors import UserError
from slotwise.base.user_code import describe_error, describe_value
from slotwise.flower.app_messages import (
    MessageForm,
    records_of,
    reply_arrays,
    reply_content,
    reply_metrics,
    state_of,
)
from slotwise.flower.array_layout import ArrayLayout
from slotwise.flower.project import FlowerProject
from slotwise.learning.randomness import Purpose, generator
from slotwise.learning.task import DeviceState, TrainingResult, TrainingStart

CALLING = Lock()  # the global random generators belong to one call at a time


class DeviceMetrics(NamedTuple):
    """Evaluation of a model by one device: the samples that weight it, and its metrics."""

    samples: int
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class AppDescription:
    """Everything that decides what a ClientApp computes; it can be sent to another process.

    Attributes:
        label: Name of the app in messages.
        project: The project that has the app; None if the app is only in this process.
        layout: Arrays of the model.
        train: Form of the messages for training.
        evaluate: Form of the messages for evaluation.
        devices: Number of devices.
        seed: Seed of the run.
        run_config: Configuration of the app.
    """

    label: str
    project: FlowerProject | None
    layout: ArrayLayout
    train: MessageForm
    evaluate: MessageForm
    devices: int
    seed: int
    run_config: Mapping[str, Any] = field(default_factory=dict)


class AppCall:
    """Calls of one ClientApp. The app sees each device as a node, as in Flower's simulation.

    Before every call the global random generators are seeded from (seed, device, training), and calls in this
    process come one after another, so an app may draw from them and still be a function of its arguments.
    """

    def __init__(self, description: AppDescription, app: ClientApp | None = None) -> None:
        """Load the ClientApp of the project, unless it is given."""
        self._of = description
        if app is None:
            assert description.project is not None
            app = description.project.load("clientapp")
        if not isinstance(app, ClientApp):
            raise UserError(f"{description.label}: must be a ClientApp; it is {describe_value(app)}")
        if getattr(app, "_call", None) is not None:  # set if the app was made with a client_fn
            instead = "which is not supported; use @app.train(), the Message API"
            raise UserError(f"{description.label}: has a client_fn, {instead}")
        self._app = app
        if "torch" in sys.modules:
            from slotwise.torch.module import keep_freed_memory  # noqa: PLC0415

            keep_freed_memory()

    def __reduce__(self) -> tuple[type[AppCall], tuple[AppDescription]]:
        """Pickle the description; another process loads the app of the project itself."""
        if self._of.project is None:
            raise UserError(
                f"{self._of.label}: an app object that is not part of a project stays in its process"
            )
        return AppCall, (self._of,)

    def train(self, model: Vector, start: TrainingStart) -> TrainingResult:
        """Train on one device; raise a UserError that names app and device if that fails."""
        of = self._of
        seed = seed_of(of.seed, Purpose.APP_TRAINING, start.device, start.training)
        content, state = self._call(of.train, model, start.device, start.round + 1, start.state, seed)
        try:
            end = of.layout.vector(reply_arrays(content))
            samples, metrics = reply_metrics(content)
        except UserError as error:
            raise self._failed(of.train, start.device, str(error)) from None
        return TrainingResult(model - end, samples, metrics, state)

    def evaluate(self, model: Vector, device: int, state: DeviceState) -> DeviceMetrics:
        """Evaluate on one device; what the app keeps in its state is forgotten."""
        of = self._of
        seed = seed_of(of.seed, Purpose.APP_EVALUATION, device)
        content, _ = self._call(of.evaluate, model, device, 1, state, seed)
        try:
            return DeviceMetrics(*reply_metrics(content))
        except UserError as error:
            raise self._failed(of.evaluate, device, str(error)) from None

    def _call(
        self, form: MessageForm, model: Vector, device: int, server_round: int, state: DeviceState, seed: int
    ) -> tuple[RecordDict, DeviceState]:
        message = form.message(self._of.layout.record(model), server_round, device)
        node = {"partition-id": device - 1, "num-partitions": self._of.devices}
        context = Context(1, device, node, records_of(state), dict(self._of.run_config))
        try:
            with CALLING, seeded(seed):
                reply = self._app(message, context)
            return reply_content(reply), state_of(context.state)
        except UserError as error:
            raise self._failed(form, device, str(error)) from None
        except (Exception, SystemExit) as error:
            raise self._failed(form, device, f"failed: {describe_error(error)}") from error

    def _failed(self, form: MessageForm, device: int, problem: str) -> UserError:
        return UserError(f"{self._of.label}: {form.message_type} on device {device}: {problem}")


def seed_of(seed: int, purpose: Purpose, device: int, training: int = 0) -> int:
    """Return the seed of the global generators for one call: a function of its arguments."""
    return int(generator(seed, purpose, device, training).integers(2**32))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the generators of `random`, numpy and torch; restore them at the end, with torch's threads.

    Torch computes with one thread meanwhile: sums over several threads have other last bits.
    """
    torch: Any = sys.modules.get("torch")
    # numpy's global generator is what the user's function may use.
    before: Any = np.random.get_state()
    python = random.getstate()
    random.seed(seed)
    np.random.seed(seed)
    if torch is None:
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(before)
        return
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(1)
    # Not torch.manual_seed: it also notes the seed for GPUs, with a stack trace, which takes long.
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(before)
        torch.set_rng_state(state)
        torch.set_num_threads(threads)
