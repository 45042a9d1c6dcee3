"""Steps of row sources: list sections, infer column types, read the sections of a part."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, RecordError, Reject, RunError
from recordmill.option_checks import list_text
from recordmill.option_names import option_name
from recordmill.processes.pool import shared_pool
from recordmill.processes.row_tasks import Faults, RowTask
from recordmill.storage.files import shown
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.label_spelling import LabelSpelling
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.model.user_columns import is_list
from recordmill.transforms.model.usual_columns import OF_FLAGS, quoted
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import matched_folders
from recordmill.transforms.sources.files.other_kinds import RECORDS, TFRECORDS
from recordmill.transforms.sources.files.walks import File, SkippedPath
from recordmill.transforms.sources.folders.folders import EXAMPLES
from recordmill.transforms.sources.folders.path_layout import refuse_no_facts, unused_splits
from recordmill.transforms.sources.folders.references import END, ROW, START, SectionCollector
from recordmill.transforms.sources.row_formats.columnar.columnar import ColumnarFile, split_rows
from recordmill.transforms.sources.row_formats.reading.row_file import (
    FileSection,
    QuoteAnomalies,
    RowFile,
    Rows,
    TypeInferringFile,
)
from recordmill.transforms.sources.row_formats.text.header_check import refuse_delimiter
from recordmill.transforms.sources.row_formats.text.joined_files import MOST, SMALL, read_joined
from recordmill.transforms.sources.row_formats.text.quote_anomalies import quote_notes
from recordmill.transforms.sources.row_formats.text.text_encodings import Utf8Evidence
from recordmill.transforms.sources.row_formats.values.column_types import (
    ColumnType,
    ColumnTypes,
    unify,
    zones_of,
)
from recordmill.transforms.sources.row_formats.values.nested import columns_of
from recordmill.transforms.sources.rows.columns.column_checks import alike_name, class_loss
from recordmill.transforms.sources.rows.columns.flag_columns import (
    LISTS,
    FlagColumns,
    type_of_flags,
)
from recordmill.transforms.sources.rows.reading.row_cache import RowCache
from recordmill.transforms.sources.rows.reading.row_inputs import RowInput


class LabelColumn(NamedTuple):
    """A column of classes in a file of text. spelling: without labels."""

    name: str
    spelling: LabelSpelling

    def type_of(self, found: ColumnTypes, rows: Rows) -> ColumnType:
        """Return the type of the column with the labels of rows. found: types of columns."""
        kind = found.get(self.name, ColumnType())
        return kind._replace(labels=self.spelling.add(rows.columns[self.name]))


def list_sections(
    rows: RowInput, *, whole: bool = False, must_label: bool = False
) -> Iterator[ListingPart]:
    """Yield parts of sections (schema `references.SECTIONS`), with keys such as FILE@START.

    Args:
      rows: The files.
      whole: Whether a section is a whole file.
      must_label: Whether rows without a label are rejected.

    Raises:
      ConfigError: A file cannot be parsed, or there are no rows.
    """
    given = Inputs.of(rows.input)
    found = SectionCollector.with_facts(len(given.column_from))
    anomalies: list[tuple[str, QuoteAnomalies]] = []
    evidence = Utf8Evidence()
    unused = unused_splits(rows.laid_out)
    labelled, grouped = False, False
    first: list[str] = []
    values: set[int] = set()  # columns that have a value in a path
    header_only, has_rows = None, False  # the first file that has a header alone
    for one in rows.find(unused):
        if isinstance(one, SkippedPath):
            found.filter(one)
        elif isinstance(one, Reject):
            found.rejects.append(one)
        else:
            file, facts = one
            first += [file.key] if len(first) < EXAMPLES else []
            values.update(n for n, one in enumerate(facts.columns) if one is not None)
            labelled, grouped = labelled or bool(facts.label), grouped or facts.group is not None
            with as_config_error(file):
                rows.check_encoding(file, evidence)
                opened = rows.open(file)
                whole_file = [FileSection(0, file.size, 0, 0)]
                for section in whole_file if whole else opened.sections(limits.PART_BYTES):
                    is_empty = section.start == section.end
                    header_only = header_only or (file.key if is_empty else None)
                    has_rows = has_rows or not is_empty
                    if not found.has_room(section.size):
                        yield found.take()
                    found.add_section(
                        file,
                        section,
                        label=facts.label,
                        split=facts.split,
                        group=facts.group,
                        columns=facts.columns,
                    )
            if opened.quote_anomalies:
                anomalies.append((file.key, opened.quote_anomalies))
        if found.full:
            yield found.take()
    yield found.take()
    if not has_rows and rows.noun == "listing":
        raise ConfigError(f"the listing {rows.input} has no rows")
    if not has_rows and header_only is not None:
        raise ConfigError(
            f"found no rows in {rows.input}: the only row of {header_only} was read as its header;"
            f" if it is data, name the columns with {option_name('columns')}"
        )
    if not has_rows:
        raise ConfigError(
            f"found no rows in {rows.input}"
            + (f" ({found.summary()})" if found.summary() else "")
            + ": expected a file of rows, a pattern such as *.csv, or a folder of such files"
            + matched_folders(Inputs.of(rows.input))
            + (f"; {RECORDS}" if found.totals[f"left out as {TFRECORDS}"] else "")
        )
    refuse_no_facts(
        first,
        label=(given.label_from if must_label else None, labelled),
        group=(given.group_from, grouped),
        columns=given.column_from,
        given=values,
    )
    notes = tuple(quote_notes(anomalies).values())
    yield ListingPart(notes=notes, facts=rows.facts(unused))


def read_header(
    parts: Iterable[pa.RecordBatch],
    rows: RowInput,
    dropped: Collection[str] = (),
    look: Callable[[File, RowFile], None] = lambda file, opened: None,
) -> ColumnTypes | None:
    """Return the columns that all files declare before their rows, None if a format has none.

    Args:
      parts: Parts of the listing.
      rows: The input.
      dropped: Columns that are not read; files may lack them.
      look: Called with each file that declares columns; of small files with equal headers, with
        one.

    Raises:
      ConfigError: Files have different columns.
    """
    first: tuple[File, ColumnTypes] | None = None
    joined: ColumnTypes = {}
    for file in _files_with_headers(parts, rows):
        with as_config_error(file):
            opened = rows.open(file)
            column_types = opened.header()
        if column_types is None:
            return None
        look(file, opened)
        if first is None:
            first = file, column_types
        unlike = column_types.keys() ^ first[1].keys()
        if differ := sorted(unlike - columns_of(dropped, column_types.keys() | first[1].keys())):
            for key, found in ((first[0].key, first[1]), (file.key, column_types)):
                refuse_delimiter([*found], rows.format, key)
            here, there = (file.key, first[0].key)
            if differ[0] in column_types:
                here, there = there, here
            if (other := alike_name(differ[0], {*column_types, *first[1]})) is not None:
                at_first = differ[0] in first[1]
                raise ConfigError(
                    f"{(first[0] if at_first else file).key} has a column {differ[0]!r}, and"
                    f" {(file if at_first else first[0]).key} has {other!r}, which differs only by"
                    " case, spaces or Unicode form: give the column one name in all files"
                )
            if column_types.keys().isdisjoint(first[1]):
                raise ConfigError(
                    f"{first[0].key} and {file.key} have no column in common: {first[0].key} has"
                    f" {quoted(first[1])}, and {file.key} has {quoted(column_types)}; if the first"
                    " row of one of them is data, write the names of the columns above it, or make"
                    f" a dataset of it alone, with {option_name('columns')}"
                )
            drop = shlex.quote(list_text(differ))
            names = quoted(column_types if here == file.key else first[1])
            raise ConfigError(
                f"{here} has no column {differ[0]!r}, but {there} has it: {here} has {names}; give"
                f" all files the same columns, or pass {option_name('drop_columns', drop)}, which"
                f" leaves {'it' if len(differ) == 1 else 'them'} out of all"
                f" records{class_loss(differ)}"
            )
        joined = unify([joined, column_types])
    return joined


def _files_with_headers(parts: Iterable[pa.RecordBatch], rows: RowInput) -> Iterator[File]:
    """Yield the files, except small ones whose header equals that of an earlier file."""
    known: set[bytes] = set()
    last: File | None = None
    for block in itertools.chain.from_iterable(iter_blocks(part, rows) for part in parts):
        file = block.files[0]
        if block.section.more:
            header_rows = rows.file_format(file).header_rows
            for joined in read_joined(block.section, rows.origin(file), header_rows):
                if joined.header not in known:
                    yield block.files[joined.first]
                known.add(joined.header)
        elif file != last:
            yield file
        last = file


class Inference(NamedTuple):
    """Columns whose types are inferred, and options of the inference.

    Attributes:
      names: Columns to infer; None for all.
      keep: Cache for the parsed rows.
      times: Column of times, read as text, whose type is inferred from their time zones: string if
        only some have one.
      label: Column of classes; in files of text, the spelling of its labels is inferred.
      flags: Columns of 0 and 1 to look at instead of all that.
    """

    names: Collection[str] | None = None
    keep: RowCache | None = None
    times: str | None = None
    label: LabelColumn | None = None
    flags: FlagColumns | None = None


def infer_columns(
    parts: Iterable[pa.RecordBatch], rows: RowInput, what: Inference, *, here: bool = False
) -> ColumnTypes:
    """Infer column types from all rows, in encoder processes with a task per part.

    A single part of text is read in this process; with `here`, all parts are.
    """
    batches = iter(parts)
    first = list(itertools.islice(batches, 2))
    if here or (len(first) < 2 and not any(_is_columnar(part, rows) for part in first)):
        return unify(_infer_part(part, rows, what) for part in itertools.chain(first, batches))
    pool = shared_pool()
    waiting: collections.deque[Future[ColumnTypes]] = collections.deque()
    column_types: ColumnTypes = {}
    for part in itertools.chain(first, batches):
        waiting.append(pool.submit_rows(_task(part, rows, what)))
        if len(waiting) > 2 * pool.workers:
            column_types = unify([column_types, waiting.popleft().result()])
    return unify([column_types, *(task.result() for task in waiting)])


def infer_spelling(
    parts: Iterable[pa.RecordBatch], rows: RowInput, label: LabelColumn, *, here: bool
) -> ColumnTypes:
    """Return the type of a column of classes in files of text, with the spelling of its labels.

    If the first rows have words, no further rows are read. here: as for `infer_columns`.
    """
    batches = iter(parts)
    for first in batches:
        for file, section, _ in iter_sections(first[:1]):
            opened = rows.open(file)
            if not isinstance(opened, TypeInferringFile):
                continue
            for _, some in itertools.islice(opened.typed_rows(section, (), {label.name}), 1):
                kind = label.type_of({}, some)
                if kind.labels is not None and kind.labels.of_words:
                    return {label.name: kind}
        every = itertools.chain([first], batches)
        return infer_columns(every, rows, Inference((), label=label), here=here)
    return {}


def flag_columns(
    parts: Iterable[pa.RecordBatch], rows: RowInput, names: tuple[str, ...], types: ColumnTypes
) -> FlagColumns:
    """Return the columns of 0 and 1; for a column of lists, with the length of the first one.

    types: of the columns of the files.
    """
    lists = types[names[0]].field(names[0])
    if len(names) > 1 or not is_list(lists.type):
        return FlagColumns(names)
    found = FlagColumns(names, lists)
    for block in itertools.chain.from_iterable(iter_blocks(part, rows) for part in parts):
        with as_config_error(block.files[0]):
            for some in rows.open(block.files[0]).read(block.section, found.schema, ()):
                lengths = pc.list_value_length(some.columns[names[0]]).drop_null()
                if len(lengths):
                    return found._replace(size=lengths[0].as_py())
    return found


def infer_flags(
    parts: Iterable[pa.RecordBatch], rows: RowInput, flags: FlagColumns, *, here: bool
) -> ColumnTypes:
    """Return the type of the labels that columns of 0 and 1 give: texts, or lists of texts.

    If the first rows of a file of text need lists, no further rows are read. here: as for
    `infer_columns`.
    """
    batches = iter(parts)
    for first in batches:
        for file, section, _ in iter_sections(first[:1]):
            opened = rows.open(file)
            if not isinstance(opened, TypeInferringFile):
                continue
            with as_config_error(file):
                some = next(iter(_flags_of_section(opened, section, rows, flags)), None)
            if some is not None and some.types == LISTS:
                return {OF_FLAGS: some}
        every = itertools.chain([first], batches)
        return infer_columns(every, rows, Inference(flags=flags), here=here)
    return {}


def _flags_of_section(
    opened: RowFile, section: FileSection, rows: RowInput, flags: FlagColumns
) -> Iterator[ColumnType]:
    """Yield the types of the labels that columns of 0 and 1 give in blocks of a section."""
    parser = rows.format.value_parser
    for block in opened.read(section, flags.schema, flags.text):
        columns = [parser.mask_missing(name, block.columns[name]) for name in flags.names]
        yield type_of_flags(flags.flags(columns))


def _is_columnar(part: pa.RecordBatch, rows: RowInput) -> bool:
    """Return whether the blocks of files can become much larger than the files when read."""
    return any(isinstance(rows.open(file), ColumnarFile) for file, *_ in iter_sections(part[:1]))


def iter_sections(
    part: pa.RecordBatch,
) -> Iterator[tuple[File, FileSection, dict[str, str | None]]]:
    """Yield each section of a part with its file and its row of the listing."""
    for row in part.to_pylist():
        name = row[batch.KEY].rpartition("@")[0]
        file = File(name, row[batch.PATH], row[batch.SIZE], row[batch.MTIME])
        yield file, FileSection(row[START], row[END], row[ROW], 0), row


class SectionBlock(NamedTuple):
    """A section of a file, or sections of several small files that are read as one block.

    Attributes:
      files: The files.
      section: Section of the first file; `more` has those of the others.
      listed: Row of the listing for each section.
    """

    files: Sequence[File]
    section: FileSection
    listed: Sequence[Mapping[str, Any]]


def iter_blocks(part: pa.RecordBatch, rows: RowInput) -> Iterator[SectionBlock]:
    """Yield the sections of a part; those of consecutive small files are joined."""
    several: list[tuple[File, FileSection, dict[str, Any]]] = []
    taken = 0
    for one in iter_sections(part):
        file, section, _ = one
        size = section.end - section.start
        whole = section.row == 1 and section.end == file.size <= SMALL
        joins = whole and rows.joins(file)
        if several and not (joins and taken + size <= MOST):
            yield _block(several, rows)
            several, taken = [], 0
        several.append(one)
        taken += size if joins else MOST
    if several:
        yield _block(several, rows)


def _block(
    several: Sequence[tuple[File, FileSection, dict[str, Any]]], rows: RowInput
) -> SectionBlock:
    files, sections, listed = zip(*several, strict=True)
    more = tuple(
        (rows.origin(file), section) for file, section in zip(files[1:], sections[1:], strict=True)
    )
    return SectionBlock(files, sections[0]._replace(more=more), listed)


@contextlib.contextmanager
def as_run_error(file: File) -> Iterator[None]:
    """Raise errors of a file that was listed without error as RunError."""
    try:
        yield
    except ConfigError as error:
        raise RunError(str(error)) from error
    except RecordError as error:
        raise RunError(f"cannot read {shown(file.path)}: {error.detail}") from error


def numbered_keys(rows: Rows, files: Sequence[str]) -> pa.Array:
    """Return the keys FILE#ROW of rows, string[n]. files: keys of the files, as in `Rows.files`."""
    numbers = pa.array(rows.numbers).cast(pa.string())
    if rows.files is None:
        return pc.binary_join_element_wise(f"{files[0]}#", numbers, "")
    return pc.binary_join_element_wise(rows.of_files(files), numbers, "#")


