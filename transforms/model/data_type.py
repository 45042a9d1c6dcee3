"""The parts of a data type: a source and an encoder, and optionally a check and an analysis.

All parts are frozen and picklable, because they are sent to workers and encoder processes. This
module does not import Beam, and modules that define parts must not import it either.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import ConfigError, Filtered, RecordError, Reject, Stage
from recordmill.format.example_facts import ExampleFacts
from recordmill.format.ledger import INPUT, Counted, Reduced
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.tfrecord.features import Features
from recordmill.transforms.model.shape import Shape
from recordmill.transforms.model.source import RowSource, Source
from recordmill.transforms.model.window_options import WindowOptions

_SHOWN = 20  # columns in a message


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowOutcome:
    """The outcome of each row of a batch: kept, rejected or filtered.

    Attributes:
      kept: int64[k], indices of the kept rows, ascending.
      rejects: Rejects of rows, with key, stage, reason and detail.
      filtered: (key, option that excludes the row).
    """

    kept: npt.NDArray[np.int64]
    rejects: Sequence[Reject] = ()
    filtered: Sequence[tuple[str, str]] = ()


@runtime_checkable
class RowCheck(Protocol):
    """Finds invalid rows before the dataset is planned."""

    def check(self, rows: pa.RecordBatch) -> RowOutcome:
        """Check rows; runs in an encoder process."""


@runtime_checkable
class RepeatedCheck(RowCheck, Protocol):
    """A check of files that the encoder makes, too: files of encoded records need no check."""

    @property
    def source_columns(self) -> tuple[str, ...]:
        """Names of the columns that identify a file, as those of the encoder."""


@runtime_checkable
class Headers(Protocol):
    """Reads headers of the files that rows refer to, as columns for schemas and statistics."""

    @property
    def fields(self) -> pa.Schema:
        """Schema of the columns that it reads."""

    def read(self, rows: pa.RecordBatch) -> tuple[RowOutcome, pa.RecordBatch]:
        """Return the outcome of rows, and the columns of the kept ones; in an encoder process."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file that an encoder needs, given by the user or learned from train.

    path: path or URI of the file during the job. sha256: of its content, in hex.
    published: whether it becomes part of the dataset.
    """

    path: str
    sha256: str
    published: bool = True


@runtime_checkable
class Prepared(Protocol):
    """A file of the user's, converted for encoders, that is too large for memory or the dataset."""

    @property
    def sha256(self) -> str:
        """Hash of the file, in hex; the converted content depends on the file alone."""

    def write(self, folder: Location) -> None:
        """Write the converted content into a folder, unless an earlier run did.

        Raises:
          ConfigError: the file is not valid.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class Context:
    """The information that an encoder gets in addition to rows, the same for all rows of a run.

    Attributes:
      seed: Seed of the run, for augmentations.
      labels: Class names; the number of a class is its index plus `label_offset`.
      label_offset: Number of the first class.
      rename: {feature: name in the Examples}.
      artifacts: {name in the dataset: artifact}.
    """

    seed: int
    labels: tuple[str, ...] = ()
    label_offset: int = 0
    rename: Mapping[str, str] = dataclasses.field(default_factory=dict)
    artifacts: Mapping[str, Artifact] = dataclasses.field(default_factory=dict)

    def name(self, feature: str) -> str:
        """Return the name of a feature in the Examples."""
        return self.rename.get(feature, feature)

    def names(self, features: Iterable[str]) -> tuple[str, ...]:
        """Return the names of features in the Examples."""
        return tuple(map(self.name, features))


def needs_classes(option: str, columns: Sequence[str] = ()) -> ConfigError:
    """Return the error for an option that needs classes, if the input has none.

    columns: names of the user's columns, one of which may hold the classes.
    """
    if not columns:
        return ConfigError(
            f"{option} needs classes, and the input has none: put the files into a folder per"
            f" class, name a {option_name('label_column')}, or leave the option out"
        )
    more = f", and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else ""
    shown = ", ".join(map(repr, columns[:_SHOWN]))
    return ConfigError(
        f"{option} needs classes, and the input has none: name the column of the class with"
        f" {option_name('label_column')} (the columns are {shown}{more}), or leave the option out"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Encoded:
    """The Examples of a batch of rows.

    Attributes:
      columns: A row per kept record, and a column per feature.
      rows: The kept rows, with rejects and filtered ones.
      names: string[m], unique names of Examples, if an Example holds several records or parts of
        them. Then `columns` has a row per name, and Examples have no class and no copies.
      filled: (values without padding, all values) of such Examples.
      objects: (objects of the kept records, such as boxes; objects in `columns`).
      dropped_objects: {reason: (number of dropped objects, smallest key of a record with one)}; the
        reasons are fields of `ObjectCounts`.
      reduced: Counts of records whose images have more bits per channel than were read.
      noted: Findings that notes report (`Noted`), counted without copies.
      steps: {column: number of steps} of feature lists. If given, rows become SequenceExamples.
      content: binary(16)[k], the hash of the bytes or numbers that were read for each kept record,
        if the source did not hash them.
      sizes: (width, height) of the image of each kept record: int64[k] each.
      facts: Facts about each kept record, if Examples can be reused.
    """

    columns: pa.RecordBatch
    rows: RowOutcome
    names: pa.Array | None = None
    content: pa.Array | None = None
    sizes: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None
    filled: tuple[int, int] | None = None
    objects: tuple[int, int] | None = None
    dropped_objects: Mapping[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    reduced: Reduced = dataclasses.field(default_factory=Reduced)
    noted: Counted = dataclasses.field(default_factory=dict)
    steps: Mapping[str, int] = dataclasses.field(default_factory=dict)
    facts: Sequence[ExampleFacts] | None = None


@runtime_checkable
class Encoder(Protocol):
    """Turns rows into the columns of Examples."""

    def features(self, rows: pa.Schema, context: Context) -> Features:
        """Return the features of every Example, given the columns of the rows."""

    def versions(self) -> Mapping[str, str]:
        """Return {library: version} of the libraries that shape the bytes."""

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        """Encode rows in their final order; runs in an encoder process."""


@runtime_checkable
class NeedingEncoder(Encoder, Protocol):
    """An encoder that cannot do without some columns, which custom pipelines may not have."""

    @property
    def needed_columns(self) -> tuple[str, ...]:
        """Names of the columns."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleInputs:
    """All that shapes the Examples of rows, beside the files that they name and the settings.

    common: what is the same for all rows; JSON can hold it. columns: arrays of a value per row.
    """

    common: Any
    columns: Mapping[str, pa.Array]


