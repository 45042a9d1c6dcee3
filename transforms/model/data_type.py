"""What a kind of data is made of: a source, an encoder, perhaps a check and an analysis.

The values are frozen and picklable: they travel to workers and into encoder processes, so nothing
here knows Beam, and modules that define them must not import it either.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import ConfigError, Filtered, RecordError, Reject, Stage, did_you_mean
from recordmill.format.features import Features
from recordmill.format.ledger import INPUT
from recordmill.storage.files import Location
from recordmill.transforms.model.window_options import WindowOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class ListingPart:
    """A part of a listing: up to `batch.ROWS` rows, and what did not become a row.

    Where a `RowSource` makes several records of an input, `inputs` is how many inputs the part
    counts for, of which each counts in one part; and `spoilt` are records that could not be made of
    an input that was read. Large values may stand in `data`, apart from the rows, which say where
    in it: it is written once, and encoders find it by the `__path__` of rows.
    """

    rows: pa.RecordBatch | None = None
    rejects: Sequence[Reject] = ()
    spoilt: Sequence[Reject] = ()
    inputs: int | None = None
    data: bytes | bytearray | None = None
    filtered: Mapping[str, int] = dataclasses.field(default_factory=dict)  # by what filtered it


@runtime_checkable
class Source(Protocol):
    """Lists an input. Every part has the same schema: `__key__`, `__label__`, `__group__`,
    `__split__` (all string), for references `__path__`, `__size__`, `__mtime__`, and user columns.
    """

    @property
    def unique_keys(self) -> bool:
        """Whether keys cannot repeat (a folder walk); otherwise the road proves it."""

    def scan(self) -> Iterator[ListingPart]:
        """Yields the listing in parts, in any order. Raises ConfigError for an unusable input."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """What the rows of an input are like.

    columns: their schema, ours and the user's. labelled, grouped, presplit: whether any row may
    have a label, a group, a split that the input names.
    """

    columns: pa.Schema
    labelled: bool
    grouped: bool
    presplit: bool


@runtime_checkable
class RowSource(Source, Protocol):
    """Lists where rows stand, such as the sections of large files; workers read them.

    A part of its listing is read as a whole by one task, so it should hold a few MiB.
    """

    @property
    def notes(self) -> tuple[str, ...]:
        """What was seen, when the input was listed, that the user should know."""

    def layout(self, parts: Iterable[pa.RecordBatch], keep: Location | None = None) -> Layout:
        """Of the rows, as `read` gives them. Raises ConfigError for an unusable input.

        parts: all of the listing; read where it takes the rows themselves to know. keep: a folder
          where rows may stay that were read for it, so that `read` finds them.
        """

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """The rows of a part of the listing, in parts of up to `batch.ROWS` rows and a few MiB.

        Runs in an encoder process; the same rows in the same parts whenever it is called.
        """


@runtime_checkable
class InformedSource(Source, Protocol):
    """Knows more of its input than its rows say, once it has been listed."""

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The classes in the order of their numbers; None where they follow from the rows."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was seen that the user should know. Sentences without their end."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowOutcome:
    """Rows of a batch, sorted into kept, rejected and filtered (int64 indices of the kept)."""

    kept: npt.NDArray[np.int64]
    rejects: Sequence[Reject] = ()
    filtered: Sequence[tuple[str, str]] = ()  # (key, option)


@runtime_checkable
class Check(Protocol):
    """Finds the rows that can be known to be bad before planning."""

    def check(self, rows: pa.RecordBatch) -> RowOutcome:
        """Runs in an encoder process."""


@runtime_checkable
class Headers(Protocol):
    """Reads what files that rows name say of themselves, for schemas and statistics."""

    @property
    def fields(self) -> pa.Schema:
        """The columns that it makes."""

    def read(self, rows: pa.RecordBatch) -> tuple[RowOutcome, pa.RecordBatch]:
        """Which rows could be read, and the columns of those. Runs in an encoder process."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file that an encoder needs beside its rows: given by the user, or learned from train.

    path: where it stands while the job runs, as a path or URI. sha256: hex, of its content.
    published: whether it becomes part of the dataset.
    """

    path: str
    sha256: str
    published: bool = True


@runtime_checkable
class Prepared(Protocol):
    """What encoders need of a file of the user's that is too large to be held in memory, or to be
    published.
    """

    @property
    def sha256(self) -> str:
        """Of the file, hex: what is made of it depends on nothing else."""

    def write(self, folder: Location) -> None:
        """Makes it, into a folder; ends at once where an earlier run has.

        Raises ConfigError for a file that is not what it should be.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class Context:
    """What an encoder may know beside its rows: the same for every row of a run.

    artifacts: by their name in the dataset, beside which they are published.
    """

    seed: int
    labels: tuple[str, ...] = ()  # sorted class names; a label's number is its index + offset
    label_offset: int = 0
    rename: Mapping[str, str] = dataclasses.field(default_factory=dict)  # feature: name in Examples
    artifacts: Mapping[str, Artifact] = dataclasses.field(default_factory=dict)

    def name(self, feature: str) -> str:
        """The name a feature has in the Examples."""
        return self.rename.get(feature, feature)


def needs_classes(option: str) -> ConfigError:
    """The error where an option is about classes, and the input has none."""
    return ConfigError(
        f"{option} needs classes, and the input has none: put the files into a folder per class,"
        " name a --label-column, or leave the option out"
    )


