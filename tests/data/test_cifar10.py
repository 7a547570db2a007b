from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slotwise.data import DataError, cifar10_path, import_cifar10, load_cifar10

Pack = Callable[..., Path]
REMEDY = "run `slotwise data fetch cifar10` or `slotwise data import cifar10 PATH`"


def test_where_it_is_absent_the_error_says_how_to_get_it(cache: Path) -> None:
    with pytest.raises(DataError, match=rf"cifar10.npz does not exist; {REMEDY}"):
        load_cifar10()


def test_once_imported_it_loads(tiny: Any, pack: Pack, cache: Path) -> None:
    imported = import_cifar10(pack(tiny.binary()), expected=tiny.expected)
    loaded = load_cifar10(expected=tiny.expected)
    assert loaded.content_hash == imported.content_hash == tiny.expected.content_hash


def test_the_source_may_be_named_by_a_string(tiny: Any, pack: Pack, cache: Path) -> None:
    import_cifar10(str(pack(tiny.binary())), expected=tiny.expected)
    assert cifar10_path() == cache / "cifar10.npz"
    assert cifar10_path().exists()


def test_a_damaged_copy_is_noticed_and_the_error_says_what_to_do(tiny: Any, pack: Pack, cache: Path) -> None:
    import_cifar10(pack(tiny.binary()), expected=tiny.expected)
    raw = bytearray(cifar10_path().read_bytes())
    raw[len(raw) // 2] ^= 1
    cifar10_path().write_bytes(raw)
    with pytest.raises(DataError, match=rf"cifar10.npz is damaged.*; {REMEDY}"):
        load_cifar10(expected=tiny.expected)


def test_another_data_set_in_its_place_is_noticed(tiny: Any, pack: Pack, cache: Path) -> None:
    import_cifar10(pack(tiny.binary()), expected=tiny.expected)
    with pytest.raises(
        DataError, match=rf"has content hash {tiny.expected.content_hash}, must be 0bf1.*; {REMEDY}"
    ):
        load_cifar10()


def test_a_bad_source_leaves_the_copy_alone(tiny: Any, pack: Pack, cache: Path) -> None:
    import_cifar10(pack(tiny.binary()), expected=tiny.expected)
    with pytest.raises(DataError, match="lacks"):
        import_cifar10(pack({"test_batch": tiny.python()["test_batch"]}), expected=tiny.expected)
    assert load_cifar10(expected=tiny.expected).content_hash == tiny.expected.content_hash


def test_the_real_checks_refuse_a_small_copy(tiny: Any, pack: Pack, cache: Path) -> None:
    with pytest.raises(DataError, match="30730 bytes long, a binary batch must be 30730000"):
        import_cifar10(pack(tiny.binary()))
