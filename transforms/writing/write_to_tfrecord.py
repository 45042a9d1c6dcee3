"""Batches to a published dataset, in pipelines of one's own: the last steps of the road in one.

batches -> into files, counted -> ReshuffleIntoShards -> WriteShards -> publish

What the plan takes has to wait until all batches are counted. Engines let it wait in memory; in
files of the job folder it may be as large as it likes.
"""

import dataclasses
import functools
import hashlib
import uuid
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsList, AsSingleton

from recordmill.errors import ConfigError, RunError
from recordmill.format.manifest import MANIFEST, load
from recordmill.job import publishing
from recordmill.job.outputs import refuse_foreign
from recordmill.job.staging import FOLDER, ShardInfo, StagedPart, Staging, to_json
from recordmill.storage.files import Location, shown
from recordmill.transforms.model import batch, coders  # noqa: F401  (coders: registers the batch's coder)
from recordmill.transforms.model.data_type import Context, Encoder
from recordmill.transforms.planning.plan import Estimate, Plan, SplitPlan, refusal
from recordmill.transforms.staged.listing import read_part, write_part
from recordmill.transforms.writing.publish import Publication, all_rejects, close_ledger, describe
from recordmill.transforms.writing.reshuffle import ReshuffleIntoShards
from recordmill.transforms.writing.shard_writer import ShardWriter, WriteShards

SPILL_ABOVE = 64 << 20  # bytes of references: more are shuffled through files
_BATCHES = "batches"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Census:
    """What came in. counts: {(split, label, whether a copy): rows}; bytes: of all that is read."""

    counts: Counter[tuple[str, str | None, bool]] = dataclasses.field(default_factory=Counter)
    input_bytes: int = 0
    row_bytes: int = 0
    columns: pa.Schema | None = None

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> "Census":
        """Counts a complete batch. Raises ConfigError for rows that have no split."""
        if rows[batch.SPLIT].null_count:
            raise ConfigError(
                "WriteToTFRecord: expected every record to have a split, got some without: put"
                " AssignSplits before it"
            )
        table = pa.table(
            {
                "split": rows[batch.SPLIT],
                "label": rows[batch.LABEL],
                "copy": pa.array(batch.copies(rows) > 0),
            }
        )
        found = table.group_by(table.column_names).aggregate([([], "count_all")]).to_pylist()
        sizes = rows[batch.SIZE].to_numpy() if batch.SIZE in rows.schema.names else None
        return cls(
            counts=Counter({(r["split"], r["label"], r["copy"]): r["count_all"] for r in found}),
            input_bytes=rows.nbytes if sizes is None else int(sizes.sum()),
            row_bytes=rows.nbytes,
            columns=rows.schema,
        )

    @classmethod
    def sum(cls, parts: Iterable["Census"]) -> "Census":
        """Adds up, in whatever order they come. Raises ConfigError for unlike columns."""
        counts: Counter[tuple[str, str | None, bool]] = Counter()
        input_bytes = row_bytes = 0
        columns = None
        for part in parts:
            counts.update(part.counts)
            input_bytes += part.input_bytes
            row_bytes += part.row_bytes
            columns = columns or part.columns
            if part.columns is not None and part.columns != columns:
                raise ConfigError(
                    "WriteToTFRecord: expected batches of the same columns, got\n"
                    f"{_columns(columns)}\nand\n{_columns(part.columns)}"
                )
        return cls(counts=counts, input_bytes=input_bytes, row_bytes=row_bytes, columns=columns)

    def of_split(self, split: str, *, copies: bool) -> dict[str | None, int]:
        """{label: records} of a split, with copies or without, ordered by label."""
        found: Counter[str | None] = Counter()
        for (name, label, copy), n in self.counts.items():
            if name == split:
                found[label] += n if copies or not copy else 0
        return dict(sorted(found.items(), key=lambda item: (item[0] is None, item[0] or "")))


def _columns(columns: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in columns)


