"""A small input of each data type, and the command that makes a dataset of it."""

from __future__ import annotations

import pathlib
import shutil

import h5py
import numpy as np

from tests.paths import SMALL_CLOTHING, VIDEO


def make_inputs(folder: pathlib.Path) -> dict[str, list[str]]:
    """Write a small input of each data type; return {data type: command without --output}."""
    photos = sorted(SMALL_CLOTHING.rglob("*.jpg"))[::60][:8]
    for number, photo in enumerate(photos):
        place = folder / "images" / "ab"[number % 3 == 0] / f"{number}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(photo, place)
    lines = [f"{'ab'[n % 3 == 0]},{n},text {n * 7919 % 101} and {n}" for n in range(60)]
    for kind in ("text", "table"):
        (folder / kind).mkdir()
        (folder / kind / "rows.csv").write_text("\n".join(["label,number,text", *lines, ""]))
    (folder / "arrays" / "a").mkdir(parents=True)
    (folder / "arrays" / "b").mkdir()
    for number in range(3):
        values = np.arange(40, dtype=np.float32).reshape(5, 8) + number
        np.save(folder / "arrays" / "a" / f"{number}.npy", values)
        np.savez_compressed(folder / "arrays" / "b" / f"{number}.npz", x=values)
        with h5py.File(folder / "arrays" / "b" / f"{number}.h5", "w") as file:
            file.create_dataset("x", data=values, chunks=(2, 8), compression="gzip")
    (folder / "video" / "a").mkdir(parents=True)
    shutil.copy(VIDEO / "qcif.mp4", folder / "video" / "a" / "one.mp4")
    common = ["--quiet", "--workers", "2", "--num-shards", "1", "--splits", "train=0.8,test=0.2"]
    columns = ["--label-column", "label"]
    more = {
        "images": ["--size", "16", "--balance", "oversample"],
        "text": [*columns, "--text-column", "text"],
        "table": columns,
        "arrays": [],
        "video": ["--clip-frames", "30", "--size", "32"],
    }
    return {
        kind: [kind, "--input", str(folder / kind), *common, *options]
        for kind, options in more.items()
    }
