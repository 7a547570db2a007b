"""Small local copies of the data sets that Flower Labs publishes, with the columns of the originals."""

import csv
import io
import string
from pathlib import Path

import numpy as np

NAMES = [*string.digits, *string.ascii_uppercase, *string.ascii_lowercase]


def png(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def write_femnist(
    folder: Path,
    images: list[bytes | np.ndarray],
    writers: list[str],
    characters: list[int],
    *,
    columns: dict[str, str] | None = None,
) -> Path:
    """Write parquet files like those of flwrlabs/femnist; ``columns`` renames some."""
    import datasets

    files = [{"bytes": one if isinstance(one, bytes) else png(one), "path": None} for one in images]
    table = {"image": files, "writer_id": writers, "hsf_id": [0] * len(files), "character": characters}
    features = {
        "image": datasets.Image(),
        "writer_id": datasets.Value("string"),
        "hsf_id": datasets.Value("int64"),
        "character": datasets.ClassLabel(names=NAMES),
    }
    made = datasets.Dataset.from_dict(table, features=datasets.Features(features))
    made = made.rename_columns(columns or {})
    (folder / "data").mkdir(parents=True)
    half = len(files) // 2 or 1
    for number, rows in enumerate((range(half), range(half, len(files)))):
        made.select(rows).to_parquet(str(folder / "data" / f"train-0000{number}-of-00002.parquet"))
    return folder


def write_shakespeare(folder: Path, roles: dict[str, str]) -> Path:
    """Write a CSV file like that of flwrlabs/shakespeare: all windows of 80 characters of each text."""
    folder.mkdir(parents=True)
    with (folder / "shakespeare.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["character_id", "x", "y"])
        for role, text in roles.items():
            for start in range(len(text) - 80):
                writer.writerow([role, text[start : start + 80], text[start + 80]])
    return folder
