"""Sections of the page of the tuned study that help to choose: waiting or sending, rules from the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import nan
from statistics import median

from slotwise.paper.tuned import DEADLINE, PILOT_DEADLINE, TUNING_SEED
from slotwise.paper.tuned_published import PAPER_STEP, at_paper_step
from slotwise.paper.tuned_results import (
    TunedMethod,
    by_group_size,
    geometric_mean,
    markdown_table,
    names,
    number,
    sine,
    spread,
    with_pilots,
)
from slotwise.paper.tuned_rules import (
    CURVATURE_RULE,
    FIRST_CURVATURE,
    LOCAL_STEPS,
    STEP_RULES,
    Case,
    Contest,
    StepError,
    cases,
    contests,
    fitted_turns,
    held_out,
    schedule_regrets,
    step_errors,
    turns,
)
from slotwise.report.number_text import counted

Rows = Iterator[Sequence[str]]
CLOSE = 1.25  # typical errors that differ by less are said to be about equal
SCHEDULE_ORDER = ("sync", "idfl", "async")  # the less devices wait, the later
WAITING = """\
Losses at the best step of each method, and in brackets as a multiple of the lowest at that S. From left to
right devices wait less: sync waits until the model is fresh, idfl for the freshest model that costs no slot,
async for none. A dash stands where there are no runs of that length; at S=50 no delay is free, so idfl is
async. "Turns" are the rounds in which each device takes part if synchronous FL has the same slots; few turns
mean that there is much to gain from overlapping."""
PAPER_STEP_TEXT = f"""\
The same with the paper's step, {PAPER_STEP:g}, after as many slots: published runs, means of three seeds and
their range; an empty cell was not published."""
STEP_TEXT = f"""\
Each rule but the last has one constant c. It is fitted to the best steps of all group sizes but one and
tested on that one, for each size in turn. The error is the factor between the predicted and the best step;
the grid has a factor of 2, so 1.4 is as good as can be seen. The loss is that of the step of the grid nearest
to the predicted one, if it was tried, over the lowest of its method. The last rule is not fitted: H is the
number of local steps, {LOCAL_STEPS}, and L the curvature of the loss at the first model, {FIRST_CURVATURE:g}
with the tuning seed (`python benchmarks/curvature.py --rounds 0 --seed {TUNING_SEED}`). With the seeds 0, 1
and 2 it is 10, 11 and 5, so the constant is known up to a factor of two."""
SCHEDULE_TEXT = """\
What a rule for the schedule costs: the loss of what it chooses over the lowest at that S. "Most rounds ·
sine" is the reasoning from stability alone: the longest stable step times the rounds. "By turns" chooses
idfl if each device has at most a number of turns under sync; the number is fitted on the other sizes."""
CAUTION = """\
The forms of these rules were chosen when the pilots had been seen, and only their constants are tested on
held-out sizes. Judged runs, of other seeds and five times as long, take the place of the pilots as soon as
there are any."""


def waiting_part(methods: Sequence[TunedMethod]) -> Iterator[str]:
    """Yield the comparison of waiting with sending; nothing if it has no group size yet."""
    if contests(methods):
        yield "## When waiting beats sending"
        yield from waiting_tables(methods)


def waiting_tables(methods: Sequence[TunedMethod]) -> Iterator[str]:
    """Yield the losses of the schedules at each group size: with the best steps, and with the paper's."""
    if found := contests(methods):
        yield WAITING
        yield markdown_table(_waiting_rows(methods, found))
        yield PAPER_STEP_TEXT
        yield markdown_table(_paper_step_rows(found))


def _waiting_rows(methods: Sequence[TunedMethod], found: Mapping[int, Contest]) -> Rows:
    yield ("S", "turns", *SCHEDULE_ORDER, "runs")
    for size in by_group_size(methods):
        if size in found:
            contest = found[size]
            least = min(case.loss for case in contest.values())
            runs = "judged" if next(iter(contest.values())).is_judged else "pilots"
            cells = (_relative(contest, name, least) for name in SCHEDULE_ORDER)
            yield (str(size), f"{turns(contest):.3g}", *cells, runs)


def _relative(contest: Contest, schedule: str, least: float) -> str:
    if schedule not in contest:
        return "–"
    loss = contest[schedule].loss
    text = f"{number(loss)} ({loss / least:.2f})"
    return f"**{text}**" if loss == least else text


def _paper_step_rows(found: Mapping[int, Contest]) -> Rows:
    yield ("S", *SCHEDULE_ORDER)
    for size, contest in found.items():
        deadline = DEADLINE if next(iter(contest.values())).is_judged else PILOT_DEADLINE
        known = [at_paper_step(name, size, deadline) for name in SCHEDULE_ORDER]
        yield (str(size), *("" if one is None else one.text() for one in known))


def rules_part(methods: Sequence[TunedMethod]) -> Iterator[str]:
    """Yield the rules for step and schedule and their errors; nothing while there are too few cases."""
    found = contests(methods)
    steps, schedules = [*step_table(methods)], [*schedule_table(found)]
    if steps and schedules:
        yield "## Rules from the plan alone"
        yield from (rule_of_thumb(methods, found), *steps, *schedules)
        yield f"{CAUTION} Fitted to all sizes, the limit is {fitted_turns(found.values()):.3g} turns."


def step_table(methods: Sequence[TunedMethod]) -> Iterator[str]:
    """Yield the rules for the step with their errors; nothing while there are too few cases."""
    if _can_hold_out(cases(methods)):
        yield STEP_TEXT
        yield markdown_table(_step_rows(methods))


