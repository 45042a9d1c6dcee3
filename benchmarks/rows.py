"""Rows for `benchmarks.tables`: real measurements of mammograms, again and again under new keys."""

from __future__ import annotations

import itertools
import pathlib

import numpy as np

from benchmarks.measure import SHARED

FILE = "rows.csv"
KEY, LABEL = "id", "class"
# Six decimal numbers each, as the file has them in this order; it has no header.
NUMBERS = ("area", "grey", "gradient", "noise", "contrast", "moment")
LABELS = ("'-1'", "'1'")  # as they are written, quotes included


def write_rows(count: int, path: pathlib.Path) -> None:
    """A CSV with a key, six numbers and a class; keys are in no order."""
    text = (SHARED / "mammography" / "mammography.csv").read_text(encoding="utf-8")
    rows = itertools.cycle(text.splitlines())
    keys = np.random.default_rng(0).permutation(count)
    with path.open("w", encoding="utf-8", newline="\n") as sink:
        sink.write(f"{','.join((KEY, *NUMBERS, LABEL))}\n")
        for key, row in zip(keys.tolist(), rows, strict=False):
            sink.write(f"{key:08d},{row}\n")
