"""The comparison of access schemes: its rows are the timelines of the setting with each scheme."""

from dataclasses import replace

import numpy as np
import pytest

import slotwise as sw
from slotwise.radio import RateAdaptive
from slotwise.report.plan_figure import ACCESS_TITLES
from slotwise.schedule import NoRoundError

SETTING = sw.Setting.from_options(
    {
        "devices": 8,
        "group_size": 4,
        "compute_slots": 6,
        "deadline": 400,
        "radio_link": "rate-adaptive",
        "radio_bits": 400_000,
        "radio_broadcast_bits": 400_000,
        "radio_slot_ms": 20.0,
    }
)
WATTS = sw.Powers(computing=0.2, sending=1.0, receiving=0.3)
SCHEDULES = {"sync": sw.Synchronous(), "async": sw.Asynchronous(), "idfl": sw.IntentionalDelay()}


def test_each_row_is_the_timeline_of_a_scheme_and_a_schedule() -> None:
    schemes = {"tdma": sw.Tdma(), "four": sw.Ofdma(devices=4), "two": sw.Noma(), "air": sw.OverTheAir()}
    table = sw.compare_access(SETTING, accesses=schemes, powers=WATTS)
    assert [(row.access, row.schedule) for row in table] == [(a, s) for a in schemes for s in SCHEDULES]
    for row in table:
        setting = replace(SETTING, access=schemes[row.access], policy=SCHEDULES[row.schedule])
        timeline = setting.simulate()
        assert row.totals == timeline.totals()
        assert row.uplink_slots == np.mean(timeline.end - timeline.start)
        assert row.round_seconds == pytest.approx(0.02 * timeline.last_slot / timeline.rounds)
        powers = replace(WATTS, slot_seconds=0.02)
        assert row.joules == sw.Costs.of(timeline, powers).joules


def test_the_access_of_the_setting_replaces_the_default_of_its_kind() -> None:
    small = replace(SETTING, access=sw.Ofdma(devices=2))
    rows = {(row.access, row.schedule): row for row in sw.compare_access(small, group_sizes=[2, 4])}
    assert {access for access, _ in rows} == {"tdma", "ofdma", "noma", "over-the-air"}
    timeline = replace(small, policy=SCHEDULES["async"]).simulate()
    assert rows["ofdma", "async"].totals == timeline.totals()
    assert [row.scenario.group_size for row in sw.compare_access(small, group_sizes=[2, 4])[::12]] == [2, 4]


def test_what_cannot_be_compared_is_refused() -> None:
    fixed = sw.Setting.from_options({"devices": 4, "deadline": 100})
    for setting, options, name in (
        (fixed, {}, "radio_link"),
        (SETTING, {"accesses": {}}, "accesses"),
        (SETTING, {"group_sizes": []}, "group_sizes"),
        (SETTING, {"group_sizes": [9]}, "group_size"),
    ):
        with pytest.raises(sw.InputError) as error:
            sw.compare_access(setting, **options)
        assert error.value.parameter == name
    late = replace(SETTING, link=RateAdaptive(bits=10**9, broadcast_bits=10**9))
    with pytest.raises(NoRoundError):
        sw.compare_access(late)


def test_it_is_a_table_and_a_figure_in_a_notebook() -> None:
    table = sw.compare_access(SETTING, accesses={"tdma": sw.Tdma(), "noma": sw.Noma()}, powers=WATTS)
    assert list(table.to_pandas()["joules"]) == [row.joules for row in table]
    assert table._repr_html_().count("<td>noma</td>") == 3
    panels = table.plot().axes
    assert [axes.get_ylabel() for axes in panels] == list(ACCESS_TITLES.values())
    heights = sorted(bar.get_height() for bar in panels[0].patches)
    assert heights == sorted(row.totals.rounds for row in table)
    with pytest.raises(sw.InputError):
        table.plot(panel="staleness")
