"""Answers of the explorer: what its page asks for, computed from the text of a request.

They are computed in a worker process (`AnswerProcess`), because a request may ask for more than a machine
can do while a page waits.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slotwise.base.errors import InputError, NoEffectError, UserError
from slotwise.base.extras import require
from slotwise.report.gantt import Window
from slotwise.report.gantt.drawing import compose, picture_window
from slotwise.runs.config import RunConfig
from slotwise.scenario import Scenario
from slotwise.schedule import NoRoundError, Timeline
from slotwise.setting.planning import SCHEDULES, Plan, divisors, plan
from slotwise.web import exploration, refusals
from slotwise.web.access_view import access_view
from slotwise.web.controls import TRAINED, controls, effective, parse_options, parse_powers
from slotwise.web.exploration import cell_map, is_plain, refuse_too_long
from slotwise.web.results_browser import ResultsBrowser

Parameters = Mapping[str, Any]
ENERGY = tuple(control.name for control in controls() if control.section == "energy")
PART = ("from", "to", "first_device", "last_device")  # of a Gantt chart
PICTURES = {"timeline.svg": "image/svg+xml", "timeline.png": "image/png"}
UPLINKS = "uplinks.csv"
USE_COMMANDS = "use slotwise plan and slotwise timeline for it"
PLANNED_POINTS = 60  # of the curve of planned rounds
EVERY_SIZE_UP_TO = 128  # devices; beyond, group sizes are sampled
SAMPLED_SIZES, SAMPLED_FLEET_SIZES = 24, 8
KEPT_SWEEPS = 16
CHOSEN = ("group_size", "group_size_changes", "schedule", "delay")  # what the curves do not depend on
Row = dict[str, Any]


class Answer(NamedTuple):
    """An answer as HTTP has it."""

    status: int
    media_type: str
    content: bytes


class Answers:
    """Computes answers, and keeps timelines and figures that may be asked for again.

    Args:
        root: folder of runs to browse.
    """

    def __init__(self, root: Path) -> None:
        self._timelines, self._sweeps = exploration.Timelines(), Sweeps()
        self._results = ResultsBrowser(root)
        self._calls: Mapping[str, Callable[[Parameters], Any]] = {
            "view": self._view,
            "part": self._part,
            "cell": self._cell,
            "access": self._access,
            "sizes": self._sizes,
            "rows": self._rows,
            "download": self._download,
            "runs": lambda _: self._results.listing(),
            "curves": self._curves,
            "training": self._training,
            "ready": lambda _: None,
        }

    def answer(self, call: str, given: Parameters) -> Answer:
        """Return the answer to a call; what the user can correct has status 422."""
        try:
            found = self._calls[call](given)
        except UserError as error:
            return as_json(refusals.as_table(error), 422)
        return found if isinstance(found, Answer) else as_json(found)

    def _view(self, given: Parameters) -> Any:
        powers = parse_powers(given)
        options = parse_options(_without(given, *ENERGY, *PART, "brief"))
        window, devices = _part_of(given) if PART[0] in given else (None, range(0))
        view = exploration.view(self._timelines, options, powers, brief="brief" in given)
        if window is not None:
            timeline = self._timelines.chosen(options)
            view["part"] = exploration.part(self._timelines, timeline, window, devices)
        return view

    def _timeline(self, given: Parameters) -> Timeline:
        """Return the timeline of a run folder (``run=``) or of options."""
        if "run" in given:
            return self._results.timeline(given["run"])
        return self._timelines.chosen(parse_options(_without(given, *ENERGY)))

    def _part(self, given: Parameters) -> Any:
        window, devices = _part_of(given)
        timeline = self._timeline(_without(given, *PART))
        found = exploration.part(self._timelines, timeline, window, devices)
        return {**found, "frame": exploration.frame(timeline)}

    def _cell(self, given: Parameters) -> Any:
        """Return the map of the cell of a run folder or of options; None if there is none."""
        timeline = self._timeline(given)
        config = self._results.run(given["run"]).config if "run" in given else _config(given)
        return cell_map(config, timeline)

    def _access(self, given: Parameters) -> Any:
        """Return the access schemes side by side; None without a radio link that has them."""
        return access_view(self._timelines, parse_options(_without(given, *ENERGY)))

    def _sizes(self, given: Parameters) -> Any:
        return self._sweeps.begin(parse_options(_without(given, *ENERGY)))

    def _rows(self, given: Parameters) -> Any:
        options = parse_options(_without(given["options"], *ENERGY))
        return self._sweeps.rows(options, given["sizes"])

    def _download(self, given: Parameters) -> Answer:
        name, shown = given["name"], _without(given, "name", "from", "to")
        first, end = (whole_parameter(given, key) if key in given else None for key in ("from", "to"))
        timeline = self._timeline(shown)
        if name == UPLINKS:
            return Answer(200, "text/csv", exploration.uplinks_csv(timeline).encode())
        require("matplotlib")
        from slotwise.report.gantt.figure_chart import gantt_file  # noqa: PLC0415  (loads matplotlib)

        window = None
        if first is not None and end is not None:
            if end <= first:
                raise InputError("to", end, f"above from, {first}")
            window = Window(min(first, timeline.last_slot - 1), min(max(end, 1), timeline.last_slot))
        picture = compose(timeline, picture_window(timeline, window))
        if "run" not in shown:
            picture = replace(picture, update_bits=_config(shown).update_bits)
        return Answer(200, PICTURES[name], gantt_file(picture, name[-3:]))

    def _curves(self, given: Parameters) -> Any:
        powers = parse_powers(given)
        across, up = given.get("across", "slot"), given.get("up", "loss")
        return self._results.curves(given["runs"], across, up, powers)

    def _training(self, given: Parameters) -> Any:
        """Return the options of a training, a name that says what is trained, and the rounds planned."""
        options = parse_options(given, ("plan", "more", "radio", "training"))
        config, kept, unused = effective(options)
        for name in [name for name in TRAINED if name in unused]:  # the page does not switch these off
            raise NoEffectError(name, options[name], unused[name])
        timeline = self._timelines.chosen(options)
        name = f"{config.dataset.source}-{config.schedule}-S{config.channel.group_size}"
        name += f"-T{config.deadline}-seed{config.seed}"
        shown = exploration.shown_options(config, kept)
        return {"name": name, "given": kept, "options": shown, "planned": _planned(timeline)}


def _planned(timeline: Timeline) -> list[tuple[int, int]]:
    """Return slots and the rounds complete by then: a few points from the first round to the last."""
    rounds = np.unique(np.linspace(1, timeline.rounds, PLANNED_POINTS).astype(int))
    return [(0, 0), *((int(timeline.broadcast_end[k - 1]), int(k)) for k in rounds)]


def as_json(value: Any, status: int = 200) -> Answer:
    """Return a value as an answer."""
    # NaN is not JSON: a browser would reject the whole answer.
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Answer(status, "application/json", text.encode())


def refusal(message: str) -> Answer:
    """Return the answer to a request that is refused for a reason without a parameter."""
    return as_json({"message": message, "parameter": None}, 422)


def _without(given: Parameters, *names: str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in names}


def whole_parameter(given: Parameters, name: str) -> int:
    """Return a whole number of an address, or raise an InputError."""
    text = given.get(name, "")
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise InputError(name, text or "missing", "a whole number of at least 0")
    return int(text)


def _config(given: Parameters) -> RunConfig:
    return effective(parse_options(_without(given, *ENERGY)))[0]


def _part_of(given: Parameters) -> tuple[Window, range]:
    """Return the slots and devices of a part of a Gantt chart."""
    first, end, low, high = (whole_parameter(given, name) for name in PART)
    return Window(first, end), range(low, high + 1)


class Sweeps:
    """Rows of the last few sweeps."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, dict[int, Row]] = OrderedDict()

    def begin(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the rows of the group sizes that are known, and the other sizes, in lists to ask for."""
        config, _, _ = effective(options)
        known, equal = self._known(options), is_plain(config)
        wanted = group_sizes(config.channel.devices, config.channel.group_size, equal=equal)
        missing = [size for size in wanted if size not in known]
        # Closed forms take no time, so the first request has the chosen size and all divisors. Simulated
        # sizes are asked for one by one, and shown as they come.
        step = max(8, len(divisors(config.channel.devices)) + 1) if equal else 1
        return {
            "rows": [known[size] for size in wanted if size in known],
            "missing": [missing[start : start + step] for start in range(0, len(missing), step)],
        }

    def rows(self, options: Mapping[str, Any], sizes: Sequence[int]) -> list[Row]:
        """Return rounds and staleness of some group sizes; sizes without a round may be missing."""
        config, _, _ = effective(options)
        if is_plain(config):
            found = _planned_rows(config, sizes)
        else:
            fixed = {name: value for name, value in options.items() if name not in CHOSEN}
            found = [_simulated(fixed, size) for size in sizes]
        self._known(options).update((row["group_size"], row) for row in found)
        return found

    def _known(self, options: Mapping[str, Any]) -> dict[int, Row]:
        key = frozenset((name, value) for name, value in options.items() if name not in CHOSEN)
        known = self._kept.setdefault(key, {})
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT_SWEEPS:
            self._kept.popitem(last=False)
        return known


def group_sizes(devices: int, chosen: int, *, equal: bool) -> list[int]:
    """Return the group sizes to show, the most telling first: divisors, then sizes between them."""
    first = [chosen, *divisors(devices)]
    if equal and devices <= EVERY_SIZE_UP_TO:
        return list(dict.fromkeys([*first, *range(1, devices + 1)]))
    count = SAMPLED_SIZES if equal else SAMPLED_FLEET_SIZES
    between = [round(devices ** (number / count)) for number in range(count + 1)]
    return list(dict.fromkeys([*first, *between]))


def _planned_rows(config: RunConfig, sizes: Sequence[int]) -> list[Row]:
    """Return the rows of equal devices, from the planner."""
    channel, known = config.channel, signature(plan).parameters
    scenario = {f.name: getattr(channel, f.name) for f in fields(Scenario) if f.name in known}
    try:
        table = plan(**scenario, group_sizes=sizes)
    except NoRoundError:  # of any of these sizes
        return []
    return [_planned_row(row) for row in table if isinstance(row, Plan) and row.fits]


def _planned_row(row: Plan) -> Row:
    known = row.figures()
    stale = {"sync": 0, "async": known["staleness_async"], "idfl": known["staleness_idfl"]}
    rounds = {"sync": known["sync_rounds"], "async": known["rounds"], "idfl": known["rounds"]}
    by_schedule = {name: {"rounds": rounds[name], "max_staleness": stale[name]} for name in stale}
    return {"group_size": known["group_size"], "delay": known["delay"], **by_schedule}


def _simulated(fixed: Mapping[str, Any], size: int) -> Row:
    """Return the row of unequal devices; figures of a schedule without a round are missing.

    The delay is the free one: a number need not fit all group sizes.
    """
    row: Row = {"group_size": size}
    for name in SCHEDULES:
        config = effective({**fixed, "group_size": size, "schedule": name})[0]
        try:
            refuse_too_long(config)
            timeline = config.simulate()
        except NoRoundError:
            continue
        row[name] = timeline.totals()._asdict()
    return row
