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


def test_a_request_that_fails_ends_no_process(tmp_path: Path) -> None:
    requests = [{"call": "no such call", "given": {}}, {"call": "ready", "given": {}}]
    lines = b"".join(json.dumps(request).encode() + b"\n" for request in requests)
    command = [sys.executable, "-m", "slotwise.web.compute_worker", str(tmp_path), "60"]
    out = subprocess.run(command, input=lines, capture_output=True, check=True).stdout
    header, _, rest = out.partition(b"\n")
    length = json.loads(header)["length"]
    assert json.loads(header)["status"] == 500
    assert "no such call" in json.loads(rest[:length])["message"]
    assert json.loads(rest[length:].partition(b"\n")[0])["status"] == 200
