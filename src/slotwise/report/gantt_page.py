"""The Gantt chart as a page: one HTML file that opens offline and tells about each bar pointed at.

Hand-written SVG instead of plotly, for the reader's sake: a plotly page embeds 4.5 MB of library for what is
20 kilobytes of rectangles with six devices and 300 with a hundred; its zoom would scale the labels out of
their blocks; and it has no frozen panes, so the channel would scroll away from device 100. Here the axis and
the channel stay on top and the device numbers at the side, the page follows the reader's dark mode, and
without JavaScript the browser still shows each bar's words as its title.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from importlib.resources import files
from string import Template

from slotwise.report.activity import Activity
from slotwise.report.caption import model_name
from slotwise.report.channel import broadcasts, lost_uplinks, round_starts, rounds, uplinks
from slotwise.report.fitting import DIGIT, fit
from slotwise.report.hover import broadcast_words, interval_words, lost_uplink_words, uplink_words
from slotwise.report.palette import LEGEND_ORDER, LOOKS, Look
from slotwise.report.picture import Picture
from slotwise.report.ticks import ticks

USUAL_WIDTH, NARROWEST_SLOT, WIDEST_SLOT = 1000, 9, 48  # pixels, like all lengths here
AXIS, CHANNEL = 18, 32
TOP = 2 * AXIS + CHANNEL + 6
FONT, SMALLEST_FONT = 11.0, 7.5


def gantt_page(picture: Picture) -> str:
    """The page as text."""
    drawing = _Drawing(picture)
    template = Template(files("slotwise.report").joinpath("gantt_page.html").read_text("utf-8"))
    title, *rest = picture.head
    looks = {kind: look for kind, look in LOOKS.items() if kind in picture.kinds}
    return template.substitute(
        title=escape(title),
        head="\n".join(f"<p>{escape(line)}</p>" for line in rest),
        legend="\n".join(_legend_entry(kind) for kind in LEGEND_ORDER if kind in looks),
        light="\n".join(f"--{_css(kind)}: {look.colour};" for kind, look in looks.items()),
        dark="\n".join(f"--{_css(kind)}: {look.dark_colour};" for kind, look in looks.items()),
        rules="\n".join(_rules(looks)),
        stroke=f"{min(1.0, drawing.slot / 14):g}",
        corner=drawing.corner(),
        top=drawing.top(),
        side=drawing.side(),
        body=drawing.body(),
    )


class _Drawing:
    """The four panes of the chart: a corner, the channel on top, the devices at the side, their bars."""

    def __init__(self, picture: Picture) -> None:
        self.picture, self.window, self.timeline = picture, picture.window, picture.timeline
        self.slot = min(max(USUAL_WIDTH // self.window.slots, NARROWEST_SLOT), WIDEST_SLOT)
        self.row = 24 if picture.devices <= 30 else 14
        self.width = self.slot * self.window.slots
        self.label_width = 66

    def corner(self) -> str:
        """The names of the lines beside it."""
        places = (("slot", AXIS / 2, "end"), ("round", 1.5 * AXIS, "end"))
        channel = ("channel", 2 * AXIS + CHANNEL / 2, "end bold")
        names = (_text(self.label_width - 6, y, name, style) for name, y, style in (*places, channel))
        return _svg("corner", self.label_width, TOP, names)

    def top(self) -> str:
        """Slots, rounds and the channel."""
        parts = [*self._slot_axis(), *self._round_axis(), '<g class="channel">', *self._channel(), "</g>"]
        return _svg("top", self.width, TOP, parts)

    def side(self) -> str:
        """The devices' numbers."""
        size = min(FONT, self.row * 0.75)
        right = self.label_width - 6
        labels = (
            _text(right, (device - 0.5) * self.row, f"{device}", "end", size)
            for device in range(1, self.picture.devices + 1)
        )
        name = _text(12, min(self._height() / 2, 100), "device", "middle", upright=True)
        return _svg("side", self.label_width, self._height(), [*labels, name])

    def body(self) -> str:
        """The devices' bars, and thin lines where rounds begin."""
        return _svg("body", self.width, self._height(), [*self._bars(), self._round_lines()])

    def _height(self) -> int:
        return self.row * self.picture.devices + 4

    def _x(self, slot: float) -> float:
        return (slot - self.window.first) * self.slot

    def _slot_axis(self) -> Iterator[str]:
        for slot in ticks(range(*self.window), self._x, _number_width):
            if self._x(slot) + _number_width(slot) - 4 <= self.width:
                yield _text(self._x(slot) + 3, AXIS / 2, f"{slot}", "start")
                yield f'<path class="line" d="M{self._x(slot) + 0.5:g} 4V{AXIS - 4}"/>'

    def _rounds(self) -> list[int]:
        """The rounds to number: those that begin in the window and have room."""
        starts = round_starts(self.timeline)
        seen = [k for k in rounds(self.timeline, self.window) if starts[k] >= self.window.first]
        return ticks(seen, lambda k: self._x(float(starts[k])), _number_width)

    def _round_axis(self) -> Iterator[str]:
        starts = round_starts(self.timeline)
        for k in self._rounds():
            x = self._x(float(starts[k]))
            yield f'<path class="line" d="M{x + 0.5:g} {AXIS + 2}V{2 * AXIS}"/>'
            if x + _number_width(k) - 4 <= self.width:
                yield _text(x + 3, 1.5 * AXIS, f"{k}", "start")

    def _round_lines(self) -> str:
        starts = round_starts(self.timeline)
        path = "".join(f"M{self._x(float(starts[k])):g} 0V{self._height()}" for k in self._rounds())
        return f'<path class="line" stroke-width="0.6" d="{path}"/>'

    def _channel(self) -> Iterator[str]:
        yield f'<rect class="free" y="{2 * AXIS}" width="{self.width}" height="{CHANNEL}"/>'
        sent = list(uplinks(self.timeline, self.window))
        digits = max((len(str(uplink.device)) for uplink in sent), default=1)
        for uplink in sent:
            words = uplink_words(uplink)
            yield from self._transfer(Activity.SENDING, uplink[:2], f"{uplink.device}", digits, words)
        for uplink in lost_uplinks(self.timeline, self.window):
            words = lost_uplink_words(uplink)
            yield from self._transfer(Activity.LOST, uplink[:2], f"{uplink.device}", digits, words)
        models = list(broadcasts(self.timeline, self.window))
        digits = max((len(model_name(model.version)) for model in models), default=1)
        for model in models:
            words = broadcast_words(model, self.timeline.receivers(model.version).tolist())
            name = model_name(model.version)
            yield from self._transfer(Activity.RECEIVING, model[:2], name, digits, words)

    def _transfer(
        self, kind: Activity, slots: tuple[int, int], label: str, longest: int, words: str
    ) -> Iterator[str]:
        first, last = self.window.clip(*slots)
        x, width, middle = self._x(first), (last - first) * self.slot, 2 * AXIS + CHANNEL / 2
        height = CHANNEL * LOOKS[kind].thickness
        yield _bar(kind, x, middle - height / 2, width, height, words)
        how = fit(longest, width, height, SMALLEST_FONT, FONT + 1)
        if how:
            style = f"middle on-{_css(kind)}"
            yield _text(x + width / 2, middle, label, style, how.size, upright=how.upright)

    def _bars(self) -> Iterator[str]:
        for interval in self.picture.visible:
            first, last = self.window.clip(interval.start, interval.end)
            x, width = self._x(first), (last - first) * self.slot
            height = self.row * 0.84 * LOOKS[interval.kind].thickness
            middle = (interval.device - 0.5) * self.row
            yield _bar(interval.kind, x, middle - height / 2, width, height, interval_words(interval))
            name = model_name(interval.version)
            how = fit(len(name), width, height, SMALLEST_FONT, FONT)
            if interval.kind == Activity.COMPUTING and how:
                place = x + width / 2, middle
                yield _text(*place, name, "middle on-computing", how.size, upright=how.upright)


