"""The radio command and the radio flags of other commands."""

import json

import pytest


def test_show_lists_every_device(slotwise):
    code, out, err = slotwise("radio", "show", "--devices", 5, "--radio-shadowing-db", 4)
    assert (code, err) == (0, "")
    assert "distance" in out
    assert "5 devices:" in out
    code, out, _ = slotwise("radio", "show", "--devices", 5, "--json")
    table = json.loads(out)
    assert table["device"] == [1, 2, 3, 4, 5]
    assert len(table["slots_50%"]) == 5


@pytest.mark.parametrize(
    ("given", "note"),
    [((), "--radio-bits"), (("--radio-bits", 9_000), "--radio-broadcast-bits")],
)
def test_bits_that_are_assumed_are_said(slotwise, given, note):
    radio = ("--devices", 4, "--deadline", 200, "--radio-link", "rate-adaptive")
    _, out, _ = slotwise("plan", *radio, *given)
    assert note in out
    _, out, _ = slotwise("plan", *radio, "--radio-bits", 9_000, "--radio-broadcast-bits", 9_000)
    assert "--radio" not in out
    _, out, _ = slotwise("radio", "show", "--devices", 4, *given)
    assert (note in out) == (note == "--radio-bits")


def test_an_exported_trace_gives_the_timeline_of_the_model(slotwise, tmp_path):
    common = ("--devices", 6, "--deadline", 60, "--radio-coherence-slots", 4)
    for more in ((), ("--bits",)):
        trace = tmp_path / f"trace{len(more)}.csv"
        code, out, _ = slotwise("radio", "export", *common, "--out", trace, *more)
        assert code == 0
        assert "15 blocks" in out
        link = ("--radio-link", "rate-adaptive")
        modelled = slotwise("timeline", *common, *link, "--json")
        traced = slotwise("timeline", *common, *link, "--radio-trace", trace, "--json")
        if not more:  # a trace of bits has no powers, so its broadcasts are slower
            assert traced == modelled
        else:
            first = [json.loads(said[1])["rounds"][0]["uplinks"] for said in (modelled, traced)]
            assert first[0] == first[1]


def test_a_trace_of_fewer_devices_says_how_many_it_has(slotwise, tmp_path):
    (tmp_path / "trace.csv").write_text("device,slot,snr_db\n1,0,3\n2,0,4\n")
    code, _, err = slotwise(
        *("timeline", "--devices", 3, "--group-size", 1, "--deadline", 2),
        *("--radio-link", "rate-adaptive", "--radio-trace", tmp_path / "trace.csv"),
    )
    assert code == 2
    assert "the trace has 2 devices, the run 3" in err


def test_holes_in_a_trace_are_named_by_file_row_and_column(slotwise, tmp_path):
    (tmp_path / "trace.csv").write_text("device,slot,snr_db\n1,0,3\n2,0,4\n1,1,5\n")
    trace = tmp_path / "trace.csv"
    code, _, err = slotwise(
        *("timeline", "--devices", 2, "--group-size", 1, "--deadline", 2),
        *("--radio-link", "rate-adaptive", "--radio-trace", trace),
    )
    assert code == 2
    assert f"{trace}, row 3, column slot" in err
