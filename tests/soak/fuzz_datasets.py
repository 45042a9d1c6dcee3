"""Datasets with one damaged or forged file by the thousand: commands report it, and never crash.

    python -m tests.soak.fuzz_datasets --count 10000 --seed 1
    python -m tests.soak.fuzz_datasets --seed 1 --case 123      one case again, with its traceback

A case is a function of (seed, number): a small dataset of a data type, or the staging folder of a
run that did not finish, of which one file has flipped bits, lacks a part, has a part twice or noise
in it; or, if it is JSON, has other values, names or depths; or, if it is Parquet, has other rows,
columns or numbers. In two of three cases the manifest then states the hash of the changed file, as
someone would do who forges a dataset. Every command of `COMMANDS` that reads such a file must end
with exit code 0 to 2 and without an unexpected exception; `verify` must find damage in every file
that the manifest lists, unless it states its hash. Processes have limited memory and time.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
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
from collections.abc import Callable, Iterator, Sequence

import numpy as np

import recordmill
from benchmarks.measure import FailedError, python
from recordmill.errors import RunError
from recordmill.job import publishing
from recordmill.pipelines.cli import main as recordmill_main
from recordmill.pipelines.commands import dataset_commands
from tests.beam_reuse import reused_options
from tests.encoder_reuse import reused_encoders
from tests.paths import CLOTHING, ROOT
from tests.soak.command import end
from tests.soak.file_changes import CHANGES, add_noise, form_of
from tests.soak.small_inputs import make_inputs
from tests.sounds import chirp, write

_BATCH = 250  # cases per process
_MEMORY = 8 << 30  # bytes of address space, most of which libraries reserve
_MOST_RESIDENT = 2 << 30  # bytes of one process
_SECONDS = 120  # that one case may take
STAGED = "staged"
# Options beside those of `make_inputs`, by data type.
_OPTIONS = {
    "images": ["--statistics", "--max-reject-fraction", "0.5"],
    "text": ["--statistics", "--tokenizer", "words", "--features", "tokens,tfidf"],
    "table": ["--statistics", "--zscore", "number", "--vocabulary", "text", "--card", "CARD"],
    "sensor": ["--statistics", "--minmax", "number"],
    "arrays": [],
    "video": [],
    "audio": [],
}


def make_datasets(folder: pathlib.Path, kinds: Sequence[str] = tuple(_OPTIONS)) -> None:
    """Write the datasets that cases change, with statistics, and images with rejects and copies.

    Beside each is the output of a run that ended before it published.
    """
    commands = make_inputs(folder / "in")
    photos = folder / "in" / "images"
    shutil.rmtree(photos)
    for label in sorted(CLOTHING.iterdir())[:3]:
        shutil.copytree(label, photos / label.name)
        shutil.copy(next(label.iterdir()), photos / label.name / "again.jpg")
        (photos / label.name / "broken.jpg").write_bytes(b"no image")
    commands |= _more_inputs(folder / "in")
    (folder / "in" / "card.json").write_text('{"name": "n", "license": "MIT", "creators": ["a"]}')
    for kind in kinds:
        options = [str(folder / "in/card.json") if one == "CARD" else one for one in _OPTIONS[kind]]
        (folder / kind).mkdir()
        (folder / kind / "command.json").write_text(json.dumps(commands[kind] + options))
        code, said = _run(arguments(folder, kind, folder / kind / "out"))
        assert code == 0, said
        with _unpublished():
            code, said = _run(arguments(folder, kind, folder / kind / STAGED))
        assert code == 1, said


def _more_inputs(folder: pathlib.Path) -> dict[str, list[str]]:
    """Write inputs of the data types that `make_inputs` leaves out; return their commands."""
    for number, label in enumerate("aabb"):
        write(folder / "audio" / label / f"{number}.wav", chirp(8000, 4000 + number))
    rows = [
        f"{'ab'[n // 60]},2026-01-01T00:{n % 60:02d}:00,{n * 7919 % 101},{'xy'[n // 60]}"
        for n in range(120)
    ]
    (folder / "sensor").mkdir()
    (folder / "sensor" / "rows.csv").write_text("\n".join(["series,time,number,label", *rows, ""]))
    common = ["--quiet", "--num-shards", "1", "--splits", "train=0.6,test=0.4"]
    more = {
        "audio": [],
        "sensor": [
            *("--series-column", "series", "--time-column", "time", "--window", "10"),
            *("--label-column", "label"),
        ],
    }
    return {
        kind: [kind, "--input", str(folder / kind), *common, *options]
        for kind, options in more.items()
    }


@contextlib.contextmanager
def _unpublished() -> Iterator[None]:
    def publish(staging: object) -> None:
        raise RunError("it ended before it published")

    before, publishing.publish = publishing.publish, publish
    try:
        yield
    finally:
        publishing.publish = before


def arguments(folder: pathlib.Path, kind: str, output: pathlib.Path) -> list[str]:
    """Return the command that makes a dataset."""
    command = json.loads((folder / kind / "command.json").read_text())
    return [*command, "--output", str(output), "--workers", "1", "--seed", "3"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One changed file of a dataset.

    kind: data type of the dataset. of: `out` or `STAGED`. how: what was done to the file.
    sealed: whether the manifest states the hash of the changed file.
    """

    kind: str
    of: str
    file: str
    content: bytes
    how: str
    sealed: bool


