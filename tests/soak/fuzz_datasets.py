"""Datasets with one damaged file by the thousand: commands report it, and never end otherwise.

    python -m tests.soak.fuzz_datasets --count 2000 --seed 1
    python -m tests.soak.fuzz_datasets --seed 1 --case 123      one case again, with its traceback

A case is a function of (seed, number): a small dataset of a data type, one file of which has
flipped bits, lacks a part, has a part twice or noise in it; or, if it is JSON, has other values,
names or depths; or, if it is an index, other rows or columns. `verify --deep`, `inspect`,
`inspect --record` and reading all records must end with exit code 0 to 2, and without an unexpected
exception; `verify` must find damage in every file that the manifest lists. Every tenth case also
runs the command again that made the dataset, with `--verify`. Processes have limited memory and
time.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import recordmill
from benchmarks.measure import FailedError, python
from recordmill.errors import RunError
from recordmill.pipelines.cli import main as recordmill_main
from recordmill.pipelines.commands import dataset_commands
from tests.paths import CLOTHING, ROOT
from tests.soak.command import end, expect_success, start
from tests.soak.mutations import change_json
from tests.soak.small_inputs import make_inputs

_BATCH = 250  # cases per process
_MEMORY = 4 << 30  # bytes of address space, most of which libraries reserve
_MOST_RESIDENT = 768 << 20  # bytes of one process; a limit of 512 MiB beside 250 MiB of imports
_SECONDS = 60  # that one case may take
_RERUN_EVERY = 10
# Options beside those of `make_inputs`, by data type.
_OPTIONS = {
    "images": ["--statistics", "--max-reject-fraction", "0.5"],
    "text": ["--statistics", "--tokenizer", "words"],
    "table": ["--statistics", "--zscore", "number", "--vocabulary", "text"],
    "arrays": [],
    "video": [],
}
_NOISE = tuple(bytes([n]) for n in (0, 10, 34, 91, 123, 127, 128, 255))


def make_datasets(folder: pathlib.Path) -> None:
    """Write the datasets that cases damage, with statistics, and images with rejects and copies."""
    commands = make_inputs(folder / "in")
    photos = folder / "in" / "images"
    shutil.rmtree(photos)
    for label in sorted(CLOTHING.iterdir())[:3]:
        shutil.copytree(label, photos / label.name)
        shutil.copy(next(label.iterdir()), photos / label.name / "again.jpg")
        (photos / label.name / "broken.jpg").write_bytes(b"no image")
    for kind, command in commands.items():
        (folder / kind).mkdir()
        (folder / kind / "command.json").write_text(json.dumps(command + _OPTIONS[kind]))
        expect_success(start(python("recordmill", *arguments(folder, kind, folder / kind / "out"))))


def arguments(folder: pathlib.Path, kind: str, output: pathlib.Path) -> list[str]:
    """Return the command that makes a dataset."""
    command = json.loads((folder / kind / "command.json").read_text())
    return [*command, "--output", str(output), "--workers", "1", "--seed", "3"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One damaged file. kind: data type of the dataset. how: what was done to the file."""

    kind: str
    file: str
    content: bytes
    how: str


def make_case(folder: pathlib.Path, seed: int, number: int) -> Case:
    random = np.random.default_rng([seed, number])
    kind = str(random.choice(sorted(_OPTIONS)))
    dataset = folder / kind / "out"
    files = sorted(str(p.relative_to(dataset)) for p in dataset.rglob("*") if p.is_file())
    # The manifest and the indexes decide what is read.
    weights = [8 if name == "dataset.json" else 3 if "index/" in name else 1 for name in files]
    file = str(random.choice(files, p=np.array(weights) / sum(weights)))
    content = (dataset / file).read_bytes()
    kinds: list[Callable[[bytes, np.random.Generator], bytes]] = [_bytes]
    if file.endswith(".json"):
        kinds += [change_json, change_json, change_json, _deep]
    elif file.endswith(".jsonl") and content:
        kinds += [_lines, _lines, _deep]
    elif file.endswith(".parquet"):
        kinds += [_index, _index]
    how = kinds[int(random.integers(len(kinds)))]
    return Case(kind=kind, file=file, content=how(content, random), how=how.__name__)


def _bytes(content: bytes, random: np.random.Generator) -> bytes:
    data = bytearray(content)
    for _ in range(int(random.integers(1, 4))):
        at, stop = sorted(random.integers(0, len(data) + 1, 2).tolist())
        match int(random.integers(4)):
            case 0 if data:
                data[min(at, len(data) - 1)] ^= 1 << int(random.integers(8))
            case 1:
                del data[at:stop]
            case 2:
                data[at:at] = data[at : min(stop, at + 2000)]
            case _:
                data[at:at] = _NOISE[int(random.integers(len(_NOISE)))]
    return bytes(data)


def _lines(content: bytes, random: np.random.Generator) -> bytes:
    lines = content.splitlines()
    at = int(random.integers(len(lines)))
    lines[at] = change_json(lines[at], random)
    return b"\n".join(lines) + b"\n"


