"""Flags derived from configuration classes: a field gives a flag its name, type, default and help text."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from cyclopts import Group, Parameter, Token

from slotwise.base.errors import ConflictError, NoEffectError
from slotwise.options import Option, declared
from slotwise.options.checks import field_types, option_names
from slotwise.options.option_text import field_help, from_text

if TYPE_CHECKING:
    from slotwise.schedule.costs import Powers
    from slotwise.setting import Setting

Command = Callable[..., int | None]


def panel(title: str) -> Group:
    """Return a panel of the help page; panels appear in the order in which they are made."""
    return Group.create_ordered(title)


PANELS = {
    "channel": panel("Devices and channel"),
    "policy": panel("Schedule"),
    "fleet": panel("Fleet"),
    **dict.fromkeys(("link", "access"), panel("Radio")),
    "dataset": panel("Data"),
    "model": panel("Model"),
    "training": panel("Local training"),
    "seed": panel("Seed"),
    "rule": panel("Aggregation"),
    "adversary": panel("Attack"),
    **dict.fromkeys(("bits", "compressor"), panel("Updates")),
    **dict.fromkeys(("evaluate_every", "metric", "end"), panel("Evaluation")),
}
ENERGY = panel("Energy")
OUTPUT = panel("Output")


def output(text: str, **settings: Any) -> Parameter:
    """Return a parameter in the panel of outputs."""
    return Parameter(help=text, group=OUTPUT, **settings)


NO_PROGRESS = output("Do not show progress.")
Quiet = Annotated[bool, NO_PROGRESS]
AsJson = Annotated[bool, output("Print JSON instead of a table.", name="--json")]
PerDevice = Annotated[bool, output("Also show slots and joules of every device.")]


@dataclass(frozen=True)
class Flag:
    """One flag of a command; ``hint`` is the type of its value and ``default`` is only shown."""

    name: str
    hint: Any
    help: str
    panel: Group
    default: Any = None

    def parameter(self) -> inspect.Parameter:
        """Return the flag as a keyword parameter that is None when it is not given."""
        default = ",".join(map(str, self.default)) if isinstance(self.default, tuple) else str(self.default)
        described = Parameter(
            help=self.help,
            group=self.panel,
            show_default=default if self.default not in (None, ()) else False,
            converter=_convert_table if self.hint is dict else _convert,
            n_tokens=1,
            accepts_keys=False,
            allow_leading_hyphen=_is_list(self.hint),  # -1,2 is a wrong list and no option
        )
        # To cyclopts a table is text: it would look for the keys of a dict among its own flags.
        plain = str if self.hint is dict else self.hint
        hint = plain if NoneType in get_args(plain) else plain | None
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[hint, described]
        )


WORKERS = Flag(
    "workers", int, "Parallel local trainings. Default: all cores. The result is the same.", OUTPUT
)


RAY_ADDRESS = (
    "HOST:PORT of its head, ray://HOST:PORT, or auto for the one that RAY_ADDRESS or this machine knows. "
    "None is started."
)


def flags_of(
    owner: Any, panel: Group, *, only: Iterable[str] | None = None, defaults: Mapping[str, Any] | None = None
) -> tuple[Flag, ...]:
    """Return a flag for each field of a dataclass, described by the Attributes section of its docstring.

    ``only`` are the fields wanted; ``defaults`` are shown instead of those of the class.
    """
    texts = field_help(owner)
    usual = {field.name: field.default for field in fields(owner)} | dict(defaults or {})
    shown = {n: value for n, value in usual.items() if isinstance(value, int | float | str | tuple)}
    return tuple(
        Flag(name, field_types(owner)[name], texts[name], panel, shown.get(name))
        for name in (option_names(owner) if only is None else only)
    )


def run_flags(
    *groups: str,
    only: Sequence[str] = (),
    defaults: Mapping[str, Any] | None = None,
    owner: type[Setting] | None = None,
) -> tuple[Flag, ...]:
    """Return the flags of some groups of a run's options (all of them if none is named), with shorthands.

    ``only`` are the options wanted, of any group; ``defaults`` are shown instead of those of ``owner``, the
    class whose options they are: `RunConfig`, or `Setting` for a command that trains nothing.
    """
    if owner is None:
        from slotwise.runs.config import RunConfig  # noqa: PLC0415  (not for slotwise device)

        owner = RunConfig
    usual, known = owner().options() | dict(defaults or {}), declared(owner)
    flags: dict[str, Flag] = {}
    for group in groups or tuple(PANELS):
        options = [option for option in known.values() if option.part == group]
        for kind in owner.shorthands:
            own = declared(kind) if kind.panel == group else {}
            options += [option for name, option in own.items() if name not in known]
        for option in options:
            if option.has_flag:
                default = usual.get(option.name, option.default)
                flags.setdefault(option.name, _flag_of(option, PANELS[group], default))
    return tuple(flag for flag in flags.values() if not only or flag.name in only)


def _flag_of(option: Option, panel: Group, default: Any) -> Flag:
    """Return the flag of an option; its help says with which choices it exists."""
    shown = default if isinstance(default, int | float | str | tuple) else None
    return Flag(option.name, option.flag_hint, f"{option.help}{_owners_text(option)}", panel, shown)


def _owners_text(option: Option) -> str:
    """Return the choices that have an option, such as " (fedbuff, fedavgm)"; nothing if it always exists."""
    if not all(option.owners):
        return ""
    names = dict.fromkeys(path[-1][1] for path in option.owners if path[-1][1])
    return f" ({', '.join(names)})" if names else ""


def power_flags() -> tuple[Flag, ...]:
    """Return the flags of `Powers`: --power-computing and so on, and --slot-seconds."""
    from slotwise.schedule.costs import POWER_PREFIX, Powers  # noqa: PLC0415  (not for slotwise device)

    *powers, slot_seconds = flags_of(Powers, ENERGY)
    return (*(replace(flag, name=POWER_PREFIX + flag.name) for flag in powers), slot_seconds)


def take_powers(options: dict[str, Any]) -> Powers | None:
    """Remove the flags of `power_flags` from ``options`` and return what they say; None if none was given."""
    from slotwise.schedule.costs import powers_in  # noqa: PLC0415

    return powers_in({flag.name: options.pop(flag.name) for flag in power_flags() if flag.name in options})


def command(*flags: Flag) -> Callable[[Callable[..., int | None]], Command]:
    """Give a command flags; its first argument is the table of those that were given."""

    def decorate(function: Callable[..., int | None]) -> Command:
        written = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        derived = [flag.parameter() for flag in flags]

        @wraps(function)
        def call(*arguments: Any, **given: Any) -> int | None:
            options = {flag.name: given.pop(flag.name, None) for flag in flags}
            return function({n: v for n, v in options.items() if v is not None}, *arguments, **given)

        del call.__wrapped__
        call.__signature__ = inspect.Signature([*written, *derived])  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in [*written, *derived]}
        return call

    return decorate


def refuse_with(other: str, given: Mapping[str, Any], hint: str = "") -> None:
    """Raise a ConflictError for the first of ``given`` that has a value next to ``other``."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise ConflictError(name, other, hint)


