"""Declarations: what annotations of fields say beyond types, and the options of a class and its parts."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from math import inf
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from slotwise.options.option_text import field_help
from slotwise.options.user_function import OWN_OPTIONS, UserFunction

Mark = TypeVar("Mark")
Path = tuple[tuple[str, str], ...]  # the choices that lead to an option: (option, alternative) of each
GIVEN = ""  # stands for the alternative where an option only has to be given


@dataclass(frozen=True)
class Range:
    """Marks a number, or the numbers of a list, that must lie in a range; infinity and NaN never do."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def allows(self, value: float) -> bool:
        """Return whether a number lies in the range."""
        if not -inf < value < inf:
            return False
        lower = (self.least is None or value >= self.least) and (self.above is None or value > self.above)
        upper = (self.most is None or value <= self.most) and (self.below is None or value < self.below)
        return lower and upper

    def describe(self, *, whole: bool) -> str:
        """Return what is allowed, for a message."""
        kind = "a whole number" if whole else "a number"
        if self.least is not None and self.most is not None:
            return f"{kind} from {_text(self.least)} to {_text(self.most)}"
        if self.least is not None and self.below is not None:
            return f"{kind} from {_text(self.least)} to below {_text(self.below)}"
        bounds = {"above": self.above, "at least": self.least, "below": self.below, "at most": self.most}
        named = [f"{word} {_text(bound)}" for word, bound in bounds.items() if bound is not None]
        if whole and self.least is not None:
            return f"{kind} of {' and '.join(named)}"
        finite, comma = "" if whole or len(named) > 1 else "finite ", "," if self.least is not None else ""
        return f"{kind.replace('a ', f'a {finite}', 1)}{comma} {' and '.join(named)}"


def _text(number: float) -> str:
    is_whole = isinstance(number, int) or (abs(number) < 1e9 and number == int(number))
    return f"{int(number):,}" if is_whole else f"{number:g}"


@dataclass(frozen=True, eq=False)
class Choice:
    """Marks a field that holds one of several alternatives.

    Attributes:
        option: Name of the option that chooses.
        known: The alternatives by their short names: dataclasses, whose fields are options, or values without
            options, such as functions and None.
        prefix: Text before the names of the options of the alternatives.
        own: Numbers of positional arguments, one of which a user's own function must take, if
            ``module:function`` is an alternative too.
        unnamed: Alternatives without a short name, each of which is chosen by giving its first option, which
            has no default.
        families: Alternatives of which there are many, by the beginning of their names: ``hf:TEXT`` is the
            class under ``hf`` with TEXT as its first field, which is no option of its own.
    """

    option: str
    known: Mapping[str, Any]
    prefix: str = ""
    own: tuple[int, ...] = ()
    unnamed: tuple[type[Any], ...] = ()
    families: Mapping[str, type[Any]] = field(default_factory=dict)

    def name_of(self, value: Any) -> str | None:
        """Return the short name of a value; None if it is none of the known alternatives."""
        if isinstance(value, UserFunction):
            return value.name
        for beginning, family in self.families.items():
            if type(value) is family:
                return f"{beginning}:{getattr(value, fields(family)[0].name)}"
        for name, known in self.known.items():
            # Another process has the same text, or a value that needs a seed, as another object.
            is_same = known is value or (isinstance(known, str) and known == value)
            kind = known if isinstance(known, type) else type(known) if is_dataclass(known) else None
            if is_same or (kind is not None and type(value) is kind):
                return name
        return importable_name(value) if self.own else None

    def is_own(self, value: Any) -> bool:
        """Return whether a value is the user's own, and none of the known alternatives."""
        kinds = (*self.unnamed, *self.families.values())
        return self.name_of(value) not in self.known and type(value) not in kinds

    def family_of(self, name: Any) -> tuple[type[Any], dict[str, str]] | None:
        """Return the class that a name such as ``hf:TEXT`` means, and its first field; None if it is none."""
        beginning, colon, text = name.partition(":") if isinstance(name, str) else ("", "", "")
        kind = self.families.get(beginning) if colon else None
        return None if kind is None else (kind, {fields(kind)[0].name: text})


@dataclass(frozen=True)
class Either:
    """Marks a field that holds a value of one of several classes, told apart by the options that are given.

    Attributes:
        known: The alternatives, the usual one first; ``module:Class`` is imported when it is first needed.
    """

    known: tuple[type[Any] | str, ...]

    @cached_property
    def classes(self) -> tuple[type[Any], ...]:
        """The alternatives as classes."""
        return tuple(_imported(known) if isinstance(known, str) else known for known in self.known)


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


