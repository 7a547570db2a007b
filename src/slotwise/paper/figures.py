"""The figures of the experiments: which curves stand in which panel, with the paper's labels."""

from __future__ import annotations

from collections.abc import Sequence

from slotwise.batch.job import Run, free_delay
from slotwise.paper.evidence import Results, seed_curves
from slotwise.paper.experiments import BOTH, DATA_TITLES, Curves, Experiment, Tradeoff
from slotwise.report.curves import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PINK,
    SKY,
    VERMILLION,
    Colour,
    CurveFigure,
    Line,
    Panel,
    loss_and_accuracy,
)
from slotwise.runs import RunConfig

SIZE_COLOURS = {1: BLUE, 2: SKY, 5: VERMILLION, 10: GREEN, 20: BLACK, 25: PINK, 50: ORANGE, 100: BLACK}
SLOTS_COLOURS = (BLUE, SKY, VERMILLION, ORANGE)  # a hue for each compute time, lighter for slow links
SCHEDULE_TITLES = {
    "async": "Asynchronous, without intentional delay",
    "idfl": "With intentional delay (idfl)",
}


def figures_of(experiment: Experiment, results: Results, seeds: Sequence[int]) -> tuple[CurveFigure, ...]:
    """Return the figure of an experiment with the curves there are so far, if it has one."""
    match experiment:
        case Curves(schedules=(_,)):
            return (_schedule_curves(experiment, results, seeds),)
        case Curves():
            return (_comparison(experiment, results, seeds),)
        case Tradeoff():
            return (_tradeoff(experiment, results, seeds),)
    return ()


def staleness(config: RunConfig) -> int:
    """Return d, the staleness of updates once every device has sent: G−1, less the delay of idfl."""
    delay = free_delay(config.channel) if config.policy.schedule == "idfl" else 0
    return config.channel.groups - 1 - delay


def _schedule_curves(experiment: Curves, results: Results, seeds: Sequence[int]) -> CurveFigure:
    lines = _drawn([_line(results, config, seeds) for config in experiment.configs(0)])
    return CurveFigure(
        experiment.name,
        f"{SCHEDULE_TITLES[experiment.schedules[0]]}: {DATA_TITLES[experiment.data]}",
        "S devices send in a round; d is the staleness of their updates, in rounds.",
        loss_and_accuracy(lines),
    )


def _comparison(experiment: Curves, results: Results, seeds: Sequence[int]) -> CurveFigure:
    """One panel for each group size at which a delay is free."""
    pairs = {size: tuple(experiment.config(s, size) for s in BOTH) for size in experiment.group_sizes}
    differ = {size: pair for size, pair in pairs.items() if Run.of(pair[0]) != Run.of(pair[1])}
    same = ", ".join(f"S={size}" for size in pairs if size not in differ)
    panels = []
    for size, (without, delayed) in differ.items():
        lines = (
            _line(results, without, seeds, label=f"S={size} async, d={staleness(without)}", dashed=True),
            _line(results, delayed, seeds, label=f"S={size} idfl, d={staleness(delayed)}"),
        )
        panels.append(Panel(f"S={size}", "slot", "loss", _drawn(lines)))
    iid = ", IID data" if experiment.partition == "iid" else ""
    return CurveFigure(
        experiment.name,
        f"Asynchronous against intentional delay: {DATA_TITLES[experiment.data]}{iid}",
        f"The same S in each panel, without and with the free delay. No delay is free at {same}: "
        "there both schedules are one and the same run.",
        tuple(panel for panel in panels if panel.lines),
    )


def _tradeoff(experiment: Tradeoff, results: Results, seeds: Sequence[int]) -> CurveFigure:
    """One figure against slots and against rounds."""
    lines = []
    for number, (compute, link) in enumerate(experiment.slots):
        for schedule in BOTH:
            config = experiment.config(schedule, (compute, link))
            label = f"{schedule}, compute {compute}, r={link}, d={staleness(config)}"
            colour = SLOTS_COLOURS[number % len(SLOTS_COLOURS)]
            dashed = schedule == "async"
            lines.append(_line(results, config, seeds, label=label, colour=colour, dashed=dashed))
    shown = _drawn(lines)
    return CurveFigure(
        experiment.name,
        "Computation against communication at S=1: MNIST",
        "Compute slots of one local training, and r, the slots of one uplink or broadcast. "
        "Dashed: async; solid: idfl with the free delay.",
        (
            Panel("Loss against slots", "slot", "loss", shown),
            Panel("Loss against rounds", "round", "loss", shown),
        ),
    )


def _line(
    results: Results,
    config: RunConfig,
    seeds: Sequence[int],
    *,
    label: str = "",
    colour: Colour | None = None,
    dashed: bool = False,
) -> Line:
    """Return the line of a run with all its seeds, by default labelled and coloured by group size."""
    size = config.channel.group_size
    started = [curve for curve in seed_curves(results, config, seeds) if curve.points]
    # A seed that diverged would cut the mean short, so it is drawn only if there is no other.
    shown = [curve for curve in started if curve.status != "diverged"] or started[:1]
    return Line(
        label or f"S={size}, d={staleness(config)}",
        colour or SIZE_COLOURS.get(size, BLUE),
        dashed,
        tuple(curve.points for curve in shown),
    )


def _drawn(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Return the lines that have something to draw."""
    return tuple(line for line in lines if line.seeds)
