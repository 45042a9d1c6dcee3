"""Interrupts training runs, and continues them in other loaders, on other hosts and workers.

    python -m tests.soak.training                       50 interruptions of each run, 10 by SIGKILL
    python -m tests.soak.training --interruptions 5     a sample

Every global batch must have the records of the undisturbed run: none is lost, doubled or at another
place. The runs are those of `tests/training_cases.py`: plain ones, filters and mixtures, with and
without gzip. Grain takes part in the plain ones whose records can be read one by one. A fifth of
the interruptions kills the processes of all hosts while they read on. A loader is a function in
`LOADERS`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import recordmill
from recordmill.reading.sequence import State
from tests.numbered_records import SEED, number_of, use_small_windows
from tests.training_cases import (
    CASES,
    Batches,
    TrainingCase,
    expect_continued,
    make_datasets,
)

WORKERS = (0, 1, 2, 4)
KILLED_EVERY = 5
_FOR_EVER = 1 << 20  # steps that a process would make that is killed

# (case, options, workers) -> the numbers of the records in each batch, epoch after epoch. Options
# are those of `recordmill.load` and `torch_dataset`: batch_size, shard, start, drop_remainder.
Loader = Callable[[TrainingCase, dict[str, Any], int], Iterator[list[int]]]


def read_by_torch(case: TrainingCase, options: dict[str, Any], workers: int) -> Iterator[list[int]]:
    """Read with `recordmill.torch_dataset` and a DataLoader."""
    from torch.utils.data import DataLoader

    options = {"seed": SEED, "transform": number_of} | case.options | options
    data = recordmill.torch_dataset(case.datasets, "train", **options)
    for epoch in itertools.count(data.epoch):
        data.set_epoch(epoch)
        for batch in DataLoader(data, batch_size=None, num_workers=workers):
            yield batch.tolist()


def read_by_tensorflow(
    case: TrainingCase, options: dict[str, Any], workers: int
) -> Iterator[list[int]]:
    """Read with `recordmill.load`, which has no workers."""
    options = options | {"start": options["start"] or 0}
    options = {"seed": SEED, "inputs": "number", "as_supervised": False} | case.options | options
    data = recordmill.load(case.datasets, repeat=True, **options)
    for batch in data.as_numpy_iterator():
        yield batch["number"].tolist()


def read_by_grain(case: TrainingCase, options: dict[str, Any], workers: int) -> Iterator[list[int]]:
    """Read with Grain over `recordmill.grain_source`; workers are threads."""
    import grain

    (hosts, host), batch, state = options["shard"], options["batch_size"], options["start"]
    given = {"seed": SEED, "transform": number_of} | case.options
    for epoch in itertools.count(0 if state is None else state["epoch"]):
        source = recordmill.grain_source(
            case.datasets, "train", epochs=epoch + 1, start=state, **given
        )
        batches = grain.MapDataset.source(source)[host::hosts].batch(batch)
        read = batches.to_iter_dataset(grain.ReadOptions(num_threads=workers))
        # the rest of the epoch fills no batch of every host
        for numbers in itertools.islice(read, len(source) // (hosts * batch)):
            yield numbers.tolist()
        state = source.state(len(source))


LOADERS: dict[str, Loader] = {
    "torch": read_by_torch,
    "tensorflow": read_by_tensorflow,
    "grain": read_by_grain,
}
WITH_GRAIN = ("plain", "plain-full")


def options_of(state: State | None, host: int, hosts: int, batch: int) -> dict[str, Any]:
    """Return the options of one host."""
    return {
        "batch_size": batch,
        "shard": (hosts, host),
        "start": state,
        "drop_remainder": True,
    }


def here(case: TrainingCase, loader: str, workers: int) -> Batches:
    """Return a function that reads batches in this process."""

    def read(state: State | None, host: int, hosts: int, batch: int, steps: int) -> list[list[int]]:
        batches = LOADERS[loader](case, options_of(state, host, hosts, batch), workers)
        return [*itertools.islice(batches, steps)]

    return read


def killed(case: str, folder: pathlib.Path, loader: str, workers: int) -> Batches:
    """Return a function that reads batches in a process, and kills it while it reads on."""

    def read(state: State | None, host: int, hosts: int, batch: int, steps: int) -> list[list[int]]:
        given = json.dumps([case, str(folder), loader, workers, state, host, hosts, batch])
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.training", "--host", given],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        with process, process.stdout:
            lines = [*itertools.islice(process.stdout, steps)]
            assert process.poll() is None, "it was to read on"
            os.killpg(process.pid, signal.SIGKILL)
        return [json.loads(line) for line in lines]

    return read


def run_host(given: str) -> None:
    """Read as one host, and print each batch."""
    case, folder, loader, workers, state, host, hosts, batch = json.loads(given)
    found = LOADERS[loader](
        TrainingCase(pathlib.Path(folder), case), options_of(state, host, hosts, batch), workers
    )
    for numbers in itertools.islice(found, _FOR_EVER):
        print(json.dumps(numbers), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--interruptions", type=int, default=50)
    parser.add_argument("--cases", nargs="*", default=[*CASES], choices=[*CASES])
    parser.add_argument("--loaders", nargs="*", default=[*LOADERS], choices=[*LOADERS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--host", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    use_small_windows(pytest.MonkeyPatch())
    if arguments.host is not None:
        run_host(arguments.host)
        return 0
    print("| run | interruptions | by SIGKILL | records | result |\n|---|--:|--:|--:|---|")
    has_failed = False
    with tempfile.TemporaryDirectory() as folder:
        make_datasets(pathlib.Path(folder))
        for name in arguments.cases:
            case = TrainingCase(pathlib.Path(folder), name)
            generator = random.Random(f"{name} {arguments.seed}")
            readers = []
            for number in range(arguments.interruptions):
                loader = generator.choice(
                    [one for one in arguments.loaders if one != "grain" or name in WITH_GRAIN]
                )
                workers = generator.choice(WORKERS)
                if number % KILLED_EVERY == KILLED_EVERY - 1:
                    readers.append(killed(name, pathlib.Path(folder), loader, workers))
                else:
                    readers.append(here(case, loader, workers))
            row = f"| {name} | {len(readers)} | {len(readers) // KILLED_EVERY} | "
            try:
                state = expect_continued(case, readers, seed=f"{name} {arguments.seed}")
                print(f"{row}epoch {state['epoch']}, {state['records']} | the same |", flush=True)
            except AssertionError as error:
                has_failed = True
                print(f"{row} | DIFFERENT: {error} |", flush=True)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
