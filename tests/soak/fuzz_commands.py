"""Mutated inputs of all kinds, through the real commands, each batch twice.

    python -m tests.soak.fuzz_commands --count 3000 --seed 1
    python -m tests.soak.fuzz_commands --kinds arrays,table --count 500

No crash, no hang, no traceback, at most 1 GiB of resident memory in a process, and the same result
in both runs, of which one has other numbers of workers and another content of fresh memory. Cases
are a function of (seed, kind, number).
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import subprocess
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from tests.folders import make_picture
from tests.hostile_runs import Command, HostileRun, run_limited
from tests.soak.command import end
from tests.soak.fuzz_inputs import KINDS, FuzzKind
from tests.soak.mutations import change_json, mutate

_IN_FOLDER = 200  # files of a run whose broken files are rejects
_IN_PROCESS = 50  # runs of one file each in forks of a process
_RUNS = (
    ({"MALLOC_PERTURB_": "85"}, ("--workers", 1)),
    ({"MALLOC_PERTURB_": "170"}, ("--workers", 2)),
)
_MEMORY = 1 << 30  # bytes, resident


@dataclasses.dataclass
class Findings:
    """Outcomes by kind, and what must not be."""

    outcomes: Counter[str] = dataclasses.field(default_factory=Counter)
    problems: list[str] = dataclasses.field(default_factory=list)


def mutated(kind: str, seed: int, numbers: Sequence[int]) -> dict[str, bytes]:
    """Return {file name: content} of mutated inputs, of these numbers."""
    given = KINDS[kind].make()
    names = sorted(given)
    found = {}
    for number in numbers:
        random = np.random.default_rng([seed, zlib.crc32(kind.encode()), number])
        name, other = (names[random.integers(len(names))] for _ in range(2))
        if name.endswith(".json") and random.integers(2):
            content = change_json(given[name], random)
        else:
            content, _ = mutate(given[name], given[other], random)
        found[f"{number:05d}-{name}"] = content
    return found


def fuzz_kind(kind: str, *, seed: int, first: int, count: int, place: pathlib.Path) -> Findings:
    """Run mutated inputs, from number `first`, in batches below the folder `place`."""
    findings = Findings()
    step = _IN_PROCESS if KINDS[kind].whole else _IN_FOLDER
    for begin in range(first, first + count, step):
        numbers = range(begin, min(begin + step, first + count))
        folder = place / f"{kind}-{begin}"
        commands = list(_write(KINDS[kind], mutated(kind, seed, numbers), folder))
        where = f"--kinds {kind} --seed {seed} --first {begin} --count {len(numbers)}"
        try:
            runs = [_run(commands, folder / f"{n}", *how) for n, how in enumerate(_RUNS)]
        except (AssertionError, subprocess.TimeoutExpired) as error:
            findings.problems.append(f"{where}: {str(error)[-2500:]}")
            continue
        for command, one, other in zip(commands, *runs, strict=True):
            if one.result != other.result:
                what = f"{one.result} and {other.result}"
                findings.problems.append(f"{where}: {command[2]}: two runs differ: {what}")
            if max(one.peak, other.peak) > _MEMORY:
                findings.problems.append(f"{where}: {command[2]}: {one.peak} bytes of memory")
            findings.outcomes[f"{kind}: exit code {one.code}"] += 1
            if one.made is not None:
                findings.outcomes.update(f"{kind}: {why}" for why in one.made.rejects.values())
    return findings


def _write(kind: FuzzKind, files: dict[str, bytes], folder: pathlib.Path) -> Iterator[Command]:
    """Write the inputs into a folder, and yield the commands that read them."""
    inputs = folder / "in"
    inputs.mkdir(parents=True)
    photos = kind.photos
    if photos is None:
        photos = [pathlib.Path(name).with_suffix(".jpg").name for name in files]
    for name in photos:
        make_picture(folder / "photos" / name, 1)
    for name, content in kind.beside.items():
        (folder / name).write_bytes(content)
    for name, content in files.items():
        (inputs / name).write_bytes(content)
        if kind.whole:
            yield kind.command(inputs / name)
    if not kind.whole:
        yield kind.command(inputs)


def _run(
    commands: Sequence[Command],
    outputs: pathlib.Path,
    environment: dict[str, str],
    options: Command,
) -> list[HostileRun]:
    each = [(*command, *options, outputs / f"{n}") for n, command in enumerate(commands)]
    return run_limited(*each, environment=environment)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=300, help="mutated inputs of each kind")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    arguments = parser.parse_args()
    problems: list[str] = []
    print("| outcome | number |\n|---|--:|")
    for kind in arguments.kinds.split(","):
        with tempfile.TemporaryDirectory() as place:
            findings = fuzz_kind(
                kind,
                seed=arguments.seed,
                first=arguments.first,
                count=arguments.count,
                place=pathlib.Path(place),
            )
        for outcome, number in sorted(findings.outcomes.items()):
            print(f"| {outcome} | {number} |", flush=True)
        problems += findings.problems
    end(problems)


if __name__ == "__main__":
    main()
