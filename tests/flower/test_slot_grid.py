"""Flower's strategies in virtual slots."""

from pathlib import Path

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAdam, FedAvg, FedProx

from slotwise import Fleet, InputError, Scenario, UserError, flower_task, simulate, train
from slotwise.fleet import Absence
from slotwise.flower import SlotGrid, run_strategy
from slotwise.flower.project import FlowerProject

SCENARIO = Scenario(devices=4, group_size=4, compute_slots=5, link_slots=2)


def grid_of(folder: Path, scenario: Scenario = SCENARIO, **options: object) -> SlotGrid:
    project = FlowerProject.read(folder)
    return SlotGrid(project.load("clientapp"), scenario, run_config=project.run_config, **options)


def test_the_server_app_of_a_project_follows_the_synchronous_schedule(example: Path) -> None:
    found = run_strategy(example, SCENARIO, run_config={"num-server-rounds": 3})
    plan = simulate(SCENARIO, "sync", rounds=3)
    for column in ("round", "device", "version", "start", "end", "broadcast_start", "broadcast_end"):
        assert np.array_equal(getattr(found.timeline, column), getattr(plan, column))
    ours = train(plan, flower_task(example, devices=4), aggregation="fedavg", evaluate_every=1)
    assert found.history.slot.tolist() == ours.slot.tolist()[1:]
    assert found.history.loss == pytest.approx(ours.loss[1:], rel=1e-5)
    assert found.history.accuracy == pytest.approx(ours.accuracy[1:], rel=1e-5, nan_ok=True)


def test_unequal_devices_send_when_all_have_finished(numpy_example: Path) -> None:
    fleet = Fleet(compute_slots=(9, 2, 4, 4), link_slots=(1, 2, 3, 1))
    scenario = Scenario(devices=4, group_size=4, compute_slots=5)
    found = run_strategy(numpy_example, scenario, fleet=fleet)
    plan = simulate(scenario, "sync", rounds=3, fleet=fleet)
    assert found.timeline.start.tolist() == plan.start.tolist()
    assert found.timeline.device.tolist() == plan.device.tolist()


def test_the_deadline_ends_a_strategy(numpy_example: Path) -> None:
    scenario = Scenario(devices=4, group_size=4, compute_slots=5, link_slots=2, deadline=40)
    found = run_strategy(numpy_example, scenario, run_config="num-server-rounds=9")
    assert found.timeline.rounds == 2
    assert found.timeline.last_slot == 2 * (5 + 4 * 2 + 2)


@pytest.mark.parametrize(
    "strategy", [FedAvg(), FedProx(proximal_mu=0.1), FedAdam()], ids=lambda s: type(s).__name__
)
def test_any_strategy_has_a_time_axis(numpy_example: Path, strategy: FedAvg) -> None:
    grid = grid_of(numpy_example)
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord([np.zeros(8), np.zeros(1)]),
        train_config=ConfigRecord({"lr": 0.02}),
        num_rounds=2,
        evaluate_fn=lambda number, arrays: MetricRecord({"loss": 1.0 / (1 + number)}),
    )
    assert grid.slot == grid.timeline().last_slot == 2 * (5 + 4 * 2 + 2)
    assert grid.history().round.tolist() == [1, 2]
    assert grid.history(result).slot.tolist() == [0, 15, 30]
    assert grid.history(result).loss.tolist() == pytest.approx([1, 1 / 2, 1 / 3])


def test_a_server_app_that_exits_is_a_user_error(tmp_path: Path) -> None:
    folder = tmp_path / "exits"
    package = folder / "exiting_app"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        '[tool.flwr.app.components]\nserverapp = "exiting_app.apps:server"\n'
        'clientapp = "exiting_app.apps:client"\n'
    )
    (package / "__init__.py").write_text("")
    (package / "apps.py").write_text(
        "from flwr.clientapp import ClientApp\nfrom flwr.serverapp import ServerApp\n"
        "client, server = ClientApp(), ServerApp()\n\n\n"
        "@server.main()\ndef main(grid, context):\n    raise SystemExit(3)\n"
    )
    with pytest.raises(UserError, match="SystemExit"):
        run_strategy(folder, SCENARIO)


def test_partial_participation_charges_only_participants(numpy_example: Path) -> None:
    grid = grid_of(numpy_example)
    FedAvg(fraction_train=0.5, fraction_evaluate=0.0).start(
        grid=grid,
        initial_arrays=ArrayRecord([np.zeros(8), np.zeros(1)]),
        train_config=ConfigRecord({"lr": 0.02}),
        num_rounds=3,
    )
    assert grid.slot == 3 * (5 + 2 * 2 + 2)
    assert grid.history().points == ()


def test_an_app_that_fails_answers_with_an_error() -> None:
    app = ClientApp()

    @app.train()
    def fail(message, context):  # type: ignore[no-untyped-def]
        raise ValueError("no data")

    grid = SlotGrid(app, SCENARIO)
    message = grid.create_message(RecordDict(), "train", 1, "1")
    (reply,) = grid.send_and_receive([message])
    assert reply.has_error()
    assert "no data" in reply.error.reason


@pytest.mark.parametrize("kind", ["train", "evaluate"])
@pytest.mark.parametrize("node", [0, 5])
def test_a_node_that_does_not_exist_is_a_user_error_and_takes_no_slots(kind: str, node: int) -> None:
    grid = SlotGrid(ClientApp(), SCENARIO)
    messages = [grid.create_message(RecordDict(), kind, number, "1") for number in (1, node)]
    with pytest.raises(UserError, match=f"no node {node}"):
        grid.push_messages(messages)
    assert (grid.rounds, grid.slot) == (0, 0)


def test_wrong_arguments_are_refused(numpy_example: Path) -> None:
    with pytest.raises(InputError, match="app"):
        SlotGrid(3, SCENARIO)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="fleet"):
        grid_of(numpy_example, fleet=Fleet.equal(Scenario(devices=3, group_size=3, compute_slots=4)))
    absent = Fleet(compute_slots=(5,) * 4, link_slots=(2,) * 4, absences=(Absence(1, 3, 9),))
    with pytest.raises(InputError, match="fleet"):
        grid_of(numpy_example, fleet=absent)
    with pytest.raises(UserError, match="no train message"):
        grid_of(numpy_example).timeline()
