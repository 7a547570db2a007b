"""The bound on updates of live servers, with attackers and without: bounded_fleets.py.

Each run trains along a simulated timeline with `NormBounded`, the rule that a live server applies to every
round; tests/live/test_replaying.py checks that both give the same model to the bit. Attackers replace their
updates before the rule sees them. They see everything but the key of the sketches, and have one target.

Runs that results.csv has are not repeated, so the command may be interrupted. Afterwards the tables in
docs/live-tests.md are written anew; --write only does that. --keys counts with how many of 200 keys of the
sketches an update of an honest fleet is dropped or scaled.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path

import numpy as np

from slotwise.aggregation import Contribution, RuleState, Vector, mean, next_model
from slotwise.aggregation.device_history import DeviceHistories
from slotwise.aggregation.norm_bound import NormBounded, norm_of
from slotwise.learning import Diverged, Training
from slotwise.runs import RunConfig
from slotwise.runs.execution import build_task

ROOT = Path(__file__).resolve().parent.parent
RESULTS, PAGE = ROOT / "docs/results/robust/bound.csv", ROOT / "docs/live-tests.md"
KEY_RESULTS = ROOT / "docs/results/robust/keys.csv"
KEY_COLUMNS = ("data", "slots", "seed", "updates", "keys", "dropped", "scaled")
SEEDS = (11, 12, 13, 21, 22, 23)  # none of them was used while the bound was chosen; the last three are new
KEYS, KEY_SEEDS = 200, (21,)
MODELS, STEP = 10, 3  # accuracy: mean of so many models at the end, so many rounds apart
FEW = {"devices": 3, "group_size": 1}
USUAL = {"devices": 10, "group_size": 2}
DATA = {"compute_slots": 10, "samples_per_device": 600, "deadline": 1200}
ATTACKERS = (2, 5)  # the first ones of so many as attack
LAST_LAYER = 65 * 10  # of the mlp
Numbers = np.ndarray


@dataclass
class Seen:
    """What an attacker knows when it sends an update.

    Attributes:
        own: The update that it would send if it was honest.
        count: Its updates before.
        sent: That update as the server would get it.
        first: The first model.
        honest: Last updates of honest devices, by device.
    """

    own: Numbers
    count: int
    sent: Contribution
    first: Vector
    honest: dict[int, Numbers]


Spoil = Callable[[Seen], Numbers]


def towards(direction: Numbers, length: float) -> Numbers:
    return length * direction / max(norm_of(direction), 1e-30)


def same_everywhere(factor: float) -> Spoil:
    return lambda seen: towards(-np.ones(len(seen.own)), factor * norm_of(seen.own))


def with_target(factor: float) -> Spoil:
    """Return the own update, and a push towards a target that is so many times as long."""
    return lambda seen: seen.own + same_everywhere(factor)(seen)


def a_little(deviations: float) -> Spoil:
    """Return the mean of honest updates less so many standard deviations, number by number.

    Baruch, Baruch and Goldberg, "A Little Is Enough", NeurIPS 2019, arXiv:1902.06156.
    """

    def spoil(seen: Seen) -> Numbers:
        if not seen.honest:
            return seen.own
        known = np.stack([*seen.honest.values()])
        return known.mean(axis=0) - deviations * known.std(axis=0)

    return spoil


def bursts(usual: int, attacks: int, factor: float) -> Spoil:
    """Return honest updates, then long ones with one target, again and again."""

    def spoil(seen: Seen) -> Numbers:
        honest = seen.count % (usual + attacks) < usual
        return seen.own if honest else same_everywhere(factor)(seen)

    return spoil


def rewind(factor: float) -> Spoil:
    """Return updates that lead back to the first model."""
    return lambda seen: towards(seen.sent.start - seen.first, factor * norm_of(seen.own))


def last_layer(factor: float) -> Spoil:
    """Return updates of one direction in the last layer of the mlp."""

    def spoil(seen: Seen) -> Numbers:
        target = np.zeros(len(seen.own))
        target[-LAST_LAYER:] = np.random.default_rng(2).standard_normal(LAST_LAYER)
        return seen.own + towards(target, factor * norm_of(seen.own))

    return spoil


def mimic(seen: Seen) -> Numbers:
    """Return what the honest device of the lowest number has sent last, so that it counts more often."""
    return seen.honest[min(seen.honest)] if seen.honest else seen.own


TUNED: dict[str, Spoil] = {
    "one target, 1.9 times as long": same_everywhere(1.9),
    "sign flipped": lambda seen: -seen.own,
    "own update and a target 1.5 times as long": with_target(1.5),
}
INVENTED: dict[str, Spoil] = {
    "a little is enough, 1.5 deviations": a_little(1.5),
    "10 honest updates, 3 of 3.9 times": bursts(10, 3, 3.9),
    "back to the first model, 1.5 times": rewind(1.5),
    "own update, and 1.0 times into the last layer": last_layer(1.0),
    "own update and a target 0.6 times as long": with_target(0.6),
    "copies of one honest device": mimic,
}
SPOILS = {**TUNED, **INVENTED}
AMONG_THREE = "sign flipped", "back to the first model, 1.5 times"
NETWORK = "mlp"


@dataclass(frozen=True)
class Case:
    """One run; `attack` is empty if nobody attacks."""

    partition: str
    devices: int
    group_size: int
    attack: str
    attackers: int
    bound: str
    seed: int


class Attacked:
    """A rule that some devices attack."""

    def __init__(self, rule: NormBounded, spoil: Spoil, attackers: Sequence[int], first: Vector) -> None:
        self._rule, self._spoil, self._attackers, self._first = rule, spoil, attackers, first
        self._counts: dict[int, int] = dict.fromkeys(attackers, 0)
        self._honest: dict[int, Numbers] = {}

    def __call__(
        self, model: Vector, contributions: Sequence[Contribution], state: RuleState
    ) -> tuple[Vector, RuleState]:
        """Return the next model from what the devices send."""
        own = {id(sent): sent.update.astype(np.float64) for sent in contributions}
        self._honest |= {s.device: own[id(s)] for s in contributions if s.device not in self._attackers}
        return self._rule(model, [self._sent(sent, own[id(sent)]) for sent in contributions], state)

    def _sent(self, sent: Contribution, own: Numbers) -> Contribution:
        if sent.device not in self._attackers:
            return sent
        update = self._spoil(Seen(own, self._counts[sent.device], sent, self._first, self._honest))
        self._counts[sent.device] += 1
        return sent._replace(update=update.astype(np.float32))


def accuracy(case: Case) -> float:
    """Return the accuracy at the end, or 0 if the training has diverged."""
    shape = {"devices": case.devices, "group_size": case.group_size, "seed": case.seed}
    options = {**DATA, **shape, "network": NETWORK, "partition": case.partition}
    config = RunConfig.from_options(options)
    task, timeline = build_task(config), config.simulate()
    bounded = NormBounded(mean, "auto" if case.bound == "on" else "off", key=case.seed)
    rule: NormBounded | Attacked = bounded
    if case.attack:
        rule = Attacked(bounded, SPOILS[case.attack], ATTACKERS[: case.attackers], task.initial_model())
    measured = range(timeline.rounds - 1, -1, -STEP)[:MODELS]
    found = []
    try:
        with Training(timeline, task, aggregation=rule, workers=1, evaluate_every=10**9) as training:
            found = [task.evaluate(training.model).accuracy for done in training if done in measured]
    except Diverged:
        return 0.0
    return float(np.mean(found))


def cases() -> Iterator[Case]:
    """Yield all runs."""
    for seed, bound in product(SEEDS, ("off", "on")):
        last = {"bound": bound, "seed": seed}
        for partition in ("iid", "dirichlet", "one-label"):
            yield Case(partition, **USUAL, attack="", attackers=0, **last)
        yield Case("iid", **FEW, attack="", attackers=0, **last)
        for attack, count in product(SPOILS, (1, 2)):
            yield Case("iid", **USUAL, attack=attack, attackers=count, **last)
        for attack in AMONG_THREE:
            yield Case("iid", **FEW, attack=attack, attackers=1, **last)


def honest_rounds(partition: str, slots: int, seed: int) -> list[list[Contribution]]:
    """Return what twenty devices send to the paper's network in each round, without a bound."""
    shape = {"devices": 20, "group_size": 5, "compute_slots": 10, "deadline": slots}
    config = RunConfig.from_options({**shape, "partition": partition, "seed": seed})
    task, timeline = build_task(config), config.simulate()
    rounds = []

    def noting(model: Vector, sent: Sequence[Contribution], state: RuleState) -> tuple[Vector, RuleState]:
        rounds.append([one._replace(update=one.update.copy()) for one in sent])
        return next_model(mean, model, sent, state)

    with Training(timeline, task, aggregation=noting, workers=1, evaluate_every=10**9) as training:
        for _ in training:
            pass
    return rounds


