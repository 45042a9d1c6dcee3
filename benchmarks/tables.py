"""How long a dataset of a table takes, against the same work done in other ways.

    python -m benchmarks.tables                         1,000,000 rows, 5 runs of each
    python -m benchmarks.tables --rows 20000 --runs 1 --only ours,bare
    python -m benchmarks.tables --encoder               the encoder of Examples by itself
    python -m benchmarks.tables --scale                 ours, 10,000,000 rows against 1,000,000
    python -m benchmarks.tables --distinct              ours, 1,000,000 distinct rows without a key
    python -m benchmarks.tables --wide                  ours, 3,000 columns of 1,000 and 10,000 rows
    python -m benchmarks.tables --files                 ours, 150,000 rows in 3,000 files and in one

The rows are real measurements, again and again under new keys. Everybody makes the same seven
features: six numbers of mean 0 and deviation 1, and the number of the class. Ours alone has keys
that are proved to be unique, splits, checks of the values, statistics, a shuffle, an index, sums of
files, and can be resumed; the others write one set in the order of the rows. `plain` is ours
without statistics, which none of the others has either. A first round, which is not timed, measures
memory, and all that is written is read back; after every run frames are checked and counted. Whole
processes run in alternation, on two cores, and the median of each counts. Needs `make peers`.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from benchmarks.contest import (
    Command,
    Contender,
    Results,
    add_options,
    alternate,
    medians,
    payloads,
    table,
)
from benchmarks.measure import (
    PEERS,
    FailedError,
    bar,
    machine,
    python,
    run,
    two_cores,
)
from benchmarks.rows import (
    DISTINCT_SCALED,
    FILE,
    KEY,
    LABEL,
    LABELS,
    NUMBERS,
    write_distinct_rows,
    write_rows,
    write_wide_rows,
)
from recordmill.tfrecord.decode import Value, decode_example

_AT_ONCE = 10_000  # records checked
_LEARNED_FROM = ("train", "all")  # what files begin with of which mean and deviation are
_OFF = 1e-3  # from mean 0 and deviation 1, at most
_TIMES = 10  # the larger number of rows of `--scale` and of `--wide` over the other
_WIDE_ROWS, _COLUMNS = 1_000, 3_000
_WIDE_PEAK = 1  # GiB, of a wide table, at most
_FILES, _ROWS_A_FILE = 3_000, 50
_FILE_BAR = 0.4  # maximum CPU time in ms for each further small file

# What was asked for.
_LEAST = 1_000_000  # rows; with fewer, starting Python and its libraries is much of it
_CPU_BARS = {"tft": 6, "pandas": 4}  # medians of CPU time: theirs over ours, at least
_BARE_BAR = 1.8  # median of CPU time: ours over the bare loop's, at most
_PEAK = 2  # GiB, of ten million rows, at most


def _ours(source: pathlib.Path, output: pathlib.Path, *more: str) -> list[str]:
    places = ("--input", source, "--output", output)
    columns = ("--key-column", KEY, "--label-column", LABEL, "--zscore", ",".join(NUMBERS))
    splits = ("--splits", "train=0.8,validation=0.1,test=0.1", "--seed", 7)
    return python("recordmill", "table", *places, *columns, *splits, "--quiet", *more)


def _without_statistics(source: pathlib.Path, output: pathlib.Path) -> list[str]:
    return _ours(source, output, "--no-statistics")


def _peer(module: str) -> Command:
    """By the environment that has its libraries."""

    def command(source: pathlib.Path, output: pathlib.Path) -> list[str]:
        return python(f"benchmarks.peers.{module}", source, output, interpreter=PEERS)

    return command


_CONTENDERS = (
    Contender(name="ours", what="recordmill table", command=_ours),
    Contender(name="plain", what="recordmill table --no-statistics", command=_without_statistics),
    Contender(
        name="bare", what="pyarrow, tfx_bsl's encoder, frames", command=_peer("table_bare_loop")
    ),
    Contender(name="tft", what="TFX style", command=_peer("table_tft")),
    Contender(name="pandas", what="pandas + tf.train.Example", command=_peer("table_pandas")),
    Contender(name="beam", what="plain Beam", command=_peer("table_beam")),
)


class Check:
    """Raises FailedError unless every frame is whole, all rows are there, and, in the first round,
    every Example is as it should be.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._read: set[str] = set()

    def __call__(self, output: pathlib.Path) -> None:
        again = output.name in self._read
        self._read.add(output.name)
        written = sum(1 for _ in payloads(output)) if again else self._count(output)
        if written != self._rows:
            raise FailedError(f"{output.name}: expected {self._rows} records, got {written}")

    def _count(self, output: pathlib.Path) -> int:
        """The records, each of which is looked at."""
        written = 0
        for name in sorted({path.name.partition(".")[0] for path in output.glob("*.tfrecord*")}):
            numbers = []
            for values in _values(output, name):
                written += len(values)
                numbers.append(values)
            if name in _LEARNED_FROM:
                _check_scale(np.concatenate(numbers), f"{output.name}, {name}")
        return written


