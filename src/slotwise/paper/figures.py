"""The figures of the experiments: which curves stand in which panel, with the paper's labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from string import ascii_lowercase

from slotwise.batch.job import Run, distinct
from slotwise.data import TITLES
from slotwise.paper.evidence import Curve, Results, staleness
from slotwise.paper.experiments import BOTH, MODELS, Curves, Experiment, Remedies, Schedules, Tradeoff
from slotwise.report.colours import BLACK, Colour, LineLook, Subject, line_looks, size_colour
from slotwise.report.curves import CurveFigure, Line, Panel, loss_and_accuracy
from slotwise.runs import RunConfig

SYMBOLS = "S: devices a round; d: staleness of their updates, in rounds"
SCHEDULE_TITLES = {
    "async": "Asynchronous, without intentional delay",
    "idfl": "With intentional delay (idfl)",
}


def figures_of(experiment: Experiment, results: Results, seeds: Sequence[int]) -> tuple[CurveFigure, ...]:
    """Return the figure of an experiment with the curves there are so far, if it has one."""
    drawn: CurveFigure
    if isinstance(experiment, Schedules):
        drawn = _schedules(experiment, results, seeds)
    elif isinstance(experiment, Tradeoff):
        drawn = _tradeoff(experiment, results, seeds)
    elif isinstance(experiment, Remedies):
        drawn = _remedies(experiment, results, seeds)
    elif not isinstance(experiment, Curves):
        return ()
    elif experiment.schedules == BOTH:
        drawn = _comparison(experiment, results, seeds)
    else:
        drawn = _sizes(experiment, results, seeds)
    return (_lettered(drawn),)


def _lettered(figure: CurveFigure) -> CurveFigure:
    """Return a figure whose panels have letters, if there are several."""
    if len(figure.panels) < 2:
        return figure
    letters = zip(ascii_lowercase, figure.panels, strict=False)
    panels = tuple(replace(panel, title=f"({letter}) {panel.heading}") for letter, panel in letters)
    return replace(figure, panels=panels)


def _sizes(experiment: Curves, results: Results, seeds: Sequence[int]) -> CurveFigure:
    """Return the three views of one schedule; async and idfl have one range of losses."""
    (schedule,) = experiment.schedules
    (other,) = (one for one in BOTH if one != schedule)
    return CurveFigure(
        experiment.name,
        f"{SCHEDULE_TITLES[schedule]}: {_case(experiment)}",
        "S devices send in a round; d is the staleness of their updates, in rounds.",
        loss_and_accuracy(_size_lines(experiment, results, seeds)),
        SYMBOLS,
        _size_lines(replace(experiment, schedules=(other,)), results, seeds),
    )


def _size_lines(experiment: Curves, results: Results, seeds: Sequence[int]) -> tuple[Line, ...]:
    sizes = _with_staleness({f"S={one.channel.group_size}": one for one in experiment.configs(0)})
    looks = [LineLook(size_colour(config.channel.group_size)) for config in sizes.values()]
    return _lines(results, seeds, _with_seeds(results, seeds, sizes), looks)


def _case(experiment: Experiment) -> str:
    """Return the data set, and how the experiment differs from the paper's case."""
    iid = ", IID data" if experiment.partition == "iid" else ""
    return TITLES[experiment.data] + iid + (f", {MODELS.title}" if experiment.reading == MODELS else "")


def _schedules(experiment: Schedules, results: Results, seeds: Sequence[int]) -> CurveFigure:
    """Return one panel for each group size, with the curves of all schedules."""
    panels = []
    for size in experiment.group_sizes:
        own: dict[str, RunConfig] = {one: experiment.config(one, size) for one in experiment.schedules}
        *ages, last = (str(staleness(config)) for config in own.values())
        title = _titled(f"S={size}, d={', '.join(ages)} and {last}", results, seeds, own)
        panels.append(Panel(title, "slot", "loss", _lines(results, seeds, own, _schedule_looks(own))))
    return CurveFigure(
        experiment.name,
        f"Three schedules of the same channel: {_case(experiment)}",
        "sync: the channel is unused while devices compute. async: always used, with updates of outdated "
        "models. idfl: devices wait for a fresher model where that costs no slot. d: staleness of the "
        "updates, in rounds.",
        tuple(panels),
        SYMBOLS,
    )


def _comparison(experiment: Curves, results: Results, seeds: Sequence[int]) -> CurveFigure:
    """Return one panel for each group size at which a delay is free."""
    shown, same = [], []
    for size in experiment.group_sizes:
        pair: dict[str, RunConfig] = {schedule: experiment.config(schedule, size) for schedule in BOTH}
        if len(distinct(map(Run.of, pair.values()))) == 1:
            same.append(f"S={size}")
        elif lines := _lines(results, seeds, pair, _schedule_looks(pair)):
            ages = " and ".join(str(staleness(config)) for config in pair.values())
            title = _titled(f"S={size}, d={ages}", results, seeds, pair)
            shown.append(Panel(title, "slot", "loss", lines))
    return CurveFigure(
        experiment.name,
        f"Asynchronous against intentional delay: {_case(experiment)}",
        "The same S in each panel, without and with the free delay; d is the staleness of the updates, in "
        f"rounds. No delay is free at {', '.join(same)}: there both schedules are one and the same run.",
        tuple(shown),
        SYMBOLS,
    )


