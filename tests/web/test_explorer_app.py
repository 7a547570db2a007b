"""The server of the explorer: its answers, and nonsense, other sites, slow readers and many streams."""

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Served, served

from slotwise.setting.planning import plan
from slotwise.web import explorer_app
from slotwise.web.controls import CASE, controls, effective, parse_options, parse_powers
from slotwise.web.explorer_app import Explorer
from slotwise.web.page_files import file_names, read
from slotwise.web.web_server import HOST

LONGEST_PAGE = 300_000  # bytes


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Explorer(None, tmp_path_factory.mktemp("web") / "runs").app) as found:
        yield found


def test_the_page_and_all_its_files_are_small(server: Served) -> None:
    status, content = server.request("/")
    assert status == 200
    total = len(content)
    for name in file_names():
        if not name.endswith(".html"):
            status, content = server.request(f"/static/{name}")
            assert (status, content.decode()) == (200, read(name))
            total += len(content)
    assert total < LONGEST_PAGE


def test_a_file_that_the_browser_has_is_not_sent_again(server: Served) -> None:
    connection = http.client.HTTPConnection(HOST, server.port, timeout=60)
    connection.request("GET", "/static/style.css")
    answer = connection.getresponse()
    answer.read()
    connection.request("GET", "/static/style.css", headers={"If-None-Match": answer.headers["ETag"]})
    assert connection.getresponse().status == 304
    connection.close()


def test_group_sizes_are_streamed(server: Served) -> None:
    status, content = server.request("/api/sizes?devices=12&compute_slots=6&deadline=300&group_size=3")
    first, *pieces = map(json.loads, content.splitlines())
    rows = [row for piece in pieces for row in piece]
    assert (status, first) == (200, {"wanted": 12})
    assert sorted(row["group_size"] for row in rows) == list(range(1, 13))
    table = {
        row.scenario.group_size: row.figures() for row in plan(devices=12, compute_slots=6, deadline=300)
    }
    for row in rows:
        if row["group_size"] in table:
            assert row["async"]["rounds"] == table[row["group_size"]]["rounds"]


def test_group_sizes_that_take_too_long_are_told(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer_app, "MOST_SWEEP_SECONDS", -1.0)
    _, content = server.request("/api/sizes?devices=7&compute_slots=6&deadline=300&group_size=3")
    first, last = map(json.loads, content.splitlines())
    assert first == {"wanted": 7}
    assert "take more than" in last["message"]


NONSENSE = [  # wrong values of options are refused as everywhere; an address can ask for more
    "/api/view?devices=1000000000&group_size=1",
    "/api/view?devices=" + "9" * 400,
    "/api/view?schedule=os:system",
    "/api/view?selection=os:getcwd",
    "/api/view?task=os:getcwd",
    "/api/view?data_folder=/etc",
    "/api/view?fleet_file=/etc/passwd",
    "/api/view?compute_distribution=__import__('os')",
    "/api/view?nothing=1",
    "/api/view?from=1",
    "/api/part",
    "/api/part?from=-1&to=2&first_device=1&last_device=2",
    "/api/part?from=1&to=2&first_device=1&last_device=99999999999999",
    "/api/part?from=0&to=9&first_device=1&last_device=2&run=../../etc",
    "/api/part?from=0&to=9&first_device=1&last_device=2&run=%00",
    "/api/curves?run=/etc&across=slot",
    "/api/curves?across=joules",
    "/api/curves?across=value",
    "/api/curves?up=seconds",
    "/api/sizes?devices=0",
    "/api/download/timeline.svg?from=a&to=b",
    "/api/download/timeline.svg?from=0&to=99999",
]


