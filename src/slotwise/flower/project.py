"""FlowerProject: a folder in the form that ``flwr new`` makes; FlowerApp: one as the model of a run.

Flower is imported only when `flower_task` is called.
"""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from slotwise.base.errors import InputError, UserError, refuse_unknown_name
from slotwise.base.extras import importing
from slotwise.base.user_code import describe_error, is_function_name
from slotwise.learning.models import Model, Seed
from slotwise.options.checks import LARGEST_SEED, whole

if TYPE_CHECKING:
    from flwr.app import ArrayRecord
    from flwr.clientapp import ClientApp

    from slotwise.flower.task import EvaluateFunction, FlowerTask
    from slotwise.learning.task import Task

OVERRIDE = re.compile(r"""(?<!\S)([^\s=]+)=("[^"]*"|'[^']*'|[^\s'"]\S*)(?!\S)""")
COMPONENTS = ("serverapp", "clientapp")
Scalar = str | int | float | bool


@dataclass(frozen=True)
class FlowerProject:
    """A Flower project as its pyproject.toml describes it.

    Attributes:
        folder: The folder with pyproject.toml, as an absolute path.
        name: Name of the project, for messages.
        components: The names of ServerApp and ClientApp, module:attribute.
        run_config: The table [tool.flwr.app.config] with the overrides; nested keys are joined by dots.
    """

    folder: str
    name: str
    components: dict[str, str]
    run_config: dict[str, Scalar]

    @classmethod
    def read(cls, folder: Path | str, overrides: str | Mapping[str, Scalar] | None = None) -> FlowerProject:
        """Read pyproject.toml; ``overrides`` is what ``flwr run --run-config`` takes: "key=value key=value".

        Raises:
            InputError: the folder is no Flower project, or an override is no key of its configuration.
        """
        path = Path(folder).absolute()
        app = _app_table(folder, path / "pyproject.toml")
        table = app.get("components")
        components: dict[str, Any] = table if isinstance(table, dict) else {}
        for name in COMPONENTS:
            value = components.get(name)
            if not isinstance(value, str) or not _is_reference(value):
                found = f"{folder}: {name} = {value!r}" if value is not None else f"{folder} without {name}"
                allowed = f"a project whose [tool.flwr.app.components] has {name} = 'module:attribute'"
                raise InputError("flower_app", found, allowed)
        config = _flattened(app.get("config", {}))
        given = dict(overrides) if isinstance(overrides, Mapping) else parse_overrides(overrides)
        for key, value in given.items():
            refuse_unknown_name("key of flower_config", key, config)
            config[key] = value
        return cls(str(path), path.name, {name: components[name] for name in COMPONENTS}, config)

    def load(self, component: str) -> Any:
        """Import a component; a ClientApp or ServerApp is not called yet.

        Raises:
            InputError: there is no such module or attribute.
            UserError: importing it fails, or another project's module has the same name.
        """
        reference = self.components[component]
        module_name, _, attributes = reference.partition(":")
        module = self._module(component, reference, module_name)
        found: Any = module
        for name in attributes.split("."):
            if not hasattr(found, name):
                raise InputError("flower_app", f"{component} {reference}", f"importable: it has no {name}")
            found = getattr(found, name)
        return found

    def _module(self, component: str, reference: str, name: str) -> Any:
        if self.folder not in sys.path:
            sys.path.insert(0, self.folder)
        top = name.partition(".")[0]
        loaded = sys.modules.get(top)
        place = _place(loaded)
        if loaded is not None and place is not None and not place.is_relative_to(self.folder):
            raise UserError(f"flower_app {self.folder}: another module {top} is imported already: {place}")
        try:
            return importlib.import_module(name)
        except (Exception, SystemExit) as error:
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            if missing is not None and f"{name}.".startswith(f"{missing}."):
                allowed = f"importable: there is no module {missing} in {self.folder}"
                raise InputError("flower_app", f"{component} {reference}", allowed) from None
            failure = describe_error(error)
            raise UserError(f"flower_app {component} {reference}: import failed: {failure}") from error


@dataclass(frozen=True, kw_only=True)
class FlowerApp(Model):
    """A Flower project, whose ClientApp is trained as it is.

    Attributes:
        flower_app: A Flower project instead of a built-in data set and network: the folder that has its
            pyproject.toml. Its ClientApp is trained as it is.
        flower_config: Values of the Flower app's configuration: "key=value key=value".
        flower_evaluate: Server-side evaluation of a Flower app instead of its own: module:function, called
            with the round and an ArrayRecord.
        model_seed: Random seed of the first model. Default: that of the run.
    """

    chosen_by: ClassVar[str] = "flower_app"
    replaces: ClassVar[tuple[str, ...]] = ("dataset", "training")
    not_live: ClassVar[str] = (
        "omitted: devices on MQTT train no Flower app; slotwise.flower.serve uses Flower's nodes"
    )
    flower_app: str
    flower_config: str | None = None
    flower_evaluate: str | None = None
    model_seed: Seed | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.flower_app, str | Path) or not str(self.flower_app):
            raise InputError("flower_app", self.flower_app, "the folder of a Flower project")
        object.__setattr__(self, "flower_app", str(Path(self.flower_app).absolute()))
        super().__post_init__()
        name = self.flower_evaluate
        if name is not None and not is_function_name(name):
            raise InputError("flower_evaluate", name, "module:function, as in my_app.server_app:evaluate")

    @classmethod
    def devices_in(cls, options: Mapping[str, Any]) -> int | None:
        """Return the number of nodes in the default federation of the project, if it has one."""
        folder = options.get("flower_app")
        return None if folder is None else devices_of(str(folder))

    def check(self) -> None:
        """Read the files of the project; import nothing."""
        FlowerProject.read(self.flower_app, self.flower_config)

    def make_task(self, config: Any) -> Task:
        """Return the ClientApp of the project as a task."""
        return flower_task(
            self.flower_app,
            devices=config.channel.devices,
            seed=config.seed,
            model_seed=config.model_seed,
            run_config=self.flower_config,
            evaluate=self.flower_evaluate,
        )


