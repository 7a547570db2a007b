"""The source distribution: complete, and usable after an installation from it alone."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path, PurePosixPath

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
def test_metadata_and_contents_pass_the_checks_of_a_package_index(built: Path) -> None:
    output(sys.executable, "-m", "twine", "check", "--strict", *built.iterdir(), folder=built)
    output(sys.executable, "-m", "check_wheel_contents", *built.glob("*.whl"), folder=built)


@pytest.mark.slow
def test_slotwise_installed_from_the_sdist_plans_and_reads_its_data(built: Path, tmp_path: Path) -> None:
    # The dependencies are those of this environment, so no network is needed; `make dist` installs them too.
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    python, program = environment / "bin/python", environment / "bin/slotwise"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    output(*pip, "install", "--quiet", "--no-index", "--no-deps", *built.glob("*.whl"), folder=tmp_path)
    # The .pth files of a folder that a .pth file names are not read, so an editable slotwise stays out.
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")

    assert "idfl" in output(program, *PLAN.split(), folder=tmp_path).lower()
    path, samples = output(python, "-c", LOAD, folder=tmp_path).split()
    assert Path(path).is_relative_to(environment)
    assert samples == "60000"
