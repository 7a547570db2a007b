"""The source distribution: complete, and usable after an installation from it alone."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path, PurePosixPath

import pytest

pytest.importorskip("hatchling")

ROOT = Path(__file__).parents[1]
NOT_SHIPPED = {".ci", ".github"}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (path,) = folder.iterdir()
    return path


@pytest.mark.slow
def test_the_sdist_holds_every_tracked_file(sdist: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    tracked = {name for name in listing.stdout.split("\0") if name and (ROOT / name).exists()}
    with tarfile.open(sdist) as archive:
        shipped = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in archive.getnames()}
    assert {name for name in tracked - shipped if PurePosixPath(name).parts[0] not in NOT_SHIPPED} == set()
    assert not {name for name in shipped if PurePosixPath(name).parts[0] in NOT_SHIPPED}


@pytest.mark.slow
def test_slotwise_installed_from_the_sdist_plans_and_reads_its_data(sdist: Path, tmp_path: Path) -> None:
    """Uses the dependencies of this environment, so that it needs no network; `make dist` installs them as well."""
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    python = environment / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "install"]
    subprocess.run([*pip, "--no-index", "--no-deps", "--no-build-isolation", str(sdist)], check=True, capture_output=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    # A folder named by a .pth file does not have its own .pth files read, so an editable slotwise stays out.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")

    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    run = {"cwd": tmp_path, "env": variables, "check": True, "capture_output": True, "text": True}
    plan = "plan --devices 6 --compute-slots 2 --deadline 100"
    done = subprocess.run([environment / "bin/slotwise", *plan.split()], **run)
    assert "idfl" in done.stdout.lower()
    load = (
        "import slotwise, slotwise.data as data; print(slotwise.__file__); "
        "print(len(data.load_mnist().train_targets))"
    )
    path, samples = subprocess.run([python, "-c", load], **run).stdout.split()
    assert Path(path).is_relative_to(environment)
    assert samples == "60000"