def make_case(
    folder: pathlib.Path, seed: int, number: int, kinds: Sequence[str] = tuple(_OPTIONS)
) -> Case:
    """Return a case; it depends on nothing but the arguments."""
    random = np.random.default_rng([seed, number])
    kind = str(random.choice(sorted(kinds)))
    of = STAGED if random.random() < 0.1 else "out"
    dataset = folder / kind / of
    files = sorted(str(p.relative_to(dataset)) for p in dataset.rglob("*") if p.is_file())
    # The manifest and the indexes decide what is read.
    weights = [6 if name == "dataset.json" else 3 if "index/" in name else 2 for name in files]
    file = str(random.choice(files, p=np.array(weights) / sum(weights)))
    content = (dataset / file).read_bytes()
    how = CHANGES[form_of(file)]
    change = how[int(random.integers(len(how)))] if content else add_noise
    return Case(
        kind=kind,
        of=of,
        file=file,
        content=change(content, random),
        how=change.__name__.lstrip("_"),
        sealed=bool(random.random() < 0.67),
    )


def seal(dataset: pathlib.Path, file: str) -> None:
    """Make the manifest state the hash of a file, if it is valid JSON that lists it."""
    content = (dataset / file).read_bytes()
    info = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest = json.loads((dataset / "dataset.json").read_bytes())
    digest = hashlib.sha256()
    for name, split in sorted(manifest["splits"].items()):
        digest.update(f"{name}\n".encode())
        for number, shard in enumerate(split["shards"]):
            if file == f"index/{name}-{number:05d}-of-{len(split['shards']):05d}.parquet":
                shard["index"] = info
            if file == shard["file"]:
                split["bytes"] += info["bytes"] - shard["bytes"]
                shard.update(info)
            digest.update(f"{shard['sha256']}\n".encode())
    if file in manifest["files"]:
        manifest["files"][file] = info
    manifest["digest"] = digest.hexdigest()
    (dataset / "dataset.json").write_text(json.dumps(manifest))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """Where a command runs. damaged: the changed dataset. new: a place for its output."""

    folder: pathlib.Path
    kind: str
    damaged: pathlib.Path
    new: pathlib.Path

    def made(self, *options: object) -> list[str]:
        """Return the command that makes a dataset, with more options."""
        return [*arguments(self.folder, self.kind, self.new), *map(str, options)]


_LEARNED = ("table", "text", "sensor")
# {name: (data types, the command)}. Each case runs the first four and one of the others.
COMMANDS: dict[str, tuple[tuple[str, ...], Callable[[Place], list[str]]]] = {
    "verify": (
        tuple(_OPTIONS),
        lambda p: ["verify", "--dataset", f"{p.damaged}", "--deep", "--quiet"],
    ),
    "inspect": (tuple(_OPTIONS), lambda p: ["inspect", "--dataset", f"{p.damaged}"]),
    "record": (
        tuple(_OPTIONS),
        lambda p: ["inspect", "--dataset", f"{p.damaged}", "--record", "1", "--json"],
    ),
    "report": (
        tuple(_OPTIONS),
        lambda p: ["report", "--dataset", f"{p.damaged}", "--output", f"{p.new}.html"],
    ),
    "diff": (
        tuple(_OPTIONS),
        lambda p: ["diff", f"{p.damaged}", f"{p.folder / p.kind / 'out'}"],
    ),
    "sheet": (
        ("images",),
        lambda p: ["inspect", "--dataset", f"{p.damaged}", "--sheet", f"{p.new}.png"],
    ),
    "compare-with": (
        ("images", *_LEARNED),
        lambda p: [
            *("inspect", "--dataset", f"{p.folder / p.kind / 'out'}"),
            *("--compare-with", f"{p.damaged}"),
        ],
    ),
    "reuse": (("images", "arrays"), lambda p: p.made("--reuse", p.damaged)),
    "learned-from": (_LEARNED, lambda p: p.made("--learned-from", p.damaged)),
    "exclude-like": (
        ("images",),
        lambda p: p.made("--exclude-like", p.damaged, "--max-reject-fraction", "1"),
    ),
    "as input": (
        tuple(_OPTIONS),
        lambda p: [
            *(p.kind, "--input", f"{p.damaged}", "--output", f"{p.new}", "--quiet"),
            *("--workers", "1", "--splits", "train=1", "--split-from", "none"),
            *(["--text-column", "text"] if p.kind == "text" else []),
        ],
    ),
    "adopt": (
        tuple(_OPTIONS),
        lambda p: [
            *("adopt", "--input", f"{p.damaged}", "--output", f"{p.new}", "--quiet"),
            *("--workers", "1"),
        ],
    ),
    "again": (
        tuple(_OPTIONS),
        lambda p: [*arguments(p.folder, p.kind, p.damaged), "--verify"],
    ),
}
_ALWAYS = 4


