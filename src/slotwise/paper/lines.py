"""From runs to the lines of a figure: one colour for each group size everywhere, labels as in the paper."""

from __future__ import annotations

from collections.abc import Sequence

from slotwise.batch.job import free_delay
from slotwise.data import DataName
from slotwise.paper.results import Curve, Results, seed_curves
from slotwise.report.curves.panels import BLACK, BLUE, GREEN, ORANGE, PINK, SKY, VERMILLION, Colour, Line
from slotwise.runs import RunConfig

SIZE_COLOURS = {1: BLUE, 2: SKY, 5: VERMILLION, 10: GREEN, 20: BLACK, 25: PINK, 50: ORANGE, 100: BLACK}


def data_title(name: DataName) -> str:
    """The data set as people write it."""
    return {"mnist": "MNIST", "cifar10": "CIFAR-10"}[name]


def staleness(parameters: RunConfig) -> int:
    """d, the staleness of updates once every device has sent: G−1, less the delay of idfl."""
    scenario = parameters.channel
    delay = free_delay(scenario) if parameters.policy.schedule == "idfl" else 0
    return scenario.groups - 1 - delay


def size_label(parameters: RunConfig) -> str:
    """``S=10, d=9``."""
    return f"S={parameters.channel.group_size}, d={staleness(parameters)}"


def run_line(
    results: Results,
    parameters: RunConfig,
    seeds: Sequence[int],
    *,
    label: str | None = None,
    colour: Colour | None = None,
    dashed: bool = False,
) -> Line:
    """A run with all its seeds, as far as they have come; by default labelled and coloured by group size."""
    return Line(
        label or size_label(parameters),
        colour or SIZE_COLOURS.get(parameters.channel.group_size, BLUE),
        dashed,
        tuple(curve.points for curve in _to_draw(seed_curves(results, parameters, seeds))),
    )


def _to_draw(curves: Sequence[Curve]) -> list[Curve]:
    """A seed that diverged would cut the mean short: it is drawn only where there is no other."""
    started = [curve for curve in curves if curve.points]
    return [curve for curve in started if curve.status != "diverged"] or started[:1]


def drawn(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Those with something to draw."""
    return tuple(line for line in lines if line.seeds)