def schedule_table(found: Mapping[int, Contest]) -> Iterator[str]:
    """Yield the rules for the schedule with what they cost; nothing while there are too few group sizes."""
    if len(found) > 1:
        yield SCHEDULE_TEXT
        yield markdown_table(_schedule_rows(found))


def _can_hold_out(known: Sequence[Case]) -> bool:
    return len(list(held_out(known))) > 1


def _step_rows(methods: Sequence[TunedMethod]) -> Rows:
    yield ("step", "c, fitted to all", "typical error", "largest", "loss, median", "loss, largest", "tried")
    for error in step_errors(cases(methods)):
        found = error.penalties or (nan,)
        losses = (f"{statistic(found):.2f}" for statistic in (median, max))
        errors = f"{error.constant:.2g}", f"{error.typical:.2f}", f"{error.largest:.1f}"
        yield (error.rule, *errors, *losses, f"{len(error.penalties)} of {error.cases}")


def _schedule_rows(found: Mapping[int, Contest]) -> Rows:
    yield ("rule", *(f"S={size}" for size in found), "geometric mean")
    for name, regrets in schedule_regrets(found).items():
        mean = geometric_mean(regrets.values())
        costs = (f"{regrets[size]:.2f}" if size in regrets else "–" for size in found)
        yield (name, *costs, f"{mean:.2f}")


def step_sentence(methods: Sequence[TunedMethod]) -> str:
    """Return how well rules for the step predict the best ones; empty while there are too few cases."""
    known = cases(methods)
    if not _can_hold_out(known):
        return ""
    errors = {error.rule: error for error in step_errors(known)}
    same, by_age, by_sine, _, measured = (errors[rule] for rule in (*STEP_RULES, CURVATURE_RULE))
    begin = "The sine and 1/(d + 1) do about equally well. " if _are_close(by_sine, by_age) else ""
    return (
        f"{begin}{by_sine.rule} is off by a factor of {by_sine.typical:.2f} "
        f"({counted(by_sine.cases, 'held-out case')}, geometric mean; at most {by_sine.largest:.1f}), "
        f"{by_age.rule} by {by_age.typical:.2f} (at most {by_age.largest:.1f}), and one step for all, as in "
        f"the paper, by {same.typical:.2f} (at most {same.largest:.0f}). With c from the curvature of the "
        f"first model, which takes no tuning, the sine is off by {measured.typical:.2f} (at most "
        f"{measured.largest:.1f})."
    )


def rule_of_thumb(methods: Sequence[TunedMethod], found: Mapping[int, Contest]) -> str:
    """Return the best rules for schedule and step, with their errors; needs cases to hold out."""
    step = min(step_errors(cases(methods)), key=lambda error: error.typical)
    regrets = schedule_regrets(found)
    schedule = min(regrets, key=lambda name: geometric_mean(regrets[name].values()))
    costs = regrets[schedule].values()
    constant = "" if step.rule == CURVATURE_RULE else f", c = {step.constant:.2g}"
    return (
        f"**Rule of thumb, as far as it is trained: {schedule}, with the step {step.rule}{constant}.** "
        "On group sizes that it was not fitted to, the step is off by a factor of "
        f"{step.typical:.2f} (geometric mean; at most {step.largest:.1f}). The schedule costs "
        f"{geometric_mean(costs):.2f} times the lowest loss at the same S (at most {max(costs):.2f})."
    )


def _are_close(one: StepError, other: StepError) -> bool:
    return max(one.typical, other.typical) < CLOSE * min(one.typical, other.typical)


def best_schedule_rule(found: Mapping[int, Contest]) -> str:
    """Return which rule for the schedule costs least; empty while there are too few group sizes."""
    if len(found) < 2:
        return ""
    means = {name: geometric_mean(regrets.values()) for name, regrets in schedule_regrets(found).items()}
    best = min(means, key=lambda name: means[name])
    texts = ", ".join(f"{name} {mean:.2f}" for name, mean in means.items())
    return f"{best.capitalize()}. Loss over the lowest at that S, geometric mean: {texts}."


def staleness_part(methods: Sequence[TunedMethod], formula: str) -> Iterator[str]:
    """Yield the best steps of the pilots beside the formula of the stable step."""
    yield (
        "A quadratic with updates d rounds old is stable for steps below 2·sin(π/(2(2d+1))) over its "
        f"curvature ({formula}). If that alone decides, step over sine is the "
        "same for all d at one S, and the product of step and rounds, how far a run can go, hardly grows "
        "with d:"
    )
    yield markdown_table(_staleness_rows(methods))
    if lines := [*_predictors(methods)]:
        yield "\n".join(f"- {line}" for line in lines)


def _staleness_rows(methods: Sequence[TunedMethod]) -> Rows:
    yield ("S", "schedule", "d", "best step (pilots)", "step / sine", "step · d", "step · rounds")
    for one in with_pilots(methods):
        step, age = one.best_step, one.method.staleness
        travel = step * one.rounds(PILOT_DEADLINE)
        products = (step / sine(age), step * age, travel)
        yield (*names(one), f"{step:g}", *(f"{product:.3g}" for product in products))


def _predictors(methods: Sequence[TunedMethod]) -> Iterator[str]:
    """Yield how well sine and 1/d predict the best steps of stale methods, at each group size."""
    for size, own in by_group_size(with_pilots(methods)).items():
        stale = [one for one in own if one.method.staleness]
        if len(stale) > 1:
            by_sine = spread([one.best_step / sine(one.method.staleness) for one in stale])
            by_age = spread([one.best_step * one.method.staleness for one in stale])
            yield (
                f"S={size}, best step of the pilots over the sine of the formula: within a factor of "
                f"{by_sine:.2f}; times d: {by_age:.2f} ({counted(len(stale), 'method')} with d > 0; the grid "
                "has a factor of 2)."
            )