@dataclass(frozen=True)
class Derived:
    """Marks a field that is no option: it follows from others, and is not written down."""


@dataclass(frozen=True)
class Found:
    """Marks an option that is found out when a value is built and written down, but never given.

    Attributes:
        of: The field of the same class that names where it is found: with another value it is found anew.
    """

    of: str = ""


@dataclass(frozen=True)
class NoFlag:
    """Marks an option that files and Python can give, but no flag: a long list, for example."""


@dataclass(frozen=True)
class FileName:
    """Marks an option that names a file or a folder; in a TOML file it is relative to that file."""


@dataclass(frozen=True)
class OrText:
    """Marks an option NAME that may also be text, which its class reads: it then says NAME_changes, too."""


@dataclass(frozen=True)
class Named:
    """Marks a field that has another name as an option, where its own would be unclear outside its class."""

    name: str


class StandsFor(ABC):
    """An alternative that is another value in other words, such as a file that has its numbers."""

    @abstractmethod
    def meant(self) -> Any:
        """Return the value that takes its place as soon as it is built from a table."""


@dataclass(frozen=True)
class Option:
    """An option of a class or of one of its parts.

    Attributes:
        name: Its name in tables, files and Python.
        hint: Its type.
        default: Its default value; that of a choice is the short name.
        help: What it means.
        part: The field of the class under which it is found.
        owners: The choices that have it, one path for each alternative; a path is empty if it always exists.
        marks: What its annotation says beyond the type.
    """

    name: str
    hint: Any
    default: Any
    help: str
    part: str
    owners: tuple[Path, ...]
    marks: tuple[Any, ...] = ()

    @property
    def choice(self) -> Choice | None:
        """The alternatives among which the option chooses, if it does."""
        return mark_of(self.marks, Choice)

    @property
    def is_found(self) -> bool:
        """True if the option is found out and never given."""
        return mark_of(self.marks, Found) is not None

    @property
    def has_flag(self) -> bool:
        """True if a flag can give the option."""
        return not self.is_found and mark_of(self.marks, NoFlag) is None

    @property
    def names_file(self) -> bool:
        """True if its value is the name of a file or a folder."""
        return mark_of(self.marks, FileName) is not None

    @property
    def may_be_text(self) -> bool:
        """True if its value may be a text as well, which its class reads."""
        return mark_of(self.marks, OrText) is not None

    @property
    def flag_hint(self) -> Any:
        """The type of a flag that gives the option."""
        return self.hint | str if self.may_be_text else self.hint


def mark_of(marks: Iterable[Any], kind: type[Mark]) -> Mark | None:
    """Return the mark of a class; None if there is none."""
    return next((mark for mark in marks if isinstance(mark, kind)), None)


@dataclass(frozen=True)
class Declaration:
    """A field of a class: its type without marks, the marks, and its default."""

    field: Field[Any]
    hint: Any
    marks: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The name of the field."""
        return self.field.name

    @property
    def option(self) -> str:
        """The name of the option, without the prefix of its class."""
        named = mark_of(self.marks, Named)
        return self.name if named is None else named.name

    @property
    def default(self) -> Any:
        """The default value; ``MISSING`` if there is none."""
        if self.field.default_factory is not MISSING:
            return self.field.default_factory()
        return self.field.default

    @property
    def choice(self) -> Choice | None:
        """The alternatives, if the field holds one of several."""
        return mark_of(self.marks, Choice)

    @property
    def either(self) -> Either | None:
        """The alternatives, if the field holds one of several that have no names."""
        return mark_of(self.marks, Either)

    @property
    def is_derived(self) -> bool:
        """True if the field is no option."""
        return mark_of(self.marks, Derived) is not None

    @property
    def part(self) -> type[Any] | None:
        """The class of the field, if its value is made of options itself."""
        return self.hint if isinstance(self.hint, type) and is_dataclass(self.hint) else None


def declarations(owner: Any) -> tuple[Declaration, ...]:
    """Return the fields of a dataclass; empty for anything else, which has no options."""
    return _declarations(owner)


@cache
def _declarations(owner: Hashable) -> tuple[Declaration, ...]:
    if not (isinstance(owner, type) and is_dataclass(owner)):
        return ()
    hints = get_type_hints(owner, include_extras=True)
    return tuple(Declaration(field, *_split(hints[field.name])) for field in fields(owner))


def _split(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without its marks, and the marks, also those inside ``| None``."""
    if get_origin(hint) is Annotated:
        plain, *marks = get_args(hint)
        return plain, tuple(marks)
    marked = [kind for kind in get_args(hint) if get_origin(kind) is Annotated]
    if not marked:
        return hint, ()
    plain, *marks = get_args(marked[0])
    for kind in get_args(hint):
        if kind is not marked[0]:
            plain = plain | kind
    return plain, tuple(marks)