def make_plan(census: Census, *, context: Context, num_shards: int | Mapping[str, int]) -> Plan:
    """What is written: everything that came in, its classes sorted by name.

    Raises:
      RunError: nothing came in.
    """
    records = census.counts.total()
    if not records:
        raise RunError("WriteToTFRecord: expected records, got none: see what comes before it")
    each = census.input_bytes // records
    splits = {}
    for name in sorted({split for split, _, _ in census.counts}):
        after = census.of_split(name, copies=True)
        wanted = num_shards.get(name, 1) if isinstance(num_shards, Mapping) else num_shards
        splits[name] = SplitPlan(
            before=census.of_split(name, copies=False),
            after=after,
            shards=min(wanted, sum(after.values())),
            # How large a record gets is not known; it only decides how many are encoded together.
            estimate=Estimate(record_bytes=each, input_bytes=each, seconds=0),
        )
    labels = sorted({label for _, label, _ in census.counts if label is not None})
    return Plan(
        seed=context.seed,
        splits=splits,
        quotas={},
        context=dataclasses.replace(context, labels=tuple(labels)),
        spill=census.row_bytes > SPILL_ABOVE,
    )


class _StageBatches(beam.DoFn):
    """(name, census) of each batch, which goes into a file of its own."""

    def __init__(self, staging: Staging, overwrite: bool) -> None:
        self._staging = staging
        self._overwrite = overwrite

    def setup(self) -> None:
        _check_output(self._staging.output, self._overwrite)
        self._staging.place(_BATCHES).make_dirs()

    def process(self, batches: pa.RecordBatch) -> Iterator[tuple[str, Census]]:
        rows = batch.complete(batches)
        census = Census.of(rows)
        name = f"{_BATCHES}/{uuid.uuid4().hex}.arrow"
        write_part(rows, self._staging, name)
        yield name, census


def _staged_rows(name: str, plan: Plan, *, staging: Staging) -> Iterator[pa.RecordBatch]:
    del plan
    yield read_part(name, staging=staging)


def _check_output(output: Location, overwrite: bool) -> None:
    refuse_foreign(output)
    if (output / MANIFEST).exists() and not overwrite:
        raise ConfigError(
            f"WriteToTFRecord: {shown(output)} holds a dataset: choose another folder, or"
            " replace it with overwrite=True"
        )


def _plan(
    _: bytes,
    census: Census,
    *,
    encoder: Encoder,
    staging: Staging,
    context: Context,
    num_shards: int | Mapping[str, int],
    overwrite: bool,
) -> Plan:
    _check_output(staging.output, overwrite)
    staging.begin()
    plan = make_plan(census, context=context, num_shards=num_shards)
    encoder.features(census.columns, plan.context)  # what is wrong with it shows before the work
    return plan


def _publish(
    _: bytes,
    plan: Plan,
    census: Census,
    infos: Sequence[ShardInfo],
    *,
    publication: Publication,
) -> str:
    """Publishes and returns the digest; done already where an engine tries again."""
    staging = publication.staging
    records = sum(sum(split.before.values()) for split in plan.splits.values())
    parts = [StagedPart(name="batches", rows=records, bytes=0)]
    ledger, problems = close_ledger(plan, parts, infos, rejects=0, filtered=0)
    allowed = publication.max_reject_fraction
    verdict = refusal(ledger.records.rejected, records, allowed, option="max_reject_fraction")
    if verdict is not None:
        raise RunError(verdict.message)
    if problems:
        raise RunError("the ledger does not close: " + "; ".join(problems))
    assert census.columns is not None, "make_plan refuses an empty census"
    manifest, files = describe(
        plan,
        infos,
        ledger,
        all_rejects((), (), infos, staging),
        dataclasses.replace(publication, columns=census.columns, split_names=tuple(plan.splits)),
    )
    if not _is_published(staging.output, manifest.digest):
        publishing.stage_files(staging, manifest, files)
        publishing.publish(staging)
    (staging.output / FOLDER).delete_tree()
    return manifest.digest


def _is_published(output: Location, digest: str) -> bool:
    return (output / MANIFEST).exists() and load(output).digest == digest