def size_flags() -> tuple[Flag, ...]:
    """Return the flags of your own task for commands that train nothing: it says the bits of its update."""
    from slotwise.learning.models import TASK, OwnTask  # noqa: PLC0415  (not for slotwise device)

    options = [option for option in declared(OwnTask).values() if option.name.startswith(TASK.option)]
    return tuple(_flag_of(option, PANELS["model"], None) for option in options)


def refuse_idle_task(options: Mapping[str, Any], setting: Setting) -> None:
    """Refuse a task where nothing is trained, unless the slots of an uplink follow from its bits."""
    given = [flag.name for flag in size_flags() if flag.name in options]
    if given and not getattr(setting.link, "lacks_bits", False):
        name, reason = given[0], "unless the slots of an uplink follow from the bits of a task"
        raise NoEffectError(name, options[name], reason)


def refuse_idle_seed(options: Mapping[str, Any], config: Setting) -> None:
    """Refuse a seed where nothing is drawn from it for the schedule."""
    if "seed" in options and not config.schedule_depends_on_seed:
        raise NoEffectError("seed", options["seed"], "if nothing is drawn from it")


def _is_list(hint: Any) -> bool:
    return any(get_origin(kind) is tuple for kind in (hint, *get_args(hint)))


def _convert(hint: Any, tokens: Sequence[Token]) -> Any:
    """Convert the text of a flag; numbers are read strictly, lists are separated by commas."""
    name = tokens[0].keyword.lstrip("-").replace("-", "_") if tokens[0].keyword else "value"
    return from_text(name, tokens[0].value, hint)


def _convert_table(hint: Any, tokens: Sequence[Token]) -> Any:  # noqa: ARG001
    """Convert the parameters of a function, written as text."""
    return _convert(dict, tokens)


def whole_number(hint: Any, tokens: Sequence[Token]) -> int:  # noqa: ARG001
    """Convert a flag that is a whole number; 1.5 is refused, not rounded."""
    return int(_convert(int, tokens))


def number(hint: Any, tokens: Sequence[Token]) -> float:  # noqa: ARG001
    """Convert a flag that is a number; 1_0 is refused, as it is for whole numbers."""
    return float(_convert(float, tokens))


def whole_numbers(hint: Any, tokens: Sequence[Token]) -> list[int]:  # noqa: ARG001
    """Convert a flag that may be repeated into the list of its numbers."""
    return [_convert(int, [token]) for token in tokens]


def assumed_bits(options: Mapping[str, Any], setting: Setting, *, uplinks_only: bool = False) -> str:
    """Return a note that the bits of an update are the paper's network's; empty if they are given."""
    if not getattr(setting.link, "lacks_bits", False) or options.get("task"):
        return ""
    if options.get("radio_bits") is not None:
        given = "a broadcast has the bits of the paper's MNIST network; give --radio-broadcast-bits"
        return "" if uplinks_only else given
    update, _ = setting.message_bits()
    return f"an update has {update:,} bits, those of the paper's MNIST network; give --radio-bits or --task"
