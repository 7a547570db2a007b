"""Values from flat tables of options, and flat tables from values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field
from functools import wraps
from itertools import permutations, product
from operator import itemgetter
from typing import Any, TypeVar

from slotwise.base.errors import ConflictError, InputError, MissingError, NoEffectError, refuse_unknown_name
from slotwise.base.user_code import describe_value, is_function_name
from slotwise.options.declarations import (
    GIVEN,
    NO_CHOICE,
    Choice,
    Declaration,
    Either,
    Found,
    Path,
    StandsFor,
    declarations,
    declared,
    mark_of,
    required_option,
)
from slotwise.options.user_function import OWN_OPTIONS, UserFunction, pairs

Value = TypeVar("Value")


def table_of(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return the flat table of a value: the options that exist in it, those of its parts included."""
    table: dict[str, Any] = {}
    for declaration in declarations(type(value)):
        held = getattr(value, declaration.name)
        if declaration.is_derived:
            continue
        if (choice := declaration.choice) is not None:
            table |= _table_of_choice(choice, held)
        elif declaration.part is not None or declaration.either is not None:
            table |= table_of(held, prefix)
        else:
            table[prefix + declaration.option] = held
    return table


def _table_of_choice(choice: Choice, held: Any) -> dict[str, Any]:
    if type(held) in choice.unnamed:
        return table_of(held, choice.prefix)
    name = choice.name_of(held)
    if name is None:
        allowed = "a function that can be imported, so that its name can be written down"
        raise InputError(choice.option, describe_value(held), allowed)
    table: dict[str, Any] = {choice.option: name or None}
    if isinstance(held, UserFunction):
        return table | ({choice.option + OWN_OPTIONS: dict(held.options)} if held.options else {})
    if choice.family_of(name) is not None:
        _, *own = table_of(held, choice.prefix).items()
        return table | dict(own)
    return table | table_of(held, choice.prefix)


def build(
    owner: type[Value], given: Mapping[str, Any], start: Value | None = None, *, lenient: bool = False
) -> Value:
    """Build a value from a flat table of options.

    Options that are not given come from ``start``, a value of the class, as long as the alternative is the
    same that they belong to there; otherwise they have their defaults. ``lenient`` ignores options of
    alternatives that were not chosen, as files of earlier versions have them.

    Raises:
        NoEffectError: an option belongs to an alternative that was not chosen.
        UserError: an option is unknown, missing or out of its range.
    """
    reader = _Reader(nested(given), lenient=lenient, amended=_amended(given))
    value: Value = reader.part(owner, start, "")
    reader.refuse_unread(owner)
    return value


def flat(owner: type[Value]) -> type[Value]:
    """Let a dataclass be called with the options of its parts as well, by the names that they have in tables.

    ``LocalTraining(optimizer="adam", beta1=0.8)`` is ``LocalTraining(optimizer=Adam(beta1=0.8))``.
    """
    make: Any = owner.__init__
    own = {declaration.name for declaration in declarations(owner)}

    @wraps(make)
    def call(self: Any, **given: Any) -> None:
        make(self, **{name: value for name, value in given.items() if name in own})
        if given.keys() - own:
            table = {name: v for name, v in given.items() if name not in own or isinstance(v, str)}
            self.__dict__.update(build(owner, table, self).__dict__)

    owner.__init__ = call  # type: ignore[method-assign]
    return owner


def choose(choice: Choice, given: Mapping[str, Any]) -> Any:
    """Return the alternative that a flat table describes; as `build` does for a class."""
    reader = _Reader(nested(given))
    value = reader.choice(choice, None)
    reader.refuse_unread(choice)
    return value


