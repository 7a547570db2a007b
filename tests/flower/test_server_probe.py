"""The first model and the configuration of a ServerApp."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slotwise import UserError
from slotwise.flower.project import FlowerProject
from slotwise.flower.server_probe import first_messages

MakeProject = Callable[..., Path]


def test_the_first_messages_of_a_strategy(make_project: MakeProject) -> None:
    found = first_messages(FlowerProject.read(make_project()), 4, 1)
    assert found.train.records["config"] == {"rate": 0.5, "server-round": 1}
    assert found.evaluate.records["config"] == {"part": "all", "server-round": 1}
    assert [array.shape for array in found.arrays.values()] == [(2, 3), (1,)]


def test_what_other_strategies_add_is_sent(make_project: MakeProject, server_source: str) -> None:
    server = server_source.replace("FedAvg(fraction", "FedProx(proximal_mu=0.3, fraction")
    server = server.replace("import FedAvg", "import FedProx")
    found = first_messages(FlowerProject.read(make_project(server=server)), 4, 1)
    assert found.train.records["config"]["proximal-mu"] == pytest.approx(0.3)


def test_a_strategy_without_evaluation(make_project: MakeProject, server_source: str) -> None:
    server = server_source.replace("fraction_evaluate=1.0", "fraction_evaluate=0.0")
    found = first_messages(FlowerProject.read(make_project(server=server)), 4, 1)
    assert found.train.message_type == "train"
    assert found.evaluate.message_type == "evaluate"


def test_the_end_of_a_server_app_is_not_reached(
    make_project: MakeProject, server_source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server = server_source.replace("fraction_evaluate=1.0", "fraction_evaluate=0.0")
    server = server.replace("num_rounds=2", "num_rounds=1") + "    open('saved', 'w').close()\n"
    first_messages(FlowerProject.read(make_project(server=server)), 4, 1)
    assert not (tmp_path / "saved").exists()


def test_the_global_generators_are_restored(make_project: MakeProject) -> None:
    np.random.seed(1)
    expected = np.random.rand()
    np.random.seed(1)
    first_messages(FlowerProject.read(make_project()), 4, 1)
    assert np.random.rand() == expected


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("app = 3", "must be a ServerApp"),
        (
            "from flwr.serverapp import ServerApp\napp = ServerApp()\n@app.main()\ndef main(g, c): pass",
            "no train",
        ),
        (
            "from flwr.serverapp import ServerApp\napp = ServerApp()\n@app.main()\ndef main(g, c): 1 / 0",
            "Division",
        ),
        (
            "from flwr.serverapp import ServerApp\napp = ServerApp(server_fn=lambda context: None)",
            "server_fn",
        ),
        ("import nothing_like_it", "import failed"),
        ("raise SystemExit(3)", "import failed"),
        ("1 +", "SyntaxError"),
    ],
    ids=["no app", "no message", "raises", "server_fn", "import", "exit", "syntax"],
)
def test_a_wrong_server_app_is_one_clear_line(make_project: MakeProject, server: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected) as raised:
        first_messages(FlowerProject.read(make_project(server=server)), 4, 1)
    assert "\n" not in str(raised.value)
