"""A link of one's own: in plans, timelines, training, resuming and live runs, and what is refused."""

import json
import sys
from pathlib import Path

import pytest
from examples.own_link.commuters import Commuters, commuters

from slotwise import RunConfig, Scenario, simulate
from slotwise.base.errors import ConflictError, InputError, NoEffectError, UserError
from slotwise.live.server.server_config import LivePlan
from slotwise.options import UserFunction
from slotwise.recommendation.search import toml_of
from slotwise.runs import RunFolder, resume, run
from slotwise.runs.toml_options import read_toml

NAME = "examples.own_link.commuters:commuters"
SMALL = {
    **{"devices": 6, "group_size": 2, "compute_slots": 4, "deadline": 120, "network": "logistic"},
    **{"samples_per_device": 20, "local_steps": 1, "batch_size": 8, "schedule": "async"},
}
OWN = {**SMALL, "radio_link": NAME, "radio_link_options": {"period": 10}}
BROKEN = """
def fails(scenario, seed):
    raise KeyError(seed)

def empty(scenario, seed):
    return None

def no_slots(scenario, seed):
    class Link:
        planned_slots, planned_broadcast_slots, snr_db = (1,) * scenario.devices, 1, None
        def uplink(self, device, slot, attempt):
            return 0, False
        def broadcast(self, receivers, slot):
            return 1
    return Link()

def one_argument(scenario):
    return None

def perfect(scenario, seed):
    from examples.own_link.commuters import Commuters
    class Perfect(Commuters):
        def uplink(self, device, slot, attempt):
            return 1 + seed, False
    return Perfect(scenario, 2)
"""


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"links_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(BROKEN)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return name


def test_the_timeline_is_that_of_the_link_object() -> None:
    timeline = RunConfig.from_options(OWN).simulate()
    scenario = Scenario(devices=6, group_size=2, compute_slots=4, deadline=120)
    assert timeline == simulate(scenario, "async", link=Commuters(scenario, 10))
    assert len(timeline.lost)
    assert timeline != RunConfig.from_options({**OWN, "radio_link_options": {"period": 60}}).simulate()


def test_python_names_it_or_gives_the_function() -> None:
    config = RunConfig.from_options(OWN)
    named = UserFunction("radio_link", NAME, (("period", 10),), (2,))
    assert (
        RunConfig.from_options(SMALL | {"radio_link": NAME})
        .with_options(radio_link_options={"period": 10})
        .link
        == config.link
        == named
    )
    base = RunConfig.from_options(SMALL)
    plain = RunConfig(channel=base.channel, policy=base.policy, link=commuters)
    assert plain.simulate() == RunConfig.from_options(SMALL | {"radio_link": NAME}).simulate()
    assert plain.options()["radio_link"] == NAME


def test_a_run_keeps_it_and_a_recommended_file_its_parameters(tmp_path: Path) -> None:
    config = RunConfig.from_options(OWN)
    done = run(config, tmp_path / "run", workers=1)
    folder = RunFolder.open(tmp_path / "run")
    assert folder.parameters() == config
    assert json.loads((tmp_path / "run" / "run.json").read_text())["parameters"]["radio_link"] == NAME
    folder.write_description(config, "interrupted")
    assert resume(tmp_path / "run", workers=1).history.rounds == done.history.rounds > 3
    (tmp_path / "recommended.toml").write_text(toml_of(config))
    assert RunConfig.from_options(read_toml(tmp_path / "recommended.toml")) == config


def test_a_live_run_plans_with_it_and_refuses_losses(broken: str) -> None:
    plan = LivePlan.of(RunConfig.from_options({**SMALL, "radio_link": f"{broken}:perfect", "seed": 2}))
    assert (plan.timeline.end - plan.timeline.start == 3).all()
    with pytest.raises(InputError, match="radio_link"):
        LivePlan.of(RunConfig.from_options(OWN))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("fails", "KeyError"),
        ("empty", r"^radio_link \w+:empty: None has no uplink"),
        ("no_slots", "uplink must be"),
        ("one_argument", "2 arguments"),
        ("missing", "missing"),
    ],
)
def test_mistakes_in_it_are_one_clear_line(broken: str, function: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        RunConfig.from_options({**SMALL, "radio_link": f"{broken}:{function}"}).simulate()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"uplink_loss": 0.1}, ConflictError),
        ({"link_distribution": "constant:3"}, ConflictError),
        ({"uplink_slots": 3}, NoEffectError),
        ({"radio_radius_m": 30.0}, NoEffectError),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_the_link_says_itself_is_refused(options: dict[str, object], error: type[InputError]) -> None:
    with pytest.raises(error) as caught:
        RunConfig.from_options({**OWN, **options})
    assert caught.value.parameter == next(iter(options))