def nested(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table in which ``task_options.rate`` is the entry ``rate`` of the table ``task_options``."""
    table = {name: value for name, value in given.items() if "." not in name}
    for name, value in given.items():
        outer, dot, inner = name.partition(".")
        if dot:
            table[outer] = {**(table.get(outer) or {}), inner: value}
    return table


def _amended(given: Mapping[str, Any]) -> frozenset[str]:
    """Return the tables of which only entries are given: the others stay as they are."""
    return frozenset(name.partition(".")[0] for name in given if "." in name) - given.keys()


def spread(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table without tables in it, the opposite of `nested`: each entry is an option of its own."""
    table: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, Mapping):
            table |= {f"{name}.{inner}": one for inner, one in value.items()}
        else:
            table[name] = value
    return table


def resolved(choice: Choice, value: Any) -> Any:
    """Return the alternative that a value stands for: itself, a short name, or a function of the user's.

    Raises:
        InputError: it is none of the alternatives.
    """
    if isinstance(value, str):
        return choose(choice, {choice.option: value})
    if choice.name_of(value) is not None or type(value) in choice.unnamed:
        return value.meant() if isinstance(value, StandsFor) else value
    if choice.own and callable(value):
        return value  # it cannot be named, and so not be part of a table
    raise InputError(choice.option, describe_value(value), allowed_names(choice))


