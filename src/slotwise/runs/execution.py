"""Run a training in a folder: `run` starts one, `resume` continues it, `execute` does the work of both.

`build_task` makes the task of a configuration: the built-in network on a data set, or the user's own task.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np

from slotwise.aggregation import RULE, Aggregation, Contribution, next_model
from slotwise.data import Dataset
from slotwise.errors import InputError, UserError
from slotwise.learning import Diverged, History, Task, Training, TrainingResult, TrainingStart
from slotwise.learning.attack import Attack, Attacked
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.engine import TrainingObserver, follow, unfitting
from slotwise.learning.fastcnn.architecture import Architecture
from slotwise.learning.models import NetworkModel
from slotwise.learning.quantisation import UNQUANTISED, Quantised
from slotwise.learning.workers import WorkerPlan, plan_of
from slotwise.machine import available_cores
from slotwise.notebook import Displayable
from slotwise.observer import BaseObserver
from slotwise.options import loaded
from slotwise.runs.config import RunConfig
from slotwise.runs.device_data import check_images, device_samples
from slotwise.runs.memory import refuse_too_much_memory
from slotwise.runs.run_folder import RunFolder, model_sha256
from slotwise.runs.saved_run import Status
from slotwise.runs.slow_link import simulate_run
from slotwise.schedule import Timeline
from slotwise.user_code import describe_error, describe_value

SECONDS_BETWEEN_CHECKPOINTS = 10.0
RunEnd = Literal["finished", "interrupted", "diverged", "failed"]


class Observer(TrainingObserver):
    """Callbacks of a run; subclasses override the ones they need."""

    def run_opened(self, folder: RunFolder, config: RunConfig) -> None:
        """A run begins or resumes in its folder; `run_started` follows."""

    def run_ended(self, status: RunEnd) -> None:
        """A run that was opened has ended and its files are written; it failed if an error ended it."""


@dataclass(frozen=True)
class RunResult(Displayable):
    """Result of a run.

    Attributes:
        status: "finished", or "interrupted" if the observer ended it early.
        history: Evaluations and models. The models of a finished run are missing if its checkpoints are.
        timeline: The schedule of the run.
        folder: The run folder.
    """

    status: Status
    history: History
    timeline: Timeline
    folder: Path


def run(
    config: RunConfig,
    out: Path | str,
    *,
    workers: int | WorkerPlan | None = None,
    checkpoint_every: float = SECONDS_BETWEEN_CHECKPOINTS,
    overwrite: bool = False,
    observer: BaseObserver | None = None,
    task: Task | None = None,
) -> RunResult:
    """Train a model along its schedule and save everything in a new run folder.

    Args:
        config: What to train.
        out: The run folder; it must not contain another run.
        workers: Parallel local trainings, in threads, or a plan such as `Processes` or `RayActors`; the
            result does not depend on it. Default: all cores.
        checkpoint_every: Seconds between checkpoints, the most work a crash can lose; 0: every round.
        overwrite: Replace a run in ``out``.
        observer: Is told of rounds and evaluations, and may end the run early with a checkpoint.
        task: Your own task object, instead of the built-in network or the task that ``config`` names. The
            folder does not contain it: `resume` needs it again.

    Raises:
        UserError: an option is wrong; nothing has been written then.
        Diverged: the training diverged; its state is saved.
    """
    if not isinstance(config, RunConfig):
        raise InputError("config", describe_value(config), "a RunConfig")
    check_interval(checkpoint_every)
    workers = plan_of(available_cores() if workers is None else workers)
    folder = RunFolder.check_new(Path(out), overwrite=overwrite)
    own = None if task is None else _own_task(task, config)
    return execute(
        folder,
        config if own is None else config.with_bits_of(own),
        task=own,
        workers=workers,
        checkpoint_every=checkpoint_every,
        observer=observer,
        create=True,
        overwrite=overwrite,
        task_object=None if task is None else type(task).__name__,
    )


def resume(
    folder: Path | str | RunFolder,
    *,
    workers: int | WorkerPlan | None = None,
    checkpoint_every: float = SECONDS_BETWEEN_CHECKPOINTS,
    observer: BaseObserver | None = None,
    task: Task | None = None,
) -> RunResult:
    """Continue the run in a folder from its newest intact checkpoint; return a finished run as it is.

    The observer's `notice` is told of damaged checkpoints and of the round it continues from. The other
    arguments are those of `run`.

    Raises:
        UserError: it is a live run, it diverged, or another process is training it.
        Diverged: the training diverged; its state is saved.
    """
    run_folder = folder if isinstance(folder, RunFolder) else RunFolder.open(Path(folder))
    check_interval(checkpoint_every)
    if "live_run" in run_folder.description():
        raise UserError(f"{run_folder.path}: this is a live run; slotwise serve --resume continues it")
    if run_folder.status == "diverged":
        raise UserError(f"{run_folder.path}: this run diverged; start a new one with other options")
    config, task_object = run_folder.parameters(), run_folder.description().get("task_object")
    if run_folder.status == "finished":
        return RunResult("finished", run_folder.history(), config.simulate(), run_folder.path)
    if task_object is not None and task is None:
        raise UserError(f"{run_folder.path}: it trains a {task_object} made in Python; resume it with task=…")
    run_folder.refuse_changed_data(config)
    # Under the lock: a process that still trains this run replaces its checkpoints.
    with run_folder.held():
        history, damaged = run_folder.checkpoints.load()
    observer = Observer.of(observer)
    for path in damaged:
        observer.notice(f"{path}: damaged checkpoint, skipped")
    start = "the start (no checkpoint)" if history is None else f"round {history.rounds}"
    observer.notice(f"{run_folder.path}: resuming from {start}")
    return execute(
        run_folder,
        config,
        task=None if task is None else _own_task(task, config),
        workers=workers,
        checkpoint_every=checkpoint_every,
        resume=history,
        observer=observer,
        task_object=task_object,
    )


def execute(
    folder: RunFolder,
    config: RunConfig,
    *,
    task: Task | None = None,
    timeline: Timeline | None = None,
    workers: int | WorkerPlan | None = None,
    checkpoint_every: float = SECONDS_BETWEEN_CHECKPOINTS,
    resume: History | None = None,
    observer: BaseObserver | None = None,
    create: bool = False,
    overwrite: bool = False,
    task_object: str | None = None,
) -> RunResult:
    """Train a run in its folder, which is locked meanwhile, from the checkpoint ``resume`` on.

    Task and timeline are those of the configuration, if they are built already, or the task is an object of
    the class ``task_object``. With ``create`` the folder is made here, after a trial call of the user's task
    or rule: one that fails at once leaves nothing behind. The other arguments are those of `run`.

    Raises:
        UserError: the folder is in use or cannot be written.
        Exception: Diverged, or an error of the user's task or rule, after the state has been saved.
    """
    check_interval(checkpoint_every)
    observer, rule = Observer.of(observer), loaded(config.rule)
    # All that can be refused is refused before the folder is made: options, network, data and workers.
    timeline = simulate_run(config) if timeline is None else timeline
    task = task if task is not None else build_task(config)
    more = {} if task_object is None else {"task_object": task_object}
    _check_fits(resume, timeline, task, folder)
    folder.checkpoints.refuse_folders()
    plan = plan_of(available_cores() if workers is None else workers)
    with closing(plan(CheckedTask.of(task))) as started:  # before anything is written
        if create:
            # Only the user's own code is tried: built-in tasks and rules are known to work.
            if RULE.is_own(config.rule) and not (more or config.model.is_own):
                _try_rule(CheckedTask.of(task), rule, timeline)
            if more or config.model.is_own or config.training.local_step:
                _try_once(CheckedTask.of(task), rule, timeline)
        creating = RunFolder.creating(folder.path, config, overwrite=overwrite, **more)
        with creating if create else folder.held(), _opened(folder, config, observer):
            _tell_attackers(config, observer)
            observer.run_started(timeline, resume)
            saver = _Saver(folder, config, task, checkpoint_every, more)
            with Training(
                timeline,
                task,
                aggregation=rule,
                # Started above: workers that fail to start leave no folder behind.
                workers=lambda _: started,
                evaluate_every=config.slots_between_evaluations,
                resume=resume,
            ) as training:
                history = _follow(training, saver, observer)
            # The observer may have stopped it.
            status: Status = "finished" if history.rounds == timeline.rounds else "interrupted"
            saver.close(history, status)
    return RunResult(status, history, timeline, folder.path)


def _follow(training: Training, saver: _Saver, observer: Observer) -> History:
    """Train to the end; whatever ends it early, the state is saved first."""
    try:
        return follow(training, observer, saver.save_if_due)
    except Diverged as error:
        saver.close(error.history, "diverged", diverged_in_round=error.round)
        raise
    except KeyboardInterrupt:
        saver.close(training.history(), "interrupted")
        raise
    except (Exception, SystemExit) as error:  # of the user's rule or task, or a full disk
        saver.fail(training, error)
        raise


def _try_once(task: CheckedTask, rule: Aggregation, timeline: Timeline) -> None:
    """Compute the first update, apply it and evaluate the first model, only to see whether that works."""
    model = task.initial_model()
    if timeline.rounds and (senders := timeline.device[timeline.uplinks(0)].tolist()):
        _try_rule(task, rule, timeline, task.train(model, TrainingStart(senders[0], 0)))
    task.evaluate(model)


def _try_rule(
    task: CheckedTask, rule: Aggregation, timeline: Timeline, result: TrainingResult | None = None
) -> None:
    """Apply the rule to ``result`` as if all first senders had sent it, only to see whether that works.

    Without a result the first model is taken for an update: computing one compiles kernels for seconds.
    """
    model = task.initial_model()
    sent = result or TrainingResult(model.copy())
    senders = timeline.device[timeline.uplinks(0)].tolist() if timeline.rounds else []
    with np.errstate(over="ignore", invalid="ignore"):
        next_model(
            rule,
            model,
            [Contribution(sent.update, 0, model, n, 0, task.sample_count(n), sent.metrics) for n in senders],
        )


def _tell_attackers(config: RunConfig, observer: Observer) -> None:
    if attackers := config.attackers():
        observer.notice(f"attackers ({config.options()['attack']}): device {', '.join(map(str, attackers))}")


def check_interval(checkpoint_every: float) -> float:
    """Return the seconds between checkpoints, or raise an InputError."""
    if not 0 <= checkpoint_every < inf:
        raise InputError("checkpoint_every", checkpoint_every, "a finite number of seconds, at least 0")
    return checkpoint_every


@contextmanager
def _opened(folder: RunFolder, config: RunConfig, observer: Observer) -> Iterator[None]:
    """Tell the observer that the run is opened, and at the end of the block how it ended."""
    observer.run_opened(folder, config)
    end: RunEnd = "failed"
    try:
        yield
        end = "finished" if folder.status == "finished" else "interrupted"
    except Diverged:
        end = "diverged"
        raise
    except KeyboardInterrupt:
        end = "interrupted"
        raise
    finally:
        observer.run_ended(end)


def _check_fits(resume: History | None, timeline: Timeline, task: Task, folder: RunFolder) -> None:
    """Refuse a checkpoint of another configuration: files in the folder were exchanged."""
    if resume is not None and unfitting(resume, timeline, len(task.initial_model())):
        raise UserError(f"{folder.path}: its checkpoint and its run.json belong to different runs")


class _Saver:
    """Writes the files of a run: a checkpoint every few seconds, and everything at the end."""

    def __init__(
        self, folder: RunFolder, config: RunConfig, task: Task, every: float, more: Mapping[str, Any]
    ) -> None:
        self._folder, self._config, self._task, self._every = folder, config, task, every
        self._more = more  # entries of run.json
        self._last = self._began = time.monotonic()
        self._seconds_before = float(folder.description().get("seconds", 0.0))

    def save_if_due(self, training: Training) -> None:
        if time.monotonic() - self._last >= self._every:
            self._save(training.history())

    def _save(self, history: History) -> None:
        self._folder.checkpoints.save(history)
        # After the checkpoint: if a crash comes in between, history.csv only ends earlier.
        self._folder.write_points(history.points)
        self._last = time.monotonic()

    def fail(self, training: Training, error: BaseException) -> None:
        """Save the state before an error as interrupted, so that the run can be resumed without its cause.

        If that fails too, there is still the last checkpoint.
        """
        # `history` waits for evaluations: user code that has failed may fail there again.
        with suppress(Exception, SystemExit):  # of an evaluation
            self.close(training.history(), "interrupted", error=describe_error(error))
            return
        with suppress(Exception):
            error_text = describe_error(error)
            self._folder.write_description(self._config, "interrupted", **self._more, error=error_text)

    def close(self, history: History, status: Status, **more: Any) -> None:
        """Save everything; run.json comes last, so that its status describes files that exist."""
        # The checkpoint first: with it a run can be resumed, whatever of the rest is missing.
        self._save(history)
        self._folder.write_model(self._task.named_arrays(history.model))
        last = history.points[-1] if history.points else None
        self._folder.write_description(
            self._config,
            status,
            **self._more,
            model_sha256=model_sha256(history.model),
            rounds=history.rounds,
            final=last._asdict() if last else None,
            seconds=round(self._seconds_before + time.monotonic() - self._began, 3),
            **more,
        )


def build_task(
    config: RunConfig, dataset: Dataset | None = None, *, devices: Collection[int] | None = None
) -> Task:
    """Return the task of a run; ``dataset`` is the one that the configuration names, if it is loaded already.

    Of a data folder only the files of ``devices`` are read, if they are given: then only these can train.

    Raises:
        UserError: the network does not fit, data are missing, or the user's own task is not valid.
    """
    task: Task
    if not isinstance(config.model, NetworkModel):
        task = config.model.make_task(config)
    else:
        config.model.check()
        network = config.network()  # what does not fit is refused before data is loaded
        refuse_too_much_memory(config)
        samples = device_samples(config, dataset, devices)
        check_images(samples.dataset)
        offset, scale = config.dataset.standardisation(samples.dataset)
        how: dict[str, Any] = {"offset": offset, "scale": scale, "model_seed": config.model_seed}
        # Both back-ends take long to import; a run needs only one of them.
        if config.model.backend == "torch":
            from slotwise.learning.torch_networks import build_network  # noqa: PLC0415
            from slotwise.learning.torch_task import TorchTask  # noqa: PLC0415

            module = build_network(config.model.network_name, network)
            task = TorchTask(module, samples, config.training, initial="seed", **how)
        else:
            from slotwise.learning.cnn_task import CnnTask  # noqa: PLC0415

            assert isinstance(network, Architecture)  # others need the torch back-end
            task = CnnTask(samples, network, config.training, **how)
    return _as_sent(task, config)


def _own_task(task: Task, config: RunConfig) -> Task:
    """Return a task object of the user with checks, and with the attack and the quantisation of the run."""
    return _as_sent(CheckedTask.of(task), config)


def _as_sent(task: Task, config: RunConfig) -> Task:
    """Return the task with updates as devices send them: those of attackers, and quantised ones."""
    CheckedTask.of(task).check_devices(config.channel.devices)
    if isinstance(config.adversary, Attack):  # attackers quantise what they send, as all devices do
        task = Attacked(task, config.adversary, config.channel.devices, config.seed)
    return task if config.bits == UNQUANTISED else Quantised(task, config.bits, config.seed)


def check_task(config: RunConfig) -> None:
    """Refuse a network or sizes that do not fit, or a task or rule that cannot be imported; load no data."""
    loaded(config.rule)
    config.model.check()
    if isinstance(config.model, NetworkModel):
        config.network()
        refuse_too_much_memory(config)
