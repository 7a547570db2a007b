import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.base.errors import UserError
from slotwise.learning import History, Point
from slotwise.runs.checkpoints import Checkpoints

POINTS = (Point(0, 0, 2.3, 0.1, 0), Point(5, 1, 0.1 + 0.2, 1 / 3, 0), Point(8, 2, 1e-300, 1.0, 1))


def history(round_number: int) -> History:
    models = {
        version: np.array([version, 0.1, -0.0, 1e-45, 3e38], dtype=np.float32)
        for version in range(round_number - 1, round_number + 1)
    }
    return History(POINTS, models, round_number)


def same(one: History | None, other: History) -> bool:
    return (
        one is not None
        and (one.points, one.rounds, one.models.keys()) == (other.points, other.rounds, other.models.keys())
        and all(one.models[v].tobytes() == other.models[v].tobytes() for v in one.models)
    )


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    """Of rounds 5 and 9."""
    saved = Checkpoints(tmp_path / "checkpoints")
    for round_number in (5, 9):
        saved.save(history(round_number))
    return saved


def newest(checkpoints: Checkpoints) -> Path:
    return max(checkpoints.folder.iterdir())


def test_what_was_saved_is_loaded_to_the_bit_and_the_newest_two_are_kept(checkpoints: Checkpoints) -> None:
    loaded, damaged = checkpoints.load()
    assert same(loaded, history(9))
    assert damaged == []
    loaded, _ = checkpoints.load()
    assert loaded is not None
    assert loaded.model.dtype == np.float32
    assert loaded.model.tolist() == history(9).model.tolist()
    checkpoints.save(history(1000))
    names = sorted(path.name for path in checkpoints.folder.iterdir())
    assert names == ["round-000000009.checkpoint", "round-000001000.checkpoint"]
    (checkpoints.folder / "notes.txt").touch()
    checkpoints.clear()
    assert [path.name for path in checkpoints.folder.iterdir()] == ["notes.txt"]


def test_nothing_is_loaded_where_nothing_was_saved(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "none").load() == (None, [])
    (tmp_path / "checkpoints").touch()
    with pytest.raises(UserError, match=r"cannot write .*/checkpoints: File exists$"):
        Checkpoints(tmp_path / "checkpoints").save(history(1))


def test_a_truncated_checkpoint_is_noticed_at_any_length(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(history(5))
    checkpoints.save(history(9))
    whole = newest(checkpoints).read_bytes()
    for length in [*range(0, 200), *range(200, len(whole), 97), len(whole) - 1]:
        newest(checkpoints).write_bytes(whole[:length])
        loaded, damaged = checkpoints.load()
        assert same(loaded, history(5))
        assert damaged == [newest(checkpoints)]


@given(where=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_any_altered_byte_is_noticed_and_the_one_before_is_used(
    where: float, change: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    checkpoints = Checkpoints(tmp_path_factory.mktemp("altered"))
    checkpoints.save(history(5))
    checkpoints.save(history(9))
    content = bytearray(newest(checkpoints).read_bytes())
    content[int(where * len(content))] ^= change
    newest(checkpoints).write_bytes(content)
    loaded, damaged = checkpoints.load()
    assert same(loaded, history(5))
    assert damaged == [newest(checkpoints)]


def test_a_checkpoint_that_cannot_be_read_or_has_more_bytes_is_damaged(checkpoints: Checkpoints) -> None:
    folder = checkpoints.folder / "round-000000010.checkpoint"
    folder.mkdir()
    loaded, damaged = checkpoints.load()
    assert same(loaded, history(9))
    assert damaged == [folder]
    checkpoints.save(history(9))  # removes later ones, which were damaged, but no folder
    assert folder.is_dir()
    folder.rmdir()
    newest(checkpoints).write_bytes(newest(checkpoints).read_bytes() + b"\n")
    assert same(checkpoints.load()[0], history(5))


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04"])
def test_a_right_checksum_of_something_else_is_no_checkpoint(
    content: bytes, checkpoints: Checkpoints
) -> None:
    digest = hashlib.sha256(content).hexdigest().encode()
    newest(checkpoints).write_bytes(digest + b"\n" + content)
    assert same(checkpoints.load()[0], history(5))


def test_all_damaged_is_nothing_to_go_on_from(checkpoints: Checkpoints) -> None:
    for path in checkpoints.folder.iterdir():
        path.write_bytes(b"")
    loaded, damaged = checkpoints.load()
    assert loaded is None
    assert len(damaged) == 2


def test_after_damage_new_checkpoints_are_kept_although_damaged_ones_claim_later_rounds(
    tmp_path: Path,
) -> None:
    checkpoints = Checkpoints(tmp_path)
    for name in ("round-000000090.checkpoint", "round-000000100.checkpoint"):
        (tmp_path / name).write_bytes(b"damaged")
    early = History((), {10: np.zeros(3, dtype=np.float32)}, 10)
    checkpoints.save(early)
    found, damaged = checkpoints.load()
    assert found is not None
    assert (found.rounds, damaged) == (10, [])
