"""Shorthands: options that stand for others, such as the speed of a device for its compute slots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING
from typing import Any, ClassVar

from slotwise.base.errors import ConflictError, InputError, NoEffectError
from slotwise.options.declarations import Option, declared
from slotwise.options.tables import build, is_given


class Shorthand(ABC):
    """A dataclass whose fields are options that determine others once those are known that it depends on.

    Its first field is the option that it is about; the others have no effect without it. A field that is an
    option of the run as well has the value that it has there.

    Attributes:
        panel: The part of a run in whose panel of a help page its options are.
    """

    panel: ClassVar[str]

    @classmethod
    def replaces(cls) -> Sequence[str]:
        """Return the options that say the same in another way, and so cannot be given beside it."""
        return ()

    @abstractmethod
    def stands_for(self, known: ChainMap[str, Any]) -> dict[str, Any]:
        """Return the options it determines.

        ``known`` has all other options, with defaults; its first map has those that are given.
        """


def expand(
    owner: type[Any],
    kinds: Sequence[type[Shorthand]],
    given: Mapping[str, Any],
    usual: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, str]]:
    """Replace the shorthands in a table of options for a class by what they stand for.

    Args:
        owner: the class whose options they are.
        kinds: the shorthands, in the order in which each may use what those before it have determined.
        given: the options, with shorthands.
        usual: options that take the place of the defaults of the class.

    Returns:
        The table without shorthands, and for each option in it that was determined the shorthand's option.
    """
    shared = declared(owner)
    alone = {name for kind in kinds for name in declared(kind) if name not in shared}
    chosen = {name: value for name, value in given.items() if name not in alone}
    known = ChainMap(chosen, dict(usual), _defaults(shared))
    origin: dict[str, str] = {}
    replaced: dict[str, str] = {}
    used = [kind for kind in kinds if is_given(given.get(next(iter(declared(kind)))))]
    _refuse_idle(kinds, used, {name: given[name] for name in alone if is_given(given.get(name))})
    for kind in used:
        names = list(declared(kind))
        own = {name: given[name] for name in names if name in alone and is_given(given.get(name))}
        for other in kind.replaces():
            if is_given(given.get(other)):
                raise ConflictError(names[0], other)
        common = {name: known[name] for name in names if name not in alone}
        determined = build(kind, common | own).stands_for(known)
        for name, value in determined.items():
            # A fleet file that has link slots, for example, says the same as a rate of the link.
            if is_given(value) and name in replaced:
                raise ConflictError(replaced[name], names[0])
        replaced |= dict.fromkeys(kind.replaces(), names[0])
        origin |= dict.fromkeys(determined, names[0])
        chosen |= determined
    return chosen, origin


def _refuse_idle(
    kinds: Sequence[type[Shorthand]], used: Sequence[type[Shorthand]], given: Mapping[str, Any]
) -> None:
    """Refuse options of shorthands whose first option is not given."""
    for name in dict.fromkeys(name for kind in kinds for name in declared(kind)):
        owners = [kind for kind in kinds if name in declared(kind)]
        if name in given and not any(kind in used for kind in owners):
            first = " or ".join(next(iter(declared(kind))) for kind in owners)
            raise NoEffectError(name, given[name], f"without {first}")


def _defaults(options: Mapping[str, Option]) -> dict[str, Any]:
    return {name: None if one.default is MISSING else one.default for name, one in options.items()}


@contextmanager
def blaming(origin: Mapping[str, str], given: Mapping[str, Any]) -> Iterator[None]:
    """Name the shorthand in an error about an option that it determined."""
    try:
        yield
    except InputError as error:
        source = origin.get(error.parameter, error.parameter)
        if isinstance(error, ConflictError):
            pair = error.parameter, error.other
            error.other = origin.get(error.other, error.other)
            determined = [name for name in pair if name in origin]
            error.hint = error.hint or "".join(f"it says {name}" for name in determined[:1])
        elif source != error.parameter:
            error.value = given.get(source, error.value)
        error.rename(source)
        raise