@pytest.mark.parametrize("path", NONSENSE)
def test_nonsense_is_answered_with_a_reason(server: Served, path: str) -> None:
    status, content = server.request(path)
    assert status == 422
    assert json.loads(content)["message"].count("\n") == 0


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/static/../controls.py", "/static/explorer.html", "/api/download/passwd", "/static/%2e%2e"],
)
def test_other_places_are_not_found(server: Served, path: str) -> None:
    assert server.request(path)[0] == 404


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", "text/plain"),
        (b"{", "application/json"),
        (b"[]", "application/json"),
        (b'{"devices": 3}', "application/json"),
        (b'{"schedule": "os:system"}', "application/json"),
        (b'{"task": "os:getcwd"}', "application/json"),
        (b"[" * 50_000, "application/json"),
        (b" " * 100_000, "application/json"),
    ],
    ids=["form", "half", "list", "number", "code", "task", "nested", "long"],
)
def test_a_training_that_cannot_be_is_refused(server: Served, body: bytes, content_type: str) -> None:
    status, content = server.request("/api/training", "POST", body, Content_Type=content_type)
    assert status == 422
    assert "message" in json.loads(content)


def test_only_posts_start_and_stop(server: Served) -> None:
    assert server.request("/api/training")[0] == 405
    assert server.request("/api/training/stop")[0] == 405


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Host": "evil.example:8337"}, {"Sec_Fetch_Site": "cross-site"}, {"Host": ""}],
    ids=str,
)
def test_other_sites_are_refused(server: Served, headers: dict[str, str]) -> None:
    assert server.request("/api/view", **headers)[0] == 403
    assert server.request("/", **headers)[0] == 403


def test_the_page_may_load_nothing_from_elsewhere(server: Served) -> None:
    connection = http.client.HTTPConnection(HOST, server.port, timeout=60)
    connection.request("GET", "/")
    policy = connection.getresponse().headers["Content-Security-Policy"]
    connection.close()
    assert "default-src 'none'" in policy
    assert "://" not in policy


def test_lines_that_are_not_http(server: Served) -> None:
    for garbage in (b"\0\xff\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 70_000, b"\x16\x03\x01"):
        with socket.create_connection((HOST, server.port), timeout=60) as connection:
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
    assert server.request("/")[0] == 200


def test_a_hundred_streams_and_slow_readers(server: Served) -> None:
    connections = [http.client.HTTPConnection(HOST, server.port, timeout=60) for _ in range(100)]
    try:
        answers = []
        for connection in connections:
            connection.request("GET", "/api/training/events")
            answers.append(connection.getresponse())
        for answer in answers[:50]:  # the others never read
            assert answer.status == 200
            assert answer.readline() == b"data: []\n"
        assert server.json("/api/view")["chosen"] == "idfl"
    finally:
        for connection in connections:
            connection.close()
    assert server.request("/")[0] == 200


def test_a_request_that_takes_too_long_is_refused_and_others_are_not(tmp_path: Path) -> None:
    with served(Explorer(None, tmp_path / "runs", seconds=2).app) as server:
        # Minutes: every one of many devices comes and goes.
        absences = "mean_present=500&mean_away=500"
        status, content = server.request(f"/api/view?devices=9000&deadline=100000&{absences}")
        assert status == 422
        assert "longer than 2 s" in json.loads(content)["message"]
        assert server.json("/api/view", devices=20, group_size=5)["chosen"] == "idfl"


def test_controls_cover_all_options_of_a_plan() -> None:
    names = {control.name for control in controls()}
    assert {*CASE, "link_slots", "schedule", "delay", "participation", "selection", "uplink_loss"} <= names
    assert not names & {"task", "data_folder", "fleet_file", "local_step", "device_compute_slots"}
    assert all(control.help for control in controls())


def test_options_of_an_address_are_those_of_a_command() -> None:
    options = parse_options({"devices": "20", "delay": "auto", "uplink_loss": "0.5", "schedule": "async"})
    assert options == {"devices": 20, "delay": "auto", "uplink_loss": 0.5, "schedule": "async"}
    config, kept, unused = effective(options)
    assert config.channel.devices == 20
    assert "delay" not in kept
    assert list(unused) == ["delay"]
    assert parse_powers({}) is None


def test_new_runs_get_new_names(tmp_path: Path) -> None:
    from slotwise.web.trainings import Trainings

    trainings = Trainings(tmp_path)
    first = trainings._new_folder("mnist-idfl")
    first.mkdir(parents=True)
    assert trainings._new_folder("mnist-idfl") == first.with_name("mnist-idfl-2")
