"""What commands and functions say where a package is missing: what to install, before anything is written."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from slotwise.base import extras
from slotwise.base.errors import UserError
from slotwise.base.extras import EXTRAS, PARTS, SMALL_EXTRAS, MissingPackage, importing, require
from slotwise.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]
# The first extra that has a package is named.
OF_EXTRAS = {package: extra for extra, packages in reversed(EXTRAS.items()) for package in packages if extra}
OF_SLOTWISE = (*EXTRAS[""], *PARTS)
# Modules whose names differ from those of the packages to install.
PACKAGES = {"mlflow": "mlflow-skinny", "paho": "paho-mqtt"}

HIDING = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
SWEEP = "devices = 4\ngroup-size = [1, 2]\ncompute-slots = 2\ndeadline = 20\n"
CHANNEL = "--devices 4 --compute-slots 2 --deadline 20"
RUN = f"{CHANNEL} --group-size 2"
COMMANDS_WITH_EXTRAS = {
    "explore --no-browser": "starlette",
    f"train {RUN} --backend torch --out new": "torch",
    f"train {RUN} --flower-app . --out new": "flwr",
    f"train {RUN} --ray auto --out new": "ray",
    **{
        f"train {RUN} --track {name} --out new": name
        for name in ("wandb", "trackio", "mlflow", "tensorboard")
    },
    "sweep ../torch.toml --out new --quiet": "torch",
    "sweep ../sweep.toml --ray auto --out new --quiet": "ray",
    f"serve {RUN} --out new": "paho",
    f"serve {RUN} --broker mqtt://127.0.0.1:9 --out new": "paho",
    "device --id 1": "paho",
    "fleet --devices 2 --processes 2": "paho",
    "enroll new --devices 2": "cryptography",
    "data fetch femnist": "datasets",
    "data import shakespeare .": "datasets",
}
COMMANDS_OF_SLOTWISE = {
    "reproduce --quick --out new --quiet": "numba",
    "sweep ../sweep.toml --out new --quiet": "numba",
    f"train {RUN} --out new": "numba",
    f"recommend {CHANNEL} --out new --quiet": "numba",
    f"timeline {RUN} --out new.png": "matplotlib",
    "show nothing --out new.png": "matplotlib",
    "bench": "numba",
}
# They need a package at most for a picture.
COMMANDS_WITHOUT = {"plan", "radio", "bound", "calibrate", "rollout"}

RUN_ALL = """
import contextlib, io, json, os, sys
from slotwise.cli.app import run

results = []
for line in sys.stdin.read().splitlines():
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = run(line.split())
    results.append([line, code, out.getvalue(), err.getvalue(), os.listdir()])
print(json.dumps(results))
"""


@pytest.mark.parametrize(
    ("hidden", "commands"),
    [(tuple(OF_EXTRAS), COMMANDS_WITH_EXTRAS), (OF_SLOTWISE, COMMANDS_OF_SLOTWISE)],
    ids=["extras", "slotwise"],
)
def test_a_command_says_what_to_install_in_one_line_and_writes_nothing(tmp_path, hidden, commands):
    done = _python(RUN_ALL, tmp_path, hidden, stdin="\n".join(commands))
    assert done.returncode == 0, done.stderr
    for line, code, out, err, files in json.loads(done.stdout):
        package = commands[line]
        what = f"'slotwise[{OF_EXTRAS[package]}]'" if package in OF_EXTRAS else "slotwise"
        assert (code, out, files) == (2, "", []), line
        assert re.fullmatch(
            rf"slotwise: .*{package} is not installed: pip install {re.escape(what)}\n", err
        ), err


def test_every_command_is_in_one_of_these_tables():
    named = {line.split()[0] for line in (*COMMANDS_WITH_EXTRAS, *COMMANDS_OF_SLOTWISE)}
    assert named | COMMANDS_WITHOUT == set(COMMANDS)


def test_a_page_of_a_live_run_is_refused_before_the_run_begins(tmp_path):
    line = f"serve {RUN} --broker mqtt://127.0.0.1:9 --page --out new"
    done = _python(RUN_ALL, tmp_path, ("starlette",), stdin=line)
    ((_, code, out, err, files),) = json.loads(done.stdout)
    assert (code, out, files) == (2, "", [])
    assert err == "slotwise: starlette is not installed: pip install 'slotwise[web]'\n"


FUNCTIONS = """
import slotwise as sw

scenario = sw.Scenario(devices=4, group_size=2, compute_slots=2, deadline=20)
config = sw.RunConfig.from_options(dict(devices=4, group_size=2, compute_slots=2, deadline=20))
timeline = sw.simulate(scenario, "idfl")
plan = sw.plan(devices=4, compute_slots=2, deadline=20)
history = sw.History((), {}, 0)


def missing(call):
    try:
        call()
    except sw.UserError as error:
        assert "\\n" not in str(error)
        assert " is not installed: pip install " in str(error), error
        return str(error).partition(" is not installed")[0].split()[-1]
    return None

"""
WITHOUT_EXTRAS = """
from types import ModuleType

