"""Small inputs of every data type, of which each record has a given label."""

import pathlib
import wave
from collections.abc import Sequence

import numpy as np

from tests.folders import make_picture
from tests.paths import VIDEO

# {data type: options of a short run}
OPTIONS: dict[str, tuple[str, ...]] = {
    "images": (),
    "arrays": (),
    "video": ("--clip-frames", "100", "--size", "16"),
    "audio": (),
    "text": ("--text-column", "x"),
    "table": (),
    "sensor": ("--time-column", "time", "--window", "1", "--label-column", "label"),
}
OF_FILES = ("images", "arrays", "video", "audio")


def write_labelled(root: pathlib.Path, command: str, labels: Sequence[str]) -> pathlib.Path:
    """Write a record per label."""
    root.mkdir(parents=True, exist_ok=True)
    if command not in OF_FILES:
        rows = [
            f'2026-01-01 00:00:{n:02},w{n}.5,"{label}"\n'
            if command == "text"
            else f'2026-01-01 00:{n // 60:02}:{n % 60:02},{n}.5,"{label}"\n'
            for n, label in enumerate(labels)
        ]
        (root / "rows.csv").write_text("time,x,label\n" + "".join(rows))
        return root / "rows.csv"
    for n, label in enumerate(labels):
        path = root / label / f"{n}"
        path.parent.mkdir(exist_ok=True)
        if command == "images":
            make_picture(path.with_suffix(".png"), n)
        elif command == "arrays":
            np.save(path.with_suffix(".npy"), np.arange(n, n + 4))
        elif command == "audio":
            with wave.open(str(path.with_suffix(".wav")), "wb") as file:
                file.setparams((1, 2, 8000, 0, "NONE", ""))
                file.writeframes(np.arange(n, n + 80, dtype="<i2").tobytes())
        else:
            film = (VIDEO / "qcif.mp4").read_bytes() + b"\0" * n
            path.with_suffix(".mp4").write_bytes(film)
    return root