def flower_task(
    app: str | Path | ClientApp,
    *,
    devices: int,
    seed: int = 0,
    model_seed: int | None = None,
    run_config: str | Mapping[str, Any] | None = None,
    arrays: ArrayRecord | None = None,
    evaluate: str | EvaluateFunction | None = None,
) -> FlowerTask:
    """Return a task that trains an unmodified Flower ClientApp. Needs the extra ``slotwise[flower]``.

    Args:
        app: Folder of a Flower project, whose ServerApp gives the first model and the configuration; or a
            ClientApp.
        devices: Number of devices, which the app sees as partitions.
        seed: Seed of the global random generators in the app.
        model_seed: Seed of the first model, for a ServerApp that draws it. Default: ``seed``.
        run_config: Values of the app's configuration: "key=value key=value", or a mapping.
        arrays: First model; needed for a ClientApp object, and instead of the ServerApp's in a project.
        evaluate: Server-side evaluation, ``evaluate(server_round, arrays)``, instead of the app's own: a
            function, or "module:function", which is also searched in the project.

    Raises:
        UserError: the project is incomplete, or one of its apps fails.
    """
    with importing():
        from slotwise.flower.task import object_task, project_task  # noqa: PLC0415  (they import Flower)

    whole("devices", devices)
    whole("seed", seed, 0, LARGEST_SEED)
    start = whole("model_seed", seed if model_seed is None else model_seed, 0, LARGEST_SEED)
    if not isinstance(app, str | Path):
        return object_task(app, devices, seed, run_config, arrays, evaluate)
    project = FlowerProject.read(app, run_config)
    return project_task(project, devices, seed, start, arrays, evaluate)


def devices_of(folder: Path | str) -> int | None:
    """Return the number of SuperNodes that a project's default federation simulates, if its file says so."""
    path = Path(folder) / "pyproject.toml"
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        federations = document["tool"]["flwr"]["federations"]
        found = federations[federations["default"]]["options"]["num-supernodes"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, int) and found > 0 else None


def parse_overrides(text: str | None) -> dict[str, Scalar]:
    """Return the values in "key=value key=value"; a value is TOML, and text may do without quotes."""
    found: dict[str, Scalar] = {}
    rest = OVERRIDE.sub("", text or "").split()
    if rest:
        raise InputError("flower_config", rest[0], "key=value, as in learning-rate=0.1")
    for key, value in OVERRIDE.findall(text or ""):
        try:
            parsed = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parsed = value
        if not isinstance(parsed, Scalar):
            raise InputError("flower_config", f"{key}={value}", "a number, a text, true or false")
        found[key] = parsed
    return found


def _app_table(folder: Path | str, path: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError("flower_app", folder, "a folder with a pyproject.toml") from None
    except OSError as error:
        raise InputError("flower_app", folder, f"readable: {error.strerror or error}") from None
    except ValueError as error:  # also text that is not UTF-8
        raise InputError("flower_app", path, f"valid TOML: {error}") from None
    table: Any = document
    for name in ("tool", "flwr", "app"):
        table = table.get(name) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise InputError("flower_app", folder, "a Flower project: its pyproject.toml has no [tool.flwr.app]")
    return table


def _flattened(table: object, prefix: str = "") -> dict[str, Scalar]:
    if not isinstance(table, dict):
        raise InputError("flower_app", "[tool.flwr.app.config]", "a table")
    found: dict[str, Scalar] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= _flattened(value, f"{prefix}{key}.")
        elif isinstance(value, Scalar):
            found[prefix + key] = value
        else:
            raise InputError("flower_app", f"{prefix}{key} = {value!r}", "a number, a text, true or false")
    return found


def _is_reference(text: str) -> bool:
    module, separator, attributes = text.partition(":")
    names = (*module.split("."), *attributes.split("."))
    return bool(separator) and all(name.isidentifier() for name in names)


def _place(module: Any) -> Path | None:
    """Return the file of a module, or the folder of a package without one."""
    if module is None:
        return None
    file = getattr(module, "__file__", None)
    places = [file] if file else list(getattr(module, "__path__", ()))
    return Path(places[0]).absolute() if places else None
