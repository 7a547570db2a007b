"""Errors that a user can correct. The command line prints each as one line and exits with code 2."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

MOST_SUGGESTED = 3  # names that may have been meant, in a message about an unknown one
SHORTEST_PART = 3  # letters by which longer names are found
SAME_DISTANCE = 0.1  # ratios of similarity that differ by less are about the same
MOST_SHOWN = 200  # characters of a value in a message: a path is shown in full, a file as a value is not


def shown(value: object, most: int = MOST_SHOWN) -> str:
    """Return a value for a message: on one line, not too long, and in quotes where it would not be seen."""
    try:
        text = str(value)
    except ValueError:  # Python does not write whole numbers of thousands of digits
        return "a number of thousands of digits"
    line = one_line(text)
    if line != text or text != text.strip() or not text:
        line = f'"{line}"'
    return shortened(line, most)


def shortened(text: str, most: int) -> str:
    """Return text without its middle part, if it has more than ``most`` characters."""
    if len(text) <= most:
        return text
    return f"{text[: most // 4]}…{text[-most // 4 :]} ({len(text):,} characters)"


def one_line(text: str) -> str:
    """Return text with escapes, as Python writes them, for line feeds and all else that is not printable."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def restored_error(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    """Return an error that was pickled or copied, as `PicklableError` takes it apart."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class PicklableError(BaseException):
    """An error that can be pickled and copied, whatever arguments its class takes.

    Python would call the class with the message alone. Where that fails, as in an answer of a worker process,
    `multiprocessing.Pool` waits for ever.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return restored_error, (type(self), self.args, self.__dict__)


class UserError(PicklableError, Exception):
    """A mistake the user can correct; the message is one line that says what is wrong and what is allowed."""


class InputError(UserError, ValueError):
    """A parameter outside its range: which one, its value, and what is allowed.

    The parts are kept separately so that the command line can name its option (``--group-size``) where
    Python names the parameter (``group_size``).
    """

    def __init__(self, parameter: str, value: object, allowed: str) -> None:
        self.parameter, self.value, self.allowed = parameter, value, allowed
        super().__init__(self.described(str, " = "))

    def rename(self, parameter: str) -> None:
        """Give the parameter another name, also in the message."""
        self.parameter = parameter
        self.args = (self.described(str, " = "),)

    def described(self, name: Callable[[str], str], sign: str = " ", known: Container[str] = ()) -> str:
        """Return the message with parameters written as ``name`` returns them, and ``sign`` before a value.

        In what is allowed, those of the ``known`` parameters are rewritten that have an underscore, as in
        ``below radio_radius_m``, or a value, as in ``used with backend=torch``.
        """
        return f"{name(self.parameter)}{sign}{shown(self.value)}: {self.requirement(name, sign, known)}"

    def requirement(self, name: Callable[[str], str], sign: str = " ", known: Container[str] = ()) -> str:
        """Return what the parameter must be, without its own name and value."""
        return f"must be {self._rewritten(name, sign, known)}"

    def _rewritten(self, name: Callable[[str], str], sign: str, known: Container[str]) -> str:
        def rewrite(word: re.Match[str]) -> str:
            parameter, equals = word.groups()
            if parameter not in known or not ("_" in parameter or equals):
                return word[0]
            return name(parameter) + (sign if equals else "")

        return re.sub(r"\b([a-z]\w*)(=?)", rewrite, self.allowed)


class ConflictError(InputError):
    """Two parameters that cannot be given together."""

    def __init__(self, parameter: str, other: str, hint: str = "") -> None:
        self.parameter, self.other, self.hint = parameter, other, hint
        self.reason = f"when {other} is given"
        self.value, self.allowed = None, f"omitted {self.reason}"
        UserError.__init__(self, self.described(str))

    def described(self, name: Callable[[str], str], sign: str = " ", known: Container[str] = ()) -> str:
        """Return the message with both parameters written as ``name`` returns them."""
        return f"{name(self.parameter)} {self.requirement(name, sign, known)}"

    def requirement(self, name: Callable[[str], str], sign: str = " ", known: Container[str] = ()) -> str:  # noqa: ARG002
        """Return the message without the name of the first parameter."""
        hint = f"; {self.hint}" if self.hint else ""
        return f"cannot be combined with {name(self.other)}{hint}"


class MissingError(InputError):
    """A parameter that must be given, and what it must be."""

    def __init__(self, parameter: str, allowed: str) -> None:
        super().__init__(parameter, None, allowed)

    def described(self, name: Callable[[str], str], sign: str = " ", known: Container[str] = ()) -> str:
        """Return the message with parameters written as ``name`` returns them."""
        return f"{name(self.parameter)} is missing; it {self.requirement(name, sign, known)}"


class NoEffectError(InputError):
    """An option that the other options leave without effect."""

    def __init__(self, parameter: str, value: object, reason: str) -> None:
        self.reason = reason
        super().__init__(parameter, value, f"omitted {reason}")


def refuse_unknown_name(kind: str, name: str, known: Iterable[str], *, dashes: bool = False) -> None:
    """Raise a UserError that suggests the nearest known names, at most three, if ``name`` is not known.

    Dashes and underscores are the same; the message writes the known names as ``name`` is written, which
    with neither has ``dashes`` or not.
    """
    has_dashes = "-" in name or (dashes and "_" not in name)
    names = [one.replace("_", "-") if has_dashes else one for one in known]
    if name not in names:
        raise UserError(f"unknown {kind} {shown(name)}{nearest_names(name, names)}")


def nearest_names(name: str, known: Iterable[str], texts: Mapping[str, str] | None = None) -> str:
    """Return the end of a message about an unknown name: what may have been meant, at most three names.

    Names of which it is the initials; else those that are similar or contain it; else those that have it as a
    word in their text. Dashes at the beginning, as those of flags, are not compared, and capital letters are
    as small ones.
    """
    name, names = name.lstrip("-").lower(), {one.lstrip("-").lower(): one for one in known}
    close = difflib.get_close_matches(name, names, MOST_SUGGESTED)
    if not close and len(name) >= SHORTEST_PART:
        close = [one for one in names if name in one][:MOST_SUGGESTED]
    likely = [one for one in names if _initials(one) == name][:MOST_SUGGESTED]
    if close and not likely:  # the first is the nearest; others are shown only if they are about as near
        near = [difflib.SequenceMatcher(None, one, name).ratio() for one in close]
        likely = [one for one, ratio in zip(close, near, strict=True) if ratio > near[0] - SAME_DISTANCE]
    meant = [names[one] for one in likely] or _with_word(name, texts or {})
    if not meant:
        return ": no known name is similar"
    *first, last = meant
    return f": did you mean {', '.join(first)}{' or ' if first else ''}{last}?"


def _initials(name: str) -> str:
    """Return the first letters of a name of several words, "" for one word."""
    words = [word for word in re.split("[-_]", name) if word]
    return "".join(word[0] for word in words) if len(words) > 1 else ""


def _with_word(word: str, texts: Mapping[str, str]) -> list[str]:
    """Return the names whose text has a word, at most three: those in which it comes first."""
    found = ((re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE), one) for one, text in texts.items())
    places = sorted((match.start(), one) for match, one in found if match)
    return [one for _, one in places[:MOST_SUGGESTED]] if len(word) >= SHORTEST_PART else []
