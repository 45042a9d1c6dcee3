"""The command `recordmill bench-load`: how fast this machine loads a dataset.

It raises ConfigError for wrong usage and RunError if the dataset cannot be read.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import multiprocessing
import os
from collections.abc import Sequence

from rich.console import RenderableType

from recordmill import strict_json
from recordmill.errors import ConfigError, DamageError, RunError
from recordmill.format.split_names import TRAIN
from recordmill.notes import count_of
from recordmill.options.declaration import Group, option
from recordmill.pipelines.commands.dataset_options import DatasetConfig
from recordmill.pipelines.options.arguments.command_line import parse_command
from recordmill.pipelines.terminal import report
from recordmill.pipelines.terminal.tables import line, name_of, new_table, stack
from recordmill.reading import loading_speed
from recordmill.reading.loading_speed import LoadingTask, Speed
from recordmill.reading.reader import Records

_LOADING = Group(20, "Loading")
_NEAR = 0.95  # of the best rate: fewer workers are recommended if they reach this


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchLoadConfig(DatasetConfig):
    """Options of `recordmill bench-load`."""

    split: str = option(TRAIN, group=_LOADING, metavar="NAME", help="Split to load.")
    batch_size: int = option(64, group=_LOADING, help="Number of records per batch.")
    image_size: int | None = option(
        None, group=_LOADING, help="Resize images to this height and width; default: as stored."
    )
    max_workers: int = option(
        0,
        group=_LOADING,
        help="Largest number of workers of torch_dataset that is tried; 0 is one per core.",
    )
    seconds: float = option(3.0, group=_LOADING, help="Duration of each measurement.")
    json: bool = option(False, group=_LOADING, help="Print JSON.")

    def __post_init__(self) -> None:
        limits = {"batch-size": self.batch_size, "image-size": self.image_size}
        for name, value in limits.items():
            if value is not None and value < 1:
                raise ConfigError(f"--{name}: expected 1 or more, got {value}")
        if self.max_workers < 0:
            raise ConfigError(f"--max-workers: expected 0 or more, got {self.max_workers}")
        if not 0 < self.seconds < float("inf"):
            raise ConfigError(f"--seconds: expected a number above 0, got {self.seconds}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loaded:
    """A measured stage or loader. error: the reason why it cannot load the dataset, if so."""

    name: str
    workers: int
    speed: Speed | None
    error: str | None = None


def bench_load_main(argv: Sequence[str]) -> int:
    """Measures how fast this machine loads a dataset for training, with each loader.

    Example:
      recordmill bench-load --dataset out --image-size 224
    """
    config = parse_command(BenchLoadConfig, argv, bench_load_main)
    cores = len(os.sched_getaffinity(0))
    side = config.image_size
    task = LoadingTask(
        dataset=config.dataset,
        split=config.split,
        batch_size=config.batch_size,
        image_size=None if side is None else (side, side),
        seconds=config.seconds,
    )
    try:
        records = Records(config.dataset, config.split)
    except ValueError as error:
        raise ConfigError(f"--split: {error}") from error
    except DamageError as error:
        raise RunError(str(error)) from error
    if not len(records):
        raise ConfigError(f"--split: {config.split} has no records")
    measured = [
        _measure(name, workers, task)
        for name, workers in _plan(config.max_workers or cores, loading_speed.installed())
    ]
    advice = advise(measured, cores=cores)
    if config.json:
        strict_json.show(_as_json(measured, advice, cores=cores))
    else:
        report.show(_table(measured, advice, mean_bytes=records.mean_bytes))
    return 0


def _plan(most: int, loaders: Sequence[str]) -> list[tuple[str, int]]:
    """Return the measurements: stages, and loaders with numbers of workers that double."""
    numbers = [0, *(1 << power for power in range(most.bit_length()) if 1 << power < most), most]
    plan = [(name, 0) for name in loading_speed.stages()]
    for name in loaders:
        plan += [(name, number) for number in (numbers if name == "torch_dataset" else [0])]
    return plan


def _measure(name: str, workers: int, task: LoadingTask) -> Loaded:
    """Measure in a process of its own, because threads of one library slow another down."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            found = pool.submit(loading_speed.measure, name, workers, task).result()
        except ConfigError as error:
            return Loaded(name=name, workers=workers, speed=None, error=str(error))
        except DamageError as error:
            raise RunError(str(error)) from error
        except concurrent.futures.process.BrokenProcessPool as error:
            raise RunError(f"the process of {name} ended before its measurement did") from error
    return Loaded(name=name, workers=workers, speed=found)


