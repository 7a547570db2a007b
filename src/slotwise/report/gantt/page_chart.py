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
from itertools import groupby
from string import Template

from slotwise.report.gantt.chart import BEYOND, SERVER, UNSENT, Activity, Interval, span, ticks
from slotwise.report.gantt.drawing import DIGIT, LOOKS, Bar, Picture

USUAL_WIDTH, NARROWEST_SLOT, WIDEST_SLOT = 1000, 9, 48  # pixels, like all lengths here
AXIS, CHANNEL, LABELS = 18, 32, 66
TOP = 2 * AXIS + CHANNEL + 6
FONT, SMALLEST_FONT = 11.0, 7.5


def gantt_page(picture: Picture) -> str:
    """Return the text of the HTML file."""
    drawing = _Drawing(picture)
    template = Template(files("slotwise.report.gantt").joinpath("gantt_page.html").read_text("utf-8"))
    title, *rest = picture.head
    looks = {_css(kind): LOOKS[kind] for kind in picture.kinds}
    return template.substitute(
        title=escape(title),
        head="\n".join(f"<p>{escape(line)}</p>" for line in rest),
        legend="\n".join(
            f'<li><i class="{name}" style="height:{14 * look.thickness:g}px"></i>{look.title}</li>'
            for name, look in looks.items()
        ),
        light="\n".join(f"--{name}: {look.colour};" for name, look in looks.items()),
        dark="\n".join(f"--{name}: {look.dark_colour};" for name, look in looks.items()),
        rules="\n".join(
            f".{name} {{ fill: var(--{name}); background: var(--{name}); }}\n"
            f".on-{name} {{ fill: {look.ink}; }}\n"
            f"@media (prefers-color-scheme: dark) {{ .on-{name} {{ fill: {look.dark_ink}; }} }}"
            for name, look in looks.items()
        ),
        stroke=f"{min(1.0, drawing.slot / 14):g}",
        corner=drawing.corner(),
        top=drawing.top(),
        side=drawing.side(),
        body=drawing.body(),
    )


