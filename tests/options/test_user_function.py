"""Functions of the user's, named as module:function, with parameters of their own."""

import sys
from pathlib import Path
from typing import Any

import pytest

from slotwise.base.errors import InputError
from slotwise.options import UserFunction, loaded

CODE = """
def rule(model, contributions, *, shrink: float = 1.0, mode: str = "plain"):
    return shrink, mode

def anything(model, contributions, **options):
    return options

def needs(model, contributions, *, rate):
    return rate
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(CODE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    return name


def own(module: str, function: str, **options: Any) -> UserFunction:
    return UserFunction("aggregation", f"{module}:{function}", tuple(options.items()), (2, 3))


def test_it_is_called_with_its_parameters(module: str) -> None:
    assert loaded(own(module, "rule"))(0, 0) == (1.0, "plain")
    assert loaded(own(module, "rule", shrink=0.5, mode="fast"))(0, 0) == (0.5, "fast")
    assert loaded(own(module, "rule", shrink=2))(0, 0) == (2, "plain")  # a whole number is a number
    assert loaded(own(module, "anything", a=1, b=[1, 2]))(0, 0) == {"a": 1, "b": (1, 2)}


@pytest.mark.parametrize(
    ("function", "options"),
    [
        ("rule", {"shrnk": 1.0}),
        ("rule", {"shrink": "much"}),
        ("rule", {"mode": 3}),
        ("rule", {"shrink": True}),
    ],
)
def test_a_wrong_name_or_type_is_refused_with_the_signature(
    module: str, function: str, options: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match=r"rule\(model, contributions") as caught:
        loaded(own(module, function, **options))
    assert caught.value.parameter == "aggregation_options"


def test_a_parameter_that_it_requires_must_be_given(module: str) -> None:
    with pytest.raises(InputError) as caught:
        loaded(own(module, "needs"))
    assert caught.value.parameter == "aggregation"
    assert loaded(own(module, "needs", rate=3))(0, 0) == 3


def test_it_is_a_value(module: str) -> None:
    assert own(module, "rule", a=1, b=[2]) == own(module, "rule", b=[2], a=1)
    assert hash(own(module, "rule", b=[2])) == hash(own(module, "rule", b=(2,)))
    with pytest.raises(InputError):
        UserFunction("task", "no function")
