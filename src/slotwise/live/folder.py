"""LiveFolder: what a live run keeps beside the files of every run."""

from __future__ import annotations

import json
import time
from pathlib import Path

from slotwise.files import write_atomically
from slotwise.live.mailbox import Rejection
from slotwise.live.report import Comparison
from slotwise.live.saved_state import decode_state
from slotwise.live.state import LiveState
from slotwise.runs import RunFolder
from slotwise.runs.checkpoints import SealedFiles
from slotwise.schedule import Scheduler, Timeline

LOG_LIMIT = 10 << 20  # bytes of rejections told one by one; beyond that they are only counted


class LiveFolder:
    """What a live run keeps beside the files of every run."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.states = SealedFiles(folder.path / "live")

    @property
    def rejections(self) -> Path:
        """One line for each message that did not count."""
        return self.folder.path / "rejections.log"

    def load(self, scheduler: Scheduler) -> tuple[LiveState | None, list[Path]]:
        """The newest intact state, if any, and the damaged files that were passed over."""
        return self.states.load(lambda data: decode_state(data, scheduler))

    def write_results(self, timeline: Timeline, comparison: Comparison) -> None:
        """timeline.json and live.json."""
        write_atomically(self.folder.path / "timeline.json", timeline.to_json())
        text = json.dumps(comparison.as_dict(), indent=2)
        write_atomically(self.folder.path / "live.json", text + "\n")

    def log(self, rejection: Rejection) -> None:
        """Add a line to rejections.log; a flood of them does not fill the disk."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with self.rejections.open("a", encoding="utf-8") as log:
            if log.tell() < LOG_LIMIT:
                log.write(f"{stamp} {rejection}\n")
