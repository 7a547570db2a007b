"""Download one file with a progress bar and check its md5 sum."""

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from slotwise.data.dataset import DataError
from slotwise.extras import importing

with importing():
    import pooch

TIMEOUTS = (4.0, 20.0)  # seconds to connect, and between two parts of an answer


def download_file(address: str, path: Path, md5: str, console: Console, title: str) -> None:
    """Download a file, or raise a DataError if the host cannot be reached or sends something else."""
    bar = _Bar(console, title)
    try:
        pooch.HTTPDownloader(progressbar=bar, chunk_size=2**16, timeout=TIMEOUTS)(address, str(path), None)
    except OSError as error:
        raise DataError(f"{address} cannot be reached ({type(error).__name__})") from None
    finally:
        bar.stop()
    found = pooch.file_hash(str(path), alg="md5")
    if found != md5:
        raise DataError(f"{address} sent a file of md5 {found}, must be {md5}")


class _Bar:
    """Progress bar with the interface that pooch expects, drawn by rich once the host answers."""

    def __init__(self, console: Console, title: str) -> None:
        columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
        self._progress = Progress(*columns, console=console)
        self._task = self._progress.add_task(title)
        self.stop = self._progress.stop

    @property
    def total(self) -> float | None:
        return self._progress.tasks[self._task].total

    @total.setter
    def total(self, size: int) -> None:
        self._progress.update(self._task, total=size or None)
        self._progress.start()

    def update(self, size: int) -> None:
        self._progress.advance(self._task, size)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        self._progress.refresh()