def declared(owner: Any, prefix: str = "") -> Mapping[str, Option]:
    """Return all options of a class and of its parts, also of alternatives that are not the default.

    ``owner`` is a dataclass, whose own options have names with ``prefix``, or a `Choice`.
    """
    return _declared(owner, prefix)


@cache
def _declared(owner: Hashable, prefix: str) -> Mapping[str, Option]:
    options: dict[str, Option] = {}
    if isinstance(owner, Choice):
        walk = _walk_choice(owner, None, "", (), "")
    else:
        walk = _walk(owner, prefix, (), "", None)
    for option in walk:
        if option.name in options:
            first = options[option.name]
            owners = (*first.owners, *(path for path in option.owners if path not in first.owners))
            option = replace(first, owners=owners)  # noqa: PLW2901
        options[option.name] = option
    return options


def _walk(owner: Any, prefix: str, path: Path, part: str, usual: Any) -> Iterator[Option]:
    """Yield the options of a class; their defaults are those in ``usual``, a value of it, if there is one."""
    texts = _help(owner)
    for declaration in declarations(owner):
        home, name = part or declaration.name, prefix + declaration.option
        default = declaration.default if usual is None else getattr(usual, declaration.name)
        if declaration.is_derived:
            continue
        if (choice := declaration.choice) is not None:
            yield from _walk_choice(choice, default, texts.get(declaration.name, ""), path, home)
        elif declaration.either is not None:
            for known in declaration.either.classes:
                start = default if type(default) is known else None
                yield from _walk(known, prefix, (*path, *required_option(known, prefix)), home, start)
        elif declaration.part is not None:
            yield from _walk(declaration.part, prefix, path, home, None if default is MISSING else default)
        else:
            text = texts.get(declaration.name, "")
            yield Option(name, declaration.hint, default, text, home, (path,), declaration.marks)


def required_option(owner: Any, prefix: str) -> Path:
    """Return the option without which an alternative that has no name is not meant, as a step of a path."""
    for one in declarations(owner):
        if one.default is MISSING and not one.is_derived:
            return ((one.choice.option if one.choice else prefix + one.option, GIVEN),)
    return ()


def _help(owner: Any) -> dict[str, str]:
    """Return the descriptions of fields, those of a class before those of its bases."""
    texts: dict[str, str] = {}
    for kind in reversed(getattr(owner, "__mro__", ())):
        texts |= field_help(kind) if is_dataclass(kind) else {}
    return texts


def _walk_choice(choice: Choice, usual: Any, text: str, path: Path, part: str) -> Iterator[Option]:
    default = MISSING if usual is MISSING else choice.name_of(usual) or None
    yield Option(choice.option, str, default, text, part, (path,), (choice,))
    if choice.own:
        own_text, owner = f"Parameters of your own function, if {choice.option} is one.", "module:function"
        owners = ((*path, (choice.option, owner)),)
        yield Option(choice.option + OWN_OPTIONS, dict, None, own_text, part, owners, ())
    for name, known in choice.known.items():
        start = usual if type(usual) is known else None
        yield from _walk(known, choice.prefix, (*path, (choice.option, name)), part, start)
    for beginning, kind in choice.families.items():
        _, *own = _walk(kind, choice.prefix, (*path, (choice.option, f"{beginning}:NAME")), part, None)
        yield from own  # all but the name itself
    for kind in choice.unnamed:
        start = usual if type(usual) is kind else None
        yield from _walk(kind, choice.prefix, (*path, *required_option(kind, choice.prefix)), part, start)


def importable_name(value: Any) -> str | None:
    """Return ``module:function`` of a function by which it can be imported; None if there is no such name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    found = callable(value) and getattr(sys.modules.get(str(module)), name, None) is value
    return f"{module}:{name}" if found else None


NO_CHOICE = ""  # the short name of an alternative that is written by leaving the option out


def names_of(owner: type[Any], *parts: str) -> tuple[str, ...]:
    """Return the names of the options of a class, or of those under some of its fields."""
    return tuple(name for name, option in declared(owner).items() if not parts or option.part in parts)


def found_names(owner: type[Any]) -> tuple[str, ...]:
    """Return the names of the options of a class that are found out and never given."""
    return tuple(name for name, option in declared(owner).items() if option.is_found)