def _values(output: pathlib.Path, name: str) -> Iterator[np.ndarray]:
    """The numbers of some records of a split: float64[n, 6]."""
    records = payloads(output, of=name)
    while some := [*itertools.islice(records, _AT_ONCE)]:
        where = f"{output.name}, {name}"
        first = _table([decode_example(some[0])], where)
        values = _alike(some)
        if values is None:
            values = _table([decode_example(payload) for payload in some], where)
        if not (values[0] == first[0]).all():
            raise FailedError(f"{where}: expected {first[0]}, got {values[0]}")
        yield values


def _alike(some: Sequence[bytes]) -> np.ndarray | None:
    """Return the numbers of records that differ only in numbers and class: float64[n, 6].

    None for other records. Decoding a million records one by one takes a minute.
    """
    if len({*map(len, some)}) > 1:
        return None
    # A float is after its name and the tags and lengths of Feature, FloatList and values.
    places = [
        some[0].index(b"\x12\x08\x12\x06\n\x04", some[0].index(n.encode())) + 6 for n in NUMBERS
    ]
    label = some[0].index(b"label\x12\x05\x1a\x03\n\x01") + 11
    rows = np.frombuffer(b"".join(some), np.uint8).reshape(len(some), -1)
    is_equal = (rows == rows[0]).all(axis=0)
    for place in places:
        is_equal[place : place + 4] = True
    is_equal[label] = True
    if not is_equal.all() or not (rows[:, label] < len(LABELS)).all():
        return None
    found = [np.ascontiguousarray(rows[:, at : at + 4]).view("<f4")[:, 0] for at in places]
    return np.stack(found, axis=1).astype(np.float64)


def _table(examples: Sequence[Mapping[str, Value]], where: str) -> np.ndarray:
    declared = {**dict.fromkeys(NUMBERS, np.float32), "label": np.int64}
    columns = {}
    for example in examples:
        if example.keys() != declared.keys():
            got = ", ".join(sorted(example))
            raise FailedError(f"{where}: expected {', '.join(declared)}, got {got}")
    for name, dtype in declared.items():
        found = [np.asarray(example[name]) for example in examples]
        if any(values.shape != (1,) or values.dtype != dtype for values in found):
            raise FailedError(f"{where}: expected one {dtype.__name__} of {name}")
        columns[name] = np.concatenate(found)
    if not np.isin(columns["label"], range(len(LABELS))).all():
        raise FailedError(f"{where}: expected labels below {len(LABELS)}")
    return np.stack([columns[name] for name in NUMBERS], axis=1).astype(np.float64)


def _check_scale(values: np.ndarray, where: str) -> None:
    for name, mean, deviation in zip(NUMBERS, values.mean(0), values.std(0), strict=True):
        if not (abs(mean) <= _OFF and abs(deviation - 1) <= _OFF):
            raise FailedError(
                f"{where}: expected {name} of mean 0 and deviation 1, got {mean:g}, {deviation:g}"
            )


def bars(results: Results, rows: int) -> list[str]:
    """What was got, and what was asked for; below a million rows nothing was."""
    if "ours" not in results:
        return []
    asked = rows >= _LEAST
    wall, cpu = medians(results), medians(results, of="cpu")
    lines = []
    for name, at_least in _CPU_BARS.items():
        if name in results:
            got = cpu[name] / cpu["ours"]
            lines.append(bar(f"CPU, {name} / ours", got, at_least=at_least if asked else None))
    if "bare" in results:
        at_most = _BARE_BAR if asked else None
        lines += [
            bar(f"CPU, {name} / bare", cpu[name] / cpu["bare"], at_most=at_most)
            for name in ("ours", "plain")
            if name in results
        ]
        lines.append(bar("wall, ours / bare", wall["ours"] / wall["bare"]))
    return lines


def contest(contenders: Sequence[Contender], *, rows: int, runs: int) -> None:
    """Everybody in turn."""
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as folder:
        source = pathlib.Path(folder, FILE)
        write_rows(rows, source)
        results = alternate(contenders, source=source, check=Check(rows), runs=runs)
    print(f"\n{rows:,} rows, {runs} runs of each in alternation\n")
    print(table(contenders, results, records=rows, unit="rows"))
    print(*["", *bars(results, rows)], sep="\n", flush=True)


def encoders(*, rows: int, runs: int) -> None:
    """Ours and tfx_bsl's, in a process of their own."""
    command = python("benchmarks.peers.table_encoders", rows, runs, interpreter=PEERS)
    print(f"\n{run(command, memory=False).output}", flush=True)


