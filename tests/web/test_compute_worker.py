"""The process that computes answers, without a server: requests in, answers out, until its input ends."""

import json
import subprocess
import sys
from pathlib import Path

from slotwise.web.answers import Answers

REQUESTS = [("ready", {}), ("view", {"devices": "0"}), ("runs", {})]


def test_requests_are_answered_in_order_until_the_input_ends(tmp_path: Path) -> None:
    lines = b"".join(json.dumps({"call": call, "given": given}).encode() + b"\n" for call, given in REQUESTS)
    command = [sys.executable, "-m", "slotwise.web.compute_worker", str(tmp_path), "60"]
    rest = subprocess.run(command, input=lines, capture_output=True, check=True).stdout
    for call, given in REQUESTS:
        expected = Answers(tmp_path).answer(call, given)
        line, _, rest = rest.partition(b"\n")
        header = json.loads(line)
        assert (header["status"], header["media_type"]) == (expected.status, expected.media_type)
        assert rest[: header["length"]] == expected.content
        rest = rest[header["length"] :]
    assert rest == b""
