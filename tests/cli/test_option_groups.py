from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from slotwise.cli.option_groups import with_option_groups


@dataclass(frozen=True)
class Paint:
    colour: Annotated[str | None, typer.Option(help="Of the wall.")] = None
    coats: Annotated[int, typer.Option(help="How many.")] = 2


@with_option_groups
def paint(*, walls: Annotated[int, typer.Option()] = 4, paint: Paint, dry: bool = False) -> None:
    """Paint walls."""
    typer.echo(f"{walls} {paint} {dry}")


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(paint)
    return app


def test_a_group_is_an_option_for_each_field(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["--colour", "red", "--walls", "3", "--dry"])
    assert done.output == "3 Paint(colour='red', coats=2) True\n"


def test_what_is_left_out_has_the_field_s_default(app: typer.Typer) -> None:
    assert CliRunner().invoke(app, []).output == "4 Paint(colour=None, coats=2) False\n"


def test_help_shows_the_options_and_not_the_group(app: typer.Typer) -> None:
    words = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    assert "Paint walls." in words
    assert "--coats" in words
    assert "Of the wall." in words
    assert "--paint" not in words