class _Drawing:
    """The four panes of the chart: a corner, the channel on top, device numbers at the side, their bars."""

    def __init__(self, picture: Picture) -> None:
        self.picture, self.window = picture, picture.window
        self.slot = min(max(USUAL_WIDTH // self.window.slots, NARROWEST_SLOT), WIDEST_SLOT)
        self.row = 24 if picture.devices <= 30 else 14
        self.width = self.slot * self.window.slots
        self.height = self.row * picture.devices + 4
        starts = picture.round_starts(self._x, _number_width)
        self.rounds = {k: self._x(slot) for k, slot in starts.items()}

    def corner(self) -> str:
        """Draw the names of the rows of the top pane."""
        names = [_text(LABELS - 6, y, name, "end") for name, y in (("slot", AXIS / 2), ("round", 1.5 * AXIS))]
        names.append(_text(LABELS - 6, 2 * AXIS + CHANNEL / 2, "channel", "end bold"))
        return _svg("corner", LABELS, TOP, names)

    def top(self) -> str:
        """Draw slots, rounds and the channel."""
        parts = []
        for slot in ticks(range(*self.window), self._x, _number_width):
            if self._x(slot) + _number_width(slot) - 4 <= self.width:
                parts.append(_text(self._x(slot) + 3, AXIS / 2, f"{slot}", "start"))
                parts.append(f'<path class="line" d="M{self._x(slot) + 0.5:g} 4V{AXIS - 4}"/>')
        for k, x in self.rounds.items():
            parts.append(f'<path class="line" d="M{x + 0.5:g} {AXIS + 2}V{2 * AXIS}"/>')
            if x + _number_width(k) - 4 <= self.width:
                parts.append(_text(x + 3, 1.5 * AXIS, f"{k}", "start"))
        free = f'<rect class="free" y="{2 * AXIS}" width="{self.width}" height="{CHANNEL}"/>'
        parts += ['<g class="channel">', free]
        for bar in self.picture.channel_bars(self.slot, CHANNEL, SMALLEST_FONT, FONT + 1):
            version, sender = bar.interval.version, bar.interval.device
            receivers = self.picture.timeline.receivers(version).tolist() if sender == SERVER else ()
            title = describe_transfer(bar.interval, receivers, self.picture.update_bits)
            parts += self._draw(bar, 2 * AXIS + CHANNEL * bar.middle, CHANNEL * bar.share, title)
        return _svg("top", self.width, TOP, [*parts, "</g>"])

    def side(self) -> str:
        """Draw the numbers of the devices."""
        size = min(FONT, self.row * 0.75)
        labels = (
            _text(LABELS - 6, (device - 0.5) * self.row, f"{device}", "end", size)
            for device in range(1, self.picture.devices + 1)
        )
        name = _text(12, min(self.height / 2, 100), "device", "middle", upright=True)
        return _svg("side", LABELS, self.height, [*labels, name])

    def body(self) -> str:
        """Draw the bars of the devices, and thin lines where rounds begin."""
        parts: list[str] = []
        height = self.row * 0.84
        for bar in self.picture.device_bars(self.slot, height, SMALLEST_FONT, FONT):
            middle = (bar.interval.device - 0.5) * self.row
            parts += self._draw(bar, middle, height, describe_interval(bar.interval))
        path = "".join(f"M{x:g} 0V{self.height}" for x in self.rounds.values())
        parts.append(f'<path class="line" stroke-width="0.6" d="{path}"/>')
        return _svg("body", self.width, self.height, parts)

    def _x(self, slot: float) -> float:
        return (slot - self.window.first) * self.slot

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
    device, kind, start, end, version, k = interval
    age = f"round {k}, staleness {k - version}"
    unsent = {BEYOND: "sent after the last round shown", UNSENT: "never sent, the device leaves"}
    sent = unsent.get(k, f"sent in {age}")
    awaited = "a model that comes later" if version == BEYOND else f"w{version}"
    text = {
        Activity.COMPUTING: f"computes on w{version}; {sent}",
        Activity.WAITING_FOR_CHANNEL: f"ready, waits for the channel with its update from w{version}; {sent}",
        Activity.SENDING: f"sends its update from w{version}; {age}",
        Activity.LOST: f"sends its update from w{version}, which is lost; round {k}",
        Activity.CHARGING: f"waits for energy, with w{version}",
        Activity.AWAY: "away",
        Activity.RECEIVING: f"receives w{version} at the end of round {k}",
        Activity.WAITING_FOR_MODEL: f"waits for {awaited}",
    }
    return f"device {device}, {span(start, end)}: {text[kind]}"


def describe_transfer(
    transfer: Interval, receivers: Iterable[int] = (), update_bits: int | None = None
) -> str:
    """Return the description of one uplink or broadcast on the channel; with bits, also its rate."""
    device, kind, start, end, version, k = transfer
    text = f"broadcast of w{version} to {device_list(receivers) or 'no device'}; ends round {k}"
    if kind == Activity.SENDING:
        text = f"device {device} sends its update from w{version}; round {k}, staleness {k - version}"
        text += "" if update_bits is None else f"; {update_bits // (end - start):,} bits a slot"
    elif kind == Activity.LOST:
        text = f"the update of device {device} from w{version} is lost; round {k}"
    return f"channel, {span(start, end)}: {text}"


def device_list(devices: Iterable[int]) -> str:
    """Return device numbers as text: ``device 4``, ``devices 1–3, 7``; empty for none."""
    numbers = sorted(devices)
    # Consecutive numbers have the same difference to their index.
    groups = groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    runs = [[number for _, number in group] for _, group in groups]
    parts = [f"{run[0]}" if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs]
    return f"device{'s' if len(numbers) > 1 else ''} {', '.join(parts)}" if numbers else ""
