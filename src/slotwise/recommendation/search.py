"""`recommend`: find the schedule, group size and delay to use for a deadline, and write the answer."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from slotwise.aggregation import check_group_sizes
from slotwise.base.errors import InputError
from slotwise.base.files import write_atomically
from slotwise.base.machine import available_cores
from slotwise.base.observer import BaseObserver
from slotwise.batch.specification import MOST_SEEDS, checked_seeds
from slotwise.learning.target import Target
from slotwise.options import found_names, spread
from slotwise.options.checks import whole
from slotwise.recommendation.answer import Recommendation
from slotwise.recommendation.candidates import FolderTrainer, begin, pilot_folder
from slotwise.recommendation.elimination import Question, Search
from slotwise.recommendation.metric import Metric, MetricName
from slotwise.runs import RunConfig
from slotwise.schedule.costs import Powers
from slotwise.setting.planning import divisors
from slotwise.setting.slot_duration import powers_of_run


def recommend(
    config: RunConfig,
    *,
    group_sizes: Sequence[int] | None = None,
    learning_rates: Sequence[float] | None = None,
    metric: MetricName = "loss",
    target: Target | str | None = None,
    seeds: int | Sequence[int] = 3,
    budget: int | None = None,
    powers: Powers | None = None,
    out: Path | str | None = None,
    workers: int | None = None,
    observer: BaseObserver | None = None,
) -> Recommendation:
    """Return which schedule, group size and delay is best for the deadline of a run.

    Args:
        config: The run; its schedule, group size, delay and seed are what is searched.
        group_sizes: Group sizes to choose from. Default: all divisors of N that the aggregation rule allows.
        learning_rates: Learning rates to choose from for each of them. Default: that of the run alone.
        metric: What is best at the deadline: loss, accuracy or joules-to-target (which has a target).
        target: As in ``accuracy=0.9`` or ``loss=0.2``.
        seeds: Number of seeds, from 0, or the seeds themselves.
        budget: Most SGD steps of the search. Default: what it takes to find the best.
        powers: Watts of a device, for joules-to-target.
        out: Folder of the pilots and the answer; created, or resumed. Default: nothing is kept.
        workers: Parallel local trainings. Default: all cores. The result is the same.
        observer: Callbacks.

    Raises:
        InputError: a parameter is out of its range, or the folder has pilots of another run.
        Stopped: the observer asked to stop; the same call resumes.
    """
    if config.end.target is not None:
        raise InputError("stop_at", str(config.end.target), "omitted: runs are compared at the deadline")
    sizes = _group_sizes(config, group_sizes)
    question = Question(
        # The powers have the duration of a slot.
        config.with_options(schedule="sync", group_size=sizes[0], seed=0, slot_ms=None),
        sizes,
        _seeds(seeds),
        _metric(metric, target, powers and powers_of_run(powers, config)),
        None if budget is None else whole("budget", budget),
        _learning_rates(config, learning_rates),
    )
    threads = available_cores() if workers is None else whole("workers", workers)
    with tempfile.TemporaryDirectory() if out is None else nullcontext(out) as place:
        path = Path(place)
        folder = pilot_folder(path)
        train = FolderTrainer(folder, workers=threads, observer=observer)
        search = Search(question, train, observer)
        # Mistakes are reported before a folder is made.
        train.make_task(question.pilot(question.field.candidates[0], 0).run.config)
        with folder.locked():
            begin(folder, question.base, question.learning_rates)
            answer = Recommendation(search.run(), path)
            _write(answer, path)
    return replace(answer, path=None) if out is None else answer


def _metric(name: MetricName, target: Target | str | None, powers: Powers | None) -> Metric:
    return Metric(name, Target.parse(target) if isinstance(target, str) else target, powers)


def _seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """Return the seeds of the search: the first ones, if a number is given."""
    if isinstance(seeds, int):
        return tuple(range(whole("seeds", seeds, largest=MOST_SEEDS)))
    return tuple(checked_seeds(seeds))


def _group_sizes(base: RunConfig, sizes: Sequence[int] | None) -> tuple[int, ...]:
    """Return the group sizes in ascending order, each once.

    If none are given: all divisors of N that are large enough for the aggregation rule.
    """
    if sizes is None:
        return tuple(size for size in divisors(base.channel.devices) if _is_large_enough(base, size))
    if not sizes:
        raise InputError("group_sizes", list(sizes), "at least one group size")
    for size in sizes:
        whole("group_sizes", size, 1, base.channel.devices)
        try:
            check_group_sizes(base.rule, [size])
        except InputError as error:
            if error.parameter != "group_size":
                raise
            raise InputError("group_sizes", size, error.allowed) from None
    return tuple(sorted(set(sizes)))


def _learning_rates(base: RunConfig, rates: Sequence[float] | None) -> tuple[float, ...]:
    """Return the learning rates in ascending order, each once; none if they are not searched."""
    if rates is None:
        return ()
    if not rates:
        raise InputError("learning_rates", list(rates), "at least one learning rate")
    for rate in rates:
        try:
            base.with_options(learning_rate=rate)
        except InputError as error:
            raise InputError("learning_rates", rate, error.allowed) from None
    return tuple(sorted({float(rate) for rate in rates}))


def _is_large_enough(base: RunConfig, size: int) -> bool:
    try:
        check_group_sizes(base.rule, [size])
    except InputError:
        return False
    return True


def _write(answer: Recommendation, path: Path) -> None:
    """Write the picture, recommended.toml and, when all else is there, recommendation.json."""
    from slotwise.recommendation.answer_text import draw_pilots  # noqa: PLC0415  (plotting is slow to import)

    for kind in ("png", "pdf"):
        write_atomically(path / f"recommendation.{kind}", draw_pilots(answer, kind))
    write_atomically(path / "recommended.toml", toml_of(answer.config))
    write_atomically(path / "recommendation.json", answer.to_json())


def toml_of(config: RunConfig) -> str:
    """Return all options of a run as a TOML file for `slotwise train --config`."""
    lines = []
    unused = {*config.without_effect(), *config.without_effect_here()}
    unused |= {*found_names(RunConfig), *found_names(type(config.dataset))}
    for name, value in spread(config.options()).items():
        if name == "absences":  # TOML has no null
            value = [[part for part in absence if part is not None] for absence in value]  # noqa: PLW2901
        if value is not None and name not in unused:
            # TOML has no surrogates, as which JSON would escape some characters of a path.
            lines.append(f"{name.replace('_', '-')} = {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"
