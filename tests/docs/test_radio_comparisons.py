"""The studies of access schemes and compressors: their tables follow from the published curves."""

import csv
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import pytest

from slotwise.batch import BatchSpec

ROOT = Path(__file__).parents[2]
SLOT_SECONDS, TARGET = 0.01, 1.0
PAGES = {"access": "multiple-access.md", "compressors": "compressors.md"}


class Curve(NamedTuple):
    seconds: list[float]
    joules: list[float]
    loss: list[float]

    def reached(self, target: float) -> int | None:
        return next((i for i, loss in enumerate(self.loss) if loss <= target), None)


def curves(study: str) -> dict[str, dict[str, Curve]]:
    """Seconds, joules and losses of each case and seed."""
    found: dict[str, dict[str, Curve]] = defaultdict(lambda: defaultdict(lambda: Curve([], [], [])))
    with (ROOT / "docs/results/compare" / study / "curves.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            curve = found[row["case"]][row["seed"]]
            curve.seconds.append(int(row["slot"]) * SLOT_SECONDS)
            curve.joules.append(float(row["joules"]))
            curve.loss.append(float(row["loss"]))
    return found


def between(numbers: list[float]) -> str:
    low, high = f"{min(numbers):,.0f}", f"{max(numbers):,.0f}"
    return low if low == high else f"{low}–{high}"


def table(study: str) -> list[str]:
    """The rows of a page."""
    with (ROOT / "docs/results/compare" / study / "results.csv").open(newline="") as file:
        results = list(csv.DictReader(file))
    assert {row["status"] for row in results} == {"finished"}
    rows = []
    for case, seeds in curves(study).items():
        runs = [row for row in results if row["case"] == case]
        losses = [float(row["final_loss"]) for row in runs]
        accuracy = mean(float(row["final_accuracy"]) for row in runs)
        rounds, lost, joules = (
            mean(float(row[name]) for row in runs) for name in ("rounds", "lost", "joules")
        )
        places = [(curve, curve.reached(TARGET)) for curve in seeds.values()]
        times = [curve.seconds[place] for curve, place in places if place is not None]
        spent = [curve.joules[place] for curve, place in places if place is not None]
        every = len(times) == len(seeds) == 3
        first = f"{mean(losses):.2f} | {min(losses):.2f}–{max(losses):.2f} | {100 * accuracy:.1f} %"
        then = f"{rounds:.0f} | {lost:,.0f} | {joules:,.0f}"
        last = " | ".join(between(numbers) if every else "–" for numbers in (times, spent))
        rows.append(f"| {case} | {first} | {then} | {last} |")
    return rows


@pytest.mark.parametrize("study", PAGES)
def test_the_table_of_a_page_follows_from_the_published_curves(study: str) -> None:
    text = (ROOT / "docs/gallery" / PAGES[study]).read_text(encoding="utf-8")
    rows = table(study)
    assert len(rows) > 3
    for row in rows:
        assert row in text


def text_of(study: str) -> str:
    return " ".join((ROOT / "docs/gallery" / PAGES[study]).read_text(encoding="utf-8").split())


def finals(study: str) -> dict[str, list[float]]:
    """The final losses of each case, seed by seed."""
    found = defaultdict(list)
    with (ROOT / "docs/results/compare" / study / "results.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            found[row["case"]].append(float(row["final_loss"]))
    return found


def to_target(study: str, column: str) -> dict[str, list[float]]:
    """Seconds or joules until the loss is at most 1, seed by seed; infinite if it never is."""
    return {
        case: [
            getattr(curve, column)[place] if (place := curve.reached(TARGET)) is not None else float("inf")
            for curve in seeds.values()
        ]
        for case, seeds in curves(study).items()
    }


def uplinks(study: str) -> dict[str, tuple[int, float, float]]:
    """Bits of an update, mean slots of an uplink and mean slots of a round of each case."""
    found = defaultdict(list)
    for point in BatchSpec.read(ROOT / f"examples/sweep/{study}.toml").points:
        timeline, case = point.run.config.simulate(), point.run.name.split(",")[0]
        bits = point.run.config.message_bits()[0]
        found[case].append((bits, timeline.end - timeline.start, timeline.last_slot / timeline.rounds))
    return {
        case: (
            runs[0][0],
            sum(int(slots.sum()) for _, slots, _ in runs) / sum(len(slots) for _, slots, _ in runs),
            mean(each for *_, each in runs),
        )
        for case, runs in found.items()
    }


def test_bits_and_slots_of_compressed_updates_are_those_of_the_file() -> None:
    text, sizes = text_of("compressors"), uplinks("compressors")
    bits, slots, rounds = zip(*(sizes[case] for case in ("none", "4-bits", "top-k", "sign")), strict=True)
    told = (
        f"An update takes {bits[0]:,} bits, {bits[1]:,} with four bits a number, {bits[2]:,} with top-k and"
    )
    assert f"{told} {bits[3]:,} with signs" in text
    assert "an uplink takes {:.1f}, {:.1f}, {:.1f} and {:.1f} slots".format(*slots) in text
    assert f"takes {min(rounds):.0f} slots or more on average" in text


def test_compressors_are_ordered_as_the_page_says() -> None:
    final, seconds, joules = (
        finals("compressors"),
        *(to_target("compressors", x) for x in ("seconds", "joules")),
    )
    assert max(*final["4-bits"], *final["top-k"]) < min(final["none"])
    assert max(*seconds["4-bits"], *seconds["top-k"]) < min(seconds["none"])
    assert max(final["4-bits"]) < min(final["top-k"])
    assert min(final["none"]) < mean(final["sign"]) < max(final["none"])
    assert all(one >= other for one, other in zip(joules["sign"], joules["none"], strict=True))


def test_slots_of_access_schemes_are_those_of_the_file() -> None:
    text, sizes = text_of("access"), uplinks("access")
    cases = ("tdma", "ofdma", "ofdma-shared", "noma", "over-the-air")
    _, slots, rounds = zip(*(sizes[case] for case in cases), strict=True)
    told = "{:.0f} slots with TDMA, {:.0f} with OFDMA, {:.0f} with shared power, {:.0f} with NOMA and {:.0f}"
    assert told.format(*rounds) in text
    assert "An uplink takes {:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f} slots".format(*slots) in text


def test_access_schemes_are_ordered_as_the_page_says() -> None:
    final, seconds, joules = finals("access"), *(to_target("access", x) for x in ("seconds", "joules"))
    digital = [case for case in final if case != "over-the-air"]
    for ranked in (final, seconds, joules):
        assert max(ranked["over-the-air"]) < min(min(ranked[case]) for case in digital)
    for case in ("ofdma", "noma"):  # not told apart from tdma
        assert min(final["tdma"]) < min(final[case]) < max(final["tdma"])
        assert min(seconds[case]) < max(seconds["tdma"])
        assert min(seconds["tdma"]) < max(seconds[case])
    assert min(final["ofdma-shared"]) > max(final["tdma"])
    assert sum(time < float("inf") for time in seconds["ofdma-shared"]) == 1
    with (ROOT / "docs/results/compare/access/results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    spent, rounds = (
        {case: mean(float(row[name]) for row in rows if row["case"] == case) for case in final}
        for name in ("joules", "rounds")
    )
    assert spent["ofdma"] / spent["tdma"] == pytest.approx(2.5, abs=0.1)
    assert rounds["noma"] / rounds["tdma"] == pytest.approx(1 + 1 / 7, abs=0.02)
    assert min(spent, key=lambda case: spent[case]) == min(rounds, key=lambda case: rounds[case])
