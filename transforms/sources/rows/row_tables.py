"""What sources of rows do: list sections, find out about columns, read the rows of a part."""

from __future__ import annotations

import collections
import contextlib
import itertools
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Future

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, RecordError, Reject, RunError
from recordmill.processes.pool import shared_pool
from recordmill.storage.files import shown
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import ListingPart
from recordmill.transforms.sources.files import references
from recordmill.transforms.sources.files.references import END, ROW, START, Sections
from recordmill.transforms.sources.files.walks import File, LeftOut
from recordmill.transforms.sources.row_formats.column_types import ColumnTypes, join
from recordmill.transforms.sources.row_formats.columnar import small_parts
from recordmill.transforms.sources.row_formats.rows import (
    READ_BYTES,
    FileSection,
    Oddities,
    Rows,
    TypedFile,
)
from recordmill.transforms.sources.rows.column_roles import quoted
from recordmill.transforms.sources.rows.kept_rows import Keep
from recordmill.transforms.sources.rows.row_inputs import RowInput


def list_sections(rows: RowInput, notes: dict[str, str]) -> Iterator[ListingPart]:
    """Parts of sections, `references.SECTIONS`, with keys such as FILE@START.

    notes: {what it is about: a sentence}, made anew when all is listed.

    Raises ConfigError for an input that cannot be understood, or has no row.
    """
    found = Sections()
    odd: list[tuple[str, Oddities]] = []
    for one in rows.find():
        if isinstance(one, LeftOut):
            found.filter(one.by)
        elif isinstance(one, Reject):
            found.rejects.append(one)
        else:
            file, split = one
            with _readable(file):
                opened = rows.open(file)
                for section in opened.sections(references.PART_BYTES):
                    if not found.has_room(section.size):
                        yield found.take()
                    found.add_section(file, section, label=None, split=split)
            if opened.oddities != Oddities():
                odd.append((file.key, opened.oddities))
        if found.full:
            yield found.take()
    yield found.take()
    if not found.totals["rows"]:
        raise ConfigError(
            f"found no row in {rows.input}"
            + (f" ({found.told()})" if found.told() else "")
            + ": expected a file of rows, a pattern such as *.csv, or a folder of such files"
        )
    notes.update(_told(odd))


def read_header(rows: RowInput) -> ColumnTypes | None:
    """The columns of all files, as far as those say before their rows; None: not at all.

    Raises ConfigError where files have different columns.
    """
    first: tuple[File, ColumnTypes] | None = None
    joined: ColumnTypes = {}
    for one in rows.find():
        if isinstance(one, LeftOut | Reject):
            continue
        file, _ = one
        with _readable(file):
            kinds = rows.open(file).header()
        if kinds is None:
            return None
        if first is None:
            first = file, kinds
        if differ := sorted(kinds.keys() ^ first[1].keys()):
            here, there = (file.key, first[0].key)
            if differ[0] in kinds:
                here, there = there, here
            raise ConfigError(
                f"no column {differ[0]!r} in {here}, as {there} has it: it has "
                f"{quoted(kinds if here == file.key else first[1])}; give all files the same "
                "columns"
            )
        joined = join([joined, kinds])
    return joined


def learn_columns(
    parts: Iterable[pa.RecordBatch],
    rows: RowInput,
    names: Collection[str] | None,
    keep: Keep | None = None,
) -> ColumnTypes:
    """What all rows say of the columns named, or of all: in encoder processes, a part a task.

    keep: where rows are kept that had to be read for it.
    """
    batches = iter(parts)
    first = list(itertools.islice(batches, 2))
    if len(first) < 2:
        return join(_kinds_of_part(part, rows, names, keep) for part in first)
    pool = shared_pool()
    waiting: collections.deque[Future[ColumnTypes]] = collections.deque()
    kinds: ColumnTypes = {}
    for part in itertools.chain(first, batches):
        waiting.append(pool.submit(_task, batch.to_bytes(part), rows, names, keep))
        if len(waiting) > 2 * pool.workers:
            kinds = join([kinds, waiting.popleft().result()])
    return join([kinds, *(task.result() for task in waiting)])


