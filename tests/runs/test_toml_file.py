from pathlib import Path

import pytest

from slotwise.errors import InputError, UserError
from slotwise.runs import read_toml


def toml(path: Path, text: str) -> Path:
    (path / "run.toml").write_text(text)
    return path / "run.toml"


def test_a_file_s_names_may_have_dashes_or_underscores(tmp_path: Path) -> None:
    text = 'group-size = 5\nbatch_size = 8\nchannels = [1, 2]\ndelay = "auto"\nsamples-per-slot = 6.4\n'
    assert read_toml(toml(tmp_path, text)) == {
        "group_size": 5,
        "batch_size": 8,
        "channels": [1, 2],
        "delay": "auto",
        "samples_per_slot": 6.4,
    }


def test_an_unknown_name_is_told_with_the_file(tmp_path: Path) -> None:
    path = toml(tmp_path, "group-sise = 5\n")
    with pytest.raises(UserError, match=f"^{path}: unknown option group_sise: did you mean group_size"):
        read_toml(path)


@pytest.mark.parametrize("text", ["group-size", "= 3", "a = 1\na = 2", "seed = " + "9" * 5000])
def test_bad_toml_is_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="valid TOML") as caught:
        read_toml(toml(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_not_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for name in ("bytes.toml", "missing.toml", "."):
        with pytest.raises(InputError, match="config") as caught:
            read_toml(tmp_path / name)
        assert "\n" not in str(caught.value)
