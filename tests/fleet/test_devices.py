from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.base.errors import InputError, UserError
from slotwise.fleet import Absence, Devices, Fleet
from slotwise.fleet.fleet_file import read_fleet
from slotwise.scenario import Scenario

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(text: str) -> Path:
        path = tmp_path / "fleet.csv"
        path.write_bytes(text.encode())
        return path

    return to_file


def refusal(path: Path, **options: int) -> str:
    """The one line about it, without the folder."""
    with pytest.raises(UserError) as caught:
        read_fleet(path, **options)
    return str(caught.value).replace(str(path), path.name)


def test_speeds_links_and_absences_are_read_in_any_order(write: Write) -> None:
    fleet = read_fleet(write("device,compute_slots\n1,50\n2,80\n"))
    assert fleet == Fleet(compute_slots=(50, 80), link_slots=(1, 1))
    text = "device,compute_slots,link_slots,leaves,returns\n1,50,2,,\n2,80,3,100,200\n3,10,1,0,\n"
    assert read_fleet(write(text)) == Fleet(
        compute_slots=(50, 80, 10),
        link_slots=(2, 3, 1),
        absences=(Absence(2, 100, 200), Absence(3, 0, None)),
    )
    assert read_fleet(write("device,compute_slots\n1,50\n"), link_slots=4).link_slots == (4,)
    fleet = read_fleet(write("link_slots,compute_slots,device\n3,30,3\n1,10,1\n2,20,2\n"))
    assert fleet == Fleet(compute_slots=(10, 20, 30), link_slots=(1, 2, 3))
    text = "device,compute_slots,uplink_loss\n1,50,0.25\n2,80,\n3,10,1e-3\n"
    assert read_fleet(write(text)).device_uplink_loss == (0.25, 0.0, 0.001)


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffdevice,compute_slots\n1,50\n",
        "device,compute_slots\r\n1,50\r\n",
        "device, compute_slots\n 1 ,50 \n",
        '"device","compute_slots"\n"1","50"\n',
        "\ndevice,compute_slots\n\n1,50\n,\n\n",
        "device,compute_slots\n1,50",
    ],
    ids=["byte order mark", "Windows lines", "blanks", "quotes", "blank lines", "no last line end"],
)
def test_what_spreadsheets_write_is_read(write: Write, text: str) -> None:
    assert read_fleet(write(text)).compute_slots == (50,)


@given(numbers=st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 10**9)), min_size=1, max_size=20))
def test_what_is_written_is_read(
    numbers: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = [f"{n},{compute},{link}" for n, (compute, link) in enumerate(numbers, start=1)]
    path = tmp_path_factory.getbasetemp() / "round-trip.csv"
    path.write_text("\n".join(["device,compute_slots,link_slots", *lines]))
    fleet = read_fleet(path, devices=len(numbers))
    assert list(zip(fleet.compute_slots, fleet.link_slots, strict=True)) == numbers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "fleet.csv: empty: must have a header row and rows of numbers"),
        ("\n\n", "fleet.csv: empty: must have a header row and rows of numbers"),
        ("device,compute_slots\n", "fleet.csv: no devices: must have a row for each"),
        (
            "device,compute_slots,colour\n1,50,red\n",
            "fleet.csv, row 1, column colour: unknown: "
            "allowed are device, compute_slots, link_slots, leaves, returns, uplink_loss",
        ),
        ("device,device,compute_slots\n1,1,50\n", "fleet.csv, row 1, column device: occurs twice"),
        ("compute_slots\n50\n", "fleet.csv, row 1, column device: missing"),
        ("device\n1\n", "fleet.csv, row 1, column compute_slots: missing"),
        ("device,compute_slots,returns\n1,50,9\n", "fleet.csv, row 1, column leaves: missing"),
    ],
)
def test_a_wrong_header_is_refused(write: Write, text: str, message: str) -> None:
    assert refusal(write(text)) == message


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("2,-5,1,,", "column compute_slots: -5: must be a whole number from 1 to 1,000,000,000"),
        ("2,0,1,,", "column compute_slots: 0: must be a whole number from 1 to 1,000,000,000"),
        ("2,2.5,1,,", "column compute_slots: 2.5: must be a whole number from 1 to 1,000,000,000"),
        ("2,fast,1,,", "column compute_slots: fast: must be a whole number from 1 to 1,000,000,000"),
        ("2,,1,,", 'column compute_slots: "": must be a whole number from 1 to 1,000,000,000'),
        ("2,٣,1,,", "column compute_slots: ٣: must be a whole number from 1 to 1,000,000,000"),
        ("2,1_0,1,,", "column compute_slots: 1_0: must be a whole number from 1 to 1,000,000,000"),
        (
            "2,5000000000,1,,",
            "column compute_slots: 5000000000: must be a whole number from 1 to 1,000,000,000",
        ),
        ("2,5,0,,", "column link_slots: 0: must be a whole number from 1 to 1,000,000,000"),
        ("2,5,,,", 'column link_slots: "": must be a whole number from 1 to 1,000,000,000'),
        ("0,5,1,,", "column device: 0: must be a whole number from 1 to 1,000,000,000"),
        ("1,5,1,,", "column device: 1: occurs twice"),
        ("2,5,1,-1,", "column leaves: -1: must be a whole number from 0 to 1,000,000,000"),
        ("2,5,1,,9", "column leaves: missing: must be given together with returns"),
        ("2,5,1,9,9", "column returns: 9: must be after leaves, 9"),
    ],
)
def test_a_wrong_number_is_refused_with_its_row_and_column(write: Write, row: str, message: str) -> None:
    text = f"device,compute_slots,link_slots,leaves,returns\n1,50,1,,\n{row}\n"
    assert refusal(write(text)) == f"fleet.csv, row 3, {message}"