def _tradeoff(experiment: Tradeoff, results: Results, seeds: Sequence[int]) -> CurveFigure:
    """Return one figure against slots and against rounds."""
    labels = {
        f"{one.schedule}, compute {one.channel.compute_slots}, r={one.channel.link_slots}": one
        for one in experiment.configs(0)
    }
    lines = _lines(results, seeds, _with_staleness(labels), _schedule_looks(labels))
    return CurveFigure(
        experiment.name,
        f"Computation against communication at S=1: {_case(experiment)}",
        "Compute slots of one local training, and r, the slots of one uplink or broadcast. "
        "idfl has the free delay. The same dashes: the same slots.",
        (
            Panel("", "slot", "loss", lines),
            Panel("", "round", "loss", lines),
        ),
        "d: staleness of the updates, in rounds; r: slots of an uplink",
    )


def _remedies(experiment: Remedies, results: Results, seeds: Sequence[int]) -> CurveFigure:
    """Return one figure of losses against slots: remedies of each schedule beside the paper's runs."""
    panels = []
    for schedule in BOTH:
        own, paper = (
            {label: config for label, config in every.items() if config.schedule == schedule}
            for every in (experiment.remedies(0), experiment.fixed(0))
        )
        looks = [LineLook(_remedy_colour(one)) for one in own.values()]
        dashed = [LineLook(size_colour(one.channel.group_size), "dashed") for one in paper.values()]
        lines = _lines(results, seeds, _with_seeds(results, seeds, _with_staleness(own)), looks)
        lines += _lines(results, seeds, _with_seeds(results, seeds, _with_staleness(paper)), dashed)
        panels.append(Panel(SCHEDULE_TITLES[schedule], "slot", "loss", lines))
    return CurveFigure(
        experiment.name,
        f"Beyond the paper: shorter steps for old updates, group sizes that shrink: {_case(experiment)}",
        "steps/d: every update is divided by its staleness d. S=50@0, 10@10000: S is 50 from the start "
        "and 10 from the first round after slot 10,000. Dashed: the same schedule as in the paper.",
        tuple(panels),
        SYMBOLS,
    )


def _remedy_colour(config: RunConfig) -> Colour:
    """Return the colour of the group size, which is that of the paper's run beside it; black if S changes."""
    return BLACK if config.channel.group_size_changes else size_colour(config.channel.group_size)


def _lines(
    results: Results,
    seeds: Sequence[int],
    labels: Mapping[str, RunConfig],
    looks: Iterable[LineLook],
) -> tuple[Line, ...]:
    """Return a line for each run that has a curve."""
    lines = []
    for (label, config), look in zip(labels.items(), looks, strict=True):
        started = [curve for curve in results.of_seeds(config, seeds) if curve.points]
        curves = tuple(curve.points for curve in _drawn(started))
        lines.append(Line(label, look.colour, look.dash, curves))
    return tuple(line for line in lines if line.seeds)


def _with_seeds(
    results: Results, seeds: Sequence[int], labels: Mapping[str, RunConfig]
) -> dict[str, RunConfig]:
    """Return labels that say how many seeds are drawn, where some are left out."""
    return {label + _left_out(results, seeds, config): config for label, config in labels.items()}


def _left_out(results: Results, seeds: Sequence[int], config: RunConfig) -> str:
    started = [curve for curve in results.of_seeds(config, seeds) if curve.points]
    drawn = len(_drawn(started))
    return f" ({drawn} of {len(started)} seeds)" if drawn < len(started) else ""


def _titled(title: str, results: Results, seeds: Sequence[int], pair: Mapping[str, RunConfig]) -> str:
    """Return the title of a panel that says which of its lines are of fewer seeds."""
    notes = [(name, _left_out(results, seeds, config)) for name, config in pair.items()]
    return "; ".join([title, *(name + left_out for name, left_out in notes if left_out)])


def _drawn(started: Sequence[Curve]) -> Sequence[Curve]:
    """Return the seeds that a line is the mean of: as in the tables, without collapsed ones if others learn.

    One that diverged would cut the mean short, so it is drawn only if there is no other.
    """
    learned = [curve for curve in started if not (curve.has_ended and curve.has_collapsed)]
    whole = [curve for curve in started if curve.status != "diverged"]
    return learned or whole or started[:1]


def _schedule_looks(labels: Mapping[str, RunConfig]) -> list[LineLook]:
    return line_looks([Subject(config.schedule) for config in labels.values()])


def _with_staleness(labels: Mapping[str, RunConfig]) -> dict[str, RunConfig]:
    """Return labels with the staleness d of the updates, where the group size stays the same."""
    return {
        label if config.channel.group_size_changes else f"{label}, d={staleness(config)}": config
        for label, config in labels.items()
    }
