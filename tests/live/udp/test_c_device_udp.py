"""The reference device in C over UDP: real servers, disturbed networks, and the same bytes as in Python."""

import json
import random
import select
import socket
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from c_programs import CHECKS, EXAMPLE, UDP, build, make_task_importable
from processes import PATIENT, UNBOUNDED, Process, free_port, until

from live import simulated_models
from slotwise.cli.app import run as main
from slotwise.live.udp.datagrams import HEADER_BYTES, SEALED, header
from slotwise.live.udp.sealing import REPLAY_WINDOW, Opener, Sealer
from slotwise.runs import RunFolder
from slotwise.runs.execution import build_task
from slotwise.runs.run_folder import model_sha256
from slotwise.schedule import Timeline

pytestmark = pytest.mark.slow

SLOTS = json.loads((Path(__file__).parents[3] / "docs/protocol-vectors.json").read_text())["slots"]
TASK = ("--task", "logistic_task:make")


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    return build(tmp_path_factory.mktemp("udp"), UDP)


@pytest.fixture(scope="session")
def checked_program(tmp_path_factory):
    return build(tmp_path_factory.mktemp("checked_udp"), UDP, *CHECKS)


@pytest.fixture
def begin(tmp_path, monkeypatch):
    make_task_importable(monkeypatch)
    started = []

    def start(*arguments):
        started.append(Process(tmp_path, *arguments, cwd=EXAMPLE))
        return started[-1]

    def start_c(program, credentials):
        started.append(subprocess.Popen([program, credentials]))
        return started[-1]

    start.c = start_c
    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


def enrol(folder, *, devices, port=None):
    where = ("--host", "127.0.0.1", "--port", str(port or free_port()))
    assert main(["enroll", str(folder), "--udp", "--devices", str(devices), *where]) == 0
    return folder


def assert_finished(out):
    """Check that the model is the one of the timeline, and return whether that is the plan."""
    folder = RunFolder.open(out)
    config, run = folder.parameters(), folder.description()
    timeline = Timeline.from_json((out / "timeline.json").read_text())
    models = simulated_models(timeline, build_task(config))
    assert (run["status"], run["rounds"]) == ("finished", timeline.rounds)
    assert run["model_sha256"] == model_sha256(models[timeline.rounds])
    return timeline.first_difference(config.simulate(), timeline.rounds) is None


def test_a_run_of_c_and_python_devices_over_udp_gives_the_simulators_model(program, begin, tmp_path):
    enrolled, out = enrol(tmp_path / "enrolled", devices=4), tmp_path / "run"
    channel = ("--devices", 4, "--group-size", 2, "--compute-slots", 4, "--deadline", 60)
    login = ("--credentials", enrolled / "server.toml", "--frame-bytes", 128)
    served = begin("serve", *login, *channel, *TASK, *UNBOUNDED, "--out", out, "--quiet")
    devices = [begin.c(program, enrolled / f"device-{number}.toml") for number in (1, 2, 4)]
    python = begin("device", "--id", 3, "--credentials", enrolled / "device-3.toml", *TASK)
    served.ends()
    python.ends()
    assert [device.wait(PATIENT) for device in devices] == [0, 0, 0]
    assert assert_finished(out)


def test_c_devices_return_to_a_server_that_was_killed(program, begin, tmp_path):
    enrolled, out = enrol(tmp_path / "enrolled", devices=2), tmp_path / "run"
    login = ("--credentials", enrolled / "server.toml", "--quiet", "--checkpoint-every", 0)
    channel = ("--devices", 2, "--group-size", 1, "--compute-slots", 4, "--deadline", 4000)
    served = begin("serve", *login, *channel, *TASK, *UNBOUNDED, "--out", out)
    devices = [begin.c(program, enrolled / f"device-{number}.toml") for number in (1, 2)]
    until(lambda: len(list((out / "live").glob("*.checkpoint"))), "checkpoint")
    served.kill9()
    begin("serve", *login, "--resume", out).ends()
    assert [device.wait(PATIENT) for device in devices] == [0, 0]
    assert_finished(out)


def test_a_checked_device_takes_part_over_a_network_that_loses_doubles_and_reorders(
    checked_program, begin, tmp_path
):
    far, port = free_port(), free_port()
    enrolled, out = enrol(tmp_path / "enrolled", devices=2, port=port), tmp_path / "run"
    near = enrolled / "device-1.toml"
    near.write_text(near.read_text().replace(f":{port}", f":{far}"))
    channel = ("--devices", 2, "--group-size", 2, "--compute-slots", 2, "--deadline", 80)
    login = ("--credentials", enrolled / "server.toml", "--frame-bytes", 128, "--quiet")
    with disturbed(far, port):
        served = begin("serve", *login, *channel, *TASK, *UNBOUNDED, "--out", out)
        devices = [begin.c(checked_program, enrolled / f"device-{number}.toml") for number in (1, 2)]
        served.ends()
        assert [device.wait(PATIENT) for device in devices] == [0, 0]
    assert assert_finished(out)


