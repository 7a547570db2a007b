"""The checked call of a rule."""

from collections.abc import Sequence

import numpy as np
import pytest

from slotwise.aggregation import Contribution, Vector, mean, next_model
from slotwise.base.errors import UserError

MODEL = np.array([1.0, 2.0], dtype=np.float32)


def sent() -> list[Contribution]:
    return [Contribution(np.ones(2, dtype=np.float32), 0, MODEL)]


def test_a_round_without_updates_keeps_the_model_and_a_view_becomes_contiguous() -> None:
    assert next_model(mean, MODEL, [])[0] is MODEL

    def first_column(model: Vector, contributions: Sequence[Contribution]) -> Vector:
        return np.stack([model, model], axis=1)[:, 0]

    assert next_model(first_column, MODEL, sent())[0].flags.c_contiguous


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "None"),
        ([1.0, 2.0], "a list"),
        (np.zeros(2), "float64"),
        (np.zeros(3, dtype=np.float32), "float32.3"),
        (np.zeros((2, 1), dtype=np.float32), "float32.2, 1"),
    ],
    ids=["none", "list", "float64", "length", "matrix"],
)
def test_what_is_no_model_is_refused_with_the_name_of_the_rule(value: object, found: str) -> None:
    def wrong_rule(model: Vector, contributions: Sequence[Contribution]) -> object:
        return value

    with pytest.raises(UserError, match=f"wrong_rule.*{found}") as caught:
        next_model(wrong_rule, MODEL, sent())  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_rule_cannot_write_to_models_that_others_start_from() -> None:
    def in_place(model: Vector, contributions: Sequence[Contribution]) -> Vector:
        model -= contributions[0].update
        return model

    def at_the_start(model: Vector, contributions: Sequence[Contribution]) -> Vector:
        contributions[0].start[:] = 0
        return model

    for rule in (in_place, at_the_start):
        with pytest.raises(ValueError, match="read-only"):
            next_model(rule, MODEL, sent())
    assert MODEL.tolist() == [1.0, 2.0]
