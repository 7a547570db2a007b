"""Shakespeare (Caldas et al. 2018, "LEAF"): predict the next character of a role in a play.

An input is a window of 80 characters as numbers, the target the number of the character after it. A number is
the position in `CHARACTERS`, LEAF's 80 characters; any other character has the number 80.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from slotwise.data.dataset import Bytes, DataError, Dataset
from slotwise.data.facts import CHARACTERS, FACTS, WINDOW
from slotwise.data.owners import OwnerIds, position_and_count

TEST_SHARE = 10  # the last tenth of a role is for testing

_NUMBERS = np.full(128, len(CHARACTERS), np.uint8)
_NUMBERS[[ord(character) for character in CHARACTERS]] = np.arange(len(CHARACTERS))


def read_shakespeare(batches: Iterable[Mapping[str, Any]], source: str) -> Dataset:
    """Return the data set in batches with the columns character_id, x (80 characters) and y (1 character).

    The samples of a role follow each other by one character, so they overlap. The last tenth of a role is
    held out; of these, windows that share a character with a training sample are left out.

    Raises:
        DataError: a text has another length, or no role is long enough for test samples.
    """
    roles, windows, following = OwnerIds(), [], []
    for batch in batches:
        roles.add(batch["character_id"])
        windows.append(encode_text(batch["x"], WINDOW, source))
        following.append(encode_text(batch["y"], 1, source)[:, 0])
    if not windows:
        raise DataError(f"{source} has no samples, must have at least 1")
    owners, inputs, targets = roles.numbers(), np.concatenate(windows), np.concatenate(following)
    position, count = position_and_count(owners)
    held_out = count - count // TEST_SHARE
    train, test = position < held_out, position >= held_out + WINDOW
    if not test.any():
        fewest = (WINDOW + 1) * TEST_SHARE
        raise DataError(f"{source} has no role of {fewest} samples, must have one for the test samples")
    return Dataset(
        name="shakespeare",
        train_inputs=inputs[train],
        train_targets=targets[train],
        test_inputs=inputs[test],
        test_targets=targets[test],
        classes=FACTS["shakespeare"].classes,
        owners=owners[train],
    )


def encode_text(texts: Sequence[str], length: int, source: str = "texts") -> Bytes:
    """Return the numbers [n, length] of the characters of texts of equal length."""
    for text in texts:
        if not isinstance(text, str) or len(text) != length:
            raise DataError(f"{source} has the text {text!r}, must be {length} characters long")
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), "<u4")
    return _NUMBERS[np.where(codes < len(_NUMBERS), codes, 0)].reshape(len(texts), length)