def advise(measured: Sequence[Loaded], *, cores: int) -> list[str]:
    """Return sentences: what limits loading, and the fastest way to load."""
    rates = {
        (one.name, one.workers): one.speed.per_second for one in measured if one.speed is not None
    }
    advice = []
    stages = {name: rates[name, 0] for name in loading_speed.stages() if (name, 0) in rates}
    if stages:
        # Files are one device; records are decoded by each core.
        limits = {name: rate if name == "files" else rate * cores for name, rate in stages.items()}
        limit = min(limits, key=lambda name: limits[name])
        what = {
            "files": "reading the files: put the dataset on a faster disk, or use fewer bytes",
            "read": "reading and checking records",
            "decode": "decoding: write the dataset in the size that the model needs, or raw",
        }[limit]
        advice.append(
            f"The limit is {what} ({limits[limit]:,.0f} records/s on {count_of(cores, 'core')})."
        )
    loaders = {key: rate for key, rate in rates.items() if key[0] not in loading_speed.stages()}
    if loaders:
        name, workers = max(loaders, key=lambda key: loaders[key])
        best = loaders[name, workers]
        workers = min(
            number
            for (other, number), rate in loaders.items()
            if other == name and rate >= _NEAR * best
        )
        how = f" with num_workers={workers}" if name == "torch_dataset" else ""
        rate = loaders[name, workers]
        advice.append(f"The fastest loader is recordmill.{name}{how}: {rate:,.0f} records/s.")
        by_workers = {n: rate for (other, n), rate in loaders.items() if other == "torch_dataset"}
        if by_workers and name != "torch_dataset":
            top = max(by_workers.values())
            few = min(n for n, rate in by_workers.items() if rate >= _NEAR * top)
            advice.append(f"For PyTorch, num_workers={few}: {by_workers[few]:,.0f} records/s.")
    return advice


def _table(
    measured: Sequence[Loaded], advice: Sequence[str], *, mean_bytes: float
) -> RenderableType:
    table = new_table("loading", "workers", "records/s", "MB/s", "first after", words=["note"])
    for one in measured:
        workers = f"{one.workers}" if one.name == "torch_dataset" else ""
        if one.speed is None:
            table.add_row(name_of(one.name), workers, "", "", "", one.error)
            continue
        rate = one.speed.per_second
        table.add_row(
            name_of(_NAMES.get(one.name, one.name)),
            workers,
            f"{rate:,.0f}",
            f"{rate * mean_bytes / 1e6:,.0f}",
            f"{one.speed.first:.2f} s",
            "",
        )
    return stack(table, *map(line, advice))


_NAMES = {
    "files": "files in blocks of 1 MiB",
    "read": "records, checked and parsed",
    "decode": "decoding alone",
}


def _as_json(measured: Sequence[Loaded], advice: Sequence[str], *, cores: int) -> dict[str, object]:
    return {
        "cores": cores,
        "measured": [
            {
                "name": one.name,
                "workers": one.workers,
                "records_per_second": None if one.speed is None else one.speed.per_second,
                "first_after": None if one.speed is None else one.speed.first,
                "error": one.error,
            }
            for one in measured
        ],
        "advice": [*advice],
    }
