"""WriteToTFRecord: encoding and writing of shards; of batches of values, the whole dataset."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, overload

import apache_beam as beam
from apache_beam.pvalue import AsList, AsSideInput, AsSingleton

from recordmill.errors import ConfigError
from recordmill.option_checks import check_option, options_of, unknown_option
from recordmill.transforms.analyze import Analyze
from recordmill.transforms.assign_splits import AssignSplits
from recordmill.transforms.check import Check
from recordmill.transforms.encoders.tables import TableEncoder
from recordmill.transforms.model import limits
from recordmill.transforms.model.data_type import Encoder, RepeatedCheck, check_of
from recordmill.transforms.model.run_spec import Compression, RunSpec
from recordmill.transforms.model.window_options import WindowOptions
from recordmill.transforms.publish import Publish, WrittenShards
from recordmill.transforms.read import StageBatches
from recordmill.transforms.rebalance import Rebalance
from recordmill.transforms.reshuffle import Reshuffle, ShuffledShards
from recordmill.transforms.staged.records import RecordValues, ValueOptions, Values, values_of
from recordmill.transforms.staged.step_order import VALUES, OrderedStep, refuse_options
from recordmill.transforms.writing.shards.segments import ShardWork
from recordmill.transforms.writing.shards.shard_writer import ShardWriter
from recordmill.transforms.writing.shards.write_stages import (
    DivideShards,
    Encoded,
    EncodeSegments,
    JoinSegments,
    WriteShard,
    Written,
)

# Spellings of compression in Beam, `beam.io.filesystem.CompressionTypes`.
_COMPRESSION: Mapping[str, Compression | None] = {
    **dict.fromkeys(("none", "uncompressed", "auto")),  # the default of a run
    "gzip": "gzip",
}
# Options that earlier steps have, too.
_STEPS = dict.fromkeys(("splits", "seed"), "AssignSplits") | {"rename": "EncodeExamples"}
# Options of Beam's own transform that do not apply, and why.
_OF_BEAM = {
    "file_path_prefix": "a dataset is a folder: pass it as output",
    "file_name_suffix": "shards are named SPLIT.tfrecord-00000-of-00001",
    "shard_name_template": "shards are named SPLIT.tfrecord-00000-of-00001",
    "coder": "elements are batches, dicts, rows or serialized Examples",
}
_NOT_HERE = ("output", "encoder", "compression", "num_shards", "watched", "job_id", "layout")


def _with_scales(windows: WindowOptions, encoder: Encoder) -> WindowOptions:
    """Return options of windows with the columns that the encoder scales by series or window."""
    if not isinstance(encoder, TableEncoder) or encoder.options.zscore_by is None:
        return windows
    transforms = encoder.options.column_transforms().values()
    scaled = tuple(transform for transform in transforms if transform.by is not None)
    return dataclasses.replace(windows, scale_by=encoder.options.zscore_by, scaled=scaled)


def _take_labels(options: dict[str, Any], noted: ValueOptions) -> None:
    """Add the classes and the first number of `DecodeAndResizeImages` to the options of a run.

    Raises:
      ConfigError: The options have others, or the classes are only known when the pipeline runs.
    """
    for name in ("labels", "label_offset"):
        found = getattr(noted, name)
        if found is None:
            continue
        if isinstance(found, AsSideInput):
            if options.get(name) is None:
                raise ConfigError(
                    "WriteToTFRecord: labels: expected class names, got none, and those of"
                    " DecodeAndResizeImages are a side input: name them here, too, as they give"
                    " classes their numbers"
                )
            continue
        given = options.get(name)
        if given is not None and (tuple(given) if name == "labels" else given) != found:
            raise ConfigError(
                f"WriteToTFRecord: {name}: expected {found!r}, which DecodeAndResizeImages has, got"
                f" {given!r}: leave it out here"
            )
        options[name] = found


class WriteToTFRecord(OrderedStep):
    """Encode and write every shard: `ShuffledShards` in, `WrittenShards` out; or write a dataset:
    records in memory in, the digest of the dataset out.

    File names of shards and compression are as in Beam's own `WriteToTFRecord`. In addition, the
    order of records is a function of (seed, key, copy), an interrupted run continues after the last
    record written, and each shard has a sha256 and an index. Records that cannot be encoded are
    rejected with a reason.

    For `ShuffledShards`, set the options in their `RunSpec`, and apply `Publish` after this step.
    Records in memory are staged, split, balanced, shuffled, encoded and published by this step,
    with the options of the earlier steps. A batch has a column per feature, and may have the system
    columns `__key__`, `__label__`, `__group__` and `__split__`. Keys follow from content unless
    they are given.

    Args:
      output: Folder of the dataset, a path or URI.
      num_shards: Number of shards of every split, or {split: number}; None derives it from
        `shard_bytes`.
      compression_type: `none` or `gzip`, in lower or upper case. Of Beam's `CompressionTypes`, also
        `AUTO` and `UNCOMPRESSED`, which mean `none`.
      only: Names of the shards to write; None writes all.
      options: Other options of `RunSpec`.

    Raises:
      ConfigError: An option is unknown or out of its range.

    Example::

        batches | Rebalance("oversample") | WriteToTFRecord("out/", num_shards=8)
    """

    takes = (ShuffledShards, *VALUES)
    after = "Reshuffle"

    def __init__(
        self,
        output: str | None = None,
        *,
        num_shards: int | Mapping[str, int] | None = None,
        compression_type: str = "none",
        only: frozenset[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        spelling = str(compression_type).lower()
        if spelling not in _COMPRESSION:
            raise ConfigError(
                "WriteToTFRecord: compression_type: expected none or gzip, got"
                f" {compression_type!r}"
            )
        known = [field.name for field in dataclasses.fields(RunSpec)]
        for name in options:
            if name in _OF_BEAM:
                raise ConfigError(f"WriteToTFRecord: it has no option {name}: {_OF_BEAM[name]}")
            if name not in known or name in _NOT_HERE:
                others = sorted({*known} - {*_NOT_HERE})
                spelled = ["compression_type", "num_shards", *others]
                takes = "in addition to output, num_shards and compression_type it takes"
                takes += f" {', '.join(others)}"
                raise unknown_option("WriteToTFRecord", name, spelled, takes)
        self._only = only
        given = {
            "output": output,
            "num_shards": num_shards,
            "compression": _COMPRESSION[spelling],
        }
        self._options = {
            **{name: value for name, value in given.items() if value is not None},
            **options,
        }
        with options_of("WriteToTFRecord"):
            check_option("WriteToTFRecord", "only", only, frozenset[str] | None)
            RunSpec(**self._options)  # checks them

    @overload
    def expand(self, records: ShuffledShards) -> WrittenShards: ...

    @overload
    def expand(self, records: Values) -> beam.PCollection[str]: ...

    def expand(self, records: ShuffledShards | Values) -> WrittenShards | beam.PCollection[str]:
        if isinstance(records, ShuffledShards):
            refuse_options("WriteToTFRecord", self._options)
            return self._write_shards(records)
        return self._write_dataset(values_of(records))

    def _write_dataset(self, values: RecordValues) -> beam.PCollection[str]:
        noted = values.options
        options = dict(self._options)
        for name, step in _STEPS.items():
            found = getattr(noted, name)
            if found is not None and name in options:
                raise ConfigError(
                    f"WriteToTFRecord: {name}: {step} already has this option: leave it out here"
                )
            if found is not None:
                options[name] = found
        _take_labels(options, noted)
        if "output" not in options:
            raise ConfigError(
                "WriteToTFRecord: output: expected the folder of the dataset, got none"
            )
        options["rename"] = {**noted.implied_names, **options.get("rename", {})}
        encoder = noted.encoder or TableEncoder()
        windowing = None
        if noted.windows is not None:
            options["windows"] = _with_scales(noted.windows, encoder)
        run = RunSpec(encoder=encoder, unit=noted.unit, **options)
        if noted.windowing is not None:
            windowing = noted.windowing(options=run.windows, staging=run.staging, splits=run.splits)
        staged = values._replace(options=ValueOptions()) | StageBatches(run)
        staged = staged._replace(unique_keys=noted.unique_keys, ungrouped=noted.ungrouped)
        balance = noted.balance or "none"
        # The check of rows, which `StageBatches` has done, is another one.
        check = check_of(encoder, balanced=True) if balance != "none" else None
        if isinstance(check, RepeatedCheck):
            staged |= Check(check=check)
        return (
            staged
            | AssignSplits(stratify=noted.stratify, windowing=windowing)
            | Analyze(artifacts=noted.artifacts)
            | Rebalance(balance, target=noted.target)
            | Reshuffle()
            | "WriteShards" >> WriteToTFRecord(only=self._only)
            | Publish()
        )

    def _write_shards(self, shards: ShuffledShards) -> WrittenShards:
        run = shards.run
        writer = ShardWriter(
            encoder=run.encoder,
            staging=run.staging,
            compression=run.compression,
            workers=run.workers,
            worker_limits=run.worker_limits,
            versions=run.encoder_versions,
            fingerprint=run.fingerprint,
            reuse=run.reuse,
        )
        plan = AsSingleton(shards.plan)
        if not run.several_machines:
            # A few keys are distributed unevenly over the workers; reshuffled elements are not.
            written = (
                shards.pieces
                | "Spread" >> beam.Reshuffle()
                | "WriteShard"
                >> beam.ParDo(WriteShard(writer, only=self._only), plan).with_output_types(Written)
            )
            return WrittenShards(written, shards.plan, run)
        work = shards.pieces | "Divide" >> beam.ParDo(
            DivideShards(writer, only=self._only), plan
        ).with_output_types(ShardWork)
        encoded = (
            shards.pieces.pipeline
            | "Impulse" >> beam.Impulse()
            | "Workers" >> beam.FlatMap(_worker_numbers)
            | "SpreadWorkers" >> beam.Reshuffle()
            | "EncodeSegments"
            >> beam.ParDo(EncodeSegments(writer), AsList(work), plan).with_output_types(Encoded)
        )
        written = (
            work
            | "Spread" >> beam.Reshuffle()
            | "JoinSegments"
            >> beam.ParDo(JoinSegments(writer), AsList(encoded), plan).with_output_types(Written)
        )
        return WrittenShards(written, shards.plan, run)


def _worker_numbers(_: bytes) -> range:
    return range(limits.SEGMENT_WORKERS)
