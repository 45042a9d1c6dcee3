"""The encoder task of the planning pass: statistics, schema violations and counts of one part."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError
from recordmill.format.split_names import TRAIN
from recordmill.job.staging import Staging
from recordmill.profile.schema_rules import SchemaRules
from recordmill.transforms.checks.violations import Violations
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.data_type import Analysis, CountsOfSplits, Headers
from recordmill.transforms.model.user_columns import their_columns
from recordmill.transforms.staged.arrow_files import piece_sum
from recordmill.transforms.staged.encoder_tasks import rows_in_tracebacks
from recordmill.transforms.staged.parts import read_part, with_staged_paths
from recordmill.transforms.staged.spill import Piece
from recordmill.transforms.statistics import array_pickle
from recordmill.transforms.statistics.dataset_statistics import Statistics, columns_of
from recordmill.transforms.statistics.moments import CountsWithMoments, Moments
from recordmill.transforms.windowing.window_layout import rows_of


@runtime_checkable
class ColumnsChecking(Protocol):
    """An `Analysis` that checks the columns of records before it counts them."""

    def check_columns(self, rows: pa.Schema) -> None:
        """Raise ConfigError if a column is missing, or has a type that cannot be counted."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataProfile:
    """Statistics and schema violations of rows, or of a group of their columns.

    columns: names of all columns, and violations are of all columns; the first group has both.
    """

    statistics: Statistics = Statistics()  # noqa: RUF009, it is frozen
    violations: Violations = Violations()  # noqa: RUF009
    columns: tuple[str, ...] = ()

    @classmethod
    def sum(cls, several: Iterable[DataProfile]) -> DataProfile:
        """Add profiles up; their order does not matter."""
        parts = list(several)
        return cls(
            statistics=Statistics.sum(part.statistics for part in parts),
            violations=Violations.sum(part.violations for part in parts),
            columns=max(part.columns for part in parts) if parts else (),
        )


def write_pieces(values: Iterable[Any], staging: Staging) -> tuple[Piece, ...]:
    """Return values, packed by `array_pickle`, as pieces: inline if small, or in a staged file.

    Pieces are elements of the pipeline, and Flink fails on elements that exceed its sort buffer.
    The profile of one part can have many MiB, and the sum of all parts more.
    """
    packed = [array_pickle.dumps(value) for value in values]
    if sum(map(len, packed)) <= limits.INLINE_BYTES:
        return tuple((one, "", 0, 0) for one in packed)
    name = f"profiles/{uuid.uuid4().hex}.pickles"
    place = staging.place(name)
    place.parent.make_dirs()
    pieces = []
    with place.open_scratch() as sink:
        for one in packed:
            pieces.append((b"", name, sink.tell(), len(one)))
            sink.write(one)
            sink.write(piece_sum(one))
    return tuple(pieces)


