"""The process of one training, without a server: options in, events out."""

import json
import subprocess
import sys

NOISY = """
from slotwise.errors import InputError
from slotwise.web import training_worker

def run(*_, **__):
    print("a library's own line, not ended yet", end="", flush=True)
    raise InputError("deadline", 1, "longer")

training_worker.run = run
training_worker.main()
"""


def test_what_a_library_prints_is_not_among_the_events() -> None:
    request = json.dumps({"options": {}, "defaults": {}, "out": "unused"}).encode() + b"\n"
    done = subprocess.run([sys.executable, "-c", NOISY], input=request, capture_output=True, check=True)
    (event,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (event["event"], event["status"], event["parameter"]) == ("ended", "refused", "deadline")
    assert b"a library's own line" in done.stderr
