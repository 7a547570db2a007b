"""The figures of the experiments: which curves stand in which panel, with the paper's labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slotwise.batch.job import Run, distinct
from slotwise.data import TITLES
from slotwise.paper.evidence import Results, staleness
from slotwise.paper.experiments import BOTH, MODELS, Curves, Experiment, Remedies, Schedules, Tradeoff
from slotwise.report.colours import BLACK, ORANGE, PINK, SKY, LineLook, Subject, line_looks, size_colour
from slotwise.report.curves import CurveFigure, Line, Panel, loss_and_accuracy
from slotwise.runs import RunConfig

REMEDY_LOOKS = tuple(map(LineLook, (PINK, SKY, ORANGE, BLACK)))  # neither of a schedule nor of a group size
SCHEDULE_TITLES = {
    "async": "Asynchronous, without intentional delay",
    "idfl": "With intentional delay (idfl)",
}


def figures_of(experiment: Experiment, results: Results, seeds: Sequence[int]) -> tuple[CurveFigure, ...]:
    """Return the figure of an experiment with the curves there are so far, if it has one."""
    if isinstance(experiment, Schedules):
        return (_schedules(experiment, results, seeds),)
    if isinstance(experiment, Tradeoff):
        return (_tradeoff(experiment, results, seeds),)
    if isinstance(experiment, Remedies):
        return (_remedies(experiment, results, seeds),)
    if not isinstance(experiment, Curves):
        return ()
    if experiment.schedules == BOTH:
        return (_comparison(experiment, results, seeds),)
    sizes = _with_staleness({f"S={one.channel.group_size}": one for one in experiment.configs(0)})
    looks = [LineLook(size_colour(config.channel.group_size)) for config in sizes.values()]
    figure = CurveFigure(
        experiment.name,
        f"{SCHEDULE_TITLES[experiment.schedules[0]]}: {_case(experiment)}",
        "S devices send in a round; d is the staleness of their updates, in rounds.",
        loss_and_accuracy(_lines(results, seeds, sizes, looks)),
    )
    return (figure,)


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
        devices = own["sync"].channel.devices
        title = f"S={size} of {devices} devices a round, d={', '.join(ages)} and {last}"
        panels.append(Panel(title, "slot", "loss", _lines(results, seeds, own, _schedule_looks(own))))
    return CurveFigure(
        experiment.name,
        f"Three schedules of the same channel: {_case(experiment)}",
        "sync: the channel is unused while devices compute. async: always used, with updates of outdated "
        "models. idfl: devices wait for a fresher model where that costs no slot. d: staleness of the "
        "updates, in rounds.",
        tuple(panels),
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
            shown.append(Panel(f"S={size}, d={ages}", "slot", "loss", lines))
    return CurveFigure(
        experiment.name,
        f"Asynchronous against intentional delay: {_case(experiment)}",
        "The same S in each panel, without and with the free delay; d is the staleness of the updates, in "
        f"rounds. No delay is free at {', '.join(same)}: there both schedules are one and the same run.",
        tuple(shown),
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
    )


def _remedies(experiment: Remedies, results: Results, seeds: Sequence[int]) -> CurveFigure:
    """Return one figure of losses against slots: remedies of each schedule beside the paper's runs."""
    panels = []
    for schedule in BOTH:
        own, paper = (
            {label: config for label, config in every.items() if config.schedule == schedule}
            for every in (experiment.remedies(0), experiment.fixed(0))
        )
        dashed = [LineLook(size_colour(one.channel.group_size), "dashed") for one in paper.values()]
        lines = _lines(results, seeds, _with_staleness(own), REMEDY_LOOKS)
        lines += _lines(results, seeds, _with_staleness(paper), dashed)
        panels.append(Panel(SCHEDULE_TITLES[schedule], "slot", "loss", lines))
    return CurveFigure(
        experiment.name,
        f"Beyond the paper: shorter steps for old updates, group sizes that shrink: {_case(experiment)}",
        "steps/d: every update is divided by its staleness d. S=50@0, 10@10000: S is 50 from the start "
        "and 10 from the first round after slot 10,000. Dashed: the same schedule as in the paper.",
        tuple(panels),
    )


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
        # A seed that diverged would cut the mean short, so it is drawn only if there is no other.
        drawn = [curve.points for curve in started if curve.status != "diverged"]
        curves = tuple(drawn or [curve.points for curve in started[:1]])
        lines.append(Line(label, look.colour, look.dash, curves))
    return tuple(line for line in lines if line.seeds)


def _schedule_looks(labels: Mapping[str, RunConfig]) -> list[LineLook]:
    return line_looks([Subject(config.schedule) for config in labels.values()])


def _with_staleness(labels: Mapping[str, RunConfig]) -> dict[str, RunConfig]:
    """Return labels with the staleness d of the updates, where the group size stays the same."""
    return {
        label if config.channel.group_size_changes else f"{label}, d={staleness(config)}": config
        for label, config in labels.items()
    }
