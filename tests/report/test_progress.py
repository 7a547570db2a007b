import os
import signal

import pytest

from slotwise.learning import History, Point
from slotwise.report.progress import StageProgress, Stop, TrainingProgress, stop_on_signals
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate

POINT = Point(10, 3, 0.5, 0.75, 2)


@pytest.fixture
def timeline() -> Timeline:
    return simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=6)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_to_stop_and_the_second_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_on_signals() as stop:
        assert not stop.requested
        os.kill(os.getpid(), number)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


def test_a_training_stops_when_it_was_asked_to() -> None:
    stop = Stop()
    progress = TrainingProgress(stop, quiet=True)
    assert not progress.wants_stop()
    stop.requested = True
    assert progress.wants_stop()


@pytest.mark.parametrize("resumed", [None, History((POINT,), {}, 3)], ids=["new", "resumed"])
def test_the_bar_shows_slots_rounds_and_the_newest_figures(
    timeline: Timeline, resumed: History | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with TrainingProgress(Stop()) as progress:
        progress.run_started(timeline, resumed)
        progress.evaluated(POINT)
        for k in range(3 if resumed else 0, 6):
            progress.round_done(k)
    shown = capsys.readouterr().err
    assert "async S=2" in shown
    for part in ("slot 20/20", "round 6/6", "loss 0.500", "acc 75.0%", "stale 2"):
        assert part in shown


def test_a_quiet_training_shows_nothing(timeline: Timeline, capsys: pytest.CaptureFixture[str]) -> None:
    with TrainingProgress(Stop(), quiet=True) as progress:
        progress.run_started(timeline, None)
        progress.round_done(0)
    assert capsys.readouterr() == ("", "")


def test_every_stage_has_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with StageProgress() as bars:
        bars.progress("training", 1, 3)
        bars.progress("training", 3, 3)
        bars.progress("gradients", 1, 2)
    shown = capsys.readouterr().err
    for part in ("training", "3/3", "gradients", "1/2"):
        assert part in shown


def test_without_a_stage_or_when_quiet_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with StageProgress():
        pass
    with StageProgress(quiet=True) as bars:
        bars.progress("training", 1, 3)
    assert capsys.readouterr() == ("", "")
