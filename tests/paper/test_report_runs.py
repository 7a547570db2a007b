import re
from dataclasses import replace
from pathlib import Path

from slotwise.batch.job import Run
from slotwise.paper.report_runs import _commands, costs_section
from slotwise.paper.reproduction import Manifest, Request
from slotwise.report.page import Section, html
from slotwise.runs import RunConfig
from slotwise.schedule.costs import Powers

POWERS = Powers(computing=4.0, sending=2.0, receiving=1.0, idle=0.25, slot_seconds=0.5)


def runs(*changes: dict[str, object]) -> list[Run]:
    base = {"devices": 6, "group_size": 2, "compute_slots": 2, "deadline": 14, "schedule": "async"}
    return [Run.of(RunConfig().with_options(**(base | change))) for change in changes]  # type: ignore[arg-type]


def rows(section: Section) -> list[list[str]]:
    page = "\n".join(map(html, section.parts))
    found = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", page)]
    return [row for row in found if row]


def test_rows_have_channel_devices_and_with_powers_joules() -> None:
    # Slots 2 to 13 are four rounds of two uplinks and a broadcast; in slots 0 and 1 the channel is unused.
    (row,) = rows(costs_section(runs({})))
    assert row == ["async", "2", "2", "1", "57.1%", "28.6%", "14.3%", "1 to 2", "28.6%", "52.4%"]
    section = costs_section(runs({}), POWERS)
    assert rows(section)[0][-1] == "66"
    assert "4 W computing, 2 W sending, 1 W receiving and 0.25 W waiting; a slot takes 0.5 s" in html(
        section.parts[1]
    )
    assert "joules" not in "".join(map(html, costs_section(runs({})).parts))
    manifest = Manifest(quick=False, requests={"mnist": Request(None, 1, ("async-mnist",))})
    (command,) = _commands(Path("out"), manifest, replace(POWERS, server_idle=3.0))
    assert command.endswith("--power-idle 0.25 --power-server-idle 3.0 --slot-seconds 0.5")
    assert costs_section([]).parts == ()


def test_seeds_and_partitions_share_a_row_and_deadlines_have_tables_of_their_own() -> None:
    section = costs_section(runs({}, {"seed": 1}, {"partition": "iid"}, {"deadline": 20}))
    assert len(rows(section)) == 2
    assert [text for text in map(html, section.parts) if text.startswith("<h3>")] == [
        "<h3>MNIST: N=6, T=14</h3>",
        "<h3>MNIST: N=6, T=20</h3>",
    ]