@runtime_checkable
class ReusableEncoder(Encoder, Protocol):
    """An encoder whose Examples each depend on one row, so that a later run can take them over."""

    @property
    def source_columns(self) -> tuple[str, ...]:
        """Names of the columns that identify a file: path, size and time of change."""

    def settings(self) -> str:
        """Return the options that shape every Example, known before the rows."""

    def inputs(self, rows: pa.RecordBatch, context: Context) -> ExampleInputs:
        """Return all that shapes the Examples of rows, beside files and settings."""


@runtime_checkable
class ContentReader(Protocol):
    """Reads the content of records before they are encoded."""

    def read(self, rows: pa.RecordBatch) -> tuple[RowOutcome, dict[str, pa.Array]]:
        """Return the outcome of rows, and columns of the kept ones; runs in an encoder process.

        The columns are `__content__`, with the hashes that the encoder gives later, unless the
        source has it, and `__near__` if near duplicates are to be found.
        """


@runtime_checkable
class Duplicates(Protocol):
    """Defines which rows are duplicates.

    mode: `drop` keeps the duplicate with the smallest key; `group` keeps all, in the same split.
    """

    @property
    def mode(self) -> Literal["drop", "group"]: ...

    def names(self, rows: pa.RecordBatch) -> pa.Array:
        """Return string[n], equal for rows that are duplicates; runs in an encoder process."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NearDuplicates:
    """Treatment of records of similar content, images or texts.

    mode: `drop` keeps the record with the smallest key of each group; `group` keeps all, in the
      same split.
    distance: bits in which the hashes of similar images differ, at most, 0 to 12.
    similarity: fraction of the shingles that similar texts share, at least, 0.5 to 1.
    """

    mode: Literal["drop", "group"]
    distance: int | None = None
    similarity: float | None = None


@runtime_checkable
class Chunker(Protocol):
    """Cuts long records into several. It needs a `RowSource`.

    `RowReader` gives the chunks their keys, and puts those of a record into one group.
    """

    def cut(
        self, rows: pa.RecordBatch, artifacts: Mapping[str, Artifact]
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
        """Cut rows; runs in an encoder process.

        artifacts: {name in the dataset: file given by the user}.

        Returns:
          The user's columns of the chunks, and int64[m], the row of each chunk, ascending. Each row
          has at least one chunk.
        """


@runtime_checkable
class Analysis(Protocol):
    """Learns from the records of train, before balancing, by counting items such as words.

    Counts are batches with a column `item` (string, no null, each item once), and int64 columns
    that are added up. As one worker may not hold all items, they are grouped into buckets.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the user's columns that it reads."""

    @property
    def files(self) -> tuple[str, ...]:
        """Names, in the dataset, of the artifacts that `learn` returns."""

    def count(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the counts of rows; runs in an encoder process."""

    def select(self, counts: pa.RecordBatch) -> pa.RecordBatch:
        """Return the items of a bucket that may be in the result, given their final counts."""

    def learn(self, counts: pa.RecordBatch, *, records: int) -> Mapping[str, bytes]:
        """Return {name in the dataset: content} of the learned artifacts.

        counts: the selected items of all buckets, in any order. records: number of records of
          train.

        Raises:
          RunError: nothing can be learned from the data.
        """


@runtime_checkable
class CountsOfSplits(Protocol):
    """An `Analysis` that learns nothing, and so may count the records of all splits."""

    def count_splits(self, rows: pa.RecordBatch, splits: pa.Array) -> pa.RecordBatch:
        """Return the counts of rows. splits: string[n], their splits."""


@runtime_checkable
class LearningEncoder(Encoder, Protocol):
    """An encoder whose options say what has to be learned for it."""

    @property
    def analysis(self) -> Analysis | None:
        """Learns the artifacts that `encode` reads; None if it needs none."""


@runtime_checkable
class CheckingEncoder(Encoder, Protocol):
    """An encoder whose options say which rows are invalid before they are encoded."""

    def row_check(self, *, balanced: bool = False) -> RowCheck | None:
        """Return the check of rows before planning; None if there is none.

        balanced: whether classes are balanced, so that rows that cannot be encoded must not count.
        """


def analysis_of(encoder: Encoder) -> Analysis | None:
    """Return what learns the artifacts of an encoder, if it needs any."""
    return encoder.analysis if isinstance(encoder, LearningEncoder) else None


def check_of(encoder: Encoder, *, balanced: bool) -> RowCheck | None:
    """Return the check of the rows of an encoder, if it has one; as `CheckingEncoder.row_check`."""
    return encoder.row_check(balanced=balanced) if isinstance(encoder, CheckingEncoder) else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """A preprocessing function of the user's, as `module:function`.

    tensorflow-transform analyzes the records of train for it, before balancing.
    """

    function: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataType:
    """A data type: its source, its encoder, and the optional parts.

    windows: how rows of series are cut into windows; then the encoder gets windows, and all other
      parts get rows.
    headers: reads headers of the files that rows refer to, for schemas and statistics.
    content: reads the content of records, for duplicates; None if the source tells it.
    near: the rule by which records are near duplicates, if these are to be found.
    artifacts: {name in the dataset: content} of files of the user's that the encoder needs.
    shaping: {option: value} that identifies a run, for options whose own value does not, such as
      the hash of a file instead of its path.
    unit: name of a record in the ledger, if a record is not an input, such as a chunk or a window.
    shape: shape of the input, if it consists of files.
    of_objects: whether classes are those of objects in records; then the source renames them.
    """

    name: str
    source: Source
    encoder: Encoder
    check: RowCheck | None = None
    analysis: Analysis | Preprocessing | None = None
    duplicates: Duplicates | None = None
    chunker: Chunker | None = None
    windows: WindowOptions | None = None
    headers: Headers | None = None
    content: ContentReader | None = None
    near: NearDuplicates | None = None
    artifacts: Mapping[str, bytes | Prepared] = dataclasses.field(default_factory=dict)
    shaping: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unit: str = INPUT
    of_objects: bool = False
    shape: Shape | None = None

    @property
    def modules(self) -> list[str]:
        """Names of the modules that an encoder process has to import."""
        sources = self.source.parts if isinstance(self.source, RowSource) else ()
        others = (self.check, self.analysis, self.duplicates, self.chunker, self.headers)
        parts = [*sources, self.encoder, self.content, *others]
        return sorted({type(part).__module__ for part in parts if part is not None})


class OutcomeCollector:
    """Collects the outcome of a loop over rows.

    stage: the stage that rejects get.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._kept: list[int] = []
        self._rejects: list[Reject] = []
        self._filtered: list[tuple[str, str]] = []

    def keep(self, row: int) -> None:
        """Keep a row, given its index; in ascending order."""
        self._kept.append(row)

    def leave_out(self, key: str, error: RecordError | Filtered) -> None:
        """Reject or filter a row, given its key and the reason."""
        if isinstance(error, Filtered):
            self._filtered.append((key, error.option))
        else:
            self._rejects.append(Reject(key, self._stage, error.reason, error.detail))

    def result(self) -> RowOutcome:
        """Return the outcome of all rows."""
        return RowOutcome(
            kept=np.array(self._kept, np.int64), rejects=self._rejects, filtered=self._filtered
        )
