"""The page of a live run in a real browser: devices that compute, one that is killed, a forged message."""

import http.client
import json
import re
import socket
import ssl
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, Page
from live_fleet import CONFIG, live_fleet
from serving import Served

from slotwise.base.errors import InputError
from slotwise.live.server.events import LiveObserver
from slotwise.report.colours import SCHEDULE_COLOURS
from slotwise.web.live_page import LivePage, PageOptions, live_page

TOKEN = "0123456789abcdef-token"


class Notices(LiveObserver):
    def __init__(self) -> None:
        self.all: list[str] = []

    def notice(self, message: str) -> None:
        self.all.append(message)

    @property
    def port(self) -> int:
        return int(re.findall(r":(\d+)/", self.all[0])[0])


@pytest.fixture
def served_page() -> Iterator[tuple[LivePage, Served]]:
    notices = Notices()
    with live_page(notices=notices) as page:
        yield page, Served(notices.port)


def states(page: Page) -> dict[str, str]:
    script = (
        "Object.fromEntries([...document.querySelectorAll('.device')]"
        ".map(one => [one.dataset.device, one.dataset.state]))"
    )
    found: dict[str, str] = page.run(script)
    return found


def figure(page: Page, name: str) -> str:
    return page.text(f"[data-figure={name}]")


def test_a_run_in_which_a_device_is_killed(
    served_page: tuple[LivePage, Served], browser: Browser, tmp_path: Path
) -> None:
    observer, server = served_page
    with browser.page(server.address) as page, live_fleet(tmp_path / "run", observer) as fleet:
        page.wait("document.querySelectorAll('.device[data-state=computing]').length === 6")
        assert page.text("#phase") == "running"
        assert figure(page, "connected") == "6 / 6"
        fleet.kill(3)
        page.wait("document.querySelector('.device[data-device=\"3\"]').dataset.state === 'absent'")
        assert figure(page, "connected") == "5 / 6"
        fleet.forge(2)
        page.wait("document.querySelector('#rejected td')")
        assert "1 rejected" in page.text('.device[data-device="2"]')
        assert json.loads(server.request("/healthz")[1]) == {"status": "running"}
        assert 'slotwise_devices{state="absent"} 1' in server.request("/metrics")[1].decode()
        outcome = fleet.finish()
        page.wait("document.getElementById('phase').textContent === 'finished'")
        state = outcome.state
        assert figure(page, "round") == f"{state.round} / {state.round}"
        assert figure(page, "updates") == str(len(state.record.uplinks))
        assert states(page)["3"] == "absent"
        drawn_in = page.run("document.querySelector('#plot-loss polyline').getAttribute('stroke')")
        assert drawn_in == SCHEDULE_COLOURS[CONFIG.schedule].light
        points = page.run("sw.live.points")
        assert [point[:2] for point in points] == [[point.slot, point.round] for point in state.points]
        first = page.run("sw.live.window[0]")
        drawn = page.run("sw.live.carried")
        sent = [row for row in state.record.uplinks if row[4] > first]
        rows = list(
            zip(drawn["round"], drawn["device"], drawn["version"], drawn["start"], drawn["end"], strict=True)
        )
        assert rows[: len(sent)] == sent
        planned = page.run("sw.live.planned")
        expected = CONFIG.simulate()
        assert set(planned["start"]) >= {slot for slot in expected.start.tolist() if slot >= first}
    text = server.request("/metrics")[1].decode()
    assert f"slotwise_updates_total {len(state.record.uplinks)}" in text
    assert all(re.fullmatch(r"(#.*|\w+(\{\w+=\"[^\"]*\"\})? [-+.e\d]+)", line) for line in text.splitlines())
    assert [url for url in page.requests if not url.startswith(server.address)] == []


class StopsDuringTheStay(Notices):
    """Asks the page for its health when it is told that the page stays, and then to stop."""

    health: Any = None

    def notice(self, message: str) -> None:
        super().notice(message)
        if "stays" in message:
            self.health = Served(self.port).request("/healthz")[0]

    def wants_stop(self) -> bool:
        return self.health is not None


def test_a_page_stays_after_the_run_until_it_is_stopped() -> None:
    notices = StopsDuringTheStay()
    with live_page(PageOptions(page_stay=1e6), notices=notices):
        assert len(notices.all) == 1
    assert notices.health == 200
    assert notices.all[1:] == ["the page stays for 1e+06 s; Ctrl-C ends it"]


def test_a_page_does_not_stay_if_the_run_was_stopped() -> None:
    notices = StopsDuringTheStay()
    with live_page(PageOptions(page_stay=1e6), notices=notices):
        notices.health = "stopped"
    assert len(notices.all) == 1


def test_before_the_run(served_page: tuple[LivePage, Served], browser: Browser) -> None:
    _, server = served_page
    with browser.page(server.address, 390, 844, dark=True) as page:
        page.wait("document.getElementById('phase').textContent === 'starting'")
        assert page.run("document.documentElement.scrollWidth") <= 390
    assert server.request("/metrics")[0] == 200
    assert json.loads(server.request("/healthz")[1]) == {"status": "starting"}


