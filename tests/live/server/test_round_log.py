"""The log of rounds: of constant cost, exact after kills while it writes, and made from old checkpoints."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from memory_run import CONFIG, serve_in_memory

from live import play, prepare
from slotwise.live.server import round_log
from slotwise.live.server.live_results import measured_timeline, timeline_text
from slotwise.live.server.round_log import FILE, RECENT, Late, Position, Round, RoundLog
from slotwise.live.server.state import Snapshot, decode_state, encode_state
from slotwise.scenario import Scenario
from slotwise.schedule import scheduler_for

EXAMPLE = Scenario(devices=6, group_size=2, compute_slots=4)


def a_round(k, *, late=()):
    uplinks, lost = [(k, 1 + k % 3, k, 2 * k, 2 * k + 1)], [(k, 2, k, 2 * k, 2 * k + 1)] * (k % 2)
    return Round(2 * k + 1, 2 * k + 2, 0.5 * k, uplinks, lost, [1 + k % 3], list(late))


@pytest.fixture(params=["memory", "file"])
def log(request, tmp_path):
    return RoundLog(None if request.param == "memory" else tmp_path / FILE)


def test_rounds_are_read_as_they_were_added(log, monkeypatch):
    monkeypatch.setattr(round_log, "MOST_PENDING", 500)
    rounds = [a_round(k, late=[Late(2, k, "training")] if k == 7 else []) for k in range(50)]
    log.start([1, 2, 3])
    for one in rounds:
        log.add(one)
    assert list(log) == rounds
    assert (log.rounds, log.updates, log.lost, log.seconds, log.late) == (50, 50, 25, 24.5, {2: 1})
    record = log.record()
    assert record.receivers == [[1, 2, 3], *([1 + k % 3] for k in range(50))]
    assert len(record.lost) == 25


@pytest.mark.parametrize("kept", [0, 3, 30, 50])
def test_going_back_leaves_the_log_as_it_was(log, monkeypatch, kept):
    monkeypatch.setattr(round_log, "MOST_PENDING", 500)
    positions = [log.position]
    for k in range(50):
        log.add(a_round(k))
        positions.append(log.position)
    log.go_back(positions[kept])
    assert log.position == positions[kept]
    assert list(log) == [a_round(k) for k in range(kept)]
    log.add(a_round(kept))
    assert list(log)[-1] == a_round(kept)
    assert log.recent[-1] == (kept, a_round(kept))


def test_another_process_goes_on_where_a_checkpoint_was_made(tmp_path, monkeypatch):
    monkeypatch.setattr(round_log, "TAIL", 700)
    first = RoundLog(tmp_path / FILE)
    for k in range(30):
        first.add(a_round(k))
    then = first.position
    first.add(a_round(30))
    first.flush()
    second = RoundLog(tmp_path / FILE)
    assert second.resume(then)
    assert second.position == then
    assert second.recent[-1] == (29, a_round(29))
    assert 2 < len(second.recent) < 30  # what the end of the file has
    assert list(second) == [a_round(k) for k in range(30)]


@pytest.mark.parametrize("damage", [lambda data: data[:-5], lambda data: b"x" + data[1:], lambda _: b""])
def test_a_log_that_is_not_what_it_was_is_refused(tmp_path, damage):
    log = RoundLog(tmp_path / FILE)
    for k in range(9):
        log.add(a_round(k))
    log.flush()
    (tmp_path / FILE).write_bytes(damage((tmp_path / FILE).read_bytes()))
    assert not RoundLog(tmp_path / FILE).resume(log.position)
    assert RoundLog(tmp_path / FILE).resume(Position())


def test_what_is_kept_in_memory_and_saved_does_not_grow():
    log, sizes = RoundLog(), []
    for k in range(4 * RECENT):
        log.add(a_round(k))
        if (k + 1) % RECENT == 0:
            sizes.append(len(json.dumps(log.position)))
    assert len(log.recent) == RECENT
    assert max(sizes) - min(sizes) < 20  # digits of larger numbers


def test_a_checkpoint_does_not_grow_with_the_rounds():
    short, long = (play(prepare(EXAMPLE, "async", rounds=rounds)).state for rounds in (20, 400))
    assert abs(len(encode_state(Snapshot.of(long))) - len(encode_state(Snapshot.of(short)))) < 200
    assert len(long.completions) < 10


def test_the_timeline_is_written_from_the_log_as_a_timeline_would_be(tmp_path):
    outcome = serve_in_memory(tmp_path / "run")
    plan, state = CONFIG.simulate(), outcome.state
    expected = measured_timeline(CONFIG, plan, state).to_json()
    assert "".join(timeline_text(CONFIG, plan, state)) == expected
    assert (tmp_path / "run/timeline.json").read_text() == expected


def test_lost_uplinks_are_part_of_the_timeline():
    config = CONFIG.with_options(devices=3, group_size=1)
    state = play(prepare(config.channel, "idfl", rounds=6)).state
    rows = [one._replace(lost=[(k, 2, k, 1, 2)]) for k, one in enumerate(state.log)]
    state.log = RoundLog()
    state.log.start([1, 2, 3])
    for one in rows:
        state.log.add(one)
    text = "".join(timeline_text(config, config.simulate(), state))
    assert text == measured_timeline(config, config.simulate(), state).to_json()
    assert text.count('"lost"') == 6


def old_checkpoint(state):
    """Return the state as the version before the log wrote it."""
    snapshot, record = Snapshot.of(state), state.record
    document = {n: v for n, v in snapshot.document.items() if n not in ("log", "completions")}
    document["late"] = [(2, 3, "training")]
    arrays = {
        "round_seconds": np.array([one.seconds for one in state.log]),
        "uplinks": np.array(record.uplinks, dtype=np.int64).reshape(-1, 5),
        "lost": np.array(record.lost, dtype=np.int64).reshape(-1, 5),
        "broadcasts": np.array(record.broadcasts, dtype=np.int64).reshape(-1, 2),
        "receivers": np.array([n for group in record.receivers for n in group], dtype=np.int64),
        "receiver_counts": np.array([*map(len, record.receivers)], dtype=np.int64),
        "models_versions": np.array(sorted(snapshot.models), dtype=np.int64),
        "models": np.stack([snapshot.models[version] for version in sorted(snapshot.models)]),
        "unevaluated_versions": np.empty(0, dtype=np.int64),
        "unevaluated": np.empty((0, 0), dtype=np.float32),
    }
    text, buffer = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8), io.BytesIO()
    np.savez(buffer, allow_pickle=False, document=text, **arrays)
    return buffer.getvalue()


def test_a_checkpoint_of_the_version_before_the_log_is_read(tmp_path):
    live = prepare(EXAMPLE, "idfl", rounds=12)
    kept = {}

    def keep(state):
        if state.round == 7:
            kept["old"], kept["position"] = old_checkpoint(state), state.log.position
            kept["completions"] = dict(state.completions)

    live.on_round = keep
    play(live)
    log = RoundLog(tmp_path / FILE)
    state = decode_state(kept["old"], scheduler_for(EXAMPLE, "idfl"), 6, log)
    assert state.log.late == {2: 1}
    assert state.log.starters == kept["position"].starters
    assert [one._replace(late=[]) for one in state.log] == list(live.state.log)[:7]
    assert {version: kept["completions"][version] for version in state.completions} == state.completions
    assert set(state.completions) == set(state.models) - {0}
    again = play(prepare(EXAMPLE, "idfl", rounds=12, state=state), resumed=True)
    assert np.array_equal(again.models[12], live.models[12])


KILLS = """
import json, os, signal, sys, traceback
from pathlib import Path
sys.path.insert(0, {tests!r})
from memory_run import *
from slotwise.live.server import round_log
from slotwise.runs import RunFolder
CONFIG = CONFIG.with_options(deadline=24)
SERVER = ServerConfig(name=TOPICS.name, checkpoint_every=0)
round_log.MOST_PENDING = 150
CHANGES = [(os, "fsync"), (Path, "replace"), (Path, "unlink"), (round_log.RoundLog, "_write")]

