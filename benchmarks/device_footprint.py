"""Disk and memory of a small device: benchmarks/device_footprint.py [--keep FOLDER].

Installs slotwise-device into a new environment, starts a mosquitto broker and three devices that wait for a
run, and then a run with a numpy task of their own; prints megabytes (of 1,000,000 bytes). The server is the
slotwise of the Python that runs this. If there is a C compiler, the device in C is built for MQTT and for UDP
and started, too. The exit code is 1 if a device has more than 160 MB installed or 50 MB resident while it
waits, or one in C more than 0.1 and 8 MB.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_INSTALLED, MOST_RESIDENT = 160.0, 50.0  # MB
NOT_NEEDED = ("numba", "matplotlib", "plotly", "amqtt")
MOST_INSTALLED_C, MOST_RESIDENT_C = 0.1, 8.0
TIMEOUT = 120.0  # seconds
C_DEVICE = ROOT / "examples/c_device"
C_CHANNELS = {  # sources and libraries of the device in C
    "mqtt": ("channel_mqtt.c", "-lmosquitto"),
    "udp": ("channel_udp.c", C_DEVICE / "sealing.c", "-lcrypto"),
}
CREDENTIALS = 'broker = "udp://127.0.0.1:{port}"\nname = "trial"\nuser = "device-1"\nsecret = "{secret}"\n'
TASK = """
import numpy as np

class LeastSquares:
    def initial_model(self):
        return np.zeros(1000, dtype=np.float32)
    def local_update(self, model, start):
        return (0.1 * (model - start.device)).astype(np.float32)
    def evaluate(self, model):
        return float(np.square(model - 2).mean()), float("nan")
    def named_arrays(self, model):
        return {"w": model}

def make(config):
    return LeastSquares()
"""


def install(folder: Path) -> Path:
    """Return the folder of programs of a new environment with slotwise-device."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, ROOT / "deploy/device"], check=True)
    return folder / "bin"


def megabytes(path: Path) -> float:
    """Return the size of all files below a folder."""
    files = (file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    return sum(file.stat().st_size for file in files) / 1e6


def status(process: subprocess.Popen[bytes], name: str) -> float:
    """Return a size in the status of a process; 0 if it has just ended."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(name)), 0.0)


def wait_for(log: Path, text: str) -> None:
    """Wait until a process has written a text."""
    until = time.monotonic() + TIMEOUT
    while text not in log.read_text():
        if time.monotonic() > until:
            raise SystemExit(f"no {text!r} in: {log.read_text()}")
        time.sleep(0.05)


def measure(programs: Path, folder: Path) -> tuple[float, float]:
    """Return the memory of a device that waits, and the most that it takes in a run."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "footprint_task.py").write_text(TASK)
    (folder / "broker.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nlog_dest none\n")
    mosquitto = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin")
    if mosquitto is None:
        raise SystemExit("mosquitto is not installed (Debian: apt install mosquitto)")
    common = ["--broker", f"mqtt://127.0.0.1:{port}", "--task", "footprint_task:make"]
    started = [subprocess.Popen([mosquitto, "-c", folder / "broker.conf"])]
    try:
        for number in (1, 2, 3):
            with (folder / f"device-{number}.log").open("wb") as log:
                command = [programs / "slotwise-device", "--id", str(number), *common]
                started.append(subprocess.Popen(command, cwd=folder, stderr=log))
        for number in (1, 2, 3):
            wait_for(folder / f"device-{number}.log", "connected to")
        idle = max(status(device, "VmRSS") for device in started[1:])
        channel = ["--devices", "3", "--group-size", "1", "--compute-slots", "2", "--deadline", "2000"]
        command = [sys.executable, "-m", "slotwise", "serve", *common, *channel, "--quiet"]
        server = subprocess.Popen([*command, "--out", folder / "run"], cwd=folder, stdout=subprocess.DEVNULL)
        started.append(server)
        busy = 0.0
        while server.poll() is None:
            for device in started[1:4]:
                if device.poll():
                    raise SystemExit(f"a device failed with exit code {device.returncode}")
                if device.returncode is None:
                    busy = max(busy, status(device, "VmHWM"))
            time.sleep(0.02)
        if server.returncode:
            raise SystemExit(f"the run failed with exit code {server.returncode}")
        return idle, busy
    finally:
        for process in started:
            process.kill()
            process.wait()


def measure_c(folder: Path) -> bool:
    """Print size and memory of the device in C, which looks for a server; return whether that is little."""
    small = True
    for name, (channel, *more) in C_CHANNELS.items():
        program = folder / f"device-{name}"
        sources = [C_DEVICE / "slotwise_device.c", C_DEVICE / str(channel)]
        if subprocess.run(["cc", "-O2", *sources, *more, "-lm", "-o", program], check=False).returncode:
            print(f"device in C over {name}: not built")
            continue
        credentials = folder / "device-1.toml"
        credentials.write_text(CREDENTIALS.format(port=9, secret="A" * 43 + "="))
        arguments = ["127.0.0.1", "9", "trial", "1"] if name == "mqtt" else [credentials]
        with subprocess.Popen([program, *arguments], stderr=subprocess.DEVNULL) as device:
            time.sleep(1.0)
            resident, installed = status(device, "VmRSS"), program.stat().st_size / 1e6
            device.kill()
        print(f"device in C over {name}: {installed:.3f} MB, {resident:.1f} MB resident")
        small = small and installed <= MOST_INSTALLED_C and resident <= MOST_RESIDENT_C
    return small


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", type=Path, help="folder for the environment, which is kept")
    keep, small = parser.parse_args().keep, True
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        programs = install((keep or folder / "environment").absolute())
        packages = next((programs.parent / "lib").glob("python*/site-packages"))
        found = [name for name in NOT_NEEDED if (packages / name).exists()]
        installed = megabytes(programs.parent)
        sizes = [(megabytes(path), path.name) for path in packages.iterdir() if path.is_dir()]
        idle, busy = measure(programs, folder)
        if shutil.which("cc"):
            small = measure_c(folder)
    largest = ", ".join(f"{name} {size:.0f}" for size, name in sorted(sizes, reverse=True)[:7])
    print(f"installed: {installed:.0f} MB ({largest})")
    print(f"resident: {idle:.1f} MB while it waits for a run, {busy:.1f} MB at most in a run of its own task")
    if found or installed > MOST_INSTALLED or idle > MOST_RESIDENT or not small:
        sys.exit(f"too much: {MOST_INSTALLED:g} MB, {MOST_RESIDENT:g} MB and none of {found} are allowed")


if __name__ == "__main__":
    main()
