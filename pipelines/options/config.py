"""The options that every kind of data has in common."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.format.split_names import TRAIN, in_order
from recordmill.pipelines.options import values
from recordmill.pipelines.options.declaration import Group, option, options_of
from recordmill.pipelines.options.statistics import StatisticsConfig

# Kinds of data put their own groups between these, by the order they give them.
PLACES = Group(10, "Input and output")
MEANING = Group(20, "What the input means")
SPLITS = Group(40, "Splits")
BALANCE = Group(50, "Balance (of the split train)")
OUTPUT = Group(60, "The dataset's files")
RUN = Group(80, "How the job runs")
FLINK = Group(85, "On Flink")

COLUMNS = ("label_column", "split_column", "group_column", "key_column", "drop_columns")

_SHARD_SIZE = 128 * 10**6
_SUM_TOLERANCE = 1e-9


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommonConfig(StatisticsConfig):
    """What to read, how to split and balance it, what to write and how to run.

    Raises:
      ConfigError: a value that cannot work, or two that cannot work together.
    """

    input: str = option(
        group=PLACES,
        metavar="WHERE",
        help="What to read: a local path, or s3://, gs://, abfss://, hdfs://.",
    )
    output: str = option(
        group=PLACES, metavar="FOLDER", help="Folder of the dataset; made where it is missing."
    )

    key_column: str | None = option(
        None,
        group=MEANING,
        shapes_bytes=True,
        metavar="COLUMN",
        help="Column of each record's unique, stable name. Default: its path, or FILE#ROW.",
    )
    label_column: str | None = option(
        None,
        group=MEANING,
        shapes_bytes=True,
        metavar="COLUMN",
        help="Column of the class. Default: the folder a file stands in.",
    )
    group_column: str | None = option(
        None,
        group=MEANING,
        shapes_bytes=True,
        metavar="COLUMN",
        help="Column of what must not part, such as a patient: a group stays in one split.",
    )
    drop_columns: tuple[str, ...] = option(
        (),
        group=MEANING,
        shapes_bytes=True,
        parse=values.names,
        repeat=True,
        metavar="COLUMN,...",
        help="Columns to leave out; all others are carried along as features.",
    )
    labels_file: str | None = option(
        None,
        group=MEANING,
        shapes_bytes=True,
        metavar="FILE",
        help="Class names, one a line, in the order of their numbers. Default: sorted by name.",
    )
    label_offset: int = option(
        0, group=MEANING, shapes_bytes=True, help="Number of the first class."
    )
    unlabelled: Literal["reject", "keep"] = option(
        "reject", group=MEANING, shapes_bytes=True, help="What becomes of records without a class."
    )

    splits: Mapping[str, float] = option(
        {"train": 0.8, "validation": 0.1, "test": 0.1},
        group=SPLITS,
        shapes_bytes=True,
        parse=values.fractions,
        metavar="NAME=X,...",
        help="The splits and the fraction of the records in each.",
    )
    split_column: str | None = option(
        None,
        group=SPLITS,
        shapes_bytes=True,
        metavar="COLUMN",
        help="Column that names each record's split.",
    )
    stratify: bool = option(
        False,
        group=SPLITS,
        shapes_bytes=True,
        help="Give every split the same mix of classes, exactly.",
    )
    seed: int = option(
        0,
        group=SPLITS,
        shapes_bytes=True,
        help="Decides splits, copies and order; the same seed gives the same dataset.",
    )

    balance: Literal["none", "oversample", "undersample", "weights"] = option(
        "none",
        group=BALANCE,
        shapes_bytes=True,
        help="Repeat records of the rare classes, leave out some of the frequent ones, or only "
        "write class weights.",
    )
    balance_target: int | str | None = option(
        None,
        group=BALANCE,
        shapes_bytes=True,
        parse=values.balance_target,
        metavar="N|median|repeat:X",
        help="Records per class. Default: as many as the largest class has (oversample) or the "
        "smallest (undersample). repeat:X repeats those of a class that is in a fraction f of the"
        " records sqrt(X / f) times.",
    )

    num_shards: int | Mapping[str, int] | None = option(
        None,
        group=OUTPUT,
        shapes_bytes=True,
        parse=values.shard_counts,
        metavar="N|NAME=N,...",
        help="Files per split, instead of --shard-size.",
    )
    shard_size: int = option(
        _SHARD_SIZE,
        group=OUTPUT,
        shapes_bytes=True,
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="About how large a file gets.",
    )
    compression: Literal["none", "gzip"] = option(
        "none", group=OUTPUT, shapes_bytes=True, help="Compression of the files."
    )
    rename: Mapping[str, str] = option(
        {},
        group=OUTPUT,
        shapes_bytes=True,
        parse=values.renames,
        repeat=True,
        metavar="OLD=NEW",
        help="Give a feature another name, such as image/encoded=image_raw; may be repeated.",
    )

    max_reject_fraction: float = option(
        0.01,
        group=RUN,
        help="Fail, and publish nothing, where more than this fraction of the input is bad.",
    )
    overwrite: bool = option(
        False, group=RUN, help="Replace a dataset of other options or other input."
    )
    dry_run: bool = option(
        False, group=RUN, help="Read and plan, print the plan, write no dataset."
    )
    quiet: bool = option(False, group=RUN, help="Print errors only.")
    runner: Literal["direct", "flink"] = option(
        "direct",
        group=RUN,
        parse=values.runner,
        metavar="direct|flink",
        help="Where it runs: direct is this machine; flink is a cluster, or a Flink embedded here.",
    )
    spill_above: int = option(
        4 * 2**20,
        group=RUN,
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="Shuffle through files where the planned references take more memory than this.",
    )
    workers: int = option(
        0,
        group=RUN,
        help="Encoder processes on this machine (on Flink: of each worker); 0 is one per core.",
    )

    flink_master: str | None = option(
        None,
        group=FLINK,
        metavar="HOST:PORT",
        help="REST address of the cluster. Default: a Flink that is started here for this job.",
    )
    environment: Literal["external", "process", "docker", "loopback"] | None = option(
        None,
        group=FLINK,
        metavar="external|process|docker|loopback",
        help="Where the Python workers run. loopback: in processes of this command (the default "
        "without a cluster). process: started by each TaskManager from this path (the default for "
        "a cluster on this machine). external: by a recordmill worker-pool beside each TaskManager "
        "(the default for any other). docker: in containers that each TaskManager starts.",
    )
    environment_config: str | None = option(
        None,
        group=FLINK,
        metavar="TEXT",
        help="external: HOST:PORT of the pool, as a TaskManager sees it (default: "
        "localhost:50000); docker: the image; process: the program.",
    )
    parallelism: int | None = option(
        None, group=FLINK, help="Slots to take. Default: all that are free."
    )
    job_name: str | None = option(
        None,
        group=FLINK,
        metavar="NAME",
        help="Name of the job in Flink. Default: made of the output's.",
    )
    detach: bool = option(
        False,
        group=FLINK,
        help="Submit and leave; the job publishes itself. recordmill status tells how it is.",
    )
    stall_timeout: int = option(
        900,
        group=FLINK,
        metavar="SECONDS",
        help="Cancel a job in which nothing has moved for so long.",
    )
    flink_job_server_jar: str | None = option(
        None,
        group=FLINK,
        metavar="PATH|URL",
        help="Beam's Flink job server. Default: Beam downloads the one for the cluster's version.",
    )

    @property
    def repeat_threshold(self) -> float | None:
        """That of repeat factors, where classes are balanced by them."""
        target = self.balance_target
        if not isinstance(target, str) or target == "median":
            return None
        return float(target.removeprefix("repeat:"))

    def __post_init__(self) -> None:
        _check_splits(self.splits)
        # Their order as given means nothing, so it must not show anywhere.
        ordered = {name: float(self.splits[name]) for name in in_order(self.splits)}
        object.__setattr__(self, "splits", ordered)
        _in_range("--seed", self.seed, least=0, below=2**63)
        _in_range("--label-offset", self.label_offset, least=0)
        _in_range("--workers", self.workers, least=0)
        _in_range("--shard-size", self.shard_size, least=1)
        _in_range("--stall-timeout", self.stall_timeout, least=1)
        if self.parallelism is not None:
            _in_range("--parallelism", self.parallelism, least=1)
        if not 0 <= self.max_reject_fraction <= 1:
            raise ConfigError(
                f"--max-reject-fraction: expected 0 to 1, got {self.max_reject_fraction:g}"
            )
        self._check_balance()
        self._check_shards()
        self._check_flink()
        self._check_statistics()
        _check_renames(self.rename)

    def _check_balance(self) -> None:
        if self.balance_target is not None:
            if self.balance not in ("oversample", "undersample"):
                raise ConfigError(
                    "--balance-target: expected --balance oversample or undersample with it, "
                    f"got --balance {self.balance}"
                )
            if self.repeat_threshold is not None:
                if self.balance == "undersample":
                    raise ConfigError(
                        f"--balance-target {self.balance_target}: repeats records, expected"
                        " --balance oversample with it"
                    )
            elif isinstance(self.balance_target, int):
                _in_range("--balance-target", self.balance_target, least=1)
        if self.balance != "none" and self.split_column is None and TRAIN not in self.splits:
            raise ConfigError(
                f"--balance {self.balance} is about the split {TRAIN}; "
                f"expected it in --splits, got {', '.join(self.splits)}"
            )

    def _check_flink(self) -> None:
        if self.runner == "flink":
            if self.detach and (self.dry_run or self.infer_schema):
                what = "--dry-run prints a plan" if self.dry_run else "--infer-schema writes a file"
                raise ConfigError(f"{what}, for which --detach would not wait")
            return
        for name, one in options_of(CommonConfig).items():
            if one.group == FLINK and getattr(self, name) != one.default:
                raise ConfigError(f"--{one.key} is of use with --runner flink only")

    def _check_shards(self) -> None:
        if isinstance(self.num_shards, Mapping):
            for name, number in self.num_shards.items():
                _check_split_name("--num-shards", name)
                _in_range(f"--num-shards {name}", number, least=1)
        elif self.num_shards is not None:
            _in_range("--num-shards", self.num_shards, least=1)
            if self.shard_size != _SHARD_SIZE:
                raise ConfigError(
                    f"expected one of --num-shards and --shard-size, got {self.num_shards} and "
                    f"{values.show_bytes(self.shard_size)}; leave one out"
                )


def refuse_given(config: CommonConfig, names: Iterable[str], why: str) -> None:
    """Raises ConfigError where one of the options, by its field's name, is given."""
    for name in names:
        if getattr(config, name):
            raise ConfigError(f"--{name.replace('_', '-')} {why}")