def in_child(path, deadly_call=0, how="before"):
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    calls = 0
    def deadly(function):
        def call(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls != deadly_call:
                return function(*arguments, **options)
            try:
                if how == "torn":
                    log, at, data = arguments
                    function(log, at, data[: len(data) // 2])
                elif how == "after":
                    function(*arguments, **options)
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        return call
    for place, name in CHANGES[-1:] if how == "torn" else CHANGES:
        setattr(place, name, deadly(getattr(place, name)))
    try:
        go_on(path)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)

def go_on(path):
    folder = RunFolder(path)
    if not folder.is_run:
        folder = new_live_folder(path, CONFIG, SERVER)
    async def scenario(clock):
        broker = MemoryBroker()
        devices = devices_on(broker, half_a_second(clock), CONFIG.channel.devices)
        async with devices, broker.connect() as channel:
            await live_run(folder, channel, CONFIG, clock=clock, server=SERVER)
    run_virtual(scenario)

def result(path):
    said = RunFolder(path).description()
    return [said["status"], said["model_sha256"], said["rounds"], (path / "timeline.json").read_text()]

here, how = Path(sys.argv[1]), sys.argv[2]
report = []
for call in range(1, 1000, 1 if how == "torn" else 7):
    path = here / str(call)
    if in_child(path, call, how) != signal.SIGKILL:
        break
    report.append([in_child(path), result(path)])
print(json.dumps([report, result(path)]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "after", "torn"])
def test_a_kill_while_it_writes_changes_nothing_of_the_run(tmp_path, how):
    program = KILLS.format(tests=str(Path(__file__).parents[1]))
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path), how]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")
    kills, undisturbed = json.loads(done.stdout)
    assert len(kills) > 4
    assert undisturbed[0] == "finished"
    assert kills == [[0, undisturbed]] * len(kills)