def _number_width(number: int) -> float:
    return len(str(number)) * FONT * DIGIT + 10


def _css(kind: Activity) -> str:
    return kind.name.lower().replace("_", "-")


def _rules(looks: Mapping[Activity, Look]) -> Iterator[str]:
    for kind, look in looks.items():
        name = _css(kind)
        yield f".{name} {{ fill: var(--{name}); background: var(--{name}); }}"
        yield f".on-{name} {{ fill: {look.ink}; }}"
        yield f"@media (prefers-color-scheme: dark) {{ .on-{name} {{ fill: {look.dark_ink}; }} }}"


def _legend_entry(kind: Activity) -> str:
    look = LOOKS[kind]
    return f'<li><i class="{_css(kind)}" style="height:{14 * look.thickness:g}px"></i>{look.words}</li>'


def _svg(name: str, width: float, height: float, parts: Iterable[str]) -> str:
    content = "\n".join(parts)
    return f'<svg class="{name}" width="{width:g}" height="{height:g}">\n{content}\n</svg>'


def _bar(kind: Activity, x: float, y: float, width: float, height: float, words: str) -> str:
    return (
        f'<rect class="{_css(kind)}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}">'
        f"<title>{escape(words)}</title></rect>"
    )


def _text(
    x: float, y: float, text: str, style: str, size: float | None = None, *, upright: bool = False
) -> str:
    place = f'transform="translate({x:g} {y:g}) rotate(-90)"' if upright else f'x="{x:g}" y="{y:g}"'
    font = f' font-size="{size:.3g}"' if size and abs(size - FONT) > 0.05 else ""
    return f'<text class="{style}" {place}{font}>{escape(text)}</text>'
