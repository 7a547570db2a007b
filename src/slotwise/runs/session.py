"""Training in a run folder: `run` starts a run, `resume` continues it, `RunSession` does the work of both."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Literal, Self

from slotwise.base.errors import InputError, UserError
from slotwise.base.machine import available_cores
from slotwise.base.notebook import Displayable
from slotwise.base.observer import BaseObserver
from slotwise.base.user_code import check_type, describe_error, with_article
from slotwise.learning import Diverged, History, Task, Training
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.engine import TrainingObserver, follow
from slotwise.learning.history import unfitting
from slotwise.learning.workers import WorkerPlan, plan_of
from slotwise.options import loaded
from slotwise.runs.config import RunConfig
from slotwise.runs.decided_run import PolicyAgent, episode_of
from slotwise.runs.execution import as_sent, build_task, try_own_code
from slotwise.runs.run_folder import RunFolder, model_sha256
from slotwise.runs.saved_run import Status
from slotwise.schedule import Timeline
from slotwise.setting.slow_link import simulate_run

SECONDS_BETWEEN_CHECKPOINTS = 10.0
RunEnd = Literal["finished", "reached", "interrupted", "diverged", "failed"]


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
        status: "finished", "reached" if a target ended it, or "interrupted" if the observer did.
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
    check_type("config", config, RunConfig)
    check_interval(checkpoint_every)
    folder = RunFolder.check_new(Path(out), overwrite=overwrite)
    own = None if task is None else as_sent(CheckedTask.of(task), config)
    with RunSession(
        folder,
        config if own is None else config.with_bits_of(own),
        task=own,
        workers=workers,
        checkpoint_every=checkpoint_every,
        observer=observer,
        overwrite=overwrite,
        task_object=None if task is None else type(task).__name__,
    ) as session:
        return session.train()


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
    saved = run_folder.read()
    config, task_object = saved.config, saved.description.get("task_object")
    if saved.is_live:
        raise UserError(f"{saved.path}: this is a live run; slotwise serve --resume continues it")
    if saved.diverged:
        raise UserError(f"{saved.path}: this run diverged; start a new one with other options")
    if saved.is_complete:
        timeline = saved.planned if config.decides_by_learning else config.simulate()
        return RunResult(saved.status, run_folder.history(), timeline, saved.path)
    if task_object is not None and task is None:
        raise UserError(
            f"{saved.path}: it trains {with_article(task_object)} made in Python; resume it with task=…"
        )
    run_folder.refuse_changed_data(config)
    with RunSession(
        run_folder,
        config,
        task=None if task is None else as_sent(CheckedTask.of(task), config),
        workers=workers,
        checkpoint_every=checkpoint_every,
        observer=observer,
        resume=True,
        task_object=task_object,
    ) as session:
        return session.train()


class RunSession:
    """A run while it is trained: its folder is locked, its state is saved, and run.json says how it ended.

    >>> with RunSession(RunFolder(path), config) as session:  # doctest: +SKIP
    ...     session.train()

    Entering starts the workers and makes the folder, or with ``resume`` continues from the newest intact
    checkpoint in it. All that can be refused is refused before anything is written, also after a trial call
    of the user's own task or rule: one that fails at once leaves nothing behind. However the block ends, the
    state is saved: a checkpoint first, run.json last.

    Args:
        folder: The run folder.
        config: What to train.
        task: The task of the configuration, if it is built already, or one of the class ``task_object``.
        timeline: The timeline of the configuration, if it is known already.
        workers: As for `run`.
        checkpoint_every: As for `run`.
        observer: As for `run`.
        resume: The folder contains the run.
        overwrite: Replace a run in the folder.
        task_object: Name of the class of a task that was made in Python, for run.json.
    """

    def __init__(
        self,
        folder: RunFolder,
        config: RunConfig,
        *,
        task: Task | None = None,
        timeline: Timeline | None = None,
        workers: int | WorkerPlan | None = None,
        checkpoint_every: float = SECONDS_BETWEEN_CHECKPOINTS,
        observer: BaseObserver | None = None,
        resume: bool = False,
        overwrite: bool = False,
        task_object: str | None = None,
    ) -> None:
        self._checkpoint_every = check_interval(checkpoint_every)
        self._folder, self._config, self._observer = folder, config, Observer.of(observer)
        self._resume, self._overwrite = resume, overwrite
        self._episode = episode_of(config) if config.decides_by_learning else None
        # Of an episode it is what would be trained without it, for what is refused before the first decision.
        self._timeline = simulate_run(config.without_learning()) if timeline is None else timeline
        self._task = CheckedTask.of(build_task(config) if task is None else task)
        self._plan = plan_of(available_cores() if workers is None else workers, self._task)
        # Entries of run.json.
        self._entries: dict[str, Any] = {} if task_object is None else {"task_object": task_object}

    def __enter__(self) -> Self:
        folder, config, rule = self._folder, self._config, loaded(self._config.rule)
        with ExitStack() as stack:
            resumed = None
            if self._resume:
                # Locked first: a process that still trains this run replaces its checkpoints.
                stack.enter_context(folder.held())
                resumed = self._newest_checkpoint()
            folder.checkpoints.refuse_folders()
            workers = stack.enter_context(closing(self._plan(self._task)))
            if not self._resume:
                try_own_code(config, self._task, rule, self._timeline, is_object=bool(self._entries))
            self._training = Training(
                self._timeline if self._episode is None else self._episode,
                self._task,
                agent=None if self._episode is None else PolicyAgent(config),
                aggregation=rule,
                workers=lambda _: workers,  # started above: workers that fail to start leave no folder behind
                evaluate_every=config.slots_between_evaluations,
                stop_at=config.end.target,
                resume=resumed,
                radio=config.uplink_radio(self._task.update_bits),
            )
            if not self._resume:
                made = RunFolder.creating(folder.path, config, overwrite=self._overwrite, **self._entries)
                stack.enter_context(made)
            stack.enter_context(self._observed())
            self._began = self._last_saved = time.monotonic()
            self._seconds_before = float(folder.description().get("seconds", 0.0))
            stack.enter_context(self._training)
            self._observer.run_started(self._training.timeline, resumed)
            stack.enter_context(self._saved_at_the_end())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def train(self) -> RunResult:
        """Train until the deadline or the target, or until the observer stops it."""
        history = follow(self._training, self._observer, lambda _: self._save_if_due())
        return RunResult(self._status(), history, self._training.timeline, self._folder.path)

    def _status(self) -> Literal["finished", "reached", "interrupted"]:
        """Return how the training has ended."""
        if self._training.reached:
            return "reached"
        return "finished" if self._training.finished else "interrupted"

    def _newest_checkpoint(self) -> History | None:
        """Return the state to continue from; refuse that of another run: files were exchanged."""
        history, damaged = self._folder.checkpoints.load()
        for path in damaged:
            self._observer.notice(f"{path}: damaged checkpoint, skipped")
        start = "the start (no checkpoint)" if history is None else f"round {history.rounds}"
        self._observer.notice(f"{self._folder.path}: resuming from {start}")
        if self._episode is not None:  # its decisions are in the checkpoint
            return history
        if history is not None and unfitting(history, self._timeline, self._task.size):
            raise UserError(f"{self._folder.path}: its checkpoint and its run.json belong to different runs")
        return history

    @contextmanager
    def _observed(self) -> Iterator[None]:
        """Tell the observer that the run is opened, and at the end of the block how it ended."""
        self._observer.run_opened(self._folder, self._config)
        end: RunEnd = "failed"
        try:
            if attackers := self._config.attackers():
                attack = self._config.options()["attack"]
                self._observer.notice(f"attackers ({attack}): device {', '.join(map(str, attackers))}")
            if self._task.start_notice:
                self._observer.notice(self._task.start_notice)
            yield
            end = self._status()
        except Diverged:
            end = "diverged"
            raise
        except KeyboardInterrupt:
            end = "interrupted"
            raise
        finally:
            self._observer.run_ended(end)

    @contextmanager
    def _saved_at_the_end(self) -> Iterator[None]:
        """Save the state however the block ends; the status says how."""
        training = self._training
        try:
            yield
        except Diverged as error:
            self._save_all(error.history, "diverged", diverged_in_round=error.round)
            raise
        except KeyboardInterrupt:
            self._save_all(training.history(), "interrupted")
            raise
        except (Exception, SystemExit) as error:  # of the user's rule or task, or a full disk
            self._save_before(error)
            raise
        else:
            history = training.history()  # waits for evaluations, which may reach the target
            self._save_all(history, self._status())

    def _save_before(self, error: BaseException) -> None:
        """Save the state before an error as interrupted, and add to it how the run can be resumed.

        If that fails too, there is still the last checkpoint.
        """
        told: dict[str, Any] = {"error": describe_error(error)}
        # Before it is saved: whatever happens, the folder has what is needed.
        error.add_note(f"the run is saved; when this is corrected, continue it with: {self._resuming()}")
        # `history` waits for evaluations: user code that has failed may fail there again.
        with suppress(Exception, SystemExit):
            self._save_all(self._training.history(), "interrupted", **told)
            return
        with suppress(Exception):
            self._folder.write_description(self._config, "interrupted", **self._entries, **told)

    def _resuming(self) -> str:
        """Return what resumes this run."""
        path = str(self._folder.path)
        if self._entries:  # a task that was made in Python
            return f"sw.resume({path!r}, task=…)"
        return shlex.join(["slotwise", "train", "--resume", path])

    def _save_if_due(self) -> None:
        if time.monotonic() - self._last_saved >= self._checkpoint_every:
            self._save(self._training.history())

    def _save(self, history: History) -> None:
        self._folder.checkpoints.save(history)
        if self._episode is not None and history.timeline is not None:
            self._folder.write_timeline(history.timeline)
        # After the checkpoint: if a crash comes in between, history.csv only ends earlier.
        self._folder.write_points(history.points)
        self._last_saved = time.monotonic()

    def _save_all(self, history: History, status: Status, **entries: Any) -> None:
        """Save everything; run.json comes last, so that its status describes files that exist."""
        # The checkpoint first: with it a run can be resumed, whatever of the rest is missing.
        self._save(history)
        self._folder.write_model(self._task.named_arrays(history.model))
        last = history.points[-1] if history.points else None
        self._folder.write_description(
            self._config,
            status,
            **self._entries,
            model_sha256=model_sha256(history.model),
            rounds=history.rounds,
            final=last._asdict() if last else None,
            seconds=round(self._seconds_before + time.monotonic() - self._began, 3),
            **entries,
        )


def check_interval(checkpoint_every: float) -> float:
    """Return the seconds between checkpoints, or raise an InputError."""
    if not 0 <= checkpoint_every < inf:
        raise InputError("checkpoint_every", checkpoint_every, "a finite number of seconds, at least 0")
    return checkpoint_every
