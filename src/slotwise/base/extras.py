"""Packages that are installed with slotwise or its extras, and the error if one that is needed is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from slotwise.base.errors import UserError

# Extras, and the modules that come with each; without a name: what comes with slotwise itself.
EXTRAS = {
    "": ("numba", "pooch", "cloudpickle", "matplotlib", "plotly"),
    "torch": ("torch",),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
    "trackio": ("trackio",),
    "mlflow": ("mlflow", "sqlalchemy", "alembic"),
    "pandas": ("pandas",),
    "datasets": ("datasets",),
    "udp": ("cryptography",),
    "mqtt": ("paho", "cryptography"),
    "broker": ("amqtt",),
    "ray": ("ray",),
    "flower": ("flwr",),
    "web": ("starlette", "uvicorn"),
    "gym": ("gymnasium",),
}
# Packages that come with another, which is the one to name.
PARTS = {"llvmlite": "numba"}
# The small distribution for devices, deploy/device, and its extras.
SMALL, SMALL_EXTRAS = (
    "slotwise-device",
    {"networks": ("numba", "pooch"), "torch": ("torch",), "udp": ("cryptography",)},
)
IS_SMALL = Path(__file__).parents[2].name == SMALL.replace("-", "_")
# Models of a run that such packages bring, beside those of `learning.models`: module:class.
MODELS = () if IS_SMALL else ("slotwise.flower.project:FlowerApp",)


class MissingPackage(UserError):
    """A package is needed and is not installed."""


def require(*packages: str, otherwise: str = "") -> None:
    """Raise an error that says what to install (or to do) if a package is missing; nothing is imported.

    Call it before the package is imported, and before anything is written for which it will be needed.
    """
    for package in packages:
        if not is_installed(package):
            raise _missing(package, f", or {otherwise}" if otherwise else "")


def is_installed(package: str) -> bool:
    """Return whether a package can be found."""
    try:
        return find_spec(package) is not None
    except (ModuleNotFoundError, ValueError):  # hidden by an import hook, or replaced by a stand-in
        return False


@contextmanager
def importing() -> Iterator[None]:
    """Turn a failed import of such a package into an error that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        package, _, module = (error.name or "").partition(".")
        if package == "slotwise" and module and IS_SMALL:
            raise MissingPackage(f"{error.name} is not part of {SMALL}: pip install slotwise") from None
        if _extra_of(package, EXTRAS) is None:
            raise
        raise _missing(package) from None


def installed_version() -> str:
    """Return the version of the slotwise that runs."""
    return metadata.version(SMALL if IS_SMALL else "slotwise")


def pip_command(package: str) -> str:
    """Return the command that installs a package, as a part of slotwise."""
    if IS_SMALL and (extra := _extra_of(package, SMALL_EXTRAS)):
        return f"pip install '{SMALL}[{extra}]'"
    extra = _extra_of(package, EXTRAS)
    return f"pip install 'slotwise[{extra}]'" if extra else "pip install slotwise"


def _missing(package: str, hint: str = "") -> MissingPackage:
    name = PARTS.get(package, package)
    return MissingPackage(f"{name} is not installed: {pip_command(package)}{hint}")


def _extra_of(package: str, extras: dict[str, tuple[str, ...]]) -> str | None:
    name = PARTS.get(package, package)
    return next((extra for extra, packages in extras.items() if name in packages), None)
