"""Rows for `benchmarks.tables`: a table with a rare class, again and again under new keys; distinct
rows of mixed types; and rows of thousands of columns.
"""

from __future__ import annotations

import itertools
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.measure import DATA

FILE = "rows.csv"
KEY, LABEL = "id", "class"
DISTINCT_SCALED = ("income", "latitude", "score")  # columns of decimal numbers
_AT_ONCE = 500  # wide rows
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


def write_distinct_rows(count: int, path: pathlib.Path) -> None:
    """A CSV of numbers, categories and a class; a twentieth of some columns is missing."""
    random = np.random.default_rng(7)

    def with_missing(values: np.ndarray) -> pa.Array:
        return pa.array(values, mask=random.random(count) < 0.05)

    cities = np.array(["Berlin", "Bern", "London", "Madrid", "Oslo", "Paris", "Rome", "Vienna"])
    products = np.array([f"product {number}" for number in range(1000)])
    table = pa.table(
        {
            "age": random.integers(18, 90, count),
            "income": np.round(random.lognormal(10, 1, count), 2),
            "latitude": with_missing(np.round(random.normal(41.8, 0.02, count), 6)),
            "score": with_missing(np.round(random.normal(0, 1, count), 4)),
            "visits": random.poisson(20, count),
            "temperature": np.round(random.normal(15, 8, count), 1),
            "city": with_missing(random.choice(cities, count)),
            "product": products[np.minimum(random.geometric(0.01, count), len(products) - 1)],
            "label": random.choice(["maybe", "no", "yes"], count, p=[0.1, 0.3, 0.6]),
        }
    )
    pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(quoting_style="none"))


def write_wide_rows(count: int, columns: int, path: pathlib.Path) -> list[str]:
    """A CSV of numbers of four decimals, and a class; returns the names of the numbers."""
    random = np.random.default_rng(7)
    names = [f"c{number}" for number in range(columns)]
    with path.open("w", encoding="utf-8", newline="\n") as sink:
        sink.write(f"{','.join((*names, 'label'))}\n")
        for start in range(0, count, _AT_ONCE):
            values = random.normal(size=(min(_AT_ONCE, count - start), columns))
            for row, label in zip(
                values.tolist(), random.choice(["a", "b", "c"], len(values)), strict=True
            ):
                sink.write(",".join((*(f"{value:.4f}" for value in row), label)) + "\n")
    return names
