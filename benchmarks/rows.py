"""Rows for `benchmarks.tables`: a table with a rare class, again and again under new keys."""

from __future__ import annotations

import itertools
import pathlib

import numpy as np

from benchmarks.measure import DATA

FILE = "rows.csv"
KEY, LABEL = "id", "class"
# Six decimal numbers each, as the file has them in this order; it has no header.
NUMBERS = ("area", "grey", "gradient", "noise", "contrast", "moment")
LABELS = ("'-1'", "'1'")  # as they are written, quotes included


def write_rows(count: int, path: pathlib.Path) -> None:
    """A CSV with a key, six numbers and a class; keys are in no order."""
    text = (DATA / "imbalanced" / "imbalanced.csv").read_text(encoding="utf-8")
    rows = itertools.cycle(text.splitlines())
    keys = np.random.default_rng(0).permutation(count)
    with path.open("w", encoding="utf-8", newline="\n") as sink:
        sink.write(f"{','.join((KEY, *NUMBERS, LABEL))}\n")
        for key, row in zip(keys.tolist(), rows, strict=False):
            sink.write(f"{key:08d},{row}\n")