def count_keys(partition: str, slots: int, seed: int) -> tuple[object, ...]:
    """Return a row of `KEY_COLUMNS`: with how many keys an update would be dropped, or scaled."""
    rounds = honest_rounds(partition, slots, seed)
    dropped = scaled = 0
    for key in range(KEYS):
        state, factors = dict[str, np.ndarray](), []
        for sent in rounds:
            histories = DeviceHistories(state, key)
            factors += [histories.factor(one.device, one.update, 1.0) for one in sent]
            state = histories.state
        dropped, scaled = dropped + (0.0 in factors), scaled + any(0 < factor < 1 for factor in factors)
    return partition, slots, seed, len(factors), KEYS, dropped, scaled


def measure_keys() -> None:
    """Write the file of keys."""
    with KEY_RESULTS.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(KEY_COLUMNS)
        for partition, slots, seed in product(("iid", "dirichlet", "one-label"), (70, 300), KEY_SEEDS):
            rows.writerow(row := count_keys(partition, slots, seed))
            file.flush()
            print(*row, flush=True)


def key_table() -> str:
    """Return the table of keys, a row for data and slots with the counts of all seeds."""
    with KEY_RESULTS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [
        f"| data | slots | updates | keys that drop one, of {KEYS} | that scale one |",
        "|---|---|---|---|---|",
    ]
    for data, slots in dict.fromkeys((row["data"], row["slots"]) for row in rows):
        same = [row for row in rows if (row["data"], row["slots"]) == (data, slots)]
        counts = (", ".join(row[name] for row in same) for name in ("dropped", "scaled"))
        lines.append(_row(data, slots, same[0]["updates"], *counts))
    return "\n".join(lines)