def check_renames(rename: Mapping[str, str], features: Collection[str]) -> None:
    """Raises ConfigError for the rename of no feature, or to the name that another one has."""
    for old, new in rename.items():
        if old not in features:
            raise ConfigError(
                f"--rename {old}={new}: there is no feature {old!r}{did_you_mean(old, features)}; "
                f"there are {', '.join(sorted(features))}"
            )
    olds: dict[str, str] = {}
    for old in features:
        new = rename.get(old, old)
        if new in olds:
            raise ConfigError(
                f"--rename: {olds[new]!r} and {old!r} would both be named {new!r}: choose another "
                "name, or rename the other one too"
            )
        olds[new] = old


@dataclasses.dataclass(frozen=True, kw_only=True)
class Encoded:
    """The Examples of a batch: `columns` has a row per kept record, a column per feature.

    names: where an Example holds several records, or parts of them (string[m], unique): then
      `columns` has a row per name, and no Example is of a class or a copy. filled: of these, the
      values that are no padding, and all that there is room for. objects: those that the kept
      records had, such as boxes, and those that are in the columns. steps: {column: how many steps}
      of those that are feature lists; then rows are SequenceExamples.
    """

    columns: pa.RecordBatch
    rows: RowOutcome
    names: pa.Array | None = None
    filled: tuple[int, int] | None = None
    objects: tuple[int, int] | None = None
    steps: Mapping[str, int] = dataclasses.field(default_factory=dict)


@runtime_checkable
class Encoder(Protocol):
    """Turns rows into the columns of Examples."""

    def features(self, rows: pa.Schema, context: Context) -> Features:
        """What every Example holds, given the columns of the listing."""

    def versions(self) -> Mapping[str, str]:
        """{library: version} of what shapes the bytes."""

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        """Runs in an encoder process, on rows in their final order."""


@runtime_checkable
class Duplicates(Protocol):
    """Tells which rows are the same to a learner. Needs a `RowSource`.

    mode: `drop` keeps of the same rows the one of the smallest key; `group` keeps them together in
    one split.
    """

    @property
    def mode(self) -> Literal["drop", "group"]: ...

    def names(self, rows: pa.RecordBatch) -> pa.Array:
        """string[n]: equal for rows that are the same. Runs in an encoder process."""


@runtime_checkable
class Chunker(Protocol):
    """Makes several records of a long one. Needs a `RowSource`.

    The road names them, and keeps those of one record in one split.
    """

    def cut(
        self, rows: pa.RecordBatch, artifacts: Mapping[str, Artifact]
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
        """The user's columns of the records, and the row each is of, ascending; a row at least is
        of each. Runs in an encoder process.

        artifacts: files of the user's, by their name in the dataset.
        """


@runtime_checkable
class Analysis(Protocol):
    """Learns from the records of train, before balancing, by counting items such as words.

    Counts are batches with a column `item` (string, no null), each of them once, and columns of
    int64 that are added up. Many of them may be too many for one worker: items meet in buckets.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """The user's columns that it looks at."""

    def count(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The counts of some rows; runs in an encoder process."""

    def select(self, counts: pa.RecordBatch) -> pa.RecordBatch:
        """Of the full counts of a bucket of items, those that may be in the outcome."""

    def learn(self, counts: pa.RecordBatch, *, records: int) -> Mapping[str, bytes]:
        """Artifacts from what was selected in all buckets, in any order; records: of train.

        Raises RunError where the data has nothing to learn.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """A function of the user's, `module:function`, for which tensorflow-transform learns from the
    records of train, before balancing.
    """

    function: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataType:
    """A kind of data: all that it takes beside the road.

    artifacts: files of the user's that the encoder needs, {name in the dataset: content}, and what
      is made of some and not published.
    headers: reads what schemas and statistics may say of files that rows name.
    shaping: options by what they mean, {name: value}, where a path says nothing.
    unit: what a record is, where it is no input: what the cutter makes, or a window. windows: how
    rows are cut into windows of series; then the encoder gets windows, all else rows.
    """

    name: str
    source: Source
    encoder: Encoder
    check: Check | None = None
    analysis: Analysis | Preprocessing | None = None
    duplicates: Duplicates | None = None
    cutter: Chunker | None = None
    windows: WindowOptions | None = None
    headers: Headers | None = None
    artifacts: Mapping[str, bytes | Prepared] = dataclasses.field(default_factory=dict)
    shaping: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unit: str = INPUT

    @property
    def modules(self) -> list[str]:
        """What an encoder process has to import."""
        source = self.source if isinstance(self.source, RowSource) else None
        others = (self.check, self.analysis, self.duplicates, self.cutter, self.headers)
        parts = [source, self.encoder, *others]
        return sorted({type(part).__module__ for part in parts if part is not None})


class OutcomeCollector:
    """Collects the outcome of a loop over rows."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._kept: list[int] = []
        self._rejects: list[Reject] = []
        self._filtered: list[tuple[str, str]] = []

    def keep(self, row: int) -> None:
        self._kept.append(row)

    def leave_out(self, key: str, error: RecordError | Filtered) -> None:
        if isinstance(error, Filtered):
            self._filtered.append((key, error.option))
        else:
            self._rejects.append(Reject(key, self._stage, error.reason, error.detail))

    def result(self) -> RowOutcome:
        return RowOutcome(
            kept=np.array(self._kept, np.int64), rejects=self._rejects, filtered=self._filtered
        )