def run_case(
    folder: pathlib.Path,
    seed: int,
    number: int,
    kinds: Sequence[str] = tuple(_OPTIONS),
    *,
    thorough: bool = True,
) -> str:
    """Return what became of a case; what must not be is raised.

    thorough: also run one of the commands that take longer.
    """
    case = make_case(folder, seed, number, kinds)
    work = folder / f"case-{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    place = Place(folder=folder, kind=case.kind, damaged=work / "damaged", new=work / "new")
    dataset = folder / case.kind / case.of
    shutil.copytree(dataset, place.damaged)
    is_same = (dataset / case.file).read_bytes() == case.content
    (place.damaged / case.file).write_bytes(case.content)
    if case.of == STAGED:
        code, _ = _run(arguments(folder, case.kind, place.damaged))
        return f"staging, {case.how}: exit {code}"
    if case.sealed and case.file != "dataset.json":
        seal(place.damaged, case.file)
    codes = {}
    usable = [name for name, (kinds_, _) in COMMANDS.items() if case.kind in kinds_]
    more = usable[_ALWAYS:]
    chosen = [more[number // 5 % len(more)]] if thorough else []
    for name in (*usable[:_ALWAYS], *chosen):
        codes[name], _ = _run(COMMANDS[name][1](place))
    unlisted = ("dataset.json", "job.json", "recipes.parquet")
    if not case.sealed and case.file not in unlisted and is_same != (codes["verify"] == 0):
        raise AssertionError(f"verify returned {codes['verify']}, but same: {is_same}")
    with contextlib.suppress(RunError, ValueError):
        for record in recordmill.open(place.damaged):
            del record
    last = [*codes][-1]
    return f"{form_of(case.file)}, {last}: exit {codes[last]}"


def _run(command: list[str]) -> tuple[int, str]:
    """Run a command in this process; return its exit code and its output.

    Raises:
      AssertionError: its exit code is not 0 to 2, or it printed a traceback.
    """
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = recordmill_main(command)
    said = out.getvalue() + errors.getvalue()
    if code not in (0, 1, 2) or "Traceback" in said or (code and not said.strip()):
        raise AssertionError(f"{command[0]} returned {code}: {said[-500:]}")
    return code, said


@contextlib.contextmanager
def fast_runs() -> Iterator[None]:
    """Runs in this process share encoder processes, and read no shard in another process."""
    before = dataset_commands.in_processes
    dataset_commands.in_processes = lambda function, tasks, workers: map(function, tasks)  # type: ignore[assignment]
    try:
        with reused_encoders(), reused_options():
            yield
    finally:
        dataset_commands.in_processes = before


def run_batch(folder: pathlib.Path, seed: int, first: int, last: int) -> None:
    """The work of a process: print each number, then what came of it."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    with fast_runs():
        for number in range(first, last):
            signal.alarm(_SECONDS)  # which ends the process
            print(number, end=" ", flush=True)
            try:
                print(run_case(folder, seed, number), flush=True)
            except Exception as error:  # noqa: BLE001  (what it is looking for)
                where = traceback.extract_tb(error.__traceback__)[-1]
                what = f"{type(error).__name__} in {where.name}: {str(error)[:900]!r}"
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
        print(f"{first} of {count}, {len(found)} found", file=sys.stderr)
    return outcomes, found


def _report(folder: pathlib.Path, seed: int, number: int, what: str) -> str:
    case = make_case(folder, seed, number)
    where = f"{case.kind} {case.of} {case.file} {case.how} {'sealed' if case.sealed else ''}"
    found = f"--seed {seed} --case {number} ({where}): {what}"
    print(found, file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run this one, and raise what it raises")
    parser.add_argument("--folder", type=pathlib.Path, help="keep the datasets in this folder")
    parser.add_argument("--batch", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.batch is not None:
        folder, first, last = chosen.batch
        run_batch(pathlib.Path(folder), chosen.seed, int(first), int(last))
        return
    with tempfile.TemporaryDirectory(prefix="recordmill-fuzz-") as name:
        made = chosen.folder or pathlib.Path(name)
        if not (made / "in").exists():
            make_datasets(made)
        if chosen.case is not None:
            with fast_runs():
                print(run_case(made, chosen.seed, chosen.case))
            return
        outcomes, found = fuzz(made, chosen.seed, chosen.count)
    print("| file, command: outcome | cases |\n|---|--:|")
    for outcome, cases in sorted(outcomes.items()):
        print(f"| {outcome} | {cases} |")
    end(found)


if __name__ == "__main__":
    main()