@dataclass
class _Reader:
    """Reads a flat table; keeps which options were read, with the alternative chosen by those that choose.

    ``implied`` are the choices that were made by giving an option of an alternative without a name, and
    ``amended`` the tables whose other entries are the usual ones.
    """

    given: Mapping[str, Any]
    lenient: bool = False
    amended: frozenset[str] = frozenset()
    used: dict[str, str] = field(default_factory=dict)
    implied: dict[str, str] = field(default_factory=dict)

    def part(self, owner: type[Any], start: Any, prefix: str, known: Mapping[str, Any] | None = None) -> Any:
        """Return a value of a class, whose options have names with a prefix; fields in ``known`` are none."""
        values: dict[str, Any] = dict(known or {})
        for declaration in declarations(owner):
            name = prefix + declaration.option
            if declaration.is_derived or declaration.name in values:
                continue
            usual = self._usual(declaration, start, prefix)
            if declaration.choice is not None:
                values[declaration.name] = self.choice(declaration.choice, usual)
            elif declaration.either is not None:
                values[declaration.name] = self.either(declaration.either, usual, prefix)
            elif declaration.part is not None:
                base = None if usual is MISSING else usual
                values[declaration.name] = self.part(declaration.part, base, prefix)
            elif name in self.given:
                self._refuse_found(owner, declaration, prefix)
                self.used[name] = ""
                values[declaration.name] = self.given[name]
            elif usual is not MISSING:
                values[declaration.name] = usual
            else:
                raise MissingError(name, "given")
        with _naming_options(owner, prefix):
            value = owner(**values)
        return value.meant() if isinstance(value, StandsFor) else value

    def _usual(self, declaration: Declaration, start: Any, prefix: str) -> Any:
        """Return the value of an option that is not given."""
        if start is None:
            return declaration.default
        found, usual = mark_of(declaration.marks, Found), getattr(start, declaration.name)
        if found is None or not found.of:
            return usual
        here = getattr(start, found.of)
        is_same = self.given.get(prefix + _option_of(type(start), found.of), here) == here
        return usual if is_same else declaration.default

    def _refuse_found(self, owner: type[Any], declaration: Declaration, prefix: str) -> None:
        """Refuse an option that is found out, and given in a table that no run has written."""
        found, name = mark_of(declaration.marks, Found), prefix + declaration.option
        if found is not None and found.of and not self.lenient and is_given(self.given[name]):
            raise ConflictError(name, prefix + _option_of(owner, found.of))

    def choice(self, choice: Choice, usual: Any) -> Any:
        """Return the alternative that the table names, or else that of the usual value."""
        if (kind := self._unnamed(choice, usual)) is not None:
            return self.part(kind, usual if type(usual) is kind else None, choice.prefix)
        name: Any = choice.name_of(usual)
        own_is_given = choice.option in self.given or choice.option + OWN_OPTIONS in self.given
        if name not in choice.known and callable(usual) and not own_is_given:
            return usual
        if choice.option in self.given:
            name = NO_CHOICE if self.given[choice.option] is None else self.given[choice.option]
        self.used[choice.option] = name
        if isinstance(name, str) and name in choice.known:
            known = choice.known[name]
            if not isinstance(known, type):
                return known
            return self.part(known, usual if type(usual) is known else None, choice.prefix)
        if (family := choice.family_of(name)) is not None:
            same = choice.name_of(usual) == name
            return self.part(family[0], usual if same else None, choice.prefix, family[1])
        if choice.own and isinstance(name, str) and is_function_name(name):
            return self._user_function(choice, name, usual)
        raise InputError(choice.option, self.given.get(choice.option), allowed_names(choice))

    def _unnamed(self, choice: Choice, usual: Any) -> type[Any] | None:
        """Return the alternative without a name whose first option is given; else that of the usual value."""
        keys = {kind: next(iter(declared(kind, choice.prefix))) for kind in choice.unnamed}
        asked = [kind for kind, key in keys.items() if is_given(self.given.get(key))]
        is_left = is_given(self.given.get(choice.option)) or keys.get(type(usual)) in self.given
        if not asked and type(usual) in keys and not is_left:
            asked = [type(usual)]
        if not asked:
            return None
        if len(asked) > 1:
            raise ConflictError(keys[asked[1]], keys[asked[0]])
        self.implied[choice.option] = keys[asked[0]]
        return asked[0]

    def _user_function(self, choice: Choice, name: str, usual: Any) -> UserFunction:
        table = choice.option + OWN_OPTIONS
        self.used[table] = ""
        options = self.given.get(table)
        if options is None or table in self.amended:
            same = isinstance(usual, UserFunction) and usual.name == name
            options = {**(dict(usual.options) if same else {}), **(options or {})}
        return UserFunction(choice.option, name, pairs(choice.option, options), choice.own)

    def either(self, either: Either, usual: Any, prefix: str) -> Any:
        """Return the alternative of which an option is given; without one, that of the usual value."""
        asked = {owner: self._first_given(either, owner, prefix) for owner in either.classes}
        asked = {owner: name for owner, name in asked.items() if name}
        if self.lenient:
            asked = {owner: name for owner, name in asked.items() if not self._missing(owner, prefix)}
        for owner, name in asked.items():
            if not isinstance(usual, owner) and (missing := self._missing(owner, prefix)):
                if declared(owner, prefix)[name].default is MISSING:
                    raise MissingError(missing, f"given together with {name}")
                raise NoEffectError(name, self.given[name], f"without {missing}")
        is_left = usual is MISSING or self._is_given_up(type(usual), prefix)
        chosen = list(asked)[-1] if asked else either.classes[0] if is_left else type(usual)
        if not self.lenient:
            replaced = [name for name in replaced_by(chosen) if is_given(self.given.get(name))]
            if replaced and asked:
                raise ConflictError(replaced[0], asked[chosen])
            if replaced:
                chosen = either.classes[0]  # what is given replaces what was there before
            self._refuse_others(either, chosen, asked.get(chosen, ""), prefix)
        return self.part(chosen, usual if type(usual) is chosen else None, prefix)

    def _refuse_others(self, either: Either, chosen: type[Any], name: str, prefix: str) -> None:
        """Refuse an option that other alternatives have, beside one for which this alternative is chosen."""
        reason = name or next((name for name, _ in required_option(chosen, prefix)), "")
        for owner in either.classes if reason else ():
            for other in declared(owner, prefix):
                if other not in declared(chosen, prefix) and is_given(self.given.get(other)):
                    raise ConflictError(other, reason)

    def _is_given_up(self, owner: type[Any], prefix: str) -> bool:
        """Return whether the option that an alternative requires is given as None, or as an empty list."""
        required = [name for name, _ in required_option(owner, prefix) if name in self.given]
        return any(not is_given(self.given[name]) for name in required)

    def _missing(self, owner: type[Any], prefix: str) -> str:
        """Return an option that an alternative requires and the table lacks, if there is one."""
        for name, option in declared(owner, prefix).items():
            is_required = option.default is MISSING and option.owners == ((),)
            if is_required and not is_given(self.given.get(name)):
                return name
        return ""

    def _first_given(self, either: Either, owner: type[Any], prefix: str) -> str:
        """Return the first option in the table that only this alternative has."""
        shared = [name for other in either.classes if other is not owner for name in declared(other, prefix)]
        for name in declared(owner, prefix):
            if name not in shared and is_given(self.given.get(name)):
                return name
        return ""

    def refuse_unread(self, owner: Any) -> None:
        """Refuse options that the value does not have; None and an empty list say that one is not given."""
        for name, value in self.given.items():
            refuse_unknown_name("option", name, declared(owner))
            if name in self.used or self.lenient or value is None:
                continue
            if is_given(value) or declared(owner)[name].default not in ((), MISSING):
                raise NoEffectError(name, value, self._reason_without(owner, name))

    def _reason_without(self, owner: Any, name: str) -> str:
        """Return why an option does not exist: the choice that would have to be made otherwise."""
        # Of the ways to the option, the one that agrees longest with what was chosen says what to change.
        paths = declared(owner)[name].owners
        option = max((_first_missed(path, self.used) for path in paths), key=itemgetter(0))[1] or name
        if option in self.implied:
            return f"with {self.implied[option]}"
        return f"with {option} {self.used[option]}" if self.used.get(option) else f"without {option}"