def sections_of(part: pa.RecordBatch) -> Iterator[tuple[File, FileSection, dict[str, str | None]]]:
    """The sections of a part: their file, and all that was listed."""
    for row in part.to_pylist():
        name = row[batch.KEY].rpartition("@")[0]
        file = File(name, row[batch.PATH], row[batch.SIZE], row[batch.MTIME])
        yield file, FileSection(row[START], row[END], row[ROW], 0), row


@contextlib.contextmanager
def reading(file: File) -> Iterator[None]:
    """Raises what is wrong with a file that was fine when it was listed, or then not read, as
    RunError.
    """
    try:
        yield
    except ConfigError as error:
        raise RunError(str(error)) from error
    except RecordError as error:
        raise RunError(f"cannot read {shown(file.path)}: {error.detail}") from error


def numbered_keys(file: str, numbers: npt.NDArray[np.int64]) -> pa.Array:
    """FILE#ROW: string[n]."""
    return pc.binary_join_element_wise(f"{file}#", pa.array(numbers).cast(pa.string()), "")


def regroup(parts: Iterable[ListingPart]) -> Iterator[ListingPart]:
    """The same rows in parts of up to `batch.ROWS` rows and about 4 MiB."""
    rows: list[pa.RecordBatch] = []
    rejects: list[Reject] = []
    filtered: collections.Counter[str] = collections.Counter()
    for part in parts:
        for piece in () if part.rows is None else small_parts(part.rows):
            count, size = len(piece), piece.nbytes
            full = sum(map(len, rows)) + count > batch.ROWS
            if rows and (full or sum(one.nbytes for one in rows) + size > READ_BYTES):
                yield ListingPart(rows=batch.concat(rows), rejects=rejects, filtered=filtered)
                rows, rejects, filtered = [], [], collections.Counter()
            rows.append(piece)
        rejects += part.rejects
        filtered.update(part.filtered)
    if rows or rejects or filtered:
        joined = batch.concat(rows) if rows else None
        yield ListingPart(rows=joined, rejects=rejects, filtered=filtered)


def _task(
    part: bytes, rows: RowInput, names: Collection[str] | None, keep: Keep | None
) -> ColumnTypes:
    return _kinds_of_part(batch.from_bytes(part), rows, names, keep)


def _kinds_of_part(
    part: pa.RecordBatch, rows: RowInput, names: Collection[str] | None, keep: Keep | None
) -> ColumnTypes:
    kinds: list[ColumnTypes] = []
    kept: list[list[Rows]] = []
    for file, section, _ in sections_of(part):
        opened = rows.open(file)
        if keep is None or not isinstance(opened, TypedFile):
            kinds.append(opened.kinds(section, names))
            continue
        kept.append([])
        for found, of in opened.typed(section, names, keep.text):
            kinds.append(found)
            kept[-1].append(of)
    if keep is not None and kept:  # the files of an input are of one format
        keep.put(part, kept)
    return join(kinds)


@contextlib.contextmanager
def _readable(file: File) -> Iterator[None]:
    """A file of many rows that cannot be read is no mere reject."""
    try:
        yield
    except RecordError as error:
        raise ConfigError(
            f"cannot read {shown(file.path)}: {error.detail}; mend it, or name the files that are "
            "meant by a pattern"
        ) from error


def _told(odd: list[tuple[str, Oddities]]) -> dict[str, str]:
    """Sentences about quotes that may be none."""
    notes = {}
    for what, is_odd, then in (
        ("spanning", "a value that spans lines", "if quotes are data there"),
        ("trailing", "text after a closing quote", "quotes were dropped; if they are data"),
    ):
        files = [(file, one) for file, one in odd if getattr(one, what)]
        if files:
            count = sum(getattr(one, what) for _, one in files)
            first = f"{files[0][0]}#{getattr(files[0][1], f'first_{what}')}"
            notes[what] = (
                f"rows with {is_odd}: {count}, the first is {first}; {then}, say --quoting off"
            )
    return notes
