"""Errors that a user can correct. The command line prints each as one line and exits with code 2."""

from __future__ import annotations

from collections.abc import Callable


class UserError(Exception):
    """A mistake the user can correct; the message is one line that says what is wrong and what is allowed."""


class InputError(UserError, ValueError):
    """A parameter outside its range: which one, its value, and what is allowed.

    The parts are kept separately so that the command line can name its option (``--group-size``) where
    Python names the parameter (``group_size``).
    """

    def __init__(self, parameter: str, value: object, allowed: str) -> None:
        self.parameter, self.value, self.allowed = parameter, value, allowed
        super().__init__(f"{parameter} = {value}: must be {allowed}")

    def described(self, name: Callable[[str], str]) -> str:
        """Return the message with parameters written as ``name`` returns them."""
        return f"{name(self.parameter)} {self.value}: must be {self.allowed}"


class ConflictError(InputError):
    """Two parameters that cannot be given together."""

    def __init__(self, parameter: str, other: str, hint: str = "") -> None:
        self.parameter, self.other, self.hint = parameter, other, hint
        self.value, self.allowed = None, f"omitted when {other} is given"
        UserError.__init__(self, self.described(str))

    def described(self, name: Callable[[str], str]) -> str:
        """Return the message with both parameters written as ``name`` returns them."""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{name(self.parameter)} cannot be combined with {name(self.other)}{hint}"