def _option_of(owner: type[Any], field_name: str) -> str:
    """Return the name of the option that a field is."""
    return next(one.option for one in declarations(owner) if one.name == field_name)


def replaced_by(owner: Any) -> tuple[str, ...]:
    """Return the options, declared elsewhere, that say the same as an alternative in another way."""
    return tuple(getattr(owner, "instead_of", ()))


def rivals(owner: type[Any]) -> Iterator[frozenset[str]]:
    """Yield pairs of options of a class that cannot be given together: they belong to two alternatives."""
    for declaration in declarations(owner):
        if declaration.part is not None:
            yield from rivals(declaration.part)
        classes = declaration.either.classes if declaration.either is not None else ()
        for one, other in permutations(classes, 2):
            others = {*(declared(other).keys() - declared(one).keys()), *replaced_by(one)}
            yield from map(frozenset, product(declared(one).keys() - declared(other).keys(), others))


def replaced_options(value: Any) -> dict[str, str]:
    """Return the options that parts of a value replace, each with the reason why it has no effect."""
    replaced = dict.fromkeys(replaced_by(value), "")
    for name in replaced:
        replaced[name] = f"with {next(iter(table_of(value)))}"
    for declaration in declarations(type(value)):
        replaced |= replaced_options(getattr(value, declaration.name))
    return replaced


def is_given(value: Any) -> bool:
    """Return whether a value in a table gives an option: None and empty lists say that it is not given."""
    return value is not None and not (isinstance(value, list | tuple) and not value)


def _first_missed(path: Path, chosen: Mapping[str, str]) -> tuple[int, str]:
    """Return how many choices of a path were made, and the option that chooses otherwise."""
    for number, (option, alternative) in enumerate(path):
        if option not in chosen or chosen[option] != alternative != GIVEN:
            return number, option
    return -1, ""


def allowed_names(choice: Choice) -> str:
    """Return the alternatives of a choice, for a message."""
    names = [name for name in choice.known if name != NO_CHOICE]
    names += [f"{beginning}:NAME" for beginning in choice.families]
    if choice.own:
        names.append("module:function" if names else "module:function, as in my_module:make_it")
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


@contextmanager
def _naming_options(owner: type[Any], prefix: str) -> Iterator[None]:
    """Give the options in an InputError their names in tables: the fields of an alternative have a prefix."""
    try:
        yield
    except InputError as error:
        options = {declaration.name: prefix + declaration.option for declaration in declarations(owner)}
        if error.parameter in options:
            error.rename(options[error.parameter])
        raise