@pytest.mark.parametrize(("row", "count"), [("2", 1), ("2,5,7", 3)])
def test_a_row_of_another_length_is_refused(write: Write, row: str, count: int) -> None:
    text = f"device,compute_slots\n1,50\n\n{row}\n"
    assert refusal(write(text)) == f"fleet.csv, row 4: {count} fields: must be 2, one a column"


@pytest.mark.parametrize("devices", [1, 3])
def test_another_number_of_devices_than_asked_for_is_refused(write: Write, devices: int) -> None:
    path = write("device,compute_slots\n1,5\n2,5\n")
    assert refusal(path, devices=devices) == f"fleet.csv: 2 devices: must be {devices}"


def test_a_file_that_is_not_there_or_no_text_is_told(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.csv") == "cannot read none.csv: No such file or directory"
    path = tmp_path / "fleet.csv"
    path.write_bytes(b"\xff\xfe\x00d")
    assert refusal(path).startswith("fleet.csv: not a CSV file: ")


@pytest.mark.parametrize("text", ['device,compute_slots\n1,"5\n', 'device,compute_slots\n1,"5"0\n'])
def test_broken_quotes_are_told(write: Write, text: str) -> None:
    line = refusal(write(text))
    assert line.startswith("fleet.csv: not a CSV file: ")
    assert "\n" not in line


def test_every_refusal_is_one_short_line_whatever_the_file_holds(write: Write) -> None:
    message = "column compute_slots: 5 6: must be a whole number from 1 to 1,000,000,000"
    assert refusal(write('device,compute_slots\n1,"5\n6"\n')) == f"fleet.csv, row 3, {message}"
    assert len(refusal(write(f"device,compute_slots\n1,{'9' * 10_000}\n"))) < 150
    assert len(refusal(write(f"device,compute_slots,{'x' * 10_000}\n"))) < 160
    message = "fleet.csv, row 2, column compute_slots"
    refused = refusal(write("device,compute_slots\n1,\x1b[2J5\n"))
    assert refused.startswith(message)
    assert refused.isprintable()
    message = "fleet.csv, row 4, column device: 4: must be 1 to 3, each once, and 2 is missing"
    assert refusal(write("device,compute_slots\n1,5\n3,5\n4,5\n")) == message
    with pytest.raises(InputError, match="link_slots = 0: must be a whole number of at least 1"):
        read_fleet(write("device,compute_slots\n1,5\n"), link_slots=0)


@pytest.mark.parametrize("loss", ["1", "-0.5", "nan", "often"])
def test_a_loss_that_is_no_probability_is_refused(write: Write, loss: str) -> None:
    text = f"device,compute_slots,uplink_loss\n1,50,0\n2,80,{loss}\n"
    assert refusal(write(text)).startswith(f"fleet.csv, row 3, column uplink_loss: {loss}")


BATTERY = {"computing_joules": 1.0, "sending_joules": 1.0}


@pytest.mark.parametrize(
    ("options", "changes", "parameter"),
    [
        ({"mean_present": 5, "mean_away": 5}, {"deadline": None}, "mean_present"),
        ({"mean_present": 1, "mean_away": 1}, {"deadline": 10**9}, "mean_present"),
        ({"jitter": 0.5}, {"devices": 10**8}, "devices"),
        ({**BATTERY, "battery_joules": 9.0, "battery_initial": 2.0}, {}, "battery_initial"),
        ({**BATTERY, "device_battery_joules": (9.0, 9.0)}, {}, "device_battery_joules"),
    ],
    ids=["no deadline", "absences", "devices", "initial", "batteries"],
)
def test_a_fleet_that_cannot_be_made_is_refused(
    options: dict[str, Any], changes: dict[str, Any], parameter: str
) -> None:
    usual = {"devices": 3, "group_size": 1, "compute_slots": 2, "deadline": 50}
    with pytest.raises(InputError) as raised:
        Devices(**options).fleet(Scenario(**(usual | changes)))
    assert raised.value.parameter == parameter


def test_equal_devices_without_faults_are_those_of_the_scenario() -> None:
    scenario = Scenario(devices=3, group_size=1, compute_slots=2, deadline=50)
    assert Devices().fleet(scenario) == Fleet.equal(scenario)
