"""Options that several commands share, written once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from slotwise.errors import InputError
from slotwise.fleet.options import FLEET_OPTIONS, FleetOptions, options_of_file
from slotwise.runs import RunParameters
from slotwise.scenario import compute_slots, whole
from slotwise.schedule import Delay

DATA = "Data"
LEARNING = "Learning"
CHANNEL = "Devices and channel"
SCHEDULE = "Schedule"
FLEET = "Fleet"
AGGREGATION = "Aggregation"
OUTPUT = "Output"


def run_option(name: str, text: str, panel: str) -> Any:
    """An option whose default is the one of RunParameters, or of the paper's case for the data set."""
    default = next(field.default for field in fields(RunParameters) if field.name == name)
    shown = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
    return typer.Option(
        help=text, rich_help_panel=panel, show_default=shown if default is not None else False
    )


DataName = Annotated[Literal["mnist", "cifar10"] | None, run_option("data", "Data set.", DATA)]
TaskName = Annotated[
    str | None,
    typer.Option(
        help="A task of your own instead of a data set and network: module:function, as in "
        "my_module:make_task.",
        metavar="MODULE:FUNCTION",
        rich_help_panel=DATA,
    ),
]
RunDevices = Annotated[int | None, run_option("devices", "N, the number of devices.", CHANNEL)]
RunComputeSlots = Annotated[int | None, run_option("compute_slots", "Slots of one local training.", CHANNEL)]
RunLinkSlots = Annotated[
    int | None, run_option("link_slots", "r, slots of one uplink and of one broadcast.", CHANNEL)
]
RunDeadline = Annotated[int | None, run_option("deadline", "T, slots of the whole run.", CHANNEL)]
Workers = Annotated[
    int | None,
    typer.Option(
        help="Local trainings at once. Default: all cores. The result is the same.", rich_help_panel=OUTPUT
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.", rich_help_panel=OUTPUT)]
Devices = Annotated[int, typer.Option(help="N, the number of devices.", rich_help_panel=CHANNEL)]
GroupSize = Annotated[int, typer.Option(help="S, the uplinks of one round.", rich_help_panel=CHANNEL)]
ComputeSlots = Annotated[
    int | None,
    typer.Option(help="Slots of one local training (tau_comp).", rich_help_panel=CHANNEL),
]
LinkSlots = Annotated[
    int, typer.Option(help="r, the slots of one uplink and of one broadcast.", rich_help_panel=CHANNEL)
]
LocalSteps = Annotated[
    int, typer.Option(help="H, the SGD steps of one local training.", rich_help_panel=CHANNEL)
]
BatchSize = Annotated[int, typer.Option(help="B, the samples of one SGD step.", rich_help_panel=CHANNEL)]
SamplesPerSlot = Annotated[
    float | None,
    typer.Option(
        help="q, a device's speed: compute slots = ceil(H·B/q). Instead of --compute-slots.",
        rich_help_panel=CHANNEL,
    ),
]
ScheduleName = Annotated[
    Literal["sync", "async", "idfl"], typer.Option(help="The schedule.", rich_help_panel=SCHEDULE)
]
DelayText = Annotated[
    str,
    typer.Option(
        "--delay",
        metavar="auto|ROUNDS",
        help="Intentional delay of idfl, in rounds; auto is the largest that costs nothing.",
        rich_help_panel=SCHEDULE,
    ),
]
ParticipationName = Annotated[
    Literal["round-robin", "random"],
    typer.Option(help="Who takes part in a round of sync with S < N.", rich_help_panel=SCHEDULE),
]
SLOTS_TEXT = "constant:SLOTS, uniform:LOW:HIGH, lognormal:MEDIAN:SIGMA or two-classes:FAST:SLOW:SLOW_SHARE"


def _of_fleet(text: str, metavar: str | None = None, default: str | None = None) -> Any:
    return typer.Option(help=text, metavar=metavar, rich_help_panel=FLEET, show_default=default or False)


ComputeDistribution = Annotated[
    str | None,
    _of_fleet(f"Compute slots drawn for each device: {SLOTS_TEXT}. Default: all alike.", "DISTRIBUTION"),
]
LinkDistribution = Annotated[
    str | None, _of_fleet("Uplink slots drawn for each device, likewise.", "DISTRIBUTION")
]
FleetFile = Annotated[
    Path | None,
    _of_fleet(
        "CSV file with a row for each device: device, compute_slots and, if wanted, link_slots, leaves, "
        "returns.",
        "FILE",
    ),
]
UplinkSlots = Annotated[
    int | None, _of_fleet("Slots of one uplink, if not those of a broadcast (--link-slots).")
]
Jitter = Annotated[
    float | None, _of_fleet("A training takes up to this share longer or shorter.", default="0")
]
Loss = Annotated[float | None, _of_fleet("The probability that an uplink is lost.", default="0")]
RetransmissionName = Annotated[
    Literal["next-turn", "at-once"] | None,
    _of_fleet("When a lost uplink is sent again.", default="next-turn"),
]
MeanPresent = Annotated[
    float | None, _of_fleet("Devices come and go at random: mean slots for which one is there.", "SLOTS")
]
MeanAway = Annotated[float | None, _of_fleet("Mean slots for which it is then away.", "SLOTS")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.", rich_help_panel=OUTPUT)]


def slots_of_training(
    slots: int | None, samples_per_slot: float | None, local_steps: int, batch_size: int, default: int
) -> int:
    """The compute slots, given directly or through a device's speed."""
    if samples_per_slot is None:
        return default if slots is None else slots
    if slots is not None:
        raise InputError("samples_per_slot", samples_per_slot, "left out where --compute-slots is given")
    return compute_slots(local_steps, batch_size, samples_per_slot)


def delay_of(text: str) -> Delay:
    """``auto`` or a whole number; the range is the schedule's to check."""
    if text == "auto":
        return "auto"
    try:
        return int(text)
    except ValueError:
        raise InputError("delay", text, "auto or a whole number of rounds") from None


def fleet_options(given: Mapping[str, Any], devices: int, link_slots: int) -> tuple[int, FleetOptions]:
    """The number of devices and what the flags among ``given`` say about them.

    With a file there are as many devices as it has rows.
    """
    flags = {name: given[name] for name in FLEET_OPTIONS if given.get(name) is not None}
    path = given["fleet_file"]
    if path is None:
        return devices, FleetOptions(**flags)
    for name in ("compute_distribution", "link_distribution", "mean_present"):
        if name in flags:
            raise InputError(name, flags[name], "left out where --fleet-file is given")
    usual = flags.get("uplink_slots", link_slots)
    rows = options_of_file(path, link_slots=whole("link_slots", usual))
    return rows.pop("devices"), FleetOptions(**{**flags, **rows})