places = {"sw": sw} | {name: getattr(sw, name) for name in sw.__all__ if name.islower()}
places = {name: place for name, place in places.items() if isinstance(place, ModuleType)}
refused = {
    f"{place}.{name}": missing(lambda: getattr(home, name))
    for place, home in places.items()
    for name in dir(home)
}
of_flower = ("NodesOutcome", "SlotGrid", "StrategyRun", "run_strategy", "serve")
assert {name: package for name, package in refused.items() if package} == {
    "sw.TorchTask": "torch",
    **{f"torch.{name}": "torch" for name in dir(sw.torch)},
    **{f"flower.{name}": "flwr" for name in of_flower},
    **{f"gym.{name}": "gymnasium" for name in dir(sw.gym)},
}
calls = {
    "starlette": [lambda: sw.explore()],
    "pandas": [timeline.to_pandas, plan.to_pandas, history.to_pandas],
    "ray": [lambda: sw.run(config, "new", workers=sw.learning.RayActors("auto")),
            lambda: sw.run_batch("../sweep.toml", "new", executor="ray:auto")],
    "torch": [lambda: sw.run(config.with_options(backend="torch"), "new")],
    "flwr": [lambda: sw.flower_task(".", devices=2)],
    "paho": [lambda: sw.serve(config, "new"), lambda: sw.live.serve(config, "new")],
    "datasets": [lambda: sw.data.fetch_dataset("femnist"), lambda: sw.data.import_dataset("femnist", ".")],
    "wandb": [lambda: sw.tracker("wandb")],
    "trackio": [lambda: sw.tracker("trackio")],
    "mlflow": [lambda: sw.tracker("mlflow")],
    "tensorboard": [lambda: sw.tracker("tensorboard")],
}
for package, functions in calls.items():
    assert [missing(call) for call in functions] == [package] * len(functions), package
"""
WITHOUT_SLOTWISES_OWN = """
calls = [
    lambda: sw.run(config, "new"),
    lambda: sw.reproduce("new", quick=True),
    lambda: sw.recommend(config, out="new"),
    lambda: sw.run_batch("../sweep.toml", "new"),
    lambda: sw.CnnTask,
    timeline.plot,
    plan.plot,
]
packages = {missing(call) for call in calls}
assert packages == {"numba", "matplotlib"}, packages
"""


@pytest.mark.parametrize(
    ("hidden", "calls"),
    [(tuple(OF_EXTRAS), WITHOUT_EXTRAS), (OF_SLOTWISE, WITHOUT_SLOTWISES_OWN)],
    ids=["extras", "slotwise"],
)
def test_functions_say_it_too(tmp_path, hidden, calls):
    done = _python(FUNCTIONS + calls, tmp_path, hidden)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "empty").iterdir()) == []


def test_only_extras_that_are_missing_are_named():
    require("numba", "matplotlib")
    with pytest.raises(ModuleNotFoundError), importing():
        import a_module_that_is_not_there  # noqa: F401
    with pytest.raises(MissingPackage, match=r"^pandas .*slotwise\[pandas\]") as caught, importing():
        raise ModuleNotFoundError(name="pandas.core")
    assert isinstance(caught.value, UserError)
    with pytest.raises(MissingPackage, match=r"^numba is not installed: pip install slotwise$"), importing():
        raise ModuleNotFoundError(name="llvmlite.binding")


def test_the_distribution_for_devices_names_its_own_extras_and_what_it_has_not(monkeypatch):
    monkeypatch.setattr(extras, "IS_SMALL", True)
    with (
        pytest.raises(MissingPackage, match=r"^numba .*pip install 'slotwise-device\[networks\]'$"),
        importing(),
    ):
        raise ModuleNotFoundError(name="numba")
    with pytest.raises(MissingPackage, match=r"^slotwise\.web is not part of slotwise-device"), importing():
        raise ModuleNotFoundError(name="slotwise.web")


@pytest.mark.parametrize(
    ("file", "declared"),
    [("pyproject.toml", EXTRAS), ("deploy/device/pyproject.toml", SMALL_EXTRAS)],
    ids=["slotwise", "device"],
)
def test_the_extras_are_those_of_the_distribution(file, declared):
    project = tomllib.loads((ROOT / file).read_text(encoding="utf-8"))["project"]
    optional = {extra: " ".join(names) for extra, names in project["optional-dependencies"].items() if names}
    assert set(declared) - {""} == set(optional) - {"device"}  # the client alone, which mqtt contains
    for extra, modules in declared.items():
        names = (
            " ".join(project["dependencies"])
            if not extra
            else optional[extra].replace("slotwise[device]", optional.get("device", ""))
        )
        for module in modules:
            assert re.search(rf"(?<![\w-]){PACKAGES.get(module, module)}\b", names), module


def _python(
    code: str, folder: Path, hidden: tuple[str, ...], stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run Python in ``folder``/empty as if the hidden packages were not installed."""
    (folder / "sitecustomize.py").write_text(HIDING.format(hidden=hidden))
    (folder / "sweep.toml").write_text(SWEEP)
    (folder / "torch.toml").write_text(f'{SWEEP}backend = "torch"\n')
    (folder / "empty").mkdir()
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "SLOTWISE_CACHE": str(folder / "cache")},
        cwd=folder / "empty",
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
