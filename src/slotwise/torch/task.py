"""TorchTask: any torch.nn.Module as a Task. Needs the extra ``slotwise[torch]``.

A model is the module's parameters, and optionally its floating-point buffers, as one flat float32 vector.
Each worker thread has its own copy of the module and one intra-op thread: parallel local trainings are faster
than parallel operations. Images are kept channels-last, which the CPU's kernels prefer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import ceil
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.base.errors import InputError, MissingError, UserError
from slotwise.base.extras import importing
from slotwise.base.user_code import describe_error, describe_value
from slotwise.learning.cnn_task import CnnTask
from slotwise.learning.local_training import DeviceSamples, LocalTraining, check_training, with_own_step
from slotwise.learning.optimizer import Optimizer, Step
from slotwise.learning.task import Evaluation, Task, TrainingStart
from slotwise.options.checks import LARGEST_SEED, whole

with importing():
    import torch
    from torch import nn

from slotwise.torch.checks import Checks, check_module
from slotwise.torch.compiled import NotCompiled, compiled_task, require_same_gradient
from slotwise.torch.module import (
    Buffers,
    FlatModule,
    Layout,
    copy_module,
    draw_parameters,
    keep_freed_memory,
    one_thread,
)
from slotwise.torch.objective import TEST_LOSS, ChunkedMetrics, Loss, Mean, Metric, Objective, count_correct
from slotwise.torch.randomness import SeededOperations
from slotwise.torch.samples import ArrayBatches, Batch, Batches, Rows, TorchSamples, arrange, kept_on

Context = AbstractContextManager[Any]
Initial = Literal["module", "seed"]
Compile = Literal["auto", False]
_CHOICES = {"initial": get_args(Initial), "compile": get_args(Compile), "buffers": get_args(Buffers)}
_NOT_ASKED = "compile=False"
CHUNK = 512  # samples of an evaluation at once, at most


class TorchTask(Task):
    """Learning with any module, loss and data.

    A local update is a function of the model, the device and the number of its training, although torch is
    not: random layers draw from a generator of that training, and everything in the module that is not part
    of the model is reset before it. The constructor computes a gradient and an evaluation of one batch, so
    that mistakes are found there.
    """

    def __init__(
        self,
        module: nn.Module | Callable[[], nn.Module],
        samples: DeviceSamples | TorchSamples,
        training: LocalTraining,
        *,
        loss: Loss = nn.functional.cross_entropy,
        metrics: Mapping[str, Metric] | None = None,
        initial: Initial = "module",
        model_seed: int | None = None,
        buffers: Buffers = "local",
        local_step: Step | None = None,
        offset: tuple[float, ...] | None = None,
        scale: tuple[float, ...] | None = None,
        device: str | None = None,
        compile: Compile = "auto",  # noqa: A002  (the word that torch uses)
    ) -> None:
        """Train copies of ``module``; the caller's module is not changed.

        Args:
            module: The module, or a function that makes it, which is called with torch's generator of the
                CPU seeded by ``model_seed``. Parameters without ``requires_grad`` are not part of the model.
            samples: Samples of each device and of the test.
            training: Local training.
            loss: ``loss(outputs, targets)``: the mean over a batch, or a number for each sample.
            metrics: Further numbers of an evaluation by name: ``metric(outputs, targets)`` of all test
                samples, or a number for each sample, whose mean is taken. ``test_loss`` is always there.
            initial: First model: "module", its parameters; "seed", drawn uniformly in ±1/sqrt(fan-in).
            model_seed: Seed of the first model, by default that of ``training``.
            buffers: Floating-point buffers, such as the statistics of a batch normalisation. "local": they
                do not travel; an evaluation measures the statistics of batch normalisations on the devices'
                samples. "average": they are part of the model. "refuse": a module with buffers is refused.
            local_step: Your own step of the optimiser, ``local_step(weights, gradient, context)``, which
                changes the weights in place; instead of the optimiser of ``training``.
            offset: Per channel of uint8 images, by default that of the data set.
            scale: Per channel of uint8 images, by default that of the data set.
            device: Torch device; by default the GPU if there is one.
            compile: "auto": by slotwise's kernels on the CPU if they have such a network, several times as
                fast; results differ by float errors. False: in torch. `repr` says which, and why not.

        Raises:
            UserError: module, loss, metrics and samples do not fit together.
        """
        self._host_data = data = _batches(samples, offset, scale)
        check_training(training, samples)
        _check_choices(initial=initial, compile=compile, buffers=buffers)
        seed = training.seed if model_seed is None else whole("model_seed", model_seed, 0, LARGEST_SEED)
        training = with_own_step(training, local_step)
        self.samples, self.training, self.devices = samples, training, len(samples)
        self.returns_new_arrays = type(self) is TorchTask  # a subclass may train in another way
        self._optimizer = Optimizer(training)
        self._asked, self._device = device, _find_device(device)
        self._module = _make_module(module, seed, drawn=initial == "seed").to(self._device)
        self._layout, self._averaged = Layout(self._module, buffers), buffers == "average"
        self._objective = Objective(loss, metrics or {})
        # After the module, so that its memory on a GPU does not count as free.
        self._data, self._local = kept_on(self._device, data, _free_memory(self._device)), threading.local()
        tried = (FlatModule(self._module, self._layout), self.initial_model(), self._data, self._objective)
        self._checks: Checks = check_module(*tried, training)
        self._compiled, self.not_compiled = self._compile(compile, offset, scale)

    @property
    def start_notice(self) -> str:  # type: ignore[override]
        """Say when a run starts by what the module is trained, unless the caller has decided that."""
        return "" if self.not_compiled == _NOT_ASKED else repr(self)

    def __repr__(self) -> str:
        """Say what is trained, and by what."""
        how = "compiled" if self._compiled is not None else f"in torch: {self.not_compiled}"
        return f"TorchTask({type(self._module).__name__}, {self._layout.weights:,} parameters, {how})"

    def _compile(
        self, how: Compile, offset: tuple[float, ...] | None, scale: tuple[float, ...] | None
    ) -> tuple[CnnTask | None, str]:
        """Return the task of the compiled kernels, or None and the reason why there is none."""
        if how is False:
            return None, _NOT_ASKED
        if type(self) is not TorchTask:
            return None, "a subclass may train in another way"
        if self._device.type != "cpu":
            return None, f"the device is {self._device.type}"
        try:
            given = (self._objective, offset, scale)
            task = compiled_task(self._module, self.samples, self.training, *given)
            rows = self._data.batches(self.training, TrainingStart(1, 0))[0]
            require_same_gradient(task, self.initial_model(), rows, self._gradient(rows))
        except NotCompiled as error:
            return None, str(error)
        return task, ""

    @one_thread()
    def _gradient(self, rows: Rows) -> Vector:
        """Return the gradient of torch of a batch, at the first model."""
        flat = FlatModule(self._module, self._layout)
        flat.load(self.initial_model())
        flat.eval()  # without dropout
        inputs, targets = self._arranged(self._data.train_batch(rows))
        self._objective.loss(flat.module(inputs), targets).backward()  # type: ignore[no-untyped-call]
        return flat.gradient.numpy().copy()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle everything but the copies of the threads; the module from the memory of the CPU."""
        module = copy_module(self._module).cpu()
        return {**self.__dict__, "_local": None, "_device": None, "_module": module, "_data": self._host_data}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Choose the torch device again, because another machine may have a GPU or none."""
        device = _find_device(state["_asked"])
        data = kept_on(device, state["_data"], _free_memory(device))
        self.__dict__.update(state, _local=threading.local(), _device=device, _data=data)
        self._module = self._module.to(device)

    def initial_model(self) -> Vector:
        """Return the parameters of the module, then the buffers that travel."""
        state = {**dict(self._module.named_parameters()), **dict(self._module.named_buffers())}
        names = (*self._layout.parameters, *self._layout.statistics)
        parts = [state[name].detach().reshape(-1).cpu().numpy() for name in names]
        return np.concatenate(parts).astype(np.float32)

    def sample_count(self, device: int) -> int:
        """Return the number of samples that a device holds."""
        return self.samples.count(device)

    @property
    def trains_together(self) -> bool:
        """True if the compiled kernels compute several updates in one call."""
        return self._compiled is not None

    def local_updates(self, model: Vector, starts: Sequence[TrainingStart]) -> list[Vector]:
        """Return the updates of several local trainings on one model."""
        if self._compiled is not None:
            return self._compiled.local_updates(model, starts)
        return [self._torch_update(model, start) for start in starts]

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        """Return w_start − w_end of the steps on the device's samples."""
        return self.local_updates(model, [start])[0]

    @one_thread()
    def _torch_update(self, model: Vector, start: TrainingStart) -> Vector:
        flat = self._worker_module()
        flat.load(model)
        flat.train()
        take_step = self._stepper(flat, start)
        reading, computing = self._seeded(self._checks.random_training, start.device, start.training)
        # The contexts are entered again for every batch; their generator continues where it was.
        batches = self._data.batches(self.training, start)
        for rows in batches:
            flat.gradient.zero_()
            with reading:
                inputs, targets = self._arranged(self._data.train_batch(rows))
            with computing:
                loss = self._objective.loss(flat.module(inputs), targets)
            # `check_module` has made sure that nothing is drawn here, so the slow context is left before.
            loss.backward()  # type: ignore[no-untyped-call]
            take_step()
        return flat.update(model, self.training.divisor(len(batches)))

    def evaluate(self, model: Vector) -> Evaluation:
        """Return the mean loss over the union of the devices' samples; accuracy and metrics of the test."""
        if self._compiled is not None and set(self._objective.metrics) == {TEST_LOSS}:
            return self._compiled.evaluate(model)
        return self._torch_evaluation(model)

    def device_loss(self, model: Vector, device: int) -> float:
        """Return the mean loss over the samples of a device."""
        if self._compiled is not None:
            return self._compiled.device_loss(model, device)
        return self._torch_loss(model, self._data.rows_of(device))

    @one_thread()
    @torch.no_grad()
    def _torch_loss(self, model: Vector, chosen: Rows) -> float:
        flat, loss = self._worker_module(), Mean()
        flat.load(model)
        flat.eval()
        flat.use_statistics()
        reading, computing = self._seeded(self._checks.random_evaluation)
        for rows in _chunks(chosen):
            with reading:
                inputs, targets = self._arranged(self._data.train_batch(rows))
            with computing:
                value = self._objective.loss(flat.module(inputs), targets)
            loss.add(value, self._objective.count(targets, len(rows)))
        return loss.value

    @one_thread()
    @torch.no_grad()
    def _torch_evaluation(self, model: Vector) -> Evaluation:
        flat = self._worker_module()
        flat.load(model)
        flat.eval()
        loss, correct = Mean(), Mean()
        metrics = ChunkedMetrics(self._objective)
        reading, computing = self._seeded(self._checks.random_evaluation)
        # Unless statistics travel, the pass over the training samples also measures them: the training loss
        # uses the statistics of each chunk, the test loss their mean.
        flat.use_statistics() if self._averaged else flat.collect_statistics()
        for rows in _chunks(self._data.union):
            with reading:
                inputs, targets = self._arranged(self._data.train_batch(rows))
            with computing:
                value = self._objective.loss(flat.module(inputs), targets)
            loss.add(value, self._objective.count(targets, len(rows)))
        flat.use_statistics()
        for rows in _chunks(self._data.test_rows):
            with reading:
                inputs, targets = self._arranged(self._data.test_batch(rows))
            with computing:
                outputs = flat.module(inputs)
                correct.add(*count_correct(outputs, targets, self._objective.ignored))
                metrics.add(outputs, targets, len(rows))
        with computing:
            return Evaluation(loss.value, correct.value, metrics.values())

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        """Return the arrays by their names in the module's state_dict."""
        return self._layout.named_arrays(model)

    def _stepper(self, flat: FlatModule, start: TrainingStart) -> Callable[[], None]:
        """Return a function that takes one step of the optimiser along the gradient."""
        if self.training.is_plain_sgd and start.correction is None:
            rate = self.training.rate_at(start)
            return lambda: _descend(flat, rate)
        on_cpu = self._device.type == "cpu"
        # The numpy view shares the memory of the weights, so that a step changes them in place.
        weights: Any = flat.weights.numpy() if on_cpu else flat.weights
        context = self._optimizer.begin(start, weights.copy() if on_cpu else weights.clone())

        def step() -> None:
            gradient = flat.gradient.clone()  # the optimiser may keep it
            self._optimizer.step(weights, gradient.numpy() if on_cpu else gradient, context)

        return step

    def _worker_module(self) -> FlatModule:
        """Return this thread's copy of the module."""
        if not hasattr(self._local, "module"):
            keep_freed_memory()
            self._local.module = FlatModule(self._module, self._layout)
        found: FlatModule = self._local.module
        return found

    def _seeded(self, random_module: bool, device: int = 0, training: int = 0) -> tuple[Context, Context]:
        """Return two contexts, for reading samples and for the module, that seed random operations."""
        # They slow every operation down, so arrays and modules without random operations do without. Torch
        # data sets may draw for some samples only, which no check can find out.
        seeded = SeededOperations(self.training.seed, device, training)
        reads = random_module or isinstance(self._data, TorchSamples)
        return seeded if reads else nullcontext(), seeded if random_module else nullcontext()

    def _arranged(self, batch: Batch) -> Batch:
        inputs, targets = batch
        last = self._checks.channels_last
        moved = arrange(inputs, self._device, channels_last=last)
        return moved, arrange(targets, self._device, channels_last=False)


