"""Segments of files, such as videos: their start and end, in columns of a listing."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason, Reject, did_you_mean
from recordmill.option_names import option_name
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import ListingPart, Source
from recordmill.transforms.sources.row_formats.values.sample_times import PER_SECOND
from recordmill.transforms.sources.row_formats.values.value_parsing import (
    ValueParser,
    decimal_hint,
    with_points,
)
from recordmill.transforms.sources.rows.references.file_list import FileList

Segment = tuple[float | None, float | None]  # start and end in seconds

NAME = "__name__"  # string: name of the file, which is its path if keys name other things
FROM, TO = "__from__", "__to__"  # float64, nullable: start and end of a segment in seconds

Unit = Literal["s", "ms"]
# startMs, start_ms, start (milliseconds); not items.
_MILLISECONDS = re.compile(r"(?:[^a-zA-Z](?i:ms|msecs?|millis|milliseconds?)|[a-z]M[sS])\W*$")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SegmentColumns:
    """The columns of a listing that make a row a segment of a file.

    start, end: columns of times in the file; None without. They do not become features.
    duration: column of the time from the start to the end, instead of `end`.
    unit: of these columns. decimal: decimal separator of seconds that are text.
    root: prefix to remove from the paths of files, if keys of a listing do not name the files.
    """

    start: str | None = None
    end: str | None = None
    duration: str | None = None
    unit: Unit = "s"
    decimal: str = "."
    root: str | None = None

    @classmethod
    def of(
        cls,
        files: Source,
        *,
        start: str | None,
        end: str | None,
        duration: str | None = None,
        unit: Unit | None = None,
    ) -> SegmentColumns:
        """Return the columns of a source of files.

        unit: of the columns; by default seconds.

        Raises:
          ConfigError: both are the same column, one is the column of weights, or has another unit
            according to its name.
        """
        named = {"start": start, "end": end, "duration": duration}
        for option, name in named.items():
            if unit is None and name is not None and _MILLISECONDS.search(name):
                raise ConfigError(
                    f"--{option}-column {name}: the name suggests milliseconds, but the default"
                    f" unit is seconds: pass {option_name('segment_unit')} ms, or s if the column"
                    " holds seconds"
                )
        for option in ("end", "duration"):
            if start is not None and start == named[option]:
                raise ConfigError(
                    f"{option_name('start_column')} and --{option}-column: expected two columns,"
                    f" got {start!r} for both"
                )
        listing = files if isinstance(files, FileList) else None
        if listing is not None and listing.weight_column in {*named.values()} - {None}:
            raise ConfigError(
                f"{option_name('weight_column', listing.weight_column)}: the column is the start,"
                " the end or the duration of segments, too"
            )
        decimal = "." if listing is None else listing.format.decimal
        root = None
        if listing is not None and listing.key_column is not None:
            roots = {str(listing.root_of(place)) for place in listing.places}
            root = roots.pop() if len(roots) == 1 else ""
        return cls(
            start=start, end=end, duration=duration, unit=unit or "s", decimal=decimal, root=root
        )

    @property
    def given(self) -> bool:
        """True if rows are segments; else they are whole files."""
        return self.names != ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(filter(None, (self.start, self.end, self.duration)))

    def of_files(self, files: Iterable[ListingPart]) -> Iterator[ListingPart]:
        """Yield parts of a listing of files with their rows as segments."""
        for listed in files:
            rows, invalid = (None, []) if listed.rows is None else self.split_off(listed.rows)
            yield dataclasses.replace(listed, rows=rows, rejects=[*listed.rejects, *invalid])

    def split_off(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Reject]]:
        """Return references with `NAME`, `FROM` and `TO` instead of the columns, and rejects.

        Rows with invalid seconds are rejected. Segments of a file are in one group, and without
        keys of a listing they have keys such as `a.mp4@1.5-3`.
        """
        starts, faults = self._read(rows, "start", self.start)
        if self.duration is None:
            ends, invalid = self._read(rows, "end", self.end)
        else:
            durations, invalid = self._read(rows, "duration", self.duration)
            ends = pc.add(starts.fill_null(0.0), durations)
        faults |= invalid
        rows = rows.drop_columns([*self.names])
        keys = rows[batch.KEY].to_pylist()
        rejects = [
            Reject(keys[row], "read", Reason.BAD_VALUE, why) for row, why in sorted(faults.items())
        ]
        if faults:
            sound = pa.array([row not in faults for row in range(len(rows))])
            rows, starts, ends = rows.filter(sound), starts.filter(sound), ends.filter(sound)
        names = rows[batch.KEY]
        if self.root is not None:
            paths = [path.removeprefix(f"{self.root}/") for path in rows[batch.PATH].to_pylist()]
            names = pa.array(paths, pa.string())
        rows = batch.set_column(rows, batch.GROUP, pc.coalesce(rows[batch.GROUP], names))
        if self.root is None and self.given:
            named = zip(names.to_pylist(), starts.to_pylist(), ends.to_pylist(), strict=True)
            keys = [
                f"{name}@{seconds_text(start or 0)}-{seconds_text(end)}"
                for name, start, end in named
            ]
            rows = batch.set_column(rows, batch.KEY, pa.array(keys, pa.string()))
        for name, values in ((NAME, names), (FROM, starts), (TO, ends)):
            rows = rows.append_column(name, values)
        return rows, rejects

    def _read(
        self, rows: pa.RecordBatch, option: str, column: str | None
    ) -> tuple[pa.Array, dict[int, str]]:
        """Return a column in seconds and its invalid rows, as `read_seconds` does."""
        values, faults = read_seconds(rows, option, column, decimal=self.decimal)
        return pc.divide(values, float(PER_SECOND[self.unit])), faults


@dataclasses.dataclass(frozen=True, kw_only=True)
class SegmentedFiles:
    """Lists segments of the files of a listing as references.

    files: source of references, a row per segment.
    """

    files: Source
    columns: SegmentColumns

    @property
    def unique_keys(self) -> bool:
        """True if keys are unique by construction."""
        return self.files.unique_keys

    def scan(self) -> Iterator[ListingPart]:
        """Yield the segments as references.

        Raises:
          ConfigError: no row can be used.
        """
        return usable(self.columns.of_files(self.files.scan()), "segment")


def usable(parts: Iterable[ListingPart], noun: str) -> Iterator[ListingPart]:
    """Yield parts of a listing. Raises ConfigError if all rows are rejects. noun: that of a row."""
    kept, first = False, None
    for part in parts:
        kept = kept or (part.rows is not None and len(part.rows) > 0)
        first = first or next(iter(part.rejects), None)
        yield part
    if not kept and first is not None:
        raise ConfigError(f"no {noun} can be used; the first: {first.key}: {first.detail}")


def read_seconds(
    rows: pa.RecordBatch, option: str, column: str | None, *, decimal: str = "."
) -> tuple[pa.Array, dict[int, str]]:
    """Return a column of seconds (nulls without column) and the invalid rows, {row: message}.

    Raises:
      ConfigError: the column does not exist, or does not hold numbers.
    """
    if column is None:
        return pa.nulls(len(rows), pa.float64()), {}
    names = [name for name in rows.schema.names if not name.startswith("__")]
    if column not in names:
        raise ConfigError(
            f"--{option}-column: the listing has no column {column!r}"
            f"{did_you_mean(column, names)}, or another option uses it; the others are"
            f" {', '.join(names) or 'none'}"
        )
    values = rows[column]
    if pa.types.is_null(values.type):
        return pa.nulls(len(rows), pa.float64()), {}
    if pa.types.is_string(values.type):  # the type of a column with one value that is not a number
        return parse_seconds(values, column, decimal=decimal)
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise ConfigError(
            f"--{option}-column: expected seconds as numbers, but {column!r} has type {values.type}"
        )
    return values.cast(pa.float64()), {}


def parse_seconds(
    texts: pa.Array, column: str, *, decimal: str = "."
) -> tuple[pa.Array, dict[int, str]]:
    """Parse seconds. Returns float64[n], null if empty or invalid, and {row: message}."""
    texts = pc.utf8_trim_whitespace(with_points(texts, decimal))
    texts = pc.if_else(pc.equal(texts, ""), None, texts)
    found, unfit = ValueParser().cast_or_null(texts, pa.float64())
    rows = np.flatnonzero(unfit).tolist()
    given = [texts[row].as_py() for row in rows]
    why = f"{column}: expected seconds as a number, got"
    return found, {
        row: f"{why} {text[:40]!r}{decimal_hint(text)}"
        for row, text in zip(rows, given, strict=True)
    }


def seconds_text(seconds: float | None) -> str:
    """Return seconds as text, for a key."""
    return "" if seconds is None else f"{seconds:.6f}".rstrip("0").rstrip(".")
