"""Answers of the explorer: what its page asks for, computed from the text of a request.

They are computed in a worker process (`compute_worker`), because a request may ask for more than a machine
can do while a page waits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slotwise.errors import InputError, UserError
from slotwise.report.gantt import Window
from slotwise.report.gantt.drawing import compose, picture_window
from slotwise.schedule import Timeline
from slotwise.web import exploration
from slotwise.web.controls import TRAINED, controls, effective, parse_options, parse_powers
from slotwise.web.group_size_sweep import Sweeps
from slotwise.web.results_browser import ResultsBrowser

Parameters = Mapping[str, Any]
ENERGY = tuple(control.name for control in controls() if control.section == "energy")
PART = ("from", "to", "first_device", "last_device")  # of a Gantt chart
PICTURES = {"timeline.svg": "image/svg+xml", "timeline.png": "image/png"}
UPLINKS = "uplinks.csv"
USE_COMMANDS = "use slotwise plan and slotwise timeline for it"
PLANNED_POINTS = 60  # of the curve of planned rounds


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
        except InputError as error:
            return as_json(
                {"message": str(error), "parameter": error.parameter, "allowed": error.allowed}, 422
            )
        except UserError as error:
            return refusal(str(error))
        return found if isinstance(found, Answer) else as_json(found)

    def _view(self, given: Parameters) -> Any:
        powers = parse_powers(given)
        options = parse_options(_without(given, *ENERGY, *PART, "brief"))
        window, devices = _part_of(given) if PART[0] in given else (None, range(0))
        view = exploration.view(self._timelines, options, powers, brief="brief" in given)
        if window is not None:
            timeline = self._timelines.of(effective(options)[0])
            view["part"] = exploration.part(self._timelines, timeline, window, devices)
        return view

    def _timeline(self, given: Parameters) -> Timeline:
        """Return the timeline of a run folder (``run=``) or of options."""
        if "run" in given:
            return self._results.timeline(given["run"])
        return self._timelines.of(effective(parse_options(_without(given, *ENERGY)))[0])

    def _part(self, given: Parameters) -> Any:
        window, devices = _part_of(given)
        timeline = self._timeline(_without(given, *PART))
        found = exploration.part(self._timelines, timeline, window, devices)
        return {**found, "frame": exploration.frame(timeline)}

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
        from slotwise.report.gantt.figure_chart import gantt_file  # noqa: PLC0415  (loads matplotlib)

        window = None
        if first is not None and end is not None:
            if end <= first:
                raise InputError("to", end, f"above from, {first}")
            window = Window(min(first, timeline.last_slot - 1), min(max(end, 1), timeline.last_slot))
        picture = compose(timeline, picture_window(timeline, window))
        if "run" not in shown:
            bits = effective(parse_options(_without(shown, *ENERGY)))[0].update_bits
            picture = replace(picture, update_bits=bits)
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
            raise InputError(name, options[name], unused[name])
        timeline = self._timelines.of(config)
        name = f"{config.dataset.data}-{config.schedule}-S{config.channel.group_size}"
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


def _part_of(given: Parameters) -> tuple[Window, range]:
    """Return the slots and devices of a part of a Gantt chart."""
    first, end, low, high = (whole_parameter(given, name) for name in PART)
    return Window(first, end), range(low, high + 1)
