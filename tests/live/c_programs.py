"""The device in C, compiled as docs/protocol.md says."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples/c_device"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
CHECKS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]  # reading outside of an array ends it
MQTT = ["slotwise_device.c", "channel_mqtt.c"], ["-lmosquitto", "-lm"], "mosquitto.h", "libmosquitto-dev"
UDP = ["slotwise_device.c", "channel_udp.c", "sealing.c"], ["-lcrypto", "-lm"], "openssl/evp.h", "libssl-dev"


def build(folder, channel, *options, sources=None):
    """Compile the device with one of its channels."""
    usual, libraries, header, package = channel
    compiler = shutil.which("cc")
    if compiler is None or not Path("/usr/include", header).exists():
        if os.environ.get("SLOTWISE_REQUIRE_COMPILER"):
            pytest.fail(f"a C compiler and {package} are required here and not installed")
        pytest.skip(f"a C compiler or {package} is not installed")
    built = folder / "slotwise_device"
    flags = ["-std=c11", "-O2", "-ffp-contract=off", *WARNINGS, *options]
    paths = [EXAMPLE / source for source in sources or usual]  # absolute ones stay as they are
    subprocess.run([compiler, *flags, *paths, *libraries, "-o", built], check=True)
    return built


def make_task_importable(monkeypatch):
    """Let processes and this test import logistic_task."""
    paths = [str(EXAMPLE), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.syspath_prepend(EXAMPLE)