def test_the_page_is_read_only(served_page: tuple[LivePage, Served]) -> None:
    _, server = served_page
    for path in ("/", "/events", "/metrics", "/healthz"):
        for method in ("POST", "PUT", "DELETE"):
            assert server.request(path, method)[0] == 405
    assert server.request("/", Host="evil.example")[0] == 403
    assert server.request("/api/training")[0] == 404


def test_a_token_is_needed_beyond_the_first_request(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    notices = Notices()
    with live_page(PageOptions(page_token_file=tmp_path / "token"), notices=notices):
        server = Served(notices.port)
        assert TOKEN not in notices.all[0]
        for path in ("/", "/events", "/metrics", "/static/style.css", "/?token=wrong", "/?token=%ff"):
            assert server.request(path)[0] == 401
        assert server.request("/healthz")[0] == 200
        assert server.request("/metrics", Authorization=f"Bearer {TOKEN}")[0] == 200
        assert server.request("/metrics", Authorization=f"Bearer {TOKEN}x")[0] == 401
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("GET", f"/?token={TOKEN}")
        answer = connection.getresponse()
        assert answer.status == 303
        cookie = answer.headers["Set-Cookie"]
        connection.close()
        assert "HttpOnly" in cookie
        assert server.request("/", Cookie=cookie.split(";")[0])[0] == 200
        assert server.request("/", Cookie='slotwise-token=x; a="')[0] == 401


def certificate(folder: Path) -> tuple[Path, Path]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    (folder / "page.crt").write_bytes(made.public_bytes(encoding))
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "page.key").write_bytes(key.private_bytes(encoding, *plain))
    return folder / "page.crt", folder / "page.key"


def test_beyond_this_machine_with_token_and_tls(tmp_path: Path) -> None:
    crt, key = certificate(tmp_path)
    (tmp_path / "token").write_text(TOKEN)
    with socket.socket() as free:
        free.bind(("0.0.0.0", 0))
        port = free.getsockname()[1]
    options = PageOptions(
        page_listen=f"0.0.0.0:{port}",
        page_token_file=tmp_path / "token",
        page_certificate=crt,
        page_key=key,
    )
    notices = Notices()
    with live_page(options, notices=notices):
        assert notices.all[0].startswith("live page at https://")
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", notices.port, timeout=60, context=context)
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        assert connection.getresponse().status == 200
        connection.close()


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"page_listen": "0.0.0.0:8338"}, "page_token_file"),
        ({"page_listen": "nowhere"}, "page_listen"),
        ({"page_listen": "127.0.0.1:99999"}, "page_listen"),
        ({"page_token_file": Path("no-such-file")}, "page_token_file"),
        ({"page_token_file": Path(__file__)}, "page_token_file"),
        ({"page_certificate": Path(__file__)}, "page_key"),
        ({"page_key": Path(__file__)}, "page_certificate"),
        ({"page_certificate": Path(__file__), "page_key": Path(__file__)}, "page_certificate"),
    ],
    ids=["token", "listen", "port", "missing", "many-lines", "no-key", "no-certificate", "no-pem"],
)
def test_options_that_cannot_be(options: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InputError) as found:
        PageOptions(**options)
    assert found.value.parameter == parameter


def test_a_hundred_slow_readers_for_an_hour_cost_no_memory(
    served_page: tuple[LivePage, Served], tmp_path: Path
) -> None:
    observer, server = served_page
    with live_fleet(tmp_path / "run", observer) as fleet:
        fleet.finish()
    connections = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=60) for _ in range(100)]
    for connection in connections:
        connection.request("GET", "/events")
        assert connection.getresponse().status == 200

    def publish(count: int) -> None:
        for number in range(count):
            assert observer.snapshot is not None
            observer._publish(replace(observer.snapshot, moment=observer.snapshot.moment + number * 1e-9))

    publish(100)
    tracemalloc.start()
    publish(1)
    before, _ = tracemalloc.get_traced_memory()
    publish(4 * 3600)
    assert server.request("/healthz")[0] == 200  # the loop has handled what was published before
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    for connection in connections:
        connection.close()
    assert after - before < 4_000_000


def test_snapshots_keep_a_bounded_past(served_page: tuple[LivePage, Served], tmp_path: Path) -> None:
    observer, _ = served_page
    with live_fleet(tmp_path / "run", observer) as fleet:
        fleet.finish()
    maker = observer._maker
    assert maker is not None
    for number in range(2_000):
        maker.note_rejection(f"slotwise/test/from/{number}/ready", "nonsense")
    for _ in range(500):
        maker.make()
    found = maker.make()
    assert len(found.rejections) == 20
    assert len(found.rejected_by) <= CONFIG.channel.devices
    assert len(maker._done) < 70
