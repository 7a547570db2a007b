"""The Gantt chart as a page: one HTML file that opens offline and describes the bar under the pointer.

Hand-written SVG instead of plotly: a plotly page embeds 4.5 MB of library for what is 20 kilobytes of
rectangles with six devices and 300 with a hundred; its zoom would scale the labels out of their blocks; and
it has no frozen panes, so the channel would scroll away from device 100. Here the axis and the channel stay
on top and the device numbers at the side, the page follows the reader's dark mode, and without JavaScript the
browser still shows the description of each bar as its title.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from importlib.resources import files
from string import Template

from slotwise.report.gantt.chart import BEYOND, SERVER, UNSENT, Activity, Interval, model_name, span, ticks
from slotwise.report.gantt.drawing import DIGIT, LOOKS, Bar, Picture

USUAL_WIDTH, NARROWEST_SLOT, WIDEST_SLOT = 1000, 9, 48  # pixels, like all lengths here
AXIS, CHANNEL = 18, 32
TOP = 2 * AXIS + CHANNEL + 6
FONT, SMALLEST_FONT = 11.0, 7.5


def gantt_page(picture: Picture) -> str:
    """Return the text of the HTML file."""
    drawing = _Drawing(picture)
    template = Template(files("slotwise.report.gantt").joinpath("gantt_page.html").read_text("utf-8"))
    title, *rest = picture.head
    return template.substitute(
        title=escape(title),
        head="\n".join(f"<p>{escape(line)}</p>" for line in rest),
        legend="\n".join(map(_legend_entry, picture.kinds)),
        light="\n".join(f"--{_css(kind)}: {LOOKS[kind].colour};" for kind in picture.kinds),
        dark="\n".join(f"--{_css(kind)}: {LOOKS[kind].dark_colour};" for kind in picture.kinds),
        rules="\n".join(map(_rules, picture.kinds)),
        stroke=f"{min(1.0, drawing.slot / 14):g}",
        corner=drawing.corner(),
        top=drawing.top(),
        side=drawing.side(),
        body=drawing.body(),
    )


class _Drawing:
    """The four panes of the chart: a corner, the channel on top, device numbers at the side, their bars."""

    def __init__(self, picture: Picture) -> None:
        self.picture, self.window, self.timeline = picture, picture.window, picture.timeline
        self.slot = min(max(USUAL_WIDTH // self.window.slots, NARROWEST_SLOT), WIDEST_SLOT)
        self.row = 24 if picture.devices <= 30 else 14
        self.width = self.slot * self.window.slots
        self.label_width = 66

    def corner(self) -> str:
        """Draw the names of the rows of the top pane."""
        places = (("slot", AXIS / 2, "end"), ("round", 1.5 * AXIS, "end"))
        channel = ("channel", 2 * AXIS + CHANNEL / 2, "end bold")
        names = (_text(self.label_width - 6, y, name, style) for name, y, style in (*places, channel))
        return _svg("corner", self.label_width, TOP, names)

    def top(self) -> str:
        """Draw slots, rounds and the channel."""
        parts = [*self._slot_axis(), *self._round_axis(), '<g class="channel">', *self._channel(), "</g>"]
        return _svg("top", self.width, TOP, parts)

    def side(self) -> str:
        """Draw the numbers of the devices."""
        size = min(FONT, self.row * 0.75)
        right = self.label_width - 6
        labels = (
            _text(right, (device - 0.5) * self.row, f"{device}", "end", size)
            for device in range(1, self.picture.devices + 1)
        )
        name = _text(12, min(self._height() / 2, 100), "device", "middle", upright=True)
        return _svg("side", self.label_width, self._height(), [*labels, name])

    def body(self) -> str:
        """Draw the bars of the devices, and thin lines where rounds begin."""
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

    def _rounds(self) -> dict[int, float]:
        return {k: self._x(slot) for k, slot in self.picture.round_starts(self._x, _number_width).items()}

    def _round_axis(self) -> Iterator[str]:
        for k, x in self._rounds().items():
            yield f'<path class="line" d="M{x + 0.5:g} {AXIS + 2}V{2 * AXIS}"/>'
            if x + _number_width(k) - 4 <= self.width:
                yield _text(x + 3, 1.5 * AXIS, f"{k}", "start")

    def _round_lines(self) -> str:
        path = "".join(f"M{x:g} 0V{self._height()}" for x in self._rounds().values())
        return f'<path class="line" stroke-width="0.6" d="{path}"/>'

    def _channel(self) -> Iterator[str]:
        yield f'<rect class="free" y="{2 * AXIS}" width="{self.width}" height="{CHANNEL}"/>'
        for bar in self.picture.channel_bars(self.slot, CHANNEL, SMALLEST_FONT, FONT + 1):
            version, sender = bar.interval.version, bar.interval.device
            receivers = self.timeline.receivers(version).tolist() if sender == SERVER else ()
            title = describe_transfer(bar.interval, receivers)
            yield from self._draw(bar, 2 * AXIS + CHANNEL / 2, CHANNEL, title)

    def _bars(self) -> Iterator[str]:
        height = self.row * 0.84
        for bar in self.picture.device_bars(self.slot, height, SMALLEST_FONT, FONT):
            middle = (bar.interval.device - 0.5) * self.row
            yield from self._draw(bar, middle, height, describe_interval(bar.interval))

    def _draw(self, bar: Bar, middle: float, height: float, title: str) -> Iterator[str]:
        kind, x, width = bar.interval.kind, self._x(bar.first), (bar.end - bar.first) * self.slot
        height *= LOOKS[kind].thickness
        yield (
            f'<rect class="{_css(kind)}" x="{x:g}" y="{middle - height / 2:g}" width="{width:g}" '
            f'height="{height:g}"><title>{escape(title)}</title></rect>'
        )
        if bar.fit:
            style = f"middle on-{_css(kind)}"
            yield _text(x + width / 2, middle, bar.label, style, bar.fit.size, upright=bar.fit.upright)


def _number_width(number: int) -> float:
    return len(str(number)) * FONT * DIGIT + 10


def _css(kind: Activity) -> str:
    return kind.name.lower().replace("_", "-")


def _rules(kind: Activity) -> str:
    name, look = _css(kind), LOOKS[kind]
    return (
        f".{name} {{ fill: var(--{name}); background: var(--{name}); }}\n.on-{name} {{ fill: {look.ink}; }}\n"
        f"@media (prefers-color-scheme: dark) {{ .on-{name} {{ fill: {look.dark_ink}; }} }}"
    )


def _legend_entry(kind: Activity) -> str:
    look = LOOKS[kind]
    return f'<li><i class="{_css(kind)}" style="height:{14 * look.thickness:g}px"></i>{look.title}</li>'


def _svg(name: str, width: float, height: float, parts: Iterable[str]) -> str:
    content = "\n".join(parts)
    return f'<svg class="{name}" width="{width:g}" height="{height:g}">\n{content}\n</svg>'


def _text(
    x: float, y: float, text: str, style: str, size: float | None = None, *, upright: bool = False
) -> str:
    place = f'transform="translate({x:g} {y:g}) rotate(-90)"' if upright else f'x="{x:g}" y="{y:g}"'
    font = f' font-size="{size:.3g}"' if size and abs(size - FONT) > 0.05 else ""
    return f'<text class="{style}" {place}{font}>{escape(text)}</text>'


def describe_interval(interval: Interval) -> str:
    """Return the description of one activity of one device."""
    model, when = model_name(interval.version), span(interval.start, interval.end)
    beginning = f"device {interval.device}, {when}: "
    match interval.kind:
        case Activity.COMPUTING:
            return f"{beginning}computes on {model}; {_sending(interval)}"
        case Activity.WAITING_FOR_CHANNEL:
            return (
                f"{beginning}ready, waits for the channel with its update from {model}; {_sending(interval)}"
            )
        case Activity.SENDING:
            return f"{beginning}sends its update from {model}; {_age(interval)}"
        case Activity.LOST:
            return f"{beginning}sends its update from {model}, which is lost; round {interval.round}"
        case Activity.AWAY:
            return f"{beginning}away"
        case Activity.RECEIVING:
            return f"{beginning}receives {model} at the end of round {interval.round}"
    awaited = "a model that comes later" if interval.version == BEYOND else model
    return f"{beginning}waits for {awaited}"


def describe_transfer(transfer: Interval, receivers: Iterable[int] = ()) -> str:
    """Return the description of one uplink or broadcast on the channel."""
    when, model = span(transfer.start, transfer.end), model_name(transfer.version)
    beginning = f"channel, {when}: "
    match transfer.kind:
        case Activity.SENDING:
            return f"{beginning}device {transfer.device} sends its update from {model}; {_age(transfer)}"
        case Activity.LOST:
            return (
                f"{beginning}the update of device {transfer.device} from {model} is lost; "
                f"round {transfer.round}"
            )
    to = device_list(receivers) or "no device"
    return f"{beginning}broadcast of {model} to {to}; ends round {transfer.round}"


def device_list(devices: Iterable[int]) -> str:
    """Return device numbers as text: ``device 4``, ``devices 1–3, 7``; empty for none."""
    runs: list[list[int]] = []
    for device in sorted(devices):
        if runs and device == runs[-1][1] + 1:
            runs[-1][1] = device
        else:
            runs.append([device, device])
    parts = [f"{first}" if first == last else f"{first}–{last}" for first, last in runs]
    several = len(runs) > 1 or any(first < last for first, last in runs)
    return f"device{'s' if several else ''} {', '.join(parts)}" if runs else ""


def _sending(interval: Interval) -> str:
    if interval.round == BEYOND:
        return "sent after the last round shown"
    if interval.round == UNSENT:
        return "never sent, the device leaves"
    return f"sent in {_age(interval)}"


def _age(interval: Interval) -> str:
    return f"round {interval.round}, staleness {interval.round - interval.version}"
