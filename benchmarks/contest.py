"""Several who make the same dataset: run in turn as whole processes, compared by their medians."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import pathlib
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from benchmarks.measure import Beside, Measured, run
from recordmill.tfrecord.framing import read_frames

Command = Callable[[pathlib.Path, pathlib.Path], list[str]]  # of input and output
Check = Callable[[pathlib.Path], None]  # of an output; raises FailedError
Results = Mapping[str, tuple[Measured, Sequence[Measured]]]  # {name: (untimed run, timed ones)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contender:
    """Somebody who makes the dataset. command: given input and output folder. beside: who works for
    it outside of its tree.
    """

    name: str
    what: str
    command: Command
    beside: Beside = dict


def add_options(parser: argparse.ArgumentParser, contenders: Sequence[Contender]) -> None:
    """`--runs`, and `--only`, which gives Contenders."""
    known = {contender.name: contender for contender in contenders}

    def pick(only: str) -> list[Contender]:
        names = only.split(",")
        if unknown := set(names) - set(known):
            raise argparse.ArgumentTypeError(
                f"expected some of {','.join(known)}, got {', '.join(sorted(unknown))}"
            )
        return [contender for contender in contenders if contender.name in names]

    parser.add_argument("--runs", type=int, default=5, help="timed runs of each")
    everybody = ",".join(known)
    parser.add_argument("--only", type=pick, default=everybody, help=f"some of {everybody}")


def payloads(output: pathlib.Path, *, of: str = "*") -> Iterator[bytes]:
    """Of all records, or those of a split; every frame is checked."""
    for path in sorted(output.glob(f"{of}.tfrecord*")):
        with path.open("rb") as stream:
            for frame in read_frames(stream, compression="none"):
                yield frame.payload


def alternate(
    contenders: Sequence[Contender], *, source: pathlib.Path, check: Check, runs: int
) -> Results:
    """Runs everybody in turn, each round from another one on, as what ran before may tell; output
    folders are made beside the source, checked and emptied.
    """
    untimed: dict[str, Measured] = {}
    timed: dict[str, list[Measured]] = {contender.name: [] for contender in contenders}
    turns = collections.deque(contenders)
    for number in range(runs + 1):
        for contender in turns:
            output = source.parent / f"{contender.name}-{number}"
            os.sync()  # what others left to write is not to be written now
            command = contender.command(source, output)
            measured = run(command, memory=number == 0, beside=contender.beside)
            check(output)
            _empty(output)
            print(f"run {number}: {contender.name} {measured.wall:.2f} s", file=sys.stderr)
            if number == 0:
                untimed[contender.name] = measured
            else:
                timed[contender.name].append(measured)
        turns.rotate(-1)
    return {name: (untimed[name], timed[name]) for name in timed}


def _empty(output: pathlib.Path) -> None:
    """Frees the space and leaves the names: ext4 does not give the inodes of files that were just
    removed to new ones, and looking for others took whoever ran next 0.7 ms per file, not 0.05.
    """
    for path in output.rglob("*"):
        if path.is_file():
            os.truncate(path, 0)


def table(contenders: Sequence[Contender], results: Results, *, records: int, unit: str) -> str:
    """Markdown, with the medians of each against the first. unit: what a record is, several."""
    lines = [
        f"| | wall s, median (least-most) | CPU s | peak MiB | {unit}/s"
        f" | wall / {contenders[0].what} |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    found = medians(results)
    cpu = medians(results, of="cpu")
    first = found[contenders[0].name]
    for contender in contenders:
        untimed, timed = results[contender.name]
        walls = [one.wall for one in timed]
        wall = found[contender.name]
        lines.append(
            f"| {contender.what} | {wall:.2f} ({min(walls):.2f}-{max(walls):.2f})"
            f" | {cpu[contender.name]:.1f} | {untimed.peak / 2**20:.0f} | {records / wall:.0f}"
            f" | {wall / first:.2f} |"
        )
    return "\n".join(lines)


def medians(results: Results, *, of: Literal["wall", "cpu"] = "wall") -> dict[str, float]:
    """{name: seconds}."""
    return {
        name: statistics.median(getattr(one, of) for one in timed)
        for name, (_, timed) in results.items()
    }
