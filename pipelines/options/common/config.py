"""The options that all data types have in common."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from recordmill.errors import ConfigError
from recordmill.format.split_names import DEFAULT_FRACTIONS, TRAIN, in_order, is_split_name
from recordmill.notes import FAILABLE
from recordmill.option_checks import expect_fraction, expect_whole
from recordmill.options import values
from recordmill.options.declaration import Group, option
from recordmill.pipelines.options.common import rules
from recordmill.pipelines.options.common.card import CardConfig
from recordmill.pipelines.options.common.duplicates import DuplicateConfig
from recordmill.pipelines.options.common.flink import FlinkConfig
from recordmill.pipelines.options.common.paths import MEANING, SPLITS, PathsConfig
from recordmill.pipelines.options.common.reporting import RUN, ReportConfig
from recordmill.pipelines.options.common.resources import ResourceConfig
from recordmill.pipelines.options.common.reuse import ReuseConfig
from recordmill.pipelines.options.common.selection import SelectionConfig
from recordmill.pipelines.options.common.statistics import StatisticsConfig
from recordmill.transforms.model.renames import check_new_names
from recordmill.transforms.sources.files.input_paths import InputPath, Inputs, with_path_options

if TYPE_CHECKING:
    import pyarrow as pa

    from recordmill.transforms.model.data_type import DataType

# Data types insert groups of their own between these; the numbers give the order.
PLACES = Group(10, "Input and output")
BALANCE = Group(50, "Balance of classes (split train only)", shapes_bytes=True)
OUTPUT = Group(60, "Dataset files", shapes_bytes=True)

_READING = ("drop_columns", "where", "weight_column", "label_separator", "label_columns")
COLUMNS = ("label_column", "split_column", "group_column", "key_column", *_READING)

_SHARD_SIZE = 128 * 10**6
_SUM_TOLERANCE = 1e-9


def _show_fractions(splits: Mapping[str, float] | None) -> dict[str, float]:
    return dict(DEFAULT_FRACTIONS if splits is None else splits)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommonConfig(
    PathsConfig,
    CardConfig,
    SelectionConfig,
    DuplicateConfig,
    StatisticsConfig,
    ReportConfig,
    ResourceConfig,
    ReuseConfig,
    FlinkConfig,
):
    """Input, splits, balance, output and runner of a job.

    Raises:
      ConfigError: a value is invalid, or two options contradict each other.
    """

    input: tuple[InputPath, ...] = option(
        group=PLACES,
        parse=values.each(InputPath.parse),
        show=values.show_each,
        repeat=True,
        metavar="[SPLIT=]WHERE",
        help="File, folder or glob pattern to read: a local path, or s3://, gs://, abfss://,"
        " hdfs://; may be repeated. test=WHERE puts all of its records into the split test.",
    )
    output: str = option(
        group=PLACES,
        local=True,
        metavar="FOLDER",
        help="Folder of the dataset; created if missing.",
    )

    key_column: str | None = option(
        None,
        group=MEANING,
        metavar="COLUMN,...",
        help="Column with a unique, stable key for each record, or several columns whose values are"
        " joined. Default: the path of a file, or a hash of the content of a row.",
    )
    label_column: str | None = option(
        None,
        group=MEANING,
        metavar="COLUMN",
        help="Column with the class. Default: the top folder of a file, or a column named label,"
        " class or the like.",
    )
    group_column: str | None = option(
        None,
        group=MEANING,
        metavar="COLUMN",
        help="Column that identifies a group, such as a patient; a group never spans two splits."
        " Each record without a value is a group of its own.",
    )
    drop_columns: tuple[str, ...] = option(
        (),
        group=MEANING,
        parse=values.names,
        repeat=True,
        metavar="COLUMN,...",
        help="Columns to drop, also by patterns such as 'Unnamed*'; all other columns become"
        " features.",
    )
    labels_file: str | None = option(
        None,
        group=MEANING,
        metavar="FILE",
        help="File with the class names, one per line, in the order of their numbers, or YAML with"
        " `names`; other classes are rejected. Default: the classes of the input.",
    )
    label_offset: int | None = option(
        None,
        group=MEANING,
        help="Integer label of the first class. Default: its number in the input, or 0.",
    )
    unlabelled: Literal["reject", "keep"] = option(
        "reject",
        group=MEANING,
        help="Reject records without a class, or keep them without label features.",
    )

    splits: Mapping[str, float] | None = option(
        None,
        group=SPLITS,
        parse=values.fractions,
        show=_show_fractions,
        metavar="NAME=X,...",
        help="Names of the splits, and the fraction of the records in each.",
    )
    split_column: str | None = option(
        None,
        group=SPLITS,
        metavar="COLUMN",
        help="Column with the split of each record.",
    )
    stratify: bool = option(
        False,
        group=SPLITS,
        help="Give every split exactly the same mix of classes; with --group-column, as near to it"
        " as whole groups allow.",
    )
    seed: int = option(
        0,
        group=SPLITS,
        help="Random seed of splits, copies and order; the same seed gives the same dataset.",
    )

    balance: Literal["none", "oversample", "undersample", "weights"] = option(
        "none",
        group=BALANCE,
        help="oversample repeats records of rare classes; undersample drops records of frequent"
        " classes; weights only writes class weights to the manifest.",
    )
    balance_target: int | str | None = option(
        None,
        group=BALANCE,
        parse=values.balance_target,
        metavar="N|median|repeat:X",
        help="Records per class. Default: the size of the largest class (oversample) or of the"
        " smallest (undersample). median: the median of the sizes of all classes. repeat:X, with"
        " oversample, repeats the records of a class that occurs in a fraction f of the records"
        " sqrt(X / f) times, and at least once.",
    )

    num_shards: int | Mapping[str, int] | None = option(
        None,
        group=OUTPUT,
        parse=values.shard_counts,
        metavar="N|NAME=N,...",
        help="Shards per split, instead of --shard-size.",
    )
    shard_size: int = option(
        _SHARD_SIZE,
        group=OUTPUT,
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="Approximate size of a shard, before compression.",
    )
    compression: Literal["none", "gzip"] = option(
        "none", group=OUTPUT, help="Compression of the shards."
    )
    rename: Mapping[str, str] = option(
        {},
        group=OUTPUT,
        parse=values.renames,
        repeat=True,
        metavar="OLD=NEW",
        help="Rename a feature, such as image/encoded=image_raw; may be repeated.",
    )

    max_reject_fraction: float = option(
        0.01,
        group=RUN,
        help="Fail, and publish nothing, if more than this fraction of the input, or of records and"
        " their copies, is rejected.",
    )
    fail_on: tuple[str, ...] = option(
        (),
        group=RUN,
        parse=values.note_codes,
        repeat=True,
        metavar="CODE,...",
        help="Fail, and publish nothing, if there is a note with one of these codes, or any note"
        f" (all). Codes: {', '.join(FAILABLE)}.",
    )
    overwrite: bool = option(
        False,
        group=RUN,
        local=True,
        help="Replace an existing dataset that was made with other options or other input.",
    )
    dry_run: bool = option(
        False,
        group=RUN,
        local=True,
        help="Read the input, print the plan (splits, classes, copies, shards, bytes), the rejects"
        " and the notes, and write no dataset.",
    )
    quiet: bool = option(False, group=RUN, local=True, help="Print errors only.")
    runner: Literal["direct", "flink"] = option(
        "direct",
        group=RUN,
        local=True,
        parse=values.runner,
        metavar="direct|flink",
        help="Where the job runs: direct is this machine; flink is a cluster, or a Flink that is"
        " started on this machine.",
    )

    @property
    def repeat_threshold(self) -> float | None:
        """Threshold X of --balance-target repeat:X, or None."""
        target = self.balance_target
        if not isinstance(target, str) or target == "median":
            return None
        return float(target.removeprefix("repeat:"))

    @property
    def fractions(self) -> Mapping[str, float]:
        """The fraction of the records in each split, as given or by default."""
        return DEFAULT_FRACTIONS if self.splits is None else self.splits

    @property
    def inputs(self) -> Inputs:
        """Everything to read, and what its folders and names mean. Raises ConfigError."""
        return with_path_options(self.input, self)

    def for_columns(
        self, fields: Sequence[pa.Field], data_type: DataType
    ) -> tuple[Mapping[str, Any], DataType]:
        """Return changed options, for the manifest, and the data type, without patterns of columns.

        Args:
          fields: Columns that features are made of.
          data_type: Data type that was made with these options.

        Raises:
          ConfigError: A pattern matches no column.
        """
        del fields
        return {}, data_type

    def __post_init__(self) -> None:
        if self.splits is not None:
            _check_splits(self.splits)
            # The order in which splits are given must not change the dataset.
            ordered = {name: float(self.splits[name]) for name in in_order(self.splits)}
            object.__setattr__(self, "splits", ordered)
        rules.check(self)
        self._check_inputs()
        self._check_selection()
        self._check_duplicates()
        expect_whole("--seed", self.seed, least=0, below=2**63)
        expect_whole("--label-offset", self.label_offset or 0, least=0)
        self._check_resources()
        expect_whole("--shard-size", self.shard_size, least=1)
        expect_whole("--stall-timeout", self.stall_timeout, least=1)
        expect_whole("--retries", self.retries, least=0)
        if self.parallelism is not None:
            expect_whole("--parallelism", self.parallelism, least=1)
        expect_fraction("--max-reject-fraction", self.max_reject_fraction)
        self._check_balance()
        self._check_shards()
        check_new_names("--rename", self.rename)

    def _check_inputs(self) -> None:
        paths = self.inputs.paths
        named = [one for one in paths if one.split is not None]
        unnamed = [one for one in paths if one.split is None]
        if named and unnamed and self.splits is None:
            raise ConfigError(
                f"--input {unnamed[0]} names no split, but --input {named[0]} does: name the split"
                f" of each, as in --input train={unnamed[0]}, or pass --splits to divide the"
                " records of the others"
            )
        for one in named:
            _check_split_name(f"--input {one}", str(one.split))
        for name in self.split_map.values():
            _check_split_name("--split-map", name)
        for name in self.split_files:
            _check_split_name("--split-files", name)
        if named and self.split_files:
            raise ConfigError(
                f"--input {named[0]}: is the split {named[0].split}, and --split-files gives"
                " splits, too: leave one of them out"
            )

    @property
    def changes_counts(self) -> bool:
        """True if --balance copies records or leaves some out."""
        return self.balance in ("oversample", "undersample")

    def _check_balance(self) -> None:
        target = self.balance_target
        if isinstance(target, int):
            expect_whole("--balance-target", target, least=1)
        if self.balance != "none" and self.split_column is None and TRAIN not in self.fractions:
            raise ConfigError(
                f"--balance {self.balance} applies to the split {TRAIN}; "
                f"expected it in --splits, got {', '.join(self.fractions)}"
            )

    def _check_shards(self) -> None:
        if isinstance(self.num_shards, Mapping):
            for name, number in self.num_shards.items():
                _check_split_name("--num-shards", name)
                expect_whole(f"--num-shards {name}", number, least=1)
        elif self.num_shards is not None:
            expect_whole("--num-shards", self.num_shards, least=1)


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
    if not is_split_name(name):
        raise ConfigError(
            f"{flag}: expected names of letters, digits, _ and -, because they become file names; "
            f"got {name!r}"
        )
