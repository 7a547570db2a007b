"""What commands and functions say in an environment without extras."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slotwise.base.errors import UserError
from slotwise.base.extras import EXTRAS, MissingPackage, importing, require

WITHOUT_EXTRAS = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {tuple(EXTRAS)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
SWEEP = "devices = 4\ngroup-size = [1, 2]\ncompute-slots = 2\ndeadline = 20\n"
CHANNEL = "--devices 4 --compute-slots 2 --deadline 20"


@pytest.mark.parametrize(
    "command",
    [
        "reproduce --quick --out new --quiet",
        "sweep ../sweep.toml --out new --quiet",
        f"train {CHANNEL} --group-size 2 --out new",
        f"train {CHANNEL} --group-size 2 --backend torch --out new",
        f"recommend {CHANNEL} --out new --quiet",
        f"timeline {CHANNEL} --group-size 2 --out new.png",
        "show nothing --out new.png",
        "bench",
        "explore --no-browser",
        "enroll new --devices 2",
    ],
)
def test_a_command_names_the_missing_extra_in_one_line_and_writes_nothing(tmp_path, command):
    (tmp_path / "sweep.toml").write_text(SWEEP)
    (tmp_path / "empty").mkdir()
    done = _python("from slotwise.cli import main; main()", tmp_path, *command.split())
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "is not installed: pip install 'slotwise[" in line
    assert list((tmp_path / "empty").iterdir()) == []


FUNCTIONS = """
import slotwise as sw
from slotwise.base.errors import UserError

scenario = sw.Scenario(devices=4, group_size=2, compute_slots=2, deadline=20)
config = sw.RunConfig.from_options(dict(devices=4, group_size=2, compute_slots=2, deadline=20))
timeline = sw.simulate(scenario, "idfl")
calls = [
    lambda: sw.run(config, "new"),
    lambda: sw.reproduce("new", quick=True),
    lambda: sw.recommend(config, out="new"),
    lambda: sw.run_batch("../sweep.toml", "new"),
    lambda: sw.CnnTask,
    lambda: sw.TorchTask,
    lambda: sw.torch.TorchSamples,
    lambda: timeline.plot(),
    lambda: timeline.to_pandas(),
    lambda: sw.plan(devices=4, compute_slots=2, deadline=20).plot(),
    lambda: sw.explore(),
]
for number, call in enumerate(calls):
    try:
        call()
    except UserError as error:
        assert "is not installed" in str(error), (number, error)
    else:
        raise AssertionError(number)
"""


def test_functions_raise_an_error_of_slotwise(tmp_path):
    (tmp_path / "sweep.toml").write_text(SWEEP)
    (tmp_path / "empty").mkdir()
    done = _python(FUNCTIONS, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_package_that_is_installed_is_not_refused():
    require("numba", "matplotlib")


def test_a_missing_module_of_the_users_is_not_blamed_on_an_extra():
    with pytest.raises(ModuleNotFoundError), importing():
        import a_module_that_is_not_there  # noqa: F401
    with pytest.raises(MissingPackage, match=r"slotwise\[research\]") as caught, importing():
        raise ModuleNotFoundError(name="numba.core")
    assert isinstance(caught.value, UserError)


def _python(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in ``folder``/empty as if no extra were installed."""
    (folder / "sitecustomize.py").write_text(WITHOUT_EXTRAS)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        cwd=folder / "empty",
        capture_output=True,
        text=True,
        check=False,
    )
