"""The options of one run that several of its steps share."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import zlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.format.dataset_card import DatasetCard
from recordmill.format.ledger import INPUT
from recordmill.format.recipes import Fingerprint
from recordmill.format.split_names import DEFAULT_FRACTIONS, is_split_name
from recordmill.job.staging import Staging, to_json
from recordmill.notes import FAILABLE, Note
from recordmill.option_checks import (
    Between,
    Expected,
    check_options,
    expect_seconds,
    expect_some_of,
)
from recordmill.processes import by_value
from recordmill.processes.task_watch import MAX_MEMORY, MAX_SECONDS, TaskLimits
from recordmill.storage.files import Location
from recordmill.tfrecord.features import Features
from recordmill.transforms.model.class_numbers import ClassNumbers, NumberedClasses
from recordmill.transforms.model.data_type import Artifact, Context, Encoded, Encoder
from recordmill.transforms.model.identity import code_hash, describe
from recordmill.transforms.model.label_rules import LabelRules
from recordmill.transforms.model.named_classes import read_seen
from recordmill.transforms.model.renames import check_new_names
from recordmill.transforms.model.source import Layout
from recordmill.transforms.model.window_options import WindowOptions
from recordmill.transforms.reuse.frame_places import FramePlaces

Compression = Literal["none", "gzip"]
GroupNoun = Literal["group", "series", "file"]

Fractions = Annotated[
    Mapping[str, float], Expected("{name: fraction}, such as {'train': 0.9, 'test': 0.1}")
]
ShardCounts = Annotated[
    Annotated[int, Between(1, math.inf)] | Mapping[str, Annotated[int, Between(1, math.inf)]],
    Expected("1 or more, or {split: 1 or more}"),
]
EncoderOption = Annotated[
    Encoder, Expected("an encoder, such as ImageEncoder(options=ImageOptions())")
]
_Labels = Annotated[tuple[str, ...], Expected("names of classes, such as ('cat', 'dog')")]
Names = Annotated[Mapping[str, str], Expected("{feature: new name}")]
_Codes = Annotated[tuple[str, ...], Expected(f"a list of values, such as [{FAILABLE[0]!r}]")]
_Count = Annotated[int, Between(0, math.inf)]


@runtime_checkable
class DescribingEncoder(Encoder, Protocol):
    """An encoder that describes its Examples to other programs, in files of the dataset."""

    def files(self, context: Context) -> Mapping[str, bytes]:
        """Return {name in the dataset: content}."""


class _NoEncoder:
    """The placeholder encoder of a run that writes no Examples."""

    def features(self, rows: pa.Schema, context: Context) -> Features:
        raise ConfigError("RunSpec: expected an encoder, which makes the Examples, got none")

    def versions(self) -> Mapping[str, str]:
        return {}

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        self.features(rows.schema, context)
        raise AssertionError


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSpec:
    """Options of a run that several steps share: the output, the encoder, the splits and others.

    Args:
      output: Folder of the dataset, a path or URI.
      encoder: Makes the Examples. It is pickled and runs in encoder processes; its class may be
        defined in the script that is run.
      splits: {name: fraction}, in order; the fractions sum to 1.
      seed: Seed of splits, balancing and order.
      num_shards: Number of shards of every split, or {split: number}; None derives it from
        `shard_bytes`. A shard has at least one record.
      labels: Class names in the order of their numbers; None sorts the classes of the input.
      shard_bytes: Size of a shard, unless `num_shards` is given.
      compression: `none` or `gzip`.
      number_labels: Name of the column or array of labels, if labels of numbers may be classes or
        numbers to predict; the plan refuses many different integers.
      label_offset: Number of the first class.
      class_numbers: The numbers that the input has for its classes, instead of `labels` and
        `label_offset`.
      rename: {feature: name in the Examples}.
      max_reject_fraction: The run is refused if more than this fraction of the inputs is rejected.
      overwrite: Whether a dataset in the output is replaced.
      workers: Encoder processes of a worker; 0 is one per core.
      worker_memory, worker_seconds: Bytes, and seconds of CPU time, that an encoder process may use
        for a record; beyond them the record is rejected. 0 is no limit.
      spill_above: Bytes of planned rows above which the shuffle goes through files.
      fingerprint: Identification of files for reuse: `stat`, by path, size and time of change, or
        `content`, by the hash of the content that the rows have.
      reuse: Places of frames in earlier datasets, to reuse their records.
      input_splits: Splits that the input names, including splits without records.
      layout: Layout of the records, if it is known before the run.
      windows: Options of a run that cuts series into windows.
      unit: Name of a record in the ledger.
      notes: Remarks on the input for the manifest.
      fail_on: Codes of notes that fail the run, from `recordmill.notes.FAILABLE`.
      listed_classes: {class: number of files} of the listing, if it has classes.
      group_noun: Name of groups in messages: `group` or `series` if the input names them, `file` if
        they are the clips or segments of a file; None if they follow from content.
      compared: Columns by which the contents of rows are compared; empty for other records.
      rules: Rules for labels and keys. The plan checks that the classes that they name exist.
      card: Licence, citation, description and the like of the dataset.
      job_id: Name of the staging folder.
      options, versions: Content of the manifest.
      job: Content of job.json. By default, `job_id`, `options`, `versions` and `job` are derived
        from the other fields.
      several_machines: Whether workers share the encoding of each shard: a free worker takes the
        next segment. This suits a cluster; on one machine it takes longer, because shards are
        written twice.
      scratch: Folder on this machine for intermediate files, if the output is in a store and no
        other machine takes part; '' puts them beside the output. For commands: they delete the
        files of an earlier run that no longer count.
      watched: Whether the submitter waits for the job and reports the verdict; otherwise a refused
        run raises RunError in the pipeline.

    Raises:
      ConfigError: An option is out of its range.
    """

    output: str = ""
    encoder: EncoderOption = _NoEncoder()  # noqa: RUF009, it has no state
    splits: Fractions = dataclasses.field(default_factory=lambda: {**DEFAULT_FRACTIONS})
    seed: int = 0
    num_shards: ShardCounts | None = None
    shard_bytes: Annotated[int, Between(1, math.inf)] = 128_000_000
    compression: Compression = "none"
    labels: _Labels | None = None
    number_labels: str | None = None
    label_offset: _Count = 0
    class_numbers: ClassNumbers | None = None
    rename: Names = dataclasses.field(default_factory=dict)
    max_reject_fraction: Annotated[float, Between(0, 1)] = 0.01
    overwrite: bool = False
    workers: _Count = 0
    worker_memory: _Count = MAX_MEMORY
    worker_seconds: float = MAX_SECONDS
    spill_above: _Count = 4 << 20
    fingerprint: Fingerprint = "stat"
    reuse: FramePlaces | None = None
    input_splits: tuple[str, ...] = ()
    layout: Layout | None = None
    windows: WindowOptions | None = None
    unit: str = INPUT
    notes: tuple[Note, ...] = ()
    fail_on: _Codes = ()
    listed_classes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    group_noun: GroupNoun | None = None
    compared: tuple[str, ...] = ()
    rules: LabelRules = LabelRules()  # noqa: RUF009, it is frozen
    card: DatasetCard | None = None
    job_id: str | None = None
    options: Mapping[str, Any] | None = None
    versions: Mapping[str, str] | None = None
    job: Mapping[str, Any] | None = None
    several_machines: bool = False
    scratch: str = ""
    watched: bool = False

    def __post_init__(self) -> None:
        check_options(self, self._check_together)
        # Of the submitter: it is pickled with the rest.
        object.__setattr__(self, "_code", code_hash(self.encoder))

    def _check_together(self) -> None:
        check_fractions(self.splits)
        expect_seconds("worker_seconds", self.worker_seconds)
        expect_some_of("fail_on", self.fail_on, FAILABLE)
        for label, number in Counter(self.labels or ()).items():
            if number > 1:
                raise ConfigError(f"labels: expected each class once, got {label!r} {number} times")
        check_new_names("rename", self.rename)
        _check_pickle(self.encoder)

    @property
    def has_encoder(self) -> bool:
        """True if Examples can be made; `AssignSplits` and `ReadBatches` need no encoder."""
        return not isinstance(self.encoder, _NoEncoder)

    @property
    def worker_limits(self) -> TaskLimits:
        """The limits of a task of an encoder process."""
        return TaskLimits(self.worker_memory, self.worker_seconds)

    @property
    def grouped(self) -> bool:
        """True if records are known to have groups."""
        return self.layout is not None and self.layout.grouped

    @property
    def may_be_grouped(self) -> bool:
        """True unless it is known that no record has a group; batches may bring some."""
        return self.grouped or (self.is_custom and self.layout is None)

    @property
    def multi_label(self) -> bool:
        """True if records may have several labels."""
        return self.layout is not None and self.layout.multi_label

    @property
    def is_custom(self) -> bool:
        """True for a custom pipeline, which has no lock and no job of a command."""
        return self.job_id is None

    @property
    def presplit(self) -> bool:
        """True if the input assigns splits, or time decides them."""
        return self.layout is not None and self.layout.presplit

    @property
    def may_be_presplit(self) -> bool:
        """True unless it is known that the input assigns no splits; batches may bring some."""
        return self.presplit or (self.is_custom and self.layout is None)

    def split_names(self, present: Collection[str]) -> list[str]:
        """Return the splits of the dataset, in order.

        They are those of `splits`, even without records, or of `input_splits`, if the input assigns
        the splits.

        present: splits that have records.
        """
        by_time = self.windows is not None and self.windows.split_by != "series"
        requested = self.input_splits if self.presplit and not by_time else self.splits
        return [*dict.fromkeys([*requested, *sorted(present)])]

    @functools.cached_property
    def manifest_options(self) -> Mapping[str, Any]:
        """The options that shape bytes, for the manifest."""
        if self.options is not None:
            return self.options
        return {
            "compression": self.compression,
            "encoder": describe(self.encoder),
            "label_offset": self.label_offset,
            "num_shards": self.num_shards,
            "rename": self.rename,
            "shard_size": self.shard_bytes,
            "splits": self.splits,
        }

    def numbered(self, labels: Sequence[str]) -> NumberedClasses:
        """Return the classes with their numbers. labels: classes of the records."""
        numbers = self.class_numbers or ClassNumbers(labels=self.labels, offset=self.label_offset)
        return numbers.of(
            labels, self.rules, read_seen(self.staging) if self.rules.names_classes else ()
        )

    def context(self, labels: Sequence[str], artifacts: Mapping[str, Artifact]) -> Context:
        """Return the context of the encoder. labels: classes of the records."""
        numbered = self.numbered(labels)
        return Context(
            seed=self.seed,
            labels=numbered.labels,
            label_offset=numbered.offset,
            rename=self.rename,
            artifacts=artifacts,
        )

    def encoder_files(self, context: Context) -> Mapping[str, bytes]:
        """Return {name: content} of the files of the dataset that the encoder gives."""
        return self.encoder.files(context) if isinstance(self.encoder, DescribingEncoder) else {}

    @functools.cached_property
    def encoder_versions(self) -> Mapping[str, str]:
        """{library: version} of the libraries that shape the bytes."""
        if self.versions is not None:
            return self.versions
        versions = dict(self.encoder.versions())
        if self.compression == "gzip":
            versions["zlib"] = zlib.ZLIB_RUNTIME_VERSION
        return versions

    @functools.cached_property
    def staging(self) -> Staging:
        """The staging folder of the run.

        Raises:
          ConfigError: the run has no output.
        """
        if not self.output:
            raise ConfigError("RunSpec: expected an output, the folder of the dataset, got none")
        job_id = self.job_id
        if job_id is None:
            shaping: list[object] = [self.manifest_options, self.seed, self.encoder_versions]
            code = vars(self)["_code"]
            if code is not None:
                shaping.append(code)
            job_id = hashlib.sha256(to_json(shaping)).hexdigest()[:16]
        staging = Staging.of(Location.parse(self.output), job_id)
        if not self.scratch:
            return staging
        return dataclasses.replace(staging, scratch=Location.parse(self.scratch))


def check_fractions(splits: Mapping[str, float]) -> None:
    """Raise ConfigError for fractions that are not above 0 or do not sum to 1, and other names."""
    for name in splits:
        if not is_split_name(name):
            raise ConfigError(f"splits: expected names of letters, digits, _ and -, got {name!r}")
    if not all(fraction > 0 for fraction in splits.values()):
        raise ConfigError(f"splits: expected fractions above 0, got {splits}")
    if not abs(math.fsum(splits.values()) - 1) <= 1e-9:
        raise ConfigError(f"splits: expected fractions that sum to 1, got {splits}")


def _check_pickle(encoder: Encoder) -> None:
    """Raise ConfigError unless an encoder can be sent to encoder processes."""
    if by_value.is_local(type(encoder)):
        try:
            by_value.dumps(encoder)
        except Exception as error:
            raise ConfigError(
                f"encoder: expected one that can be pickled for encoder processes, got {encoder!r}:"
                f" {error}; open files, locks and models where they are first used"
            ) from error