def test_checked_devices_send_in_slots_that_were_granted_ahead(checked_program, begin, tmp_path):
    enrolled, out = enrol(tmp_path / "enrolled", devices=3), tmp_path / "run"
    channel = ("--devices", 3, "--group-size", 2, "--compute-slots", 3, "--deadline", 60)
    slots = ("--grants-ahead", "--slot-ms", 150, "--multicast", f"239.255.0.1:{free_port()}", "--quiet")
    login = ("--credentials", enrolled / "server.toml")
    served = begin("serve", *login, *channel, *slots, *TASK, *UNBOUNDED, "--out", out)
    devices = [begin.c(checked_program, enrolled / f"device-{number}.toml") for number in (1, 2)]
    python = begin("device", "--id", 3, "--credentials", enrolled / "device-3.toml", *TASK)
    served.ends()
    python.ends()
    assert [device.wait(PATIENT) for device in devices] == [0, 0]
    assert_finished(out)
    arrived = {use[1] for use in json.loads((out / "slots.json").read_text())["uses"] if use[5] == "arrived"}
    assert arrived == {1, 2, 3}


def test_it_counts_slots_as_python_does(checked_program):
    vector = SLOTS["counter"]
    lines = [str(vector["slot_ns"]), *(f"{row['slot']} {row['local']}" for row in vector["heard"])]
    told = {"input": "\n".join(lines), "capture_output": True, "text": True, "timeout": 60}
    done = subprocess.run([checked_program, "--count"], check=True, **told)
    rows = [[row["beacons"], row["next_slot"], row["slot_100"]] for row in vector["heard"]]
    assert [[int(number) for number in line.split()] for line in done.stdout.splitlines()] == rows


@contextmanager
def disturbed(port, target):
    """Pass datagrams of one client on, badly."""
    ends = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    ends[0].bind(("127.0.0.1", port))
    ends[1].connect(("127.0.0.1", target))
    over, draw = threading.Event(), random.Random(1)

    def play():
        client, held = None, []
        while not over.is_set():
            for ready in select.select(ends, [], [], 0.02)[0]:
                try:
                    data, address = ready.recvfrom(2000)
                except OSError:  # the server does not listen yet
                    continue
                client = address if ready is ends[0] else client
                chance = draw.random()
                due = time.monotonic() + (draw.random() * 0.02 if chance < 0.3 else 0.0)
                held += [(due, ready is ends[0], data)] * (0 if chance < 0.1 else 2 if chance < 0.2 else 1)
            now = time.monotonic()
            for _, up, data in sorted(one for one in held if one[0] <= now):
                try:
                    if up:
                        ends[1].send(data)
                    else:
                        ends[0].sendto(data, client)
                except OSError:
                    continue
            held = [one for one in held if one[0] > now]

    thread = threading.Thread(target=play)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for end in ends:
            end.close()


@pytest.mark.parametrize("wrong", ["broker", "name", "user", "secret"])
def test_wrong_credentials_are_refused(program, tmp_path, wrong):
    enrolled = enrol(tmp_path / "enrolled", devices=1)
    (tmp_path / "device.toml").write_text(
        (enrolled / "device-1.toml").read_text().replace(f'{wrong} = "', f'{wrong} = "?')
    )
    done = subprocess.run([program, tmp_path / "device.toml"], capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    assert b"not the credentials" in done.stderr


def test_it_opens_and_seals_the_same_datagrams_as_python_and_each_once(tmp_path):
    driver = Path(__file__).parent / "opened.c"
    sources = [driver, "sealing.c"]
    opened = build(tmp_path, UDP, f"-I{EXAMPLE}", *CHECKS, sources=sources)
    key = bytes(range(32))
    sealer, opener = Sealer(key), Opener(key)
    sealed = [sealer.seal(header(SEALED, 7), bytes([n % 256]) * (n % 50)) for n in range(3 * REPLAY_WINDOW)]
    draw = random.Random(2)
    edges = [5, 0, REPLAY_WINDOW + 39, 40, 39, 41, 40, 3 * REPLAY_WINDOW - 1, 2 * REPLAY_WINDOW]
    order = [*range(40), *edges]
    order += [draw.randrange(len(sealed)) for _ in range(300)]
    tampered = [sealed[100][:-1] + b"\0", b"", sealed[100][:26], bytes(2000)]
    datagrams = [sealed[n] for n in order] + tampered
    lines = [f"key {key.hex()}", *(f"open {one.hex() or '0'}" for one in datagrams), "seal 0102", "seal 03"]
    done = subprocess.run([opened], input="\n".join(lines), capture_output=True, check=True, text=True)
    said = done.stdout.splitlines()[1:]
    expected = [opener.open(one, HEADER_BYTES) for one in datagrams]
    assert said[:-2] == ["refused" if one is None else one.hex() for one in expected]
    assert said.count("refused") > 50
    back = Opener(key)
    assert [back.open(bytes.fromhex(one), HEADER_BYTES) for one in said[-2:]] == [b"\1\2", b"\3"]
