"""Source of text files in a folder: a document is a file, or a line of a file."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason, RecordError, Reject
from recordmill.job.input_facts import NO_FACTS, InputFacts
from recordmill.notes import Note
from recordmill.option_checks import check_options
from recordmill.storage.files import Location, shown
from recordmill.storage.members import archive_of
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.source import Layout, ListingPart, Parts, RowSource
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import InputRoot, check_paths
from recordmill.transforms.sources.files.skipped_names import skipped_among_media
from recordmill.transforms.sources.files.walks import File, SkippedPath
from recordmill.transforms.sources.folders.document_extensions import DocumentExtensions
from recordmill.transforms.sources.folders.folders import (
    LabelledFile,
    RejectedFile,
    check_numbers,
    layout_notes,
    list_files,
    may_be,
    no_files_message,
    walk_files,
)
from recordmill.transforms.sources.folders.number_labels import NumberLabels
from recordmill.transforms.sources.folders.path_layout import (
    LaidOutInput,
    LayoutRules,
    lay_out,
    split_source,
    unused_splits,
)
from recordmill.transforms.sources.folders.path_names import splits_in
from recordmill.transforms.sources.folders.references import (
    SectionCollector,
    Unlabelled,
    section_columns,
)
from recordmill.transforms.sources.folders.split_lists import SplitLists
from recordmill.transforms.sources.folders.unread_lists import UnreadLists
from recordmill.transforms.sources.folders.unused_splits import unused_notes
from recordmill.transforms.sources.row_formats.reading.row_file import Origin
from recordmill.transforms.sources.row_formats.reading.row_format import (
    UTF8,
    RowFormat,
    format_of,
)
from recordmill.transforms.sources.row_formats.text.json_lines import LINE, PlainLines
from recordmill.transforms.sources.row_formats.text.text_encodings import (
    NotTextError,
    Utf16Error,
)
from recordmill.transforms.sources.row_formats.values.value_parsing import ValueParser
from recordmill.transforms.sources.rows.columns import content_keys
from recordmill.transforms.sources.rows.columns.record_columns import (
    ONLY_SPACE,
    SYSTEM_COLUMNS,
    TEXT_FIELDS,
    is_only_space,
    unreadable_rejects,
)
from recordmill.transforms.sources.rows.reading.row_sections import (
    as_run_error,
    iter_sections,
    numbered_keys,
    regroup,
)
from recordmill.transforms.sources.rows.values.documents import NOT_TEXTS, UTF_16, DocumentFormat

Documents = Literal["file", "line"]

_NUMBER = "__number__"  # string: number to predict as text, a column of sections


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextFolder(RowSource):
    """Lists the text files of folders or patterns, whose folders give label and split.

    input: path or URI of a folder or a pattern, or several of them, as of `FileTree`.
    documents: whether a record is a file or a line. Blank lines are skipped. Spaces around a line
      are part of the document, its line break is not.
    encoding: of all files; a byte order mark is dropped.
    unlabelled: whether to reject or keep files without label if folders give labels.
    leave_out: extensions to skip (without dot, in lower case).
    max_row_bytes: size above which a document is rejected.
    labelled: whether folders give labels.
    numbers: converts labels to numbers to predict; None if labels are classes.
    """

    input: str | Inputs
    documents: Documents = "file"
    encoding: str = UTF8
    unlabelled: Unlabelled = "reject"
    leave_out: tuple[str, ...] = NOT_TEXTS
    max_row_bytes: int = RowFormat.max_row_bytes
    labelled: bool = True
    numbers: NumberLabels | None = None

    def __post_init__(self) -> None:
        check_options(self, self._check_together)

    def _check_together(self) -> None:
        check_paths(self.input)
        self._documents.lines  # noqa: B018 (validates the encoding)

    @property
    def unique_keys(self) -> bool:
        """True, because keys are paths, or numbered where documents are equal."""
        return True

    @property
    def keyed_by_content(self) -> bool:
        """True for a document per line; otherwise the key is the path of the file."""
        return self.documents == "line"

    def content_hashes(self, rows: pa.RecordBatch) -> pa.Array:
        """Return a hash of each document: binary(16)[n]."""
        return content_keys.content_hashes(rows, ValueParser())

    def scan(self) -> Iterator[ListingPart]:
        """Yield the files, or sections of them.

        Raises:
          ConfigError: there is no such folder, it has no usable file, or no path gives a number.
        """
        check_numbers(self._laid_out, self.numbers)
        for part in self._scan():
            if self.numbers is not None and part.rows is not None:  # it is not a class
                rows = part.rows.append_column(_NUMBER, part.rows[batch.LABEL])
                none = pa.nulls(len(rows), pa.string())
                part = dataclasses.replace(part, rows=batch.set_column(rows, batch.LABEL, none))
            yield part

    def _scan(self) -> Iterator[ListingPart]:
        """Yield the files, or sections of them, with the labels of their paths."""
        inputs = Inputs.of(self.input)
        found = SectionCollector.with_facts(len(inputs.column_from))
        named = self.documents == "file"  # whether all files have names of splits
        unused = unused_splits(self._laid_out)
        lists = SplitLists.of(inputs)
        extensions, unlabelled = DocumentExtensions(), DocumentExtensions()
        roots = [one.root for one in self._laid_out]
        unread = UnreadLists(inputs, roots, of_masks=False, beside=True)
        for one in walk_files(
            inputs,
            self._laid_out,
            unlabelled=self.unlabelled,
            leave_out=self.leave_out,
            unused=unused,
            lists=lists,
            on_skipped=unread.skip,
            is_list=unread.is_list,
        ):
            if isinstance(one, SkippedPath):
                found.filter(one)
            elif isinstance(one, RejectedFile):
                if self.documents == "line" and one.reject.reason is Reason.EMPTY:
                    found.filter(SkippedPath("empty"))  # it has no line
                    continue
                found.add_reject(one.reject, one.label if self.numbers is None else None)
                if one.reject.reason is Reason.UNLABELLED:
                    unlabelled.add(one.reject.key)
            else:
                extensions.add(one.file.key)
                unread.add_record(one.file.path)
                named = named and bool(splits_in(one.file.key.rpartition("/")[2]))
                yield from self._list(one, found)
            if found.full:
                yield found.take()
        yield found.take()
        splits = split_source(self._laid_out, inputs)
        notes = [*layout_notes(self._laid_out, labelled=self.labelled), *unused_notes(unused)]
        if named and splits is None and (files := found.totals["rows"]):
            text = (
                f"all {files} text files have names of splits, but each file is one document:"
                " --documents line makes a document of each line, and takes the split from the"
                " name of the file"
            )
            notes.append(Note("splits", text))
        of_folder = any(one.root.is_folder for one in self._laid_out)
        archived = any(one.archives is not None for one in self._laid_out)
        if not found.totals["rows"]:
            unlabelled.notes(inputs, of_folder=of_folder, archived=archived)  # annotations first
            raise ConfigError(no_files_message(inputs, found))
        notes += unread.notes() if splits is None else ()
        notes += [] if lists is None else lists.close(inputs)
        notes += extensions.notes(inputs, of_folder=of_folder, archived=archived)
        labelled = any(one.layout.labels is not None for one in self._laid_out)
        yield ListingPart(notes=notes, facts=InputFacts(split_source=splits, labelled=labelled))

    def layout(
        self, parts: Parts, keep: Location | None = None, *, facts: InputFacts = NO_FACTS
    ) -> Layout:
        """Return the layout of the documents."""
        del parts, keep
        numbers = () if self.numbers is None else (self.numbers.field,)
        return Layout(
            columns=pa.schema([*self._fields, *numbers]),
            labelled=self.numbers is None and facts.labelled,
            grouped=Inputs.of(self.input).group_from is not None,
            split_source=facts.split_source,
        )

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """Yield the documents of a part of the listing.

        Raises:
          ChangedInputError: a file has changed since it was listed.
        """
        del layout
        if self.numbers is not None:
            sections = batch.set_column(sections, batch.LABEL, sections[_NUMBER])
        parts = [self._files(sections)] if self.documents == "file" else self._lines(sections)
        if self.numbers is None:
            return regroup(parts)
        return regroup(self.numbers.convert_part(part, where="its path") for part in parts)

    @functools.cached_property
    def _laid_out(self) -> tuple[LaidOutInput, ...]:
        file_names = self._file_names if self.documents == "line" else None
        rules = LayoutRules(
            skip=skipped_among_media,
            file_names=file_names,
            labelled=self.labelled,
            archived=functools.partial(may_be, leave_out=self.leave_out),
        )
        found = lay_out(Inputs.of(self.input), rules)
        _refuse_rows(found)
        return found

    @property
    def _listed(self) -> tuple[str, ...]:
        """Columns of sections with the columns that paths give."""
        return section_columns(len(Inputs.of(self.input).column_from))

    @property
    def _fields(self) -> tuple[pa.Field, ...]:
        """Fields of the records, without that of numbers to predict."""
        columns = Inputs.of(self.input).column_from
        return (*TEXT_FIELDS, *(pa.field(name, pa.string()) for name in columns))

    def _file_names(self, root: InputRoot) -> Iterator[str]:
        for one in list_files(root, depth=0):
            if isinstance(one, File) and may_be(one.key, self.leave_out):
                yield one.key

    @functools.cached_property
    def _documents(self) -> DocumentFormat:
        return DocumentFormat(encoding=self.encoding, max_row_bytes=self.max_row_bytes)

    def _open(self, file: File) -> PlainLines:
        place = Location.parse(archive_of(file.path))
        origin = Origin(place=place, path=file.path, size=file.size, mtime=file.mtime)
        return PlainLines(origin, self._documents.lines)

    def _list(self, member: LabelledFile, found: SectionCollector) -> Iterator[ListingPart]:
        file, label, split, group, *_, key, columns = member
        if self.documents == "file":
            if (problem := self._documents.size_problem(file.size)) is not None:
                found.reject(file.key, problem)
                return
            if not found.has_room(file.size):
                yield found.take()
            name, path, size, mtime = file
            more = (0, size, 1, *columns)
            found.add(key or name, path, size, mtime, *more, label=label, split=split, group=group)
            found.bytes += file.size
            return
        try:
            for section in self._open(file).sections(limits.PART_BYTES):
                if not found.has_room(section.size):
                    yield found.take()
                found.add_section(
                    file, section, label=label, split=split, group=group, columns=columns
                )
        except RecordError as error:
            found.reject(file.key, RejectCause(error.reason, error.detail))
        except Utf16Error:
            found.reject(file.key, RejectCause(Reason.BAD_VALUE, UTF_16))
        except NotTextError as error:
            found.reject(file.key, RejectCause(Reason.BAD_VALUE, error.detail))

    def _files(self, sections: pa.RecordBatch) -> ListingPart:
        kept, texts, rejects = self._documents.read(sections)
        arrays = [*(kept[name] for name in SYSTEM_COLUMNS), texts]
        arrays += [kept[name] for name in self._listed]
        rows = pa.record_batch(arrays, schema=pa.schema(self._fields))
        return ListingPart(rows=rows if len(rows) else None, rejects=rejects)

    def _lines(self, sections: pa.RecordBatch) -> Iterator[ListingPart]:
        wanted = pa.schema([pa.field(LINE, pa.string())])
        for file, section, listed in iter_sections(sections):
            with as_run_error(file):
                for rows in self._open(file).read(section, wanted, (LINE,)):
                    count = len(rows.columns)
                    system, columns = (
                        [pa.repeat(pa.scalar(listed[name], pa.string()), count) for name in names]
                        for names in (SYSTEM_COLUMNS[1:], self._listed)
                    )
                    keys = numbered_keys(rows, [file.key])
                    arrays = [keys, *system, rows.columns[LINE], *columns]
                    found = pa.record_batch(arrays, schema=pa.schema(self._fields))
                    blank = is_only_space(rows.columns[LINE])
                    rejects = [
                        Reject(key, "read", *ONLY_SPACE) for key in keys.filter(blank).to_pylist()
                    ]
                    yield ListingPart(
                        rows=found.filter(pc.invert(blank)) if rejects else found,
                        rejects=[*unreadable_rejects(rows, [file.key]), *rejects],
                    )


def _refuse_rows(laid_out: Iterable[LaidOutInput]) -> None:
    """Raise ConfigError for files of rows in archives, which are no documents."""
    for one in laid_out:
        if one.archives is None:
            continue
        for key in one.archives.all_keys():
            if format_of(key.rpartition("/")[2]) not in (None, "lines"):
                raise ConfigError(
                    f"{one.root.given} holds a file of rows, {shown(key)}, which is not read from"
                    " an archive: unpack it, and pass the files of rows, or pack only text files"
                )
