"""slotwise-device: its wheel, in an environment of its own, against a broker and a server of slotwise."""

import ast
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import cyclopts
import pytest
from processes import HERE, Mosquitto, Trial

pytest.importorskip("build")
pytest.importorskip("hatchling")
pytestmark = pytest.mark.slow

SOURCE = Path(__file__).parents[3] / "deploy/device"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, SOURCE]
    subprocess.run(build, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory):
    """The folder of programs of an environment with the wheel, and the dependencies of this one."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", environment / "bin/python", "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", wheel], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(str(Path(cyclopts.__file__).parents[1]), encoding="utf-8")
    return environment / "bin"


def modules(wheel):
    """The modules in the wheel, and their source."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".py"):
                path = name.removeprefix("slotwise_device/").removesuffix(".py").removesuffix("/__init__")
                yield path.replace("/", "."), archive.read(name).decode()


def imported(tree):
    """The modules of slotwise that are imported, but for those that only a type checker imports."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("slotwise"):
            yield node.module
        yield from imported(node)


def test_the_wheel_has_all_modules_that_its_own_import(wheel):
    sources = dict(modules(wheel))
    needed = {name for source in sources.values() for name in imported(ast.parse(source))}
    assert needed - set(sources) == set()
    assert not {"slotwise.web", "slotwise.paper", "slotwise.report", "slotwise.cli.train"} & set(sources)


def run(*command):
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [*map(str, command)], cwd=HERE, env=variables, capture_output=True, text=True, check=False
    )


def test_a_device_takes_part_in_a_run(programs, tmp_path):
    broker = Mosquitto(tmp_path)
    trial = Trial(tmp_path, broker)
    try:
        server = trial.serve(devices=2, group_size=1)
        trial.device(2)
        done = run(programs / "slotwise-device", *trial.where, "--id", 1, "--task", "tasks:make")
        assert done.returncode == 0, done.stderr
        server.ends()
        assert {device for _, device, _ in trial.uplinks} == {1, 2}
        assert trial.serious_rejections == []
    finally:
        trial.close()
        broker.kill()


def test_what_is_not_part_of_it_is_refused_in_one_line(programs):
    done = run(programs / "python", "-m", "slotwise", "plan")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(" is not part of slotwise-device: pip install slotwise\n")
    assert len(done.stderr.splitlines()) == 1
    done = run(programs / "slotwise-device", "--nothing")
    assert done.stderr.endswith("(see python -m slotwise device --help)\n")
    assert run(programs / "python", "-m", "slotwise", "--version").stdout.startswith("slotwise 0.")
