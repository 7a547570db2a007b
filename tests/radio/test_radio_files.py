"""CSV files of traces, distances and schemes: reading, writing, and errors that name the place."""

import numpy as np
import pytest

from slotwise.base.errors import UserError
from slotwise.radio import CellPlacement, Cqi, RingPlacement, SchemeTable
from slotwise.radio.placement import read_distances
from slotwise.radio.rates import CQI_TABLE, cqi_efficiencies, read_schemes
from slotwise.radio.traces import read_trace, write_trace


def written(tmp_path, text):
    path = tmp_path / "file.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_trace_is_read_as_it_was_written_and_in_any_order(tmp_path):
    values = np.random.default_rng(1).normal(10, 5, (6, 3))
    write_trace(tmp_path / "trace.csv", values)
    trace = read_trace(tmp_path / "trace.csv")
    assert (trace.time, trace.quantity, trace.devices) == ("block", "snr_db", 3)
    assert np.array_equal(trace.values, values)
    trace = read_trace(written(tmp_path, "slot,device,bits\n1,1,7\n0,2,5\n0,1,4\n1,2,8\n"))
    assert trace.values.tolist() == [[4, 5], [7, 8]]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("device,slot,snr_db\n1,0,3\n2,0,4\n1,1,5\n", ("row 3", "column slot", "device 2", "slot 1")),
        ("device,slot,snr_db\n1,0,3\n1,0,4\n", ("row 3", "column slot")),
        ("device,slot,snr_db\n1,0,much\n", ("row 2", "column snr_db")),
        ("device,slot,snr_db\n1,0,\n", ("row 2", "column snr_db")),
        ("device,slot,snr_db\n1,0,nan\n", ("row 2", "column snr_db")),
        ("device,slot,snr_db\n0,0,1\n", ("row 2", "column device")),
        ("device,slot,snr_db\n1,-1,1\n", ("row 2", "column slot")),
        ("device,slot,snr_db\n1,0\n", ("row 2",)),
        ("device,block,bits\n1,0,-3\n", ("row 2", "column bits")),
        ("device,slot,block,bits\n1,0,0,3\n", ("row 1", "column block")),
        ("device,slot\n1,0\n", ("row 1", "snr_db")),
        ("device,slot,sinr\n1,0,1\n", ("row 1", "column sinr")),
        ("device,slot,snr_db\n3,0,1\n", ("row 2", "column device")),
        ("device,slot,snr_db\n", ()),
        ("", ()),
    ],
    ids=range(15),
)
def test_malformed_traces_are_refused_with_their_place(tmp_path, text, places):
    path = written(tmp_path, text)
    with pytest.raises(UserError) as caught:
        read_trace(path, devices=2)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    for place in places:
        assert place in message


def test_distances_positions_and_schemes_are_read(tmp_path):
    assert read_distances(written(tmp_path, "device,distance_m\n2,30\n1,20\n")) == (20.0, 30.0)
    assert read_distances(written(tmp_path, "device,x_m,y_m\n1,3,4\n2,-6,8\n")) == (5.0, 10.0)
    assert read_schemes(written(tmp_path, "snr_db,efficiency\n-5,0.5\n3,2\n")) == ((-5.0, 0.5), (3.0, 2.0))


@pytest.mark.parametrize(
    "text",
    [
        "device,distance_m\n1,0\n",
        "device,distance_m\n1,5\n1,6\n",
        "device,distance_m\n1,5\n3,6\n",
        "device,x_m\n1,5\n2,3\n",
        "device,distance_m,x_m\n1,5,2\n2,3,3\n",
        "distance_m\n1\n",
    ],
    ids=range(6),
)
def test_malformed_placements_are_refused(tmp_path, text):
    with pytest.raises(UserError, match=r"file\.csv"):
        read_distances(written(tmp_path, text))


def test_devices_are_uniform_in_the_area_of_a_cell():
    distances = CellPlacement().distances(20_000, seed=5)
    share = (distances**2 - 100) / (250_000 - 100)
    assert distances.min() >= 10
    assert distances.max() < 500
    assert abs(share.mean() - 0.5) <= 5 / np.sqrt(12 * 20_000)
    assert RingPlacement(radius_m=70.0).distances(3, 0).tolist() == [70.0] * 3


def test_the_cqi_table_is_computed_and_a_scheme_used_from_its_threshold_on():
    orders = {"QPSK": 2, "16QAM": 4, "64QAM": 6}
    rows = [line.split(",") for line in CQI_TABLE.read_text().split()[1:]]
    products = [orders[name] * int(rate) / 1024 for _, name, rate, _ in rows]
    assert cqi_efficiencies() == pytest.approx(products, abs=1e-4)
    assert len(rows) == 15
    table = SchemeTable(schemes=((0.0, 0.5), (10.0, 3.0)))
    assert table.efficiency(np.array([0.5, 1.0, 9.99, 10.0, 1e6])).tolist() == [0, 0.5, 0.5, 3, 3]
    # With the gap a scheme needs that much more.
    one, two = (np.array(Cqi(gap_db=gap).steps())[:, 0] for gap in (0.0, 10.0))
    assert two - one == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("snr_db,efficiency\n3,1\n2,2\n", "row 3, column snr_db"),
        ("snr_db,efficiency\n3,1\n4,1\n", "row 3, column efficiency"),
        ("snr_db,efficiency\n3,0\n", "row 2, column efficiency"),
        ("snr_db\n3\n", "column efficiency"),
        ("snr_db,efficiency\n", "no schemes"),
    ],
    ids=range(5),
)
def test_malformed_schemes_are_refused(tmp_path, text, place):
    with pytest.raises(UserError, match=place):
        read_schemes(written(tmp_path, text))