class AnalysisCounts(NamedTuple):
    """Counts of an analysis over records of train.

    records: number of records. items: counts as `Analysis.count` returns them, an Arrow IPC stream.
    """

    records: int
    items: bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataProfiler:
    """Computes statistics and finds schema violations.

    labelled: whether records have classes. headers: reads headers of files that rows refer to.
    rules: rules of the schema, if there is one. inside: the columns of the rows of windows, if
    parts hold windows; then there are no rules.
    """

    labelled: bool
    headers: Headers | None = None
    rules: SchemaRules | None = None
    inside: pa.Schema | None = None

    def profile(self, rows: pa.RecordBatch) -> Iterator[DataProfile]:
        """Yield the profile of rows that have their splits, for each group of columns.

        Groups are ranges of the sorted names, so that they are the same for all parts.
        """
        if self.inside is not None:
            rows = rows_of(rows, self.inside)
        made = None
        if self.headers is not None:
            read, made = self.headers.read(rows)  # unreadable files are rejected at encoding
            rows = rows.take(pa.array(read.kept))
        columns = columns_of(rows, made, labelled=self.labelled)
        violations = Violations()
        if self.rules is not None:
            violations = Violations.of(batch.lineage(rows), columns, self.rules)
        names = sorted(columns)
        for start in range(0, max(len(names), 1), limits.PROFILED_COLUMNS):
            group = names[start : start + limits.PROFILED_COLUMNS]
            statistics = Statistics.of(rows, {name: columns[name] for name in group})
            if start:
                yield DataProfile(statistics=statistics)
            else:
                yield DataProfile(
                    statistics=statistics, violations=violations, columns=tuple(columns)
                )

    def moments(self, profiles: Iterable[DataProfile]) -> dict[str, Moments]:
        """Return the moments of the columns of train, given all profiles of rows.

        They are empty if the profiles are of other rows than those that are analyzed.
        """
        if self.inside is not None or self.headers is not None:
            return {}
        found: dict[str, Moments] = {}
        for profile in profiles:
            found |= profile.statistics.moments(TRAIN)
        return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartTask:
    """Reads one part, and applies an analysis and a profiler, if given."""

    staging: Staging
    analysis: Analysis | None
    profiler: DataProfiler | None

    def run(
        self, part: str, splits: pa.Array, left_out: Collection[int] = ()
    ) -> tuple[AnalysisCounts | None, tuple[Piece, ...]]:
        """Run the task, and return the counts, and a piece for the profile of each group.

        part: name of a staged part. splits: string[n], the splits of its rows. left_out: rows that
        crash the process; encoding rejects them.
        """
        rows = with_staged_paths(read_part(part, staging=self.staging, keys=False), self.staging)
        rows = batch.set_column(rows, batch.SPLIT, splits)
        if left_out:
            kept = [row for row in range(len(rows)) if row not in left_out]
            rows = rows.take(pa.array(kept, pa.int64()))
        with rows_in_tracebacks(rows):
            profiles = [] if self.profiler is None else [*self.profiler.profile(rows)]
            counts = None
            if self.analysis is not None:
                moments = self.profiler.moments(profiles) if self.profiler is not None else {}
                counts = _count(self.analysis, rows, moments)
            return counts, write_pieces(profiles, self.staging)


def run_part_task(
    task: PartTask, part: str, splits: bytes, left_out: Collection[int] = ()
) -> tuple[AnalysisCounts | None, tuple[Piece, ...]]:
    """Run a task. splits: an Arrow IPC stream with the column `__split__`."""
    return task.run(part, batch.from_bytes(splits)[batch.SPLIT], left_out)


def try_part_rows(task: PartTask, part: str, splits: bytes, some: range) -> None:
    """Run a task on the rows of a range, for a crash of this process."""
    found = batch.from_bytes(splits)[batch.SPLIT]
    task.run(part, found, [row for row in range(len(found)) if row not in some])


def _check_columns(analysis: Analysis, rows: pa.Schema) -> None:
    """Raise ConfigError if an analysis cannot count the columns of records."""
    if isinstance(analysis, ColumnsChecking):
        analysis.check_columns(rows)
    if missing := [name for name in analysis.columns if name not in rows.names]:
        raise ConfigError(
            f"Analyze: expected records with {', '.join(missing)}, got none: {their_columns(rows)}"
        )


def _count(
    analysis: Analysis, rows: pa.RecordBatch, moments: Mapping[str, Moments]
) -> AnalysisCounts:
    _check_columns(analysis, rows.schema)
    columns = rows.select([*analysis.columns] or [batch.KEY])  # without a column it has no rows
    train = columns.filter(pc.equal(rows[batch.SPLIT], TRAIN))
    if isinstance(analysis, CountsOfSplits):
        counts = analysis.count_splits(columns, rows[batch.SPLIT])
    elif isinstance(analysis, CountsWithMoments):
        counts = analysis.count_with(train, moments)
    else:
        counts = analysis.count(train)
    return AnalysisCounts(len(train), batch.to_bytes(counts))
