"""What a run is: the options of every command that trains or serves one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from slotwise.cli.options import (
    AGGREGATION,
    CHANNEL,
    DATA,
    LEARNING,
    SCHEDULE,
    DataName,
    RunComputeSlots,
    RunDeadline,
    RunDevices,
    RunLinkSlots,
    TaskName,
    delay_of,
    run_option,
)
from slotwise.errors import InputError, UserError
from slotwise.runs import RunConfig


@dataclass(frozen=True)
class RunFlags:
    """What is said on the command line; what is not said is None, and as in the paper's case."""

    data: DataName = None
    task: TaskName = None
    partition: Annotated[
        Literal["one-label", "k-labels", "dirichlet", "iid"] | None,
        run_option("partition", "Which samples a device holds.", DATA),
    ] = None
    samples_per_device: Annotated[
        int | None, run_option("samples_per_device", "Samples of a device.", DATA)
    ] = None
    labels_per_device: Annotated[
        int | None, run_option("labels_per_device", "For the partition k-labels.", DATA)
    ] = None
    concentration: Annotated[
        float | None, run_option("concentration", "For the partition dirichlet.", DATA)
    ] = None
    input_scale: Annotated[
        Literal["standard", "unit"] | None, run_option("input_scale", "Pixels standardised, or 0 to 1.", DATA)
    ] = None
    schedule: Annotated[
        Literal["sync", "async", "idfl"] | None, run_option("schedule", "The schedule.", SCHEDULE)
    ] = None
    delay: Annotated[
        str | None, run_option("delay", "Intentional delay of idfl: rounds, or auto.", SCHEDULE)
    ] = None
    participation: Annotated[
        Literal["round-robin", "random"] | None,
        run_option("participation", "Who takes part in a round of sync with S < N.", SCHEDULE),
    ] = None
    devices: RunDevices = None
    group_size: Annotated[
        int | None,
        run_option("group_size", "S, the uplinks of one round.", CHANNEL),
    ] = None
    compute_slots: RunComputeSlots = None
    samples_per_slot: Annotated[
        float | None,
        typer.Option(
            help="q: compute slots = ceil(H·B/q). Instead of --compute-slots.", rich_help_panel=CHANNEL
        ),
    ] = None
    link_slots: RunLinkSlots = None
    bits_per_slot: Annotated[
        int | None,
        typer.Option(
            help="Rate of the link: slots of a broadcast and of an uplink in --bits follow from the model's "
            "size. Instead of --link-slots.",
            rich_help_panel=CHANNEL,
        ),
    ] = None
    deadline: RunDeadline = None
    aggregation: Annotated[
        str | None,
        run_option("aggregation", "How the updates of a round combine.", AGGREGATION),
    ] = None
    discount: Annotated[
        Literal["constant", "polynomial", "hinge"] | None,
        run_option("discount", "What age does to weight (staleness-weighted, fedasync).", AGGREGATION),
    ] = None
    discount_power: Annotated[
        float | None, run_option("discount_power", "a of polynomial: (1+d)^-a.", AGGREGATION)
    ] = None
    discount_slope: Annotated[
        float | None, run_option("discount_slope", "a of hinge: 1/(a(d-b)+1) beyond b.", AGGREGATION)
    ] = None
    discount_grace: Annotated[
        float | None, run_option("discount_grace", "b of hinge, in rounds.", AGGREGATION)
    ] = None
    mixing: Annotated[
        float | None, run_option("mixing", "Weight of a fresh local model (fedasync).", AGGREGATION)
    ] = None
    server_rate: Annotated[
        float | None, run_option("server_rate", "Server step size (fedbuff).", AGGREGATION)
    ] = None
    bits: Annotated[
        int | None,
        run_option("bits", "Bits of each number of an update; 32 sends it as it is.", AGGREGATION),
    ] = None
    local_steps: Annotated[
        int | None,
        run_option("local_steps", "H, SGD steps per training.", LEARNING),
    ] = None
    batch_size: Annotated[int | None, run_option("batch_size", "B, samples of one step.", LEARNING)] = None
    learning_rate: Annotated[float | None, run_option("learning_rate", "Step size.", LEARNING)] = None
    update: Annotated[
        Literal["sum", "mean"] | None,
        run_option("update", "Local update: sum or mean of the gradients.", LEARNING),
    ] = None
    channels: Annotated[
        str | None, run_option("channels", "Output channels of the 5×5 convolutions.", LEARNING)
    ] = None
    hidden: Annotated[
        str | None, run_option("hidden", "Units of the dense layers before the last.", LEARNING)
    ] = None
    backend: Annotated[
        Literal["numba", "torch"] | None, run_option("backend", "What computes the network.", LEARNING)
    ] = None
    evaluate_every: Annotated[
        int | None,
        run_option(
            "evaluate_every",
            "Slots between evaluations. Default: a hundredth of the deadline, at least 250.",
            LEARNING,
        ),
    ] = None
    seed: Annotated[
        int | None, run_option("seed", "Of model, partition, batches, participation and fleet.", LEARNING)
    ] = None

    def given(self) -> dict[str, Any]:
        """What was said, by name, and as the value it stands for where it is text on the command line.

        Raises:
            InputError: a delay or a list of numbers is neither.
        """
        said = {name: value for name, value in vars(self).items() if value is not None}
        if "delay" in said:
            said["delay"] = delay_of(said["delay"])
        for name in ("channels", "hidden"):
            if name in said:
                said[name] = _numbers(name, said[name])
        return said


def parameters_of(
    options: Mapping[str, Any],
    flags: Mapping[str, Any],
    *,
    source: Path | None,
    tried_out: Callable[[RunConfig], object],
) -> RunConfig:
    """What the options of a file (or of a run) and the flags say together; the schedule is tried out.

    Raises:
        UserError: one line, with the name of the source where the mistake is there.
    """
    try:
        parameters = RunConfig.from_options({**options, **flags})
        tried_out(parameters)
    except InputError as error:
        in_source = error.parameter in options or not flags
        if source is not None and in_source and error.parameter not in flags:
            raise UserError(f"{source}: {error}") from None
        raise
    return parameters


def _numbers(name: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(name, text, "whole numbers separated by commas") from None