def scale(rows: int) -> None:
    """Ours with few rows and with many; memory is looked at while the clock runs."""
    found = []
    for count in (rows, _TIMES * rows):
        with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as folder:
            source, output = pathlib.Path(folder, FILE), pathlib.Path(folder, "out")
            write_rows(count, source)
            measured = run(_ours(source, output), memory=True)
            _remove(output, records=count)
        found.append(measured)
        peak = measured.peak / 2**20
        shown = f"{measured.wall:.1f} s wall, {measured.cpu:.1f} s CPU, {peak:.0f} MiB peak"
        print(f"\n{count:,} rows: {shown}", flush=True)
    few, many = found
    asked = rows >= _LEAST
    print(bar("peak GiB", many.peak / 2**30, at_most=_PEAK if asked else None))
    print(bar(f"wall, {_TIMES} times the rows", many.wall / few.wall))
    print(bar(f"peak, {_TIMES} times the rows", many.peak / few.peak), flush=True)


def distinct(*, rows: int, runs: int) -> None:
    """Ours without a column of keys: a key is a hash of the content of its row."""
    found = []
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as folder:
        source, output = pathlib.Path(folder, FILE), pathlib.Path(folder, "out")
        write_distinct_rows(rows, source)
        for _ in range(runs):
            found.append(run(_without_keys(source, output, DISTINCT_SCALED), memory=False))
            _remove(output, records=rows)
    cpu, wall = (
        statistics.median(getattr(one, figure) for one in found) for figure in ("cpu", "wall")
    )
    print(f"\n{rows:,} distinct rows: {wall:.1f} s wall, {cpu:.1f} s CPU", flush=True)


def wide() -> None:
    """Ours with thousands of columns; memory is looked at while the clock runs."""
    for rows in (_WIDE_ROWS, _TIMES * _WIDE_ROWS):
        with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as folder:
            source, output = pathlib.Path(folder, FILE), pathlib.Path(folder, "out")
            scaled = write_wide_rows(rows, _COLUMNS, source)
            measured = run(_without_keys(source, output, scaled), memory=True)
            _remove(output, records=rows)
        shown = f"{measured.wall:.1f} s wall, {measured.cpu:.1f} s CPU"
        print(f"\n{rows:,} rows of {_COLUMNS:,} columns: {shown}")
        print(bar("peak GiB", measured.peak / 2**30, at_most=_WIDE_PEAK), flush=True)


def files(*, runs: int) -> None:
    """Ours with the same rows in many small files and in one file, in alternation."""
    found: dict[int, list[float]] = {1: [], _FILES: []}
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as folder:
        source, output = pathlib.Path(folder, FILE), pathlib.Path(folder, "out")
        write_distinct_rows(_FILES * _ROWS_A_FILE, source)
        header, *rows = source.read_text(encoding="utf-8").splitlines(keepends=True)
        many = pathlib.Path(folder, "many")
        many.mkdir()
        for number in range(_FILES):
            some = rows[number * _ROWS_A_FILE : (number + 1) * _ROWS_A_FILE]
            (many / f"{number:05d}.csv").write_text("".join([header, *some]), encoding="utf-8")
        for _ in range(runs):
            for count, place in ((1, source), (_FILES, many)):
                command = _without_keys(place, output, DISTINCT_SCALED)
                found[count].append(run(command, memory=False).cpu)
                _remove(output, records=len(rows))
    one, several = (statistics.median(cpu) for cpu in found.values())
    print(f"\n{len(rows):,} rows: {one:.2f} s CPU in one file, {several:.2f} s in {_FILES:,} files")
    print(bar("ms CPU per file", 1000 * (several - one) / _FILES, at_most=_FILE_BAR), flush=True)


def _without_keys(source: pathlib.Path, output: pathlib.Path, scaled: Sequence[str]) -> list[str]:
    places = ("--input", source, "--output", output)
    return python(
        "recordmill", "table", *places, "--zscore", ",".join(scaled), "--seed", 7, "--quiet"
    )


def _remove(output: pathlib.Path, *, records: int) -> None:
    written = sum(1 for _ in payloads(output))
    shutil.rmtree(output)
    if written != records:
        raise FailedError(f"expected {records} records, got {written}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=_LEAST)
    add_options(parser, _CONTENDERS)
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--encoder", action="store_true", help="the encoder by itself instead")
    other.add_argument("--scale", action="store_true", help=f"{_TIMES} times the rows instead")
    other.add_argument("--distinct", action="store_true", help="rows without keys instead")
    other.add_argument("--wide", action="store_true", help=f"{_COLUMNS:,} columns instead")
    other.add_argument("--files", action="store_true", help=f"{_FILES:,} small files instead")
    arguments = parser.parse_args()
    alone = arguments.scale or arguments.distinct or arguments.wide or arguments.files
    names = {contender.name for contender in arguments.only}
    if not PEERS.exists() and (arguments.encoder or (names - {"ours"} and not alone)):
        parser.error("run `make peers` first, or say --only ours")
    two_cores()
    print(machine())
    if arguments.encoder:
        encoders(rows=arguments.rows, runs=arguments.runs)
    elif arguments.scale:
        scale(arguments.rows)
    elif arguments.distinct:
        distinct(rows=arguments.rows, runs=arguments.runs)
    elif arguments.wide:
        wide()
    elif arguments.files:
        files(runs=arguments.runs)
    else:
        contest(arguments.only, rows=arguments.rows, runs=arguments.runs)


if __name__ == "__main__":
    main()