@dataclasses.dataclass(eq=False)
class WriteToTFRecord(beam.PTransform):
    """Batches that have splits in, a published dataset out: shuffled, sharded, with a manifest.

    Unlike Beam's own, it orders the records by (seed, key, copy), the same on every run, and leaves
    no stale shards. It writes a dataset like those of the command line: `recordmill verify` and
    `inspect` read it. What comes out is the digest of the dataset. Keys have to be unique. Two
    pipelines must not write one output at the same time, which nobody checks here.

    encoder: makes Examples of the rows, such as `ImageEncoder`; its class stands in a module, not
    in the script that is run, as encoder processes import it. num_shards: per split, at most as
    many as it has records. max_reject_fraction: of the records; more rejects fail the pipeline.
    rename: {feature: its name in the Examples}. workers: encoder processes, 0 is one per core.

    Example::

        batches | AssignSplits({"train": 0.9, "test": 0.1}) | WriteToTFRecord(
            "out/", encoder=ImageEncoder(options=ImageOptions(size=(224, 224))), num_shards=16
        )
    """

    output: str
    _: dataclasses.KW_ONLY
    encoder: Encoder
    num_shards: int | Mapping[str, int] = 1
    compression: Literal["none", "gzip"] = "none"
    seed: int = 0
    label_offset: int = 0
    rename: Mapping[str, str] = dataclasses.field(default_factory=dict)
    max_reject_fraction: float = 0.01
    overwrite: bool = False
    workers: int = 0

    def __post_init__(self) -> None:
        super().__init__()
        counts = self.num_shards
        for number in counts.values() if isinstance(counts, Mapping) else [counts]:
            if number < 1:
                raise ConfigError(f"num_shards: expected 1 or more, got {number}")
        kind = type(self.encoder)
        if kind.__module__ == "__main__":
            raise ConfigError(
                f"encoder: {kind.__name__} is defined in the script itself, and encoder processes"
                " import it by the name of its module: put it into a module of its own"
            )

    def expand(self, batches: beam.PCollection[pa.RecordBatch]) -> beam.PCollection[str]:
        publication = self._publication()
        staging = publication.staging
        staged = batches | "StageBatches" >> beam.ParDo(
            _StageBatches(staging, self.overwrite)
        ).with_output_types(tuple[str, Census])
        context = Context(seed=self.seed, label_offset=self.label_offset, rename=self.rename)
        census = AsSingleton(
            staged | "Censuses" >> beam.Values() | "AddUp" >> beam.CombineGlobally(Census.sum)
        )
        plan = AsSingleton(
            batches.pipeline
            | "OnceToPlan" >> beam.Impulse()
            | "Plan"
            >> beam.Map(
                _plan,
                census,
                encoder=self.encoder,
                staging=staging,
                context=context,
                num_shards=self.num_shards,
                overwrite=self.overwrite,
            ).with_output_types(Plan)
        )
        writer = ShardWriter(
            encoder=self.encoder,
            staging=staging,
            compression=self.compression,
            workers=self.workers,
        )
        infos = (
            staged
            | "Names" >> beam.Keys()
            | ReshuffleIntoShards(
                plan, staging, read=functools.partial(_staged_rows, staging=staging)
            )
            | WriteShards(writer, plan)
        )
        return (
            batches.pipeline
            | "OnceToPublish" >> beam.Impulse()
            | "Publish"
            >> beam.Map(
                _publish, plan, census, AsList(infos), publication=publication
            ).with_output_types(str)
        )

    def _publication(self) -> Publication:
        options = {
            "compression": self.compression,
            "encoder": repr(self.encoder),
            "label_offset": self.label_offset,
            "num_shards": self.num_shards,
            "rename": self.rename,
        }
        versions = dict(self.encoder.versions())
        if self.compression == "gzip":
            versions["zlib"] = zlib.ZLIB_RUNTIME_VERSION
        job = hashlib.sha256(to_json([options, self.seed, versions])).hexdigest()[:16]
        return Publication(
            staging=Staging.of(Location.parse(self.output), job),
            encoder=self.encoder,
            columns=pa.schema([]),
            options=options,
            job={"options": options},
            encoders=versions,
            seed=self.seed,
            split_names=(),
            compression=self.compression,
            max_reject_fraction=self.max_reject_fraction,
        )
