"""The distributions: complete, usable after an installation from them alone, and without a common file."""

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path, PurePosixPath

import cyclopts
import pytest

pytest.importorskip("build")
pytest.importorskip("hatchling")

ROOT = Path(__file__).parents[1]
NOT_SHIPPED = {".ci", ".github"}
PLAN = "plan --devices 6 --compute-slots 2 --deadline 100"
LOAD = "import slotwise.data as d; print(d.__file__, len(d.load_mnist().train_targets))"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a new sdist and of the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of slotwise-device."""
    folder = tmp_path_factory.mktemp("device")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*build, str(ROOT / "deploy/device")], check=True, capture_output=True)
    (wheel,) = folder.iterdir()
    return wheel


@pytest.mark.slow
def test_the_sdist_holds_every_tracked_file(built: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    tracked = {name for name in listing.stdout.split("\0") if name and (ROOT / name).exists()}
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        shipped = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in archive.getnames()}
    assert {name for name in tracked - shipped if PurePosixPath(name).parts[0] not in NOT_SHIPPED} == set()
    assert not {name for name in shipped if PurePosixPath(name).parts[0] in NOT_SHIPPED}


def output(*command: str | Path, folder: Path) -> str:
    """What a command prints in a folder, without the variables that change where Python finds packages."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=folder, env=variables, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "pattern"), [("wheel", "*.whl"), ("sdist", "*.tar.gz")])
def test_the_size_is_the_one_that_is_stated(built: Path, kind: str, pattern: str) -> None:
    stated = re.search(
        rf"\b{kind} (?:has )?([\d.]+) MB", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    )
    assert stated is not None
    (archive,) = built.glob(pattern)
    assert archive.stat().st_size / 1e6 == pytest.approx(float(stated[1]), rel=0.1)


@pytest.mark.slow
def test_metadata_and_contents_pass_the_checks_of_a_package_index(built: Path, device: Path) -> None:
    output(sys.executable, "-m", "twine", "check", "--strict", *built.iterdir(), device, folder=built)
    output(sys.executable, "-m", "check_wheel_contents", *built.glob("*.whl"), device, folder=built)


class Environment:
    """A new environment with the dependencies of this one: no network is needed."""

    def __init__(self, path: Path) -> None:
        self.path, self.python = path, path / "bin/python"
        venv.create(path, symlinks=True)
        # The .pth files of a folder that a .pth file names are not read, so an editable slotwise stays out.
        (packages,) = path.glob("lib/python*/site-packages")
        (packages / "dependencies.pth").write_text(str(Path(cyclopts.__file__).parents[1]), encoding="utf-8")

    def install(self, *wheels: Path) -> None:
        self._pip("install", "--no-index", "--no-deps", *wheels)

    def uninstall(self, name: str) -> None:
        self._pip("uninstall", "--yes", name)

    def _pip(self, command: str, *arguments: str | Path) -> None:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(self.python)]
        output(*pip, command, "--quiet", *arguments, folder=self.path)

    def imports(self) -> str:
        """The folder in site-packages from which slotwise is imported."""
        code = "import slotwise.cli, pathlib; print(pathlib.Path(slotwise.__file__).parents[1].name)"
        return output(self.python, "-c", code, folder=self.path).strip()


def files_of(wheel: Path) -> set[str]:
    """The files that a wheel installs, with its programs."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (entries,) = (name for name in names if name.endswith("entry_points.txt"))
        programs = re.findall(r"^([\w-]+) *=", archive.read(entries).decode(), re.MULTILINE)
    return {name for name in names if ".dist-info/" not in name} | {f"bin/{name}" for name in programs}


@pytest.mark.slow
def test_slotwise_and_slotwise_device_share_no_file_and_can_be_installed_together(
    built: Path, device: Path, tmp_path: Path
) -> None:
    (slotwise,) = built.glob("*.whl")
    assert files_of(slotwise) & files_of(device) == set()
    environment = Environment(tmp_path / "environment")
    environment.install(slotwise)
    environment.install(device)
    assert environment.imports() == "site-packages"
    environment.uninstall("slotwise")
    assert environment.imports() == "slotwise_device"
    environment.install(slotwise)
    environment.uninstall("slotwise-device")
    assert environment.imports() == "site-packages"


@pytest.mark.slow
def test_slotwise_installed_from_the_sdist_plans_and_reads_its_data(built: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(*built.glob("*.whl"))
    python, program = environment.path / "bin/python", environment.path / "bin/slotwise"
    assert "idfl" in output(program, *PLAN.split(), folder=tmp_path).lower()
    path, samples = output(python, "-c", LOAD, folder=tmp_path).split()
    assert Path(path).is_relative_to(environment.path)
    assert samples == "60000"
