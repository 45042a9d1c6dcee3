"""CPU of pipelines that write records in memory, compared with the commands and with Beam.

    python -m benchmarks.values                             20,000 images, 1,000,000 rows, 3 runs
    python -m benchmarks.values --images 400 --rows 20000 --runs 1 --only ours,command

`ours` is a custom pipeline: `ReadImages | DecodeAndResizeImages | AssignSplits | WriteToTFRecord`,
or batches of a CSV, or its lines as dicts, before the same last steps. `command` is the command on
the same input, and must give the same keys, splits and labels. `beam` is the custom pipeline with
`SerializeExamples` and Beam's own `WriteToTFRecord`, which writes one set in any order, and
`bare-beam` is what a user of Beam writes without Recordmill. Whole processes run in alternation, on
two cores, and the median of each counts.
"""

from __future__ import annotations

import argparse
import functools
import pathlib
import tempfile
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.contest import (
    Command,
    Contender,
    add_options,
    alternate,
    medians,
    payloads,
    table,
)
from benchmarks.images import copy_photos
from benchmarks.measure import FailedError, bar, machine, python, two_cores
from benchmarks.rows import FILE, KEY, LABEL, write_rows

_SPLITS = ("--splits", "train=0.8,validation=0.1,test=0.1", "--seed", 7, "--quiet")
_COMMANDS = {
    "images": ("images", "--size", 224),
    "table": ("table", "--key-column", KEY, "--label-column", LABEL),
}
_LEAST = 20_000  # records; with fewer, starting Python and its libraries is much of it
_COMMAND_BAR, _BEAM_BAR = 1.2, 1.0  # CPU of ours over that of the others, at most


def _command(kind: str) -> Command:
    def command(source: pathlib.Path, output: pathlib.Path) -> list[str]:
        name, *options = _COMMANDS[kind]
        places = ("--input", source, "--output", output)
        return python("recordmill", name, *places, *options, *_SPLITS)

    return command


def _pipeline(kind: str, writer: str) -> Command:
    def command(source: pathlib.Path, output: pathlib.Path) -> list[str]:
        return python("benchmarks.peers.value_pipelines", kind, writer, source, output)

    return command


def _bare_beam(source: pathlib.Path, output: pathlib.Path) -> list[str]:
    return python("benchmarks.peers.plain_beam", source, output)


def contenders(kind: str) -> list[Contender]:
    """Return the contenders for `images`, `table` or `dicts`, ours first."""
    of_kind = [
        Contender(name="ours", what="WriteToTFRecord", command=_pipeline(kind, "ours")),
        Contender(name="beam", what="Beam's WriteToTFRecord", command=_pipeline(kind, "beam")),
    ]
    if kind in _COMMANDS:
        of_kind.append(Contender(name="command", what="the command", command=_command(kind)))
    if kind == "images":
        of_kind.append(Contender(name="bare-beam", what="plain Beam", command=_bare_beam))
    return of_kind


class Check:
    """Raises FailedError unless all records are there, and ours have the keys of the command."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._rows: pa.Table | None = None

    def __call__(self, output: pathlib.Path) -> None:
        written = sum(1 for _ in payloads(output))
        if written != self._records:
            raise FailedError(f"{output.name}: expected {self._records} records, got {written}")
        paths = sorted((output / "index").glob("*.parquet"))
        if not paths:  # Beam's own
            return
        columns = ["key", "copy", "label"]
        rows = pa.concat_tables([pq.read_table(path, columns=columns) for path in paths])
        names = [path.name for path in paths for _ in range(pq.read_metadata(path).num_rows)]
        rows = rows.append_column("split", pa.array([name.split("-")[0] for name in names]))
        rows = rows.combine_chunks().sort_by("key")
        if self._rows is not None and not rows.equals(self._rows):
            raise FailedError(f"{output.name}: other keys, copies, labels or splits than before")
        self._rows = rows


def compare(kind: str, only: Sequence[str], source: pathlib.Path, records: int, runs: int) -> None:
    """Run the contenders for a kind of records, and print their times."""
    chosen = [one for one in contenders(kind) if one.name in only]
    results = alternate(chosen, source=source, check=Check(records), runs=runs)
    unit = "images" if kind == "images" else "rows"
    print(f"\n{kind}: {records} {unit}, {runs} runs of each in alternation\n")
    print(table(chosen, results, records=records, unit=unit))
    cpu = medians(results, of="cpu")
    asked = records >= _LEAST
    for name, at_most in (("command", _COMMAND_BAR), ("beam", _BEAM_BAR), ("bare-beam", _BEAM_BAR)):
        if "ours" in cpu and name in cpu:
            what = f"CPU, ours / {name}"
            print(bar(what, cpu["ours"] / cpu[name], at_most=at_most if asked else None))
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    add_options(parser, contenders("images"))
    parser.set_defaults(runs=3)
    arguments = parser.parse_args()
    only = [one.name for one in arguments.only]
    two_cores()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as folder:
        run = functools.partial(compare, only=only, runs=arguments.runs)
        if arguments.images:
            photos = pathlib.Path(folder, "images", "input")
            copy_photos(arguments.images, photos)
            run("images", source=photos, records=arguments.images)
        if arguments.rows:
            for kind in ("table", "dicts"):  # outputs lie beside the source
                rows = pathlib.Path(folder, kind, FILE)
                rows.parent.mkdir()
                write_rows(arguments.rows, rows)
                run(kind, source=rows, records=arguments.rows)


if __name__ == "__main__":
    main()
