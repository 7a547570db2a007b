import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest

Outcome = tuple[int, str, str]
Run = Callable[..., Outcome]


@pytest.fixture
def run(slotwise: Run) -> Run:
    """``slotwise plan`` with these arguments."""
    return partial(slotwise, "plan")


def test_json_of_the_interface_call_is_these_figures() -> None:
    command = [sys.executable, "-c", "import slotwise.cli; slotwise.cli.main()", "plan"]
    options = "--devices 100 --compute-slots 50 --link-slots 1 --deadline 50000"
    options += " --group-size 1 --group-size 10 --json"
    done = subprocess.run([*command, *options.split()], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [
        {
            "group_size": 1,
            "groups": 100,
            "round_slots": 2,
            "rounds": 24975,
            "models": 24976,
            "staleness_async": 99,
            "delay": 74,
            "staleness_idfl": 25,
            "sync_round_slots": 52,
            "sync_rounds": 961,
        },
        {
            "group_size": 10,
            "groups": 10,
            "round_slots": 11,
            "rounds": 4540,
            "models": 4541,
            "staleness_async": 9,
            "delay": 4,
            "staleness_idfl": 5,
            "sync_round_slots": 61,
            "sync_rounds": 819,
        },
    ]


def test_the_speed_of_a_device_gives_its_compute_slots(run: Run) -> None:
    by_speed = run("--samples-per-slot", "6.4", "--local-steps", "5", "--batch-size", "64", "--json")
    assert by_speed == run("--compute-slots", "50", "--json")


def test_a_narrow_terminal_cuts_nothing_out_of_a_table(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    _, wide, _ = run("--group-size", 25)
    monkeypatch.setenv("COLUMNS", "40")
    _, narrow, _ = run("--group-size", 25)
    assert narrow == wide
    assert "…" not in narrow


def test_the_defaults_are_the_mnist_case_at_all_divisors(run: Run) -> None:
    _, out, _ = run("--json")
    models = {row["group_size"]: row["models"] for row in json.loads(out)}
    assert list(models) == [1, 2, 4, 5, 10, 20, 25, 50, 100]
    assert [models[size] for size in (1, 5, 10, 25, 50, 100)] == [24976, 8326, 4541, 1922, 980, 332]


CASES = ["", "--devices 20 --compute-slots 4 --deadline 100000"]


@pytest.mark.parametrize("arguments", CASES)
def test_the_table_of_a_paper_case_has_the_figures_of_the_json_and_fits_80_columns(
    run: Run, arguments: str
) -> None:
    _, out, _ = run(*arguments.split())
    assert "…" not in out
    assert max(len(line) for line in out.splitlines()) <= 80
    _, table, _ = run(*arguments.split())
    _, figures, _ = run(*arguments.split(), "--json")
    rows = [line.split() for line in table.splitlines() if re.fullmatch(r"[ \d.,]+", line) and line.strip()]
    shown = [[float(cell.replace(",", "")) for cell in row] for row in rows]
    assert shown == [[round(value, 2) for value in row.values()] for row in json.loads(figures)]


def test_the_table_names_group_sizes_that_do_not_fit_or_divide(run: Run) -> None:
    _, out, _ = run("--deadline", "61")
    assert "ruled out by the deadline" in out
    assert re.search(r"group\s+size\s+20,\s+25,\s+50,\s+100\s", out)
    _, out, _ = run("--group-size", "10", "--group-size", "7", "--deadline", "1000")
    assert "group size 7 does not divide 100" in " ".join(out.split())


def test_joules_of_the_server_are_in_the_table_that_has_those_of_the_devices(run: Run) -> None:
    device = "--power-computing 1 --power-sending 2 --power-receiving 0.5 --power-idle 0"
    chosen = ("--devices", "8", "--group-size", "2", "--deadline", "400", *device.split())
    _, text, _ = run(*chosen, "--power-server-sending", "20")
    _, document, _ = run(*chosen, "--power-server-sending", "20", "--json")
    usage = json.loads(document)[0]["usage"]
    cells = [line.split() for line in text.splitlines()]
    rows = {row[1]: row[-2:] for row in cells if len(row) > 2 and row[1] in usage}
    assert rows == {
        name: [f"{one['joules']:,.0f}", f"{one['server']['joules']:,.0f}"] for name, one in usage.items()
    }
    assert "server" not in run(*chosen)[1]


RADIO = ["--radio-link", "rate-adaptive", "--devices", 8, "--compute-slots", 6, "--deadline", 2_000]


def test_access_schemes_are_compared_at_each_group_size(run: Run) -> None:
    code, out, _ = run(*RADIO, "--compare-access", "--group-size", 2, "--group-size", 4, "--json")
    rows = json.loads(out)
    assert (code, len(rows)) == (0, 2 * 4 * 3)
    assert [row["access"] for row in rows[::3]] == ["tdma", "ofdma", "noma", "over-the-air"] * 2
    watts = ["--power-computing", 1, "--power-sending", 1, "--power-receiving", 1]
    _, table, _ = run(*RADIO, "--compare-access", *watts)
    assert all(len(line) <= 80 for line in table.splitlines())
    assert {"seconds/", "joules"} <= set(table.split())
    assert re.search(r"^ +8 tdma +sync ", table, re.MULTILINE)


def test_what_a_comparison_of_access_schemes_has_no_use_for_is_refused(run: Run) -> None:
    code, _, error = run("--compare-access")
    assert (code, error) == (
        2,
        "slotwise: --radio-link none: must be rate-adaptive to compare access schemes\n",
    )
    code, _, error = run(*RADIO, "--compare-access", "--usage")
    assert (code, error) == (2, "slotwise: --usage cannot be combined with --compare-access\n")
    code, _, error = run(*RADIO, "--compare-access", "--sub-channels", 2)
    assert (code, error) == (2, "slotwise: --sub-channels cannot be combined with --compare-access\n")
    code, _, error = run(*RADIO, "--compare-access", "--window-period", 90, "--window-length", 9)
    assert (code, "--compare-access cannot be combined with windows or owned slots" in error) == (2, True)
