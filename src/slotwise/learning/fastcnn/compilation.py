"""How the kernels are compiled: three typed names for numba's decorator."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a kernel that other compiled code calls."""
    return cast(Function, njit(function, error_model="numpy"))


def inlined(function: Function) -> Function:
    """Copy a function into those that call it.

    For the passes above the kernels. Numba optimises a function once more in each function that calls it, so
    every level of calls between kernels and entry that is not there saves seconds of compilation.
    """
    return cast(Function, njit(function, error_model="numpy", inline="always"))


def entry(function: Function) -> Function:
    """Compile a function that Python calls: it runs without the interpreter lock, and is kept on disk.

    Give it a last parameter ``_sources: str = SOURCES``, see there.
    """
    return cast(Function, njit(function, error_model="numpy", nogil=True, cache=True))


def _fingerprint() -> str:
    files = sorted(Path(__file__).parent.glob("*.py"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


SOURCES = _fingerprint()
"""Changes with every file of this package.

Numba compiles again what it kept on disk only if the file of the entry changed, not those of the kernels it
calls. The types of the arguments always count, and the value of a default is part of its type.
"""
