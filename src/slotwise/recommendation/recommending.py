"""`recommend`: find the schedule, group size and delay to use for a deadline, and write the answer."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.specification import checked_seeds
from slotwise.costs import Powers
from slotwise.errors import InputError
from slotwise.files import write_atomically
from slotwise.machine import available_cores
from slotwise.observer import Observer
from slotwise.planning import divisors
from slotwise.recommendation.answer import Recommendation
from slotwise.recommendation.metric import Metric, MetricName, Target
from slotwise.recommendation.search import Question, Search, common_options
from slotwise.runs import RunConfig
from slotwise.scenario import whole

__all__ = ["Recommendation", "recommend"]


def recommend(
    config: RunConfig,
    *,
    group_sizes: Sequence[int] | None = None,
    metric: MetricName = "loss",
    target: Target | str | None = None,
    seeds: int | Sequence[int] = 3,
    budget: int | None = None,
    powers: Powers | None = None,
    out: Path | str | None = None,
    workers: int | None = None,
    observer: Observer | None = None,
) -> Recommendation:
    """Return which schedule, group size and delay is best for the deadline of a run.

    Args:
        config: The run; its schedule, group size, delay and seed are what is searched.
        group_sizes: Group sizes to choose from. Default: all divisors of N.
        metric: What is best at the deadline: loss, accuracy or joules-to-target.
        target: For joules-to-target: ``accuracy=0.9`` or ``loss=0.2``.
        seeds: Number of seeds, from 0, or the seeds themselves.
        budget: Most SGD steps of the search. Default: less than a quarter of training every candidate.
        powers: Watts of a device, for joules-to-target.
        out: Folder of the pilots and the answer; created, or resumed. Default: nothing is kept.
        workers: Parallel local trainings. Default: all cores. The result is the same.
        observer: Callbacks.

    Raises:
        InputError: a parameter is out of its range, or the folder has pilots of another run.
        Stopped: the observer asked to stop; the same call resumes.
    """
    base = config.with_options(schedule="idfl", delay="auto", group_size=1, seed=0)
    question = Question(
        base,
        _group_sizes(base, group_sizes),
        tuple(range(whole("seeds", seeds)) if isinstance(seeds, int) else checked_seeds(seeds)),
        Metric(metric, Target.parse(target) if isinstance(target, str) else target, powers),
        None if budget is None else whole("budget", budget),
    )
    threads = available_cores() if workers is None else whole("workers", workers)
    if out is None:
        with tempfile.TemporaryDirectory() as path:
            return replace(_search(question, Path(path), threads, observer), path=None)
    return _search(question, Path(out), threads, observer)


def _group_sizes(base: RunConfig, sizes: Sequence[int] | None) -> tuple[int, ...]:
    """Return the group sizes in ascending order, each once; all divisors of N if none are given."""
    if sizes is None:
        return tuple(divisors(base.channel.devices))
    if not sizes:
        raise InputError("group_sizes", list(sizes), "at least one group size")
    for size in sizes:
        if not 1 <= size <= base.channel.devices:
            raise InputError("group_sizes", size, f"from 1 to {base.channel.devices}, the number of devices")
    return tuple(sorted(set(sizes)))


def _search(question: Question, path: Path, workers: int, observer: Observer | None) -> Recommendation:
    folder = recommendation_folder(path)
    search = Search(question, folder, workers=workers, observer=observer)
    search.check_task()  # mistakes are reported before a folder is made
    with folder.locked():
        begin(folder, question.pilot_base)
        recommendation = Recommendation(search.run(), path)
        write_recommendation(recommendation, path)
    return recommendation


def recommendation_folder(path: Path) -> BatchFolder:
    """Return the folder of the pilots and the answer."""
    return BatchFolder(path, "slotwise recommend", "recommend.json", "pilots")


def begin(folder: BatchFolder, base: RunConfig) -> None:
    """Create or resume a folder; other metrics, seeds, sizes and budgets may share its pilots.

    Raises:
        InputError: the folder has pilots of another run.
    """
    options = json.loads(json.dumps(common_options(base)))
    if folder.is_new:
        folder.write_manifest({"parameters": options})
        return
    with folder.reading_manifest():
        parameters = dict(folder.read_manifest()["parameters"])
    for name, value in parameters.items():
        if options.get(name) != value:
            raise InputError(
                "out", folder.path, f"another folder: the pilots of this one have {name} {value}"
            )


def write_recommendation(recommendation: Recommendation, path: Path) -> None:
    """Write the picture, recommended.toml and, when all else is there, recommendation.json."""
    if recommendation.finding.rungs:
        from slotwise.recommendation.pilot_curves import draw_pilots  # noqa: PLC0415  (plotting is slow to import)

        for kind in ("png", "pdf"):
            write_atomically(path / f"recommendation.{kind}", draw_pilots(recommendation, kind))
    write_atomically(path / "recommended.toml", toml_of(recommendation.config))
    write_atomically(path / "recommendation.json", recommendation.to_json())


def toml_of(config: RunConfig) -> str:
    """Return all options of a run as a TOML file for `slotwise train --config`."""
    lines = []
    for name, value in config.options().items():
        if name == "absences":  # TOML has no null
            value = [[part for part in absence if part is not None] for absence in value]  # noqa: PLW2901
        if value is not None:
            lines.append(f"{name.replace('_', '-')} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"