def _descend(flat: FlatModule, rate: float) -> None:
    flat.weights.sub_(flat.gradient, alpha=rate)


def _make_module(module: object, seed: int, *, drawn: bool) -> nn.Module:
    """Return a copy of the module, or the one that a function makes, with parameters as they are or drawn."""
    made = copy_module(module) if isinstance(module, nn.Module) else _called(module, seed)
    if drawn:
        draw_parameters(made, seed)
    return made


def _called(module: object, seed: int) -> nn.Module:
    """Return the module that a function makes."""
    if not callable(module):
        allowed = "a torch.nn.Module or a function that makes one"
        raise UserError(f"TorchTask: module = {module!r}: must be {allowed}")
    # The caller's generators keep their states. Those of GPUs are seeded too: the function may draw there.
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        try:
            made = module()
        except UserError:
            raise
        except Exception as error:
            name = getattr(module, "__name__", type(module).__name__)
            raise UserError(
                f"TorchTask: making the module with {name}() failed: {describe_error(error)};"
                " give a module, or a function without arguments that makes it"
            ) from error
    if not isinstance(made, nn.Module):
        raise UserError(f"TorchTask: module must make a torch.nn.Module; it made {describe_value(made)}")
    return made


def _find_device(name: str | None) -> torch.device:
    """Return a torch device after storing a number there; by default the GPU if there is one."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, TypeError) as error:
        usable = "cpu or cuda" if torch.cuda.is_available() else "cpu (torch finds no CUDA)"
        raise UserError(
            f"TorchTask: device = {name!r}: must be a torch device of this machine, such as {usable}"
        ) from error
    return device


def _free_memory(device: torch.device) -> int:
    """Return the bytes that are free on a GPU."""
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else 0


def _batches(
    samples: DeviceSamples | TorchSamples, offset: tuple[float, ...] | None, scale: tuple[float, ...] | None
) -> Batches:
    """Return the source of batches; refuse samples of another type, and pixels' options without pixels."""
    if not isinstance(samples, DeviceSamples | TorchSamples):
        raise InputError("samples", describe_value(samples), "DeviceSamples or TorchSamples")
    given = {name: value for name, value in (("offset", offset), ("scale", scale)) if value}
    if isinstance(samples, TorchSamples):
        for name, value in given.items():
            raise InputError(name, value, "omitted with torch data sets; transform their items instead")
        return samples
    dataset = samples.dataset
    for name, value in given.items():
        if dataset.train_inputs.dtype != np.uint8 or dataset.train_inputs.ndim != 4:
            raise InputError(name, value, "omitted: inputs are no uint8 images [n, channels, height, width]")
        other = "scale" if name == "offset" else "offset"
        if other not in given and not getattr(dataset, other):
            raise MissingError(other, f"given together with {name}")
    return ArrayBatches(samples, offset, scale)


def _chunks(rows: Rows) -> Iterator[Rows]:
    """Return the rows in equal parts, so that a batch normalisation never meets a part of one sample."""
    return iter(np.array_split(rows, ceil(len(rows) / CHUNK)))


def _check_choices(**chosen: object) -> None:
    for name, value in chosen.items():
        if value not in _CHOICES[name]:
            raise InputError(name, value, " or ".join(map(str, _CHOICES[name])))