def regroup(parts: Iterable[ListingPart]) -> Iterator[ListingPart]:
    """Merge and split parts to up to `PART_ROWS` rows and about `BATCH_BYTES` each."""
    rows: list[pa.RecordBatch] = []
    count = size = 0  # rows and bytes
    rejects: list[Reject] = []
    filtered: collections.Counter[str] = collections.Counter()
    for part in parts:
        for piece in () if part.rows is None else split_rows(part.rows):
            count, size = count + len(piece), size + piece.nbytes
            if rows and (count > limits.PART_ROWS or size > limits.BATCH_BYTES):
                yield ListingPart(rows=batch.concat(rows), rejects=rejects, filtered=filtered)
                rows, rejects, filtered = [], [], collections.Counter()
                count, size = len(piece), piece.nbytes
            rows.append(piece)
        rejects += part.rejects
        filtered.update(part.filtered)
    if rows or rejects or filtered:
        joined = batch.concat(rows) if rows else None
        yield ListingPart(rows=joined, rejects=rejects, filtered=filtered)


def _task(part: pa.RecordBatch, rows: RowInput, what: Inference) -> RowTask[ColumnTypes]:
    packed = batch.to_bytes(part)

    def call(faults: Faults) -> Callable[[], ColumnTypes]:
        for number, (file, *_) in enumerate(iter_sections(part) if faults else ()):
            if number in faults:
                with as_config_error(file):
                    raise faults[number]
        return functools.partial(_infer, packed, rows, what, range(len(part)))

    trial = functools.partial(_try, packed, rows, what._replace(keep=None))
    return RowTask(count=len(part), call=call, trial=trial, limits=rows.worker_limits)


