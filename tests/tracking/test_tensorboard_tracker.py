"""Properties of TensorBoard that the other libraries do not have."""

from pathlib import Path

from stored_runs import read_tensorboard
from tracked_toy import Toy

from slotwise.base.observer import Observers
from slotwise.learning import Point
from slotwise.runs import Observer, RunConfig, run
from slotwise.tracking.trackers import TensorboardTracker


def test_every_point_is_on_disk_as_soon_as_it_is_evaluated(config: RunConfig, tmp_path: Path) -> None:
    class Reader(Observer):
        seen = 0

        def evaluated(self, point: Point) -> None:
            self.seen += 1
            steps = read_tensorboard(tmp_path / "run" / "tensorboard").steps
            assert len(steps) == self.seen
            assert steps[-1] == point.slot

    reader = Reader()
    run(config, tmp_path / "run", task=Toy(), observer=Observers(TensorboardTracker(), reader))
    assert reader.seen > 5


def test_a_file_in_place_of_the_folder_does_not_end_the_training(config: RunConfig, tmp_path: Path) -> None:
    class Blocking(Observer):
        def run_opened(self, folder: object, config: object) -> None:
            (tmp_path / "run" / "tensorboard").touch()

    notices: list[str] = []
    observer = Observers(Blocking(), TensorboardTracker(notify=notices.append))
    assert run(config, tmp_path / "run", task=Toy(), observer=observer).status == "finished"
    assert len(notices) == 1
