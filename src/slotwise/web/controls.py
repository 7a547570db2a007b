"""Controls of the explorer, derived from the classes of options: one control for each field.

A field of a class in `PLANNED` gets a control by its type; `LOOKS` only adds ranges and an order, so a new
option appears by itself. Options that could load code or read files are not offered: a link to the page must
not be able to do that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from slotwise.base.errors import ConflictError, InputError, NoEffectError, refuse_unknown_name
from slotwise.options import FileName, Option, declared
from slotwise.options.checks import option_names
from slotwise.options.declarations import Path, mark_of
from slotwise.options.option_text import field_help, from_text
from slotwise.runs.config import RunConfig
from slotwise.scenario import parse_sizes
from slotwise.schedule.costs import POWER_PREFIX, Powers, powers_in
from slotwise.schedule.selections import SELECTIONS
from slotwise.setting import Setting
from slotwise.setting.planning import SCHEDULES

# The explorer's first case: the paper's devices and channel, with a deadline that is quick to train.
CASE: Mapping[str, Any] = {"devices": 100, "group_size": 10, "compute_slots": 50, "deadline": 5_000}
PLANNED = tuple(field.name for field in fields(Setting) if field.name != "seed")  # the schedule
TRAINED = (  # further options, of a training
    *("data", "partition", "labels_per_device", "concentration", "samples_per_device", "network"),
    *("local_steps", "local_epochs", "batch_size", "learning_rate", "aggregation", "seed"),
)


@dataclass(frozen=True)
class Look:
    """Appearance of a control: range of its slider, step, and its place.

    ``low`` and ``high`` bound the slider only; a larger number can be typed. ``high`` may be the name of
    another option. ``slots`` says that it counts slots, which the page also shows as a time.
    """

    low: float = 0
    high: float | str = 1
    step: float = 1
    log: bool = False
    label: str = ""
    slots: bool = False


LOOKS: Mapping[str, Look] = {
    "devices": Look(1, 10_000, log=True, label="Devices N"),
    "group_size": Look(1, "devices", log=True, label="Group size S"),
    "compute_slots": Look(1, 1_000, log=True, label="Compute slots", slots=True),
    "link_slots": Look(1, 20, label="Link slots", slots=True),
    "deadline": Look(50, 100_000, log=True, label="Deadline (slots)", slots=True),
    "uplink_loss": Look(0, 0.9, 0.01, label="Uplink loss"),
    "jitter": Look(0, 0.9, 0.01, label="Jitter of speeds"),
    "sub_channels": Look(1, 16, label="Sub-channels"),
}
LABELS: Mapping[str, str] = {
    "compute_distribution": "Speeds",
    "link_distribution": "Uplink slots drawn",
    "group_size_changes": "Later group sizes",
    "mean_present": "Mean slots present",
    "mean_away": "Mean slots away",
    "radio_link": "Link model",
    "radio_seed": "Seed of the radio",
    "fleet_seed": "Seed of the fleet",
    "radio_rician_k_db": "Rician K (dB)",
    "radio_nakagami_m": "Nakagami m",
    "radio_exponent": "Path loss exponent",
    "radio_reference_db": "Loss at 1 m (dB)",
    "radio_gap_db": "SNR gap (dB)",
    "radio_threshold_db": "SNR threshold (dB)",
    "radio_power_dbm": "Device power (dBm)",
    "radio_bits": "Bits of an uplink",
    "radio_broadcast_bits": "Bits of a broadcast",
}
UNITS = {"db": "dB", "dbm": "dBm", "ghz": "GHz", "hz": "Hz", "m": "m", "ms": "ms", "joules": "J"}  # in names
# In this order, before all others. The others are behind "more options".
FIRST = (
    *("schedule", "devices", "group_size", "delay", "compute_slots", "link_slots", "sub_channels"),
    *("deadline", "compute_distribution", "jitter", "uplink_loss", "radio_link"),
)
# Text options and what they may be; those that are not here are not offered.
CHOICES: Mapping[str, tuple[str, ...]] = {"schedule": SCHEDULES, "selection": tuple(SELECTIONS)}
DISTRIBUTIONS = ("compute_distribution", "link_distribution")


@dataclass(frozen=True)
class Control:
    """One control of the page.

    Attributes:
        name: Name of the option.
        section: plan, more, radio, energy or training.
        kind: number, choice, delay, distribution or changes.
        label: Short name.
        help: Description.
        default: Value if the option is not given; None if it has none.
        whole: True if only whole numbers are allowed.
        choices: Allowed words.
        look: Range of the slider; None without a slider.
    """

    name: str
    section: str
    kind: str
    label: str
    help: str
    default: Any
    whole: bool = False
    choices: tuple[str, ...] = ()
    look: Look | None = None


@cache
def controls() -> tuple[Control, ...]:
    """Return all controls, those of the plan first."""
    usual = RunConfig().options() | dict(CASE)
    found = [control for group in PLANNED for control in _controls_of(group, usual)]
    found.sort(key=lambda control: FIRST.index(control.name) if control.name in FIRST else len(FIRST))
    trained = {c.name: c for group in option_names(RunConfig) for c in _controls_of(group, usual, "training")}
    return (*found, *_power_controls(), *(trained[name] for name in TRAINED))


def label_of(name: str) -> str:
    """Return the label of an option: that of its control, if it has one."""
    return next((control.label for control in controls() if control.name == name), name.replace("_", " "))


def _controls_of(group: str, usual: Mapping[str, Any], section: str = "") -> Iterator[Control]:
    for name, option in declared(RunConfig).items():
        place = section or ("plan" if name in FIRST else "radio" if group in ("link", "access") else "more")
        if option.part != group or (section and name not in TRAINED) or _needs_file(option):
            continue
        shape = _shape(option)
        if shape is not None:
            kind, whole, choices = shape
            look = LOOKS.get(name)
            label = look.label if look else LABELS.get(name, _label(name))
            default = usual.get(name, option.default)
            default = None if default in ((), MISSING) else default
            yield Control(name, place, kind, label, option.help, default, whole, choices, look)


def _needs_file(option: Option) -> bool:
    """Return whether an option exists only beside one that names a file, which the page does not offer."""
    known = declared(RunConfig)

    def names_file(path: Path) -> bool:
        return any(name in known and mark_of(known[name].marks, FileName) for name, _ in path)

    return bool(option.owners) and all(map(names_file, option.owners))


def of_other_choices(config: RunConfig) -> dict[str, str]:
    """Return the options of alternatives that were not chosen, with the choices that would have them."""
    table, known, reasons = config.options(), declared(RunConfig), {}
    for name in (control.name for control in controls() if control.name in known):
        missing = [_not_chosen(path, table) for path in known[name].owners]
        if name not in table and missing and all(missing):
            nearest = [path for path in missing if len(path) == min(map(len, missing))]
            reasons[name] = f"without {' or '.join(dict.fromkeys(' and '.join(path) for path in nearest))}"
    return reasons


def _not_chosen(path: Path, table: Mapping[str, Any]) -> list[str]:
    """Return the choices on the way to an option that were made otherwise.

    Alternatives without a name are chosen by giving one of their options, so they do not count.
    """
    return [f"{choice} {word}" for choice, word in path if word and table.get(choice) != word]


def _label(name: str) -> str:
    """Return the name of an option in words, with its unit in brackets."""
    words = name.removeprefix("radio_").split("_")
    units = [UNITS[word] for word in words[-2:] if word in UNITS] if words[-1] in UNITS else []
    text = " ".join(words[: len(words) - len(units)]).capitalize()
    return f"{text} ({'/'.join(units)})" if units else text


def _shape(option: Option) -> tuple[str, bool, tuple[str, ...]] | None:
    """Return kind, whether numbers are whole, and allowed words; None if there can be no control."""
    name, hint = option.name, option.hint
    if option.choice is not None:
        return "choice", False, tuple(option.choice.known)
    is_union = get_origin(hint) in (Union, UnionType)
    kinds = [kind for kind in get_args(hint) if kind is not NoneType] if is_union else [hint]
    words = tuple(word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind))
    if name == "delay":
        return "delay", True, words
    if name in DISTRIBUTIONS:
        return "distribution", True, ()
    if name == "group_size_changes":
        return "changes", True, ()
    if name in CHOICES or (words and len(kinds) == 1):
        optional = ("",) if is_union and NoneType in get_args(hint) else ()
        return "choice", False, (*optional, *CHOICES.get(name, words))
    if kinds == [bool]:
        return "choice", False, ("true", "false")
    if kinds in ([int], [float]):
        return "number", kinds == [int], ()
    return None


def _power_controls() -> Iterator[Control]:
    texts = field_help(Powers)
    for field in fields(Powers):
        is_power = field.name != "slot_seconds"
        name = f"{POWER_PREFIX}{field.name}" if is_power else field.name
        label = f"{field.name.replace('_', ' ').capitalize()}{' (W)' if is_power else ''}"
        yield Control(name, "energy", "number", label, texts[field.name], None)


def parse_options(
    given: Mapping[str, str], sections: tuple[str, ...] = ("plan", "more", "radio")
) -> dict[str, Any]:
    """Convert the text of options, or raise a UserError for one that is unknown or has no control."""
    known = {control.name: control for control in controls() if control.section in sections}
    options: dict[str, Any] = {}
    for name, text in given.items():
        refuse_unknown_name("option", name, known)
        control = known[name]
        if control.choices and control.kind == "choice" and text not in control.choices:
            raise InputError(name, text, f"one of {', '.join(control.choices)}")
        options[name] = text == "true" if control.choices == ("true", "false") else _value(control, text)
    return options


def _value(control: Control, text: str) -> Any:
    if control.kind in ("distribution", "choice"):
        return text
    if control.kind == "changes":
        # The text has only the later sizes, but the parser needs one for slot 0.
        return parse_sizes("group_size", f"1@0, {text}")[1:]
    if control.kind == "delay" and text == "auto":
        return text
    return from_text(control.name, text.strip(), int if control.whole else float)


def parse_powers(given: Mapping[str, str]) -> Powers | None:
    """Return the powers among the options of an address; None if there are none."""
    names = {control.name for control in controls() if control.section == "energy"}
    return powers_in({name: from_text(name, given[name].strip(), float) for name in names if name in given})


def effective(options: Mapping[str, Any]) -> tuple[RunConfig, dict[str, Any], dict[str, str]]:
    """Return the configuration, the options that it is made of, and those without effect with the reason.

    A page keeps the value of a control that another one switches off, so such options are left out here
    instead of being refused.
    """
    kept, unused = dict(options), dict[str, str]()
    while True:
        try:
            return RunConfig.from_options(kept, defaults=dict(CASE)), kept, unused
        except (NoEffectError, ConflictError) as error:
            if error.parameter not in kept:
                raise
            # Each pass removes one option, so the loop ends.
            unused[error.parameter] = error.reason
            del kept[error.parameter]
