"""Random command lines, drawn from the declared commands and options: for fuzz.py.

Types, help texts and panels decide which values are drawn, so new options are covered without a change here.
Only `TINY` names options: those that keep a problem small.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from slotwise.cli.app import COMMANDS, build_app

# Options that decide how much is computed, with values of a problem that takes a second.
TINY = {"--devices": "4", "--group-size": "2", "--compute-slots": "3", "--deadline": "40", "--seeds": "1"}
TINY_TRAINING = {
    **{"--samples-per-device": "20", "--local-steps": "1", "--batch-size": "4"},
    **{"--channels": "2", "--hidden": "4"},
}
SLOW = {
    "explore",
    "serve",
    "device",
    "fleet",
    "bench",
    "reproduce",
    "recommend",
    "data",
    "compare",
}  # drawn less often
OUTPUTS = ("new", "made")  # names of new files and folders
LONG_NAME = "n" * 300
FILES = (
    "run",
    "batch",
    "tiny.toml",
    "options.toml",
    "sweep.toml",
    "fleet.csv",
    "trace.csv",
    "samples",
    "broken.toml",
)
BAD_FILES = (
    "empty",
    "broken.json",
    "locked",
    "locked/file",
    "fleet.csv/x",
    "missing/x",
    LONG_NAME,
    "",
    ".",
    "\n",
)
WHOLE = ("0", "-1", "7", "100", "1000000", "1000000000", "9223372036854775808", "1" + "0" * 40, "9" * 5000)
REAL = (
    "0",
    "-1",
    "nan",
    "inf",
    "-inf",
    "1e-320",
    "1e-9",
    "1e9",
    "1.7e308",
    "1e400",
    "1e99999999",
    "0.5",
    "1.0000001",
)
JUNK = (
    "",
    " ",
    "x",
    "nan",
    "1.5",
    "1_0",
    "٣",
    "½",
    "é\n2",
    "\x1b[31m",
    "None",
    "true",
    "[1]",
    "1,2",
    "--",
    "-",
    "a" * 5000,
)
LISTS = ("", ",", "1", "1,", "3,2", "0", "-1,2", "1,,2", "1,x", "1000000000,2", "5,5,5,5,5,5,5,5", "9" * 30)
OWN_CODE = ("own:broken", "own:missing", "own:returns_text", "nowhere:x", "own:", ":", "own")


@dataclass(frozen=True)
class Option:
    """One declared option or positional argument (which has no name)."""

    name: str
    hint: Any
    help: str
    panel: str
    required: bool

    @property
    def kinds(self) -> list[Any]:
        """The types of its values, without None and without the list of a repeated option."""
        union = get_origin(self.hint) in (Union, UnionType)
        kinds = [kind for kind in (get_args(self.hint) if union else [self.hint]) if kind is not NoneType]
        return [get_args(kind)[0] if get_origin(kind) is list else kind for kind in kinds]


@cache
def commands() -> dict[tuple[str, ...], tuple[Option, ...]]:
    """Return the options of every command and subcommand."""
    found = {}
    for name in COMMANDS:
        app = build_app(name)[name]
        parts = (
            {(name,): app}
            if app.default_command
            else {(name, part): app[part] for part in app if part[0] != "-"}
        )
        for path, part in parts.items():
            found[path] = tuple(_option(argument) for argument in part.assemble_argument_collection())
    return found


def _option(argument: Any) -> Option:
    name, groups = argument.names[0], argument.parameter.group
    panel = groups[0].name if groups else ""
    return Option(
        name if name.startswith("-") else "",
        argument.hint,
        argument.parameter.help or "",
        panel,
        argument.required,
    )


def command_line(random: Random, *, slow: bool = True) -> list[str]:
    """Draw a command line; without ``slow`` none that waits, or trains much."""
    # The more options, the more there is to find; and to wait takes time.
    weights = [
        int(slow) if path[0] in SLOW else 5 + len(options) // 5 for path, options in commands().items()
    ]
    path = random.choices(list(commands()), weights)[0]
    options = commands()[path]
    if random.random() < 0.01:
        return [*path, "--help"]
    chosen = {
        option: _likely(option, random) for option in options if option.required and random.random() < 0.95
    }
    chosen |= {option: value for option, value in sizes(options).items() if random.random() < 0.98}
    if random.random() < 0.7:
        chosen |= {option: _output(option, random) for option in options if option.name == "--out"}
    for option in _drawn(options, random):
        chosen[option] = _value(option, random)
    arguments = [part for option, value in chosen.items() for part in _written(option, value, random)]
    return [*path, *arguments, *_oddities(random)]


def sizes(options: tuple[Option, ...]) -> dict[Option, str]:
    """Return values that keep the problem small; some commands take those of the training from a file."""
    trains = any(option.name == "--samples-per-device" for option in options)
    values = TINY | TINY_TRAINING if trains else TINY | {"--config": "tiny.toml"}
    return {option: values[option.name] for option in options if option.name in values}


def _output(option: Option, random: Random) -> str:
    """Return the name of a new file of a kind that the help mentions, or of a folder."""
    endings = re.findall(r"\.(?:png|svg|pdf|html|csv|toml)\b", option.help) or ["", ".csv"]
    return "made" + random.choice(endings)


def mended(arguments: list[str], message: str, random: Random) -> list[str] | None:
    """Return a command line that may get further than one that was refused with this message, or None."""
    if unread := re.match(r"slotwise: (.*): must be (?:a readable|valid) TOML", message):
        return ["sweep.toml" if argument == unread[1] else argument for argument in arguments]
    refused = re.match(r"slotwise: (--[a-z0-9-]+)(.*)", message)
    if refused is None:
        return None
    name, reason = refused.groups()
    needed = re.findall(r"without (?:--)?([a-z][a-z0-9-]+)", reason)
    missing = name if "is missing" in reason else f"--{needed[-1]}" if needed else ""
    if missing and random.random() < 0.8 and (option := _absent(arguments, missing)):
        return [*arguments, *_written(option, _likely(option, random), random)]
    other = re.search(r"omitted with (?:--)?([a-z][a-z0-9-]+)", reason)
    if other and random.random() < 0.7 and (option := _declared(arguments, f"--{other[1]}")):
        # It may have an effect with another value of that one.
        return _replaced(arguments, option.name, _written(option, _likely(option, random), random))
    bounds = re.search(r"must be .*?from ([0-9.,e-]+) to ([0-9.,e+-]*[0-9])", reason)
    inside = _between(*(float(bound.replace(",", "")) for bound in bounds.groups()), random) if bounds else ""
    return _replaced(arguments, name, [f"{name}={inside}"] if bounds else [])


def mended_file(text: str, message: str) -> str:
    """Return a TOML file without the option that a message of a refusal blames."""
    blamed = re.match(r"slotwise: \w+\.toml: ([a-z0-9-]+)", message)
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not blamed or not line.startswith(f"{blamed[1]} = "))


def _replaced(arguments: list[str], name: str, new: list[str]) -> list[str]:
    """Return the arguments with others in the place of an option, or at the end if it is not given."""
    old = _place(arguments, name) or slice(len(arguments), len(arguments))
    return arguments[: old.start] + new + arguments[old.stop :]


def _between(low: float, high: float, random: Random) -> str:
    """Draw one of two bounds, or a value between them."""
    value = random.choice((low, high, random.uniform(low, high)))
    return f"{value:.0f}" if value == round(value) else str(value)


def _declared(arguments: list[str], name: str) -> Option | None:
    """Return the option of this name of the command."""
    paths = [path for path in commands() if tuple(arguments[: len(path)]) == path]
    return next((option for path in paths for option in commands()[path] if option.name == name), None)


def _absent(arguments: list[str], name: str) -> Option | None:
    """Return the option of this name of the command, if it is not given."""
    return None if _place(arguments, name) else _declared(arguments, name)


def _place(arguments: list[str], name: str) -> slice | None:
    """Return where an option is in the arguments, with its value."""
    for number, argument in enumerate(arguments):
        if argument == name:
            has_value = number + 1 < len(arguments) and not arguments[number + 1].startswith("--")
            return slice(number, number + 1 + has_value)
        if argument.startswith(name + "="):
            return slice(number, number + 1)
    return None


def _drawn(options: tuple[Option, ...], random: Random) -> Iterator[Option]:
    """Draw some options: a few of all, and several of one panel, whose options often need each other."""
    if not options:
        return
    yield from random.sample(options, min(len(options), random.choice((0, 0, 1, 2, 3))))
    panel = random.choice(options).panel
    together = [
        option for option in options if option.panel == panel and option.name not in TINY | TINY_TRAINING
    ]
    if together and random.random() < 0.7:
        yield together[0]  # often the one that the others need
        yield from random.sample(together, min(len(together), random.choice((1, 2, 4, 6))))


def _written(option: Option, value: str, random: Random) -> list[str]:
    if bool in option.kinds:
        return [option.name]
    if not option.name:
        return [value]
    return (
        [f"{option.name}={value}"] if random.random() < 0.2 or value.startswith("-") else [option.name, value]
    )


def _oddities(random: Random) -> list[str]:
    """Return what belongs to no option, rarely."""
    odd = (["--nonsense"], ["--devices"], ["extra"], ["--", "x"], ["--devices", "3", "--devices", "4"], [""])
    return random.choice(odd) if random.random() < 0.03 else []


def _value(option: Option, random: Random) -> str:
    """Draw a value: mostly a likely one, sometimes an extreme or a wrong one."""
    draw = random.random()
    if draw < 0.6:
        return _likely(option, random)
    return _extreme(option, random) if draw < 0.9 else random.choice(JUNK)


def _likely(option: Option, random: Random) -> str:
    """Draw a value that may be allowed."""
    kind = random.choice(option.kinds)
    if get_origin(kind) is Literal:
        return str(random.choice(get_args(kind)))
    if kind is int:
        return str(random.randint(1, 6))
    if kind is float:
        return random.choice(
            (str(round(random.uniform(0, 1), 3)), str(random.randint(1, 50)), "1e-3", "1000")
        )
    if get_origin(kind) is tuple and get_args(kind)[0] is int:
        return ",".join(str(random.randint(1, 5)) for _ in range(random.randint(1, 3)))
    return random.choice(_texts(option))


def _texts(option: Option) -> list[str]:
    """Return texts that the help mentions, and files of the kinds that it mentions."""
    words = re.findall(r"(?<![\w.-])[a-z][a-z0-9]*(?:-[a-z0-9]+)*(?![\w:])", option.help)
    files = [_output(option, Random(draw)) for draw in range(3)]
    files += [name for name in ("run", "batch", "live") if name in words] * 3
    files += [name for name in FILES if Path(name).suffix[1:].upper() in option.help.upper().split()] * 3
    if Path in option.kinds or "folder" in option.help.lower():
        files += [*FILES, *OUTPUTS]
    own = OWN_CODE if "module:function" in option.help else ()
    return [*words, *files, *own, "x"] if Path not in option.kinds else files


def _extreme(option: Option, random: Random) -> str:
    """Draw a value at the edge of what is allowed, or beyond it."""
    kind = random.choice(option.kinds)
    if kind is int:
        return random.choice(WHOLE)
    if kind is float:
        return random.choice(REAL)
    if get_origin(kind) is tuple:
        return random.choice(LISTS)
    if Path not in option.kinds and "folder" not in option.help.lower():
        return random.choice(JUNK)
    made = _output(option, random)
    return random.choice((*BAD_FILES, LONG_NAME + made, f"locked/{made}", f"missing/{made}", f"empty/{made}"))


def options_file(random: Random, *, sweep: bool) -> str:
    """Draw a TOML file with options of slotwise train; with ``sweep`` some are axes."""
    options = commands()[("train",)]
    chosen = sizes(options)
    drawn = [option for option in _drawn(options, random) if option.panel not in ("Output", "Energy")]
    chosen |= {option: _value(option, random) for option in drawn}
    lines = [
        f"{option.name[2:]} = {_toml(option, value, random, sweep=sweep)}" for option, value in chosen.items()
    ]
    if sweep and random.random() < 0.6:
        lines.append(
            f"seeds = {random.choice(('[0]', '[0, 1]', '2', '[]', '[0, 0]', '-1', '1000000000', '[1e3]'))}"
        )
    return "\n".join(lines) + "\n"


def _toml(option: Option, value: str, random: Random, *, sweep: bool) -> str:
    """Write a value in TOML: mostly with its type, sometimes as text or as a list."""
    written, drawn = value, value != (TINY | TINY_TRAINING).get(option.name)
    if any(get_origin(kind) is tuple for kind in option.kinds):
        written = f"[{value}]"
    elif not re.fullmatch(r"-?(\d{1,18}(\.\d+)?(e-?\d{1,3})?|nan|inf)", value) or (
        drawn and random.random() < 0.1
    ):
        written = json.dumps(value)
    if drawn and random.random() < (0.3 if sweep else 0.03):
        return random.choice((f"[{written}]", f"[{written}, {written}]"))
    return written