def _try(part: bytes, rows: RowInput, what: Inference, some: range) -> None:
    _infer(part, rows, what, some)


def _infer(part: bytes, rows: RowInput, what: Inference, some: range) -> ColumnTypes:
    return _infer_part(batch.from_bytes(part).slice(some.start, len(some)), rows, what)


def _infer_part(part: pa.RecordBatch, rows: RowInput, what: Inference) -> ColumnTypes:
    names, keep, times, label, flags = what
    if flags is not None:
        return unify(
            {OF_FLAGS: found}
            for block in iter_blocks(part, rows)
            for found in _flags_of_section(rows.open(block.files[0]), block.section, rows, flags)
        )
    column_types: list[ColumnTypes] = []
    text = {*(() if keep is None else keep.text), *(() if label is None else (label.name,))}
    text |= set() if times is None else {times}
    kept: list[list[Rows]] = []
    for block in iter_blocks(part, rows):
        opened = rows.open(block.files[0])
        by_types = keep is None and label is None and times is None
        if by_types or not isinstance(opened, TypeInferringFile):
            column_types.append(_located(opened.column_types(block.section, names), block.files))
            continue
        kept.append([])
        for found, of in opened.typed_rows(block.section, names, text):
            if times is not None:
                found = {**found, times: zones_of(of.columns[times])}
            if label is not None:
                found = {**found, label.name: label.type_of(found, of)}
            column_types.append(_located(found, block.files))
            if keep is not None:
                kept[-1].append(of)
    if keep is not None and kept:  # the files of an input are of one format
        keep.put(part, kept)
    return unify(column_types)


def _located(column_types: ColumnTypes, files: Sequence[File]) -> ColumnTypes:
    """Return column types with the file of each odd value. files: as in `Rows.files`."""
    return {
        name: kind
        if kind.odd is None
        else kind._replace(odd=kind.odd._replace(file=files[kind.odd.of].key))
        for name, kind in column_types.items()
    }


@contextlib.contextmanager
def as_config_error(file: File) -> Iterator[None]:
    """Raise errors of a file as ConfigError, because a file holds too many rows to reject."""
    try:
        yield
    except RecordError as error:
        raise ConfigError(
            f"cannot read {shown(file.path)}: {error.detail}; repair it, or select other files "
            "with a pattern"
        ) from error
