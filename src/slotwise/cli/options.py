"""Options that several commands share, written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from slotwise.errors import InputError
from slotwise.runs import RunConfig
from slotwise.scenario import compute_slots
from slotwise.schedule import Delay

PICTURE_KINDS = ("png", "svg", "pdf")

DATA = "Data"
LEARNING = "Learning"
CHANNEL = "Devices and channel"
SCHEDULE = "Schedule"
AGGREGATION = "Aggregation"
OUTPUT = "Output"


def run_option(name: str, text: str, panel: str) -> Any:
    """An option whose default is the one of RunConfig, or of the paper's case for the data set."""
    default = RunConfig().options()[name]
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
    str,
    typer.Option(help="sync, async, idfl, or your own: module:function.", rich_help_panel=SCHEDULE),
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


def picture_kind(out: Path) -> str:
    """``png``, ``svg`` or ``pdf``, as the file's name ends."""
    kind = out.suffix.lstrip(".").lower()
    if kind not in PICTURE_KINDS:
        raise InputError("out", out, "a file that ends in .png, .svg or .pdf")
    return kind


def delay_of(text: str) -> Delay:
    """``auto`` or a whole number; the range is the schedule's to check."""
    if text == "auto":
        return "auto"
    try:
        return int(text)
    except ValueError:
        raise InputError("delay", text, "auto or a whole number of rounds") from None


def devices_option(usual: int) -> Any:
    """The number of devices, where a fleet's file may say it too."""
    return typer.Option(help="N, the number of devices.", rich_help_panel=CHANNEL, show_default=str(usual))
