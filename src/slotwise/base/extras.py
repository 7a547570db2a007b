"""Packages that come with extras of slotwise: which extra has one, and the error if it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from slotwise.base.errors import UserError

# Packages that are imported where they are needed, and the extra to install.
EXTRAS = {
    **dict.fromkeys(("numba", "llvmlite", "pooch", "cloudpickle", "matplotlib", "plotly"), "research"),
    **{name: name for name in ("torch", "pandas", "datasets", "ray")},
    **dict.fromkeys(("starlette", "uvicorn"), "web"),
    "cryptography": "mqtt",
    "flwr": "flower",
}
# Models of a run that such packages bring, beside those of `learning.models`: module:class.
MODELS = ("slotwise.flower.project:FlowerApp",)


class MissingPackage(UserError):
    """A package of an extra is needed and is not installed."""


def require(*packages: str) -> None:
    """Raise an error that names the extra to install if a package is missing; nothing is imported.

    Call it before the package is imported, and before anything is written for which it will be needed.
    """
    for package in packages:
        if not is_installed(package):
            raise _missing(package)


def is_installed(package: str) -> bool:
    """Return whether a package can be found."""
    try:
        return find_spec(package) is not None
    except (ModuleNotFoundError, ValueError):  # hidden by an import hook, or replaced by a stand-in
        return False


@contextmanager
def importing() -> Iterator[None]:
    """Turn a failed import of a package of an extra into an error that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise _missing(package) from None


def _missing(package: str) -> MissingPackage:
    return MissingPackage(f"{package} is not installed: pip install 'slotwise[{EXTRAS[package]}]'")
