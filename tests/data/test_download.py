import hashlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.data import DataError, Dataset, cifar10, cifar10_path, fetch_cifar10, import_cifar10

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
        monkeypatch.setattr(cifar10, "OFFICIAL_ADDRESS", address)
        yield folder
        host.shutdown()


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar10, "OFFICIAL_ADDRESS", UNREACHABLE)


@pytest.fixture
def served(server: Path, tiny: Any, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The official host has the archive."""
    content = pack(tiny.binary()).read_bytes()
    (server / "cifar-10-binary.tar.gz").write_bytes(content)
    monkeypatch.setattr(cifar10, "OFFICIAL_MD5", hashlib.md5(content).hexdigest())


@pytest.mark.usefixtures("served")
def test_the_official_archive_is_fetched_kept_and_fetched_again_if_damaged(tiny: Any, cache: Path) -> None:
    fetched = fetch_cifar10(progress=False, expected=tiny.expected)
    assert fetched.content_hash == tiny.expected.content_hash
    assert list(cache.iterdir()) == [cifar10_path()]
    cifar10_path().write_bytes(b"damaged")
    assert fetch_cifar10(progress=False, expected=tiny.expected).content_hash == tiny.expected.content_hash


@pytest.mark.usefixtures("served", "cache")
def test_progress_tells_where_the_data_comes_from_if_asked(
    tiny: Any, capfd: pytest.CaptureFixture[str], cache: Path
) -> None:
    fetch_cifar10(expected=tiny.expected)
    told = capfd.readouterr()
    assert "CIFAR-10: downloading http://127.0.0.1" in told.err
    assert told.out == ""
    fetch_cifar10(progress=False, expected=tiny.expected)
    assert capfd.readouterr() == ("", "")


def test_a_copy_that_is_here_is_not_fetched_again(
    tiny: Any, pack: Pack, cache: Path, unreachable: None
) -> None:
    import_cifar10(pack(tiny.binary()), expected=tiny.expected)
    fetch_cifar10(progress=False, expected=tiny.expected)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"<html>please log in</html>", "sent a file of md5"), (None, "cannot be reached")],
)
def test_what_the_host_does_not_have_is_not_used(
    cache: Path, server: Path, content: bytes | None, reason: str
) -> None:
    if content is not None:
        (server / "cifar-10-binary.tar.gz").write_bytes(content)
    told = f"cannot be fetched: http://127.* {reason}.*; .* `slotwise data import cifar10 PATH`"
    with pytest.raises(DataError, match=told):
        fetch_cifar10(progress=False)
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("unreachable")
def test_a_cache_that_cannot_be_written_is_named_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SLOTWISE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match="file/cache cannot be written: Not a directory"):
        fetch_cifar10(progress=False)


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