def _deep(content: bytes, random: np.random.Generator) -> bytes:
    depth = int(random.choice([500, 5_000, 200_000]))
    return content[: int(random.integers(2))] + b'[{"a":' * depth + b"9" * 5_000


def _index(content: bytes, random: np.random.Generator) -> bytes:
    table = pq.read_table(io.BytesIO(content))
    name = table.column_names[int(random.integers(table.num_columns))]
    at = table.column_names.index(name)
    many = 50_000
    match int(random.integers(5)):
        case 0:
            table = table.drop_columns([name])
        case 1:
            table = table.set_column(at, name, pa.nulls(len(table), table[name].type))
        case 2:
            table = table.set_column(at, name, pa.array(["?"] * len(table)))
        case 3:
            table = table.take(pa.array(random.permutation(len(table))))
        case _:
            table = table.take(pa.array([0] * many))
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def run_case(folder: pathlib.Path, seed: int, number: int) -> str:
    """Return what became of a case; what must not be is raised."""
    case = make_case(folder, seed, number)
    dataset = folder / case.kind / "out"
    damaged = folder / f"case-{os.getpid()}"
    shutil.rmtree(damaged, ignore_errors=True)
    shutil.copytree(dataset, damaged)
    is_same = (dataset / case.file).read_bytes() == case.content
    (damaged / case.file).write_bytes(case.content)
    place = ["--dataset", str(damaged)]
    verified = _run(["verify", *place, "--deep", "--quiet"])
    unequal = ("dataset.json", "job.json", "recipes.parquet")
    if is_same != (verified == 0) and case.file not in unequal:
        raise AssertionError(f"verify returned {verified}, but the file is the same: {is_same}")
    _run(["inspect", *place])
    _run(["inspect", *place, "--record", "1", "--json"])
    with contextlib.suppress(RunError, ValueError):
        for record in recordmill.open(damaged):
            del record
    if number % _RERUN_EVERY == 0:
        _run([*arguments(folder, case.kind, damaged), "--verify"])
    return f"{case.kind} {case.file.split('/')[0].split('-')[0]}: exit {verified}"


def _run(command: list[str]) -> int:
    """Run a command in this process. Raises AssertionError for an exit code other than 0 to 2."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = recordmill_main(command)
    said = out.getvalue() + errors.getvalue()
    if code not in (0, 1, 2) or "Traceback" in said:
        raise AssertionError(f"{command[0]} returned {code}: {said[-500:]}")
    return code


def run_batch(folder: pathlib.Path, seed: int, first: int, last: int) -> None:
    """The work of a process: print each number, then what came of it."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    # In this process, because starting others takes most of the time.
    dataset_commands.in_processes = lambda function, tasks, workers: map(function, tasks)  # type: ignore[assignment]
    for number in range(first, last):
        signal.alarm(_SECONDS)  # which ends the process
        print(number, end=" ", flush=True)
        try:
            print(run_case(folder, seed, number), flush=True)
        except Exception as error:  # noqa: BLE001  (what it is looking for)
            where = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__} in {where.name}: {str(error)[:300]!r}"
            print(f"! {what}", flush=True)
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        if most > _MOST_RESIDENT:
            print(f"{number} ! {most >> 20} MiB of memory", flush=True)
            return


def fuzz(folder: pathlib.Path, seed: int, count: int) -> tuple[Counter[str], list[str]]:
    """Return (outcomes, what must not be)."""
    outcomes: Counter[str] = Counter()
    found: list[str] = []
    first = 0
    while first < count:
        last = min(first + _BATCH, count)
        process = subprocess.run(
            python("tests.soak.fuzz_datasets", "--seed", seed, "--batch", folder, first, last),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = process.stdout.splitlines()
        if not lines:
            raise FailedError(f"no case was run: {process.stderr}")
        for line in lines:
            case, _, outcome = line.partition(" ")
            if outcome.startswith("!"):
                found.append(_report(folder, seed, int(case), outcome[2:]))
            elif outcome:
                outcomes[outcome] += 1
        first = int(lines[-1].split()[0]) + 1
        if process.returncode != 0:
            what = f"exit {process.returncode}: {process.stderr[-500:]}"
            found.append(_report(folder, seed, first - 1, what))
        print(f"{first} of {count}", file=sys.stderr)
    return outcomes, found


def _report(folder: pathlib.Path, seed: int, number: int, what: str) -> str:
    case = make_case(folder, seed, number)
    return f"--seed {seed} --case {number} ({case.kind} {case.file} {case.how}): {what}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run this one, and raise what it raises")
    parser.add_argument("--batch", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.batch is not None:
        folder, first, last = chosen.batch
        run_batch(pathlib.Path(folder), chosen.seed, int(first), int(last))
        return
    with tempfile.TemporaryDirectory(prefix="recordmill-fuzz-") as name:
        made = pathlib.Path(name)
        make_datasets(made)
        if chosen.case is not None:
            print(run_case(made, chosen.seed, chosen.case))
            return
        outcomes, found = fuzz(made, chosen.seed, chosen.count)
    print("| file: outcome | cases |\n|---|--:|")
    for outcome, cases in sorted(outcomes.items()):
        print(f"| {outcome} | {cases} |")
    end(found)


if __name__ == "__main__":
    main()
