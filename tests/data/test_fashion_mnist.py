import gzip
import hashlib
import io
import struct
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from slotwise.data import DataError, PartitionedData, image_sets
from slotwise.data.image_sets import (
    FASHION_MNIST_MD5,
    FASHION_MNIST_TIMES,
    fetch_fashion_mnist,
    import_fashion_mnist,
)

UNREACHABLE = "http://127.0.0.1:9"


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def idx(name: str, array: np.ndarray) -> bytes:
    header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    packed, time = io.BytesIO(), FASHION_MNIST_TIMES[name.partition("-")[0]]
    with gzip.GzipFile(name.removesuffix(".gz"), "wb", fileobj=packed, mtime=time) as file:
        file.write(header + array.tobytes())
    return packed.getvalue()


@pytest.fixture
def files() -> dict[str, bytes]:
    draw = np.random.default_rng(0)
    shapes = dict(zip(FASHION_MNIST_MD5, [(30, 28, 28), (30,), (20, 28, 28), (20,)], strict=True))
    return {name: idx(name, draw.integers(10, size=shape).astype(np.uint8)) for name, shape in shapes.items()}


@pytest.fixture
def folder(tmp_path: Path, files: dict[str, bytes]) -> Path:
    place = tmp_path / "files"
    place.mkdir()
    for name, content in files.items():
        (place / name).write_bytes(content)
    return place


@pytest.fixture
def md5(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.md5(content).hexdigest() for name, content in files.items()}


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder))) as host:
        threading.Thread(target=host.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setattr(image_sets, "FASHION_MNIST_HOST", f"http://127.0.0.1:{host.server_port}")
        yield
        host.shutdown()


def test_imported_files_are_kept(folder: Path, md5: dict[str, str], cache: Path) -> None:
    dataset = import_fashion_mnist(folder, md5=md5)
    assert dataset.train_inputs.shape == (30, 1, 28, 28)
    assert dataset.test_inputs.shape == (20, 1, 28, 28)
    assert dataset.classes == 10
    assert PartitionedData(data="fashion-mnist").load().content_hash == dataset.content_hash


def test_fetched_files_are_kept(server: None, md5: dict[str, str], cache: Path) -> None:
    dataset = fetch_fashion_mnist(progress=False, md5=md5)
    assert [path.name for path in cache.iterdir()] == ["fashion-mnist.npz"]
    assert PartitionedData(data="fashion-mnist").load().content_hash == dataset.content_hash


def test_a_kept_copy_is_not_downloaded_again(
    folder: Path, md5: dict[str, str], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = import_fashion_mnist(folder, md5=md5)
    monkeypatch.setattr(image_sets, "FASHION_MNIST_HOST", UNREACHABLE)
    assert fetch_fashion_mnist(progress=False).content_hash == dataset.content_hash


def test_without_a_network_an_import_is_suggested(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_sets, "FASHION_MNIST_HOST", UNREACHABLE)
    with pytest.raises(DataError, match="slotwise data import fashion-mnist PATH"):
        fetch_fashion_mnist(progress=False)
    assert [*cache.iterdir()] == []


def test_other_files_are_refused(folder: Path, cache: Path) -> None:
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz has md5"):
        import_fashion_mnist(folder)
    assert not cache.exists()


def test_other_files_of_the_host_are_refused(server: None, cache: Path) -> None:
    with pytest.raises(DataError, match="sent a file of md5"):
        fetch_fashion_mnist(progress=False)
    assert [*cache.iterdir()] == []


def test_a_missing_file_is_named(folder: Path, md5: dict[str, str], cache: Path) -> None:
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte\.gz cannot be read"):
        import_fashion_mnist(folder, md5=md5)
    assert not cache.exists()


def test_files_without_name_and_time_are_the_original_ones(
    folder: Path, files: dict[str, bytes], md5: dict[str, str], cache: Path
) -> None:
    dataset = import_fashion_mnist(folder, md5=md5)
    for name, content in files.items():
        other_time, rest = bytes(4), content[8:10] + content[10 + len(name.removesuffix(".gz")) + 1 :]
        (folder / name).write_bytes(content[:3] + b"\0" + other_time + rest)
    assert import_fashion_mnist(folder, md5=md5).content_hash == dataset.content_hash

    name = "t10k-labels-idx1-ubyte.gz"
    (folder / name).write_bytes(gzip.compress(gzip.decompress(files[name])[:-1] + b"\7", mtime=0))
    with pytest.raises(DataError, match=r"must be .* the original of Fashion-MNIST"):
        import_fashion_mnist(folder, md5=md5)