def _check_splits(splits: Mapping[str, float]) -> None:
    for name, fraction in splits.items():
        _check_split_name("--splits", name)
        if not fraction > 0:
            raise ConfigError(
                f"--splits: expected fractions above 0, got {name}={fraction:g}; leave {name} out"
            )
    total = math.fsum(splits.values())
    if not abs(total - 1) <= _SUM_TOLERANCE:
        raise ConfigError(
            f"--splits: expected fractions that sum to 1, got "
            f"{' + '.join(f'{fraction:g}' for fraction in splits.values()) or 'none'} = {total:g}"
        )


def _check_split_name(flag: str, name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise ConfigError(
            f"{flag}: expected names of letters, digits, _ and -, which become names of files; "
            f"got {name!r}"
        )


def _check_renames(rename: Mapping[str, str]) -> None:
    olds: dict[str, str] = {}
    for old, new in rename.items():
        if new in olds:
            raise ConfigError(f"--rename: both {olds[new]!r} and {old!r} would become {new!r}")
        olds[new] = old


def _in_range(flag: str, value: int, *, least: int, below: int | None = None) -> None:
    if value < least or (below is not None and value >= below):
        expected = f"{least} or more" if below is None else f"{least} to {below - 1}"
        raise ConfigError(f"{flag}: expected {expected}, got {value}")