def read() -> dict[Case, float]:
    """Return the accuracies of the runs that were made."""
    if not RESULTS.exists():
        return {}
    kinds = {known.name: int if known.type == "int" else str for known in fields(Case)}
    with RESULTS.open(encoding="utf-8", newline="") as file:
        return {
            Case(**{name: kind(row[name]) for name, kind in kinds.items()}): float(row["accuracy"])
            for row in csv.DictReader(file)
        }


def measure(wanted: Iterable[Case]) -> None:
    """Make the runs that are missing, and append each to the file."""
    known = read()
    names = [known.name for known in fields(Case)]
    with RESULTS.open("a", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        if not known:
            rows.writerow([*names, "accuracy"])
        for case in wanted:
            if case not in known:
                found = accuracy(case)
                rows.writerow([*(getattr(case, name) for name in names), f"{found:.4f}"])
                file.flush()
                print(f"{found:.1%}", *(getattr(case, name) for name in names), flush=True)


def honest_table(found: dict[Case, float]) -> str:
    """Return the table of runs without attackers."""
    lines = ["| data | off | on | difference, points |", "|---|---|---|---|"]
    for case, _ in found.items():
        if not case.attack and case.bound == "off" and case.seed == SEEDS[0] and case.devices == 10:
            off, on = ([_of(found, case, bound, seed) for seed in SEEDS] for bound in ("off", "on"))
            cells = [case.partition, _each(off), _each(on)]
            lines.append(_row(*cells, f"{100 * (np.mean(on) - np.mean(off)):+.1f}"))
    return "\n".join(lines)


def attack_table(found: dict[Case, float], attacks: Iterable[str]) -> str:
    """Return the table of attacks: accuracies without the bound and with it."""
    lines = ["| attack | attackers | S | off | on |", "|---|---|---|---|---|"]
    for attack in ("", *attacks):
        for case in found:
            first = (case.attack, case.bound, case.seed) == (attack, "off", SEEDS[0])
            if first and case.partition == "iid":
                off, on = ([_of(found, case, bound, seed) for seed in SEEDS] for bound in ("off", "on"))
                of = f"{case.attackers} of {case.devices}"
                lines.append(_row(attack or "none", of, case.group_size, _each(off), _each(on)))
    return "\n".join(lines)


def _of(found: dict[Case, float], case: Case, bound: str, seed: int) -> float:
    values = {known.name: getattr(case, known.name) for known in fields(Case)}
    return found[Case(**{**values, "bound": bound, "seed": seed})]


def _each(values: Sequence[float]) -> str:
    return f"{np.mean(values):.1%} ({', '.join(f'{100 * value:.1f}' for value in values)})".replace("%", " %")


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def tables(found: dict[Case, float]) -> dict[str, str]:
    """Return the tables by name."""
    return {
        "honest": honest_table(found),
        "tuned": attack_table(found, TUNED),
        "invented": attack_table(found, INVENTED),
        "keys": key_table(),
    }


def with_tables(page: str, found: dict[Case, float]) -> str:
    """Return the page with its tables written anew."""
    for name, table in tables(found).items():
        mark = f"<!-- bounded_fleets.py: {name} -->"
        pattern = re.compile(rf"{re.escape(mark)}\n\n.*?\n\n", re.DOTALL)
        page, count = pattern.subn(lambda _, text=f"{mark}\n\n{table}\n\n": text, page)
        assert count == 1, mark
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="only runs of these seeds")
    parser.add_argument("--keys", action="store_true", help="count keys that drop honest updates")
    parser.add_argument("--write", action="store_true", help="only write the tables")
    options = parser.parse_args()
    if options.keys:
        measure_keys()
    elif not options.write:
        measure(case for case in cases() if case.seed in options.seeds)
    if any(case not in read() for case in cases()):
        sys.exit("the tables are not written: runs of other seeds are missing")
    page = PAGE.read_text(encoding="utf-8")
    if (written := with_tables(page, read())) != page:
        PAGE.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
