"""Every option has an effect, and that is measured: it changes timeline, costs or history of a tiny run."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from option_contexts import CONTEXTS, FOUND, HUB, ROOT, SLOW, TORCHVISION, Outcome, options_in, write_files

from slotwise.base.errors import InputError, UserError
from slotwise.cli import main
from slotwise.cli.flags import Flag
from slotwise.cli.radio import SHOWN, UNTIL
from slotwise.runs import RunConfig

# Contexts of `radio show`, which is always over a radio, where they are not those of a run.
FIXED = {"radio_link": "fixed-rate", "link_slots": 4}
SHOWN_CONTEXTS = {
    "link_slots": (FIXED, 5),
    "uplink_slots": (FIXED, 5),
    "sub_channels": ({"sub_channels": 2, "radio_band": "divided"}, 3),
    "radio_link": ({"radio_bits": 200_000}, "fixed-rate"),
    "radio_threshold_db": (FIXED, -3.0),
    "radio_bits": ({}, 2_000_000),
    "radio_trace": ({}, "trace.csv"),
    "seed": ({}, 1),
    "task_options": ({"task": "own_parts:task"}, "size=100000"),
}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))


def test_the_table_has_every_option_of_a_run() -> None:
    assert set(CONTEXTS) == set(RunConfig.known_options())


def cases() -> list[object]:
    return [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in CONTEXTS]


@pytest.mark.parametrize("option", cases())
def test_an_option_changes_timeline_costs_or_history(option: str) -> None:
    context, value = CONTEXTS[option]
    if value is FOUND:
        with pytest.raises(UserError):
            RunConfig.from_options(options_in(context, **{option: "x"}))
        return
    if context in (HUB, TORCHVISION):
        first, second = (options_in(context, **more) for more in ({}, {option: value}))
        paths = [RunConfig.from_options(options).dataset.data.path for options in (first, second)]
        assert paths[0] != paths[1]
        return
    if "flower" in option and find_spec("flwr") is None:
        pytest.skip("Flower is not installed")
    changed = Outcome(RunConfig.from_options(options_in(context, **{option: value})))
    scheduled = changed.schedule()
    try:
        usual = Outcome(RunConfig.from_options(options_in(context)))
        before = usual.schedule()
    except InputError:  # the option makes possible what is refused without it
        return
    assert usual.config != changed.config
    assert before != scheduled or usual.history() != changed.history()


def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """Return what ``slotwise radio`` prints, or writes into a file."""
    monkeypatch.setattr(sys, "argv", ["slotwise", "radio", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert (int(ended.value.code or 0), printed.err) == (0, "")
    return Path("out.csv").read_text() if "--out" in words else printed.out


def flags(options: dict[str, object]) -> list[str]:
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@pytest.mark.parametrize("flag", SHOWN, ids=lambda flag: flag.name)
def test_a_flag_changes_what_radio_show_prints(flag: Flag, capsys, monkeypatch) -> None:
    context, value = SHOWN_CONTEXTS.get(flag.name) or CONTEXTS[flag.name]
    known = {one.name for one in SHOWN}
    context = {name: one for name, one in {"devices": 4, **context}.items() if name in known}
    changed = {**context, flag.name: value}
    outputs = [shown(capsys, monkeypatch, "show", "--json", *flags(given)) for given in (context, changed)]
    assert json.loads(outputs[0]) != json.loads(outputs[1])


def test_the_flags_that_only_an_export_has_change_its_file(capsys, monkeypatch) -> None:
    assert {flag.name for flag in UNTIL} == {"deadline", "radio_trace_end"}
    words = ["export", "--out", "out.csv", "--devices", "4"]
    files = [shown(capsys, monkeypatch, *words, "--deadline", slots) for slots in ("40", "50")]
    assert files[0] != files[1]
    words += ["--radio-trace", "trace.csv", "--deadline", "70"]  # it has 60 slots, and would be refused
    repeated = shown(capsys, monkeypatch, *words, "--radio-trace-end", "repeat")
    assert repeated.count("\n") == 1 + 4 * 70
