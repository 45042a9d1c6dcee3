"""--learned-from at size: what is applied is what was learned, for tables, texts and series.

python -m tests.soak.learned                       1,000,000 rows of each
python -m tests.soak.learned --rows 20000 --kind table
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.measure import FailedError, machine, python, run
from recordmill.format.manifest import load
from recordmill.reading.reader import read
from recordmill.storage.files import Location
from tests.soak.command import DifferenceError

_WORDS = 5_000
_CHECKED = 20_000  # records that are computed again


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kind", choices=[*_KINDS], action="append")
    arguments = parser.parse_args()
    print(machine())
    for kind in arguments.kind or _KINDS:
        with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as folder:
            apply(kind, arguments.rows, pathlib.Path(folder))


def _table(count: int, seed: int) -> Mapping[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    # The second table is another: other numbers, and words that the first does not have.
    words = draw.zipf(1.3, count) % _WORDS + 100 * seed
    number = np.round(draw.normal(10 + 3 * seed, 3, count), 3)
    return {
        "raw": number,
        "x": number,
        "y": number * 2,
        "word": np.char.add("w", words.astype(str)),
    }


def _text(count: int, seed: int) -> Mapping[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    words = np.char.add("w", (draw.zipf(1.3, (count, 5)) % _WORDS + 100 * seed).astype(str))
    return {"text": np.array([" ".join(some) for some in words.tolist()])}


def _sensor(count: int, seed: int) -> Mapping[str, np.ndarray]:
    table = _table(count, seed)
    times = np.datetime64("2026-01-01T00:00:00") + np.arange(count).astype("timedelta64[s]")
    return {"time": times.astype(str), **{name: table[name] for name in ("raw", "x", "y")}}


_COLUMNS = ("--zscore", "x", "--bucketize", "y=10")
_KINDS: dict[str, tuple[Callable[[int, int], Mapping[str, np.ndarray]], tuple[str, ...]]] = {
    "table": (_table, (*_COLUMNS, "--vocabulary", "word", "--vocab-size", "3000")),
    "text": (
        _text,
        ("--tokenizer", "whitespace", "--features", "text,tokens", "--vocab-size", "3000"),
    ),
    "sensor": (
        _sensor,
        (*_COLUMNS, "--time-column", "time", "--window", "10", "--split-by", "time"),
    ),
}


def apply(kind: str, count: int, folder: pathlib.Path) -> None:
    """Learns from one input, applies that to another, and computes the values again.

    Raises:
      DifferenceError: a value, a file or an exit code is wrong.
    """
    make, options = _KINDS[kind]
    for seed, name in enumerate(("old", "new")):
        columns = make(count, seed)
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        lines = "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)])
        (folder / f"{name}.csv").write_text(lines + "\n")
    seconds = []
    for name in ("old", "new"):
        command = (kind, "--input", folder / f"{name}.csv", "--output", folder / name, *options)
        learned = () if name == "old" else ("--learned-from", folder / "old")
        measured = run(python("recordmill", *command, *learned, "--quiet"), memory=False)
        seconds.append(measured.cpu)
    old, new = (load(Location.parse(str(folder / name))) for name in ("old", "new"))
    files = [n for n in old.files if n == "learned.json" or n.startswith("vocabulary/")]
    if not files or any(old.files[n] != new.files[n] for n in files):
        raise DifferenceError(f"{kind}: expected the same learned files, got {files}")
    if old.features != new.features:
        raise DifferenceError(f"{kind}: expected the same features, got {new.features}")
    checked = 0
    for _, record in zip(range(_CHECKED), read(str(folder / "new")), strict=False):
        if not _is_right(kind, folder / "old", record):
            raise DifferenceError(f"{kind}: expected the values of the old dataset, got {record}")
        checked += 1
    print(
        f"{kind}: {count:,} rows, {', '.join(files)} equal, {checked:,} records computed again;"
        f" CPU {seconds[0]:.1f} s learning, {seconds[1]:.1f} s applying"
    )
    if kind == "text":
        return
    limit = ("--max-drift", "0.05", "--learned-from", folder / "old", "--quiet")
    command = (kind, "--input", folder / "new.csv", "--output", folder / "no", *options, *limit)
    try:
        run(python("recordmill", *command), memory=False)
    except FailedError as error:
        if "--max-drift allows 0.05" not in str(error):
            raise
    else:
        raise DifferenceError(f"{kind}: expected --max-drift to fail the run")
    if (folder / "no" / "dataset.json").exists():
        raise DifferenceError(f"{kind}: expected no dataset after too much drift")


def _is_right(kind: str, old: pathlib.Path, record: Mapping[str, Any]) -> bool:
    """Computes the features of a record from the files of the old dataset."""
    if kind == "text":
        numbers = _numbers(old / "vocabulary/tokens.txt")
        words = record["text"].decode().split(" ")
        return list(record["tokens"]) == [numbers.get(word, 1) for word in words]
    learned = _learned(old)
    raw = np.asarray(record["raw"], np.float64)
    scaled = (raw - learned["x"]["mean"]) / learned["x"]["deviation"]
    buckets = np.searchsorted(learned["y"]["boundaries"], np.round(raw, 3) * 2, side="right")
    # raw is stored as float32, so a value may lie on the other side of a boundary.
    near = np.abs(buckets - np.asarray(record["y"])) <= 1
    return bool(np.allclose(record["x"], scaled, atol=1e-5) and near.all())


@functools.cache
def _numbers(path: pathlib.Path) -> Mapping[str, int]:
    lines = path.read_text().split("\n")[:-1]
    return {line: number for number, line in enumerate(lines, start=2)}


@functools.cache
def _learned(old: pathlib.Path) -> Any:
    return json.loads((old / "learned.json").read_text())


if __name__ == "__main__":
    main()
