"""Files of rows of an input: one file, the matches of a pattern, or a folder; or several inputs."""

from __future__ import annotations

import dataclasses
import functools
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from recordmill.errors import ConfigError, Reject
from recordmill.job.input_facts import InputFacts
from recordmill.option_names import option_name
from recordmill.processes.task_watch import DEFAULT_LIMITS, TaskLimits
from recordmill.storage.files import Location, PathError, shown
from recordmill.storage.members import Member
from recordmill.transforms.model import batch
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import InputRoot
from recordmill.transforms.sources.files.other_kinds import filter_reason, is_json, other_kind
from recordmill.transforms.sources.files.path_facts import named_key
from recordmill.transforms.sources.files.skipped_names import skipped_among_rows
from recordmill.transforms.sources.files.walks import File, SkippedPath, WalkItem
from recordmill.transforms.sources.folders.folders import file_problem, list_files
from recordmill.transforms.sources.folders.path_layout import (
    LaidOutInput,
    LayoutRules,
    lay_out,
    split_source,
)
from recordmill.transforms.sources.folders.path_names import FileFacts
from recordmill.transforms.sources.folders.references import section_columns
from recordmill.transforms.sources.folders.unused_splits import UnusedSplits, unused_notes
from recordmill.transforms.sources.row_formats.open_rows import open_rows
from recordmill.transforms.sources.row_formats.reading.row_file import Noun, Origin, RowFile
from recordmill.transforms.sources.row_formats.reading.row_format import (
    TEXT,
    UTF8,
    FileFormat,
    RowFormat,
)
from recordmill.transforms.sources.row_formats.reading.zip_files import is_zip, only_member
from recordmill.transforms.sources.row_formats.text.text_encodings import Utf8Evidence, in_utf8
from recordmill.transforms.sources.row_formats.text.text_files import TextFile
from recordmill.transforms.sources.row_formats.tfrecords.known_folders import (
    CLASS_NAMES,
    DAMAGED,
    TFDS,
    is_dataset,
    shards_of,
)
from recordmill.transforms.sources.rows.columns.path_columns import path_column
from recordmill.transforms.sources.rows.reading.table_formats import (
    check_file,
    check_folders_around,
    skip_rule,
)

_SAMPLED_FILES = 10_000  # files
_SMALL = 512  # bytes: an empty file is at most as large when compressed, with its name
_TFDS_FILES = (TFDS, "dataset_info.json")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowInput:
    """Files of rows, all in one format.

    Attributes:
      input: Path or URI of a file, a pattern (`*`, `?`, `[...]`, `**` for folders), or a folder; or
        several of them. Top-level folders give the split if all have names of splits, or else files
        do if all have such names.
      format: Format of the rows.
      noun: Noun for a file in messages.
      worker_limits: Limits of an encoder process that reads the files.
    """

    input: str | Inputs
    format: RowFormat
    noun: Noun = "file"
    worker_limits: TaskLimits = DEFAULT_LIMITS

    def find(
        self, unused: Sequence[UnusedSplits | None] = ()
    ) -> Iterator[tuple[File, FileFacts] | SkippedPath | Reject]:
        """Yield the files with the facts in their paths, skipped paths and rejects.

        Args:
          unused: Finders of `unused_splits`, one for each input; they get the paths of the files.

        Raises:
          ConfigError: The input does not exist, its files have several formats, or a file names no
            split beside others that do.
        """
        first: tuple[File, FileFormat] | None = None
        for number, one, item in self._find():
            if not isinstance(item, File):
                yield item
                continue
            facts = one.facts(item.key)
            if one.layout.splits is not None and facts.split is None:
                if (text := one.layout.split_fact) is not None:
                    raise ConfigError(
                        f"{option_name('split_from', text)}: the path of {shown(item.path)} gives"
                        " no name of a split: move it, or select files with a pattern"
                    )
                raise ConfigError(
                    f"the path of {shown(item.path)} names no split, but other files of"
                    f" {one.root.given} do: move it, select files with a pattern, or pass"
                    f" {option_name('split_from')} none"
                )
            if self._is_empty(item):
                yield SkippedPath("empty")
                continue
            if unused and (finder := unused[number]) is not None:
                finder.see(item.key)
            item = item._replace(key=one.root.prefix + item.key)
            if problem := file_problem(item):
                yield Reject(shown(item.key), "read", *problem)
                continue
            file_format = self.file_format(item)
            first = first or (item, file_format)
            if file_format.format != first[1].format:
                raise ConfigError(
                    f"expected files of one format in {self.input}, got {first[0].key} and "
                    f"{item.key}: select files with a pattern, such as *.csv"
                )
            yield item, facts

    def files(self) -> Iterator[File]:
        """Yield the files of `find`."""
        for one in self.find():
            if not isinstance(one, SkippedPath | Reject):
                yield one[0]

    @functools.cached_property
    def laid_out(self) -> tuple[LaidOutInput, ...]:
        """The inputs, and the layout of their paths. Raises ConfigError."""
        rules = LayoutRules(
            skip=skipped_among_rows,
            file_names=self._file_names,
            labelled=Inputs.of(self.input).label_from is not None,
            is_dataset=is_dataset,
            usable=self.format.recognizes,
        )
        found = lay_out(Inputs.of(self.input), rules)
        for one in found:
            check_folders_around(one.root)
        label_from = Inputs.of(self.input).label_from
        if label_from is not None and all(one.layout.labels is None for one in found):
            raise ConfigError(
                f"{option_name('label_from', label_from)}: {self.input} has no folders"
            )
        return found

    @property
    def path_roles(self) -> Mapping[str, str]:
        """{system column: name as of `path_column`} of the roles that facts in paths have."""
        inputs = Inputs.of(self.input)
        given = (
            (batch.LABEL, "label", inputs.label_from),
            (batch.GROUP, "group", inputs.group_from),
        )
        return {column: path_column(role, text) for column, role, text in given if text is not None}

    @property
    def path_columns(self) -> Mapping[str, str]:
        """{column of sections: column of records} of the columns that paths give."""
        names = Inputs.of(self.input).column_from
        return dict(zip(section_columns(len(names)), names, strict=True))

    @property
    def used_keys(self) -> set[str | None]:
        """Keys of folders KEY=VALUE that options name for a fact in paths."""
        inputs = Inputs.of(self.input)
        named = (inputs.group_from, inputs.label_from, inputs.split_from)
        given = (*named, *inputs.column_from.values())
        return {named_key(text) for text in given}

    def facts(self, unused: Sequence[UnusedSplits | None]) -> InputFacts:
        """Return the facts about the paths of the files.

        Args:
          unused: The finders that `find` has filled.
        """
        layouts = [one.layout for one in self.laid_out]
        keys = [key for one in layouts for key in one.partitions if key != one.split_key]
        problems = (one.problem() for one in unused if one is not None)
        return InputFacts(
            split_source=split_source(self.laid_out, Inputs.of(self.input)),
            split_problem=next(filter(None, problems), None),
            split_hints=tuple(map(str, unused_notes(unused))),
            partitions=tuple(dict.fromkeys(keys)),
        )

    def file_format(self, file: File) -> FileFormat:
        """Return the format of a file. Raises ConfigError if neither name nor options give one."""
        name, content = _name(file), None
        if is_zip(name):
            origin = self.origin(file)
            with origin.parsing(), origin.open() as stream, zipfile.ZipFile(stream) as archive:
                member = only_member(archive, origin.place)
            return self.format.resolve(file.key, member=member)
        if not self.format.recognizes(name) and is_json(name):
            content = self.origin(file).json_content()
        elif not self.format.recognizes(name) and other_kind(name) is None:
            content = self.origin(file).other_content()
        if content is not None:
            raise ConfigError(f"{file.key} is {content}")
        return self.format.resolve(file.key, way_out=None if self.noun == "file" else "")

    def origin(self, file: File) -> Origin:
        """Return the place of a listed file."""
        place = Location.parse(file.path)
        return Origin(place=place, size=file.size, mtime=file.mtime, noun=self.noun)

    def joins(self, file: File) -> bool:
        """Return whether a small file is read together with others."""
        joined = self.noun == "file" and self.format.is_joined(_name(file))
        return joined and Member.of(file.path) is None

    def check_encoding(self, file: File, evidence: Utf8Evidence) -> None:
        """Raise ConfigError if files up to this one are in UTF-8, and not read as such.

        A small file may have too few characters to tell, but many of them have enough.
        """
        if self.format.encoding == UTF8:
            return
        file_format = self.file_format(file)
        if file_format.format in TEXT and TextFile(self.origin(file), file_format).adds_to(
            evidence
        ):
            raise in_utf8(file_format.encoding, f"the files of {self.input}, such as {file.key},")

    def open(self, file: File) -> RowFile:
        """Return the reader of a listed file. The last reader is kept, and returned again."""
        return self._last.get(file, lambda: open_rows(self.origin(file), self.file_format(file)))

    def _find(self) -> Iterator[tuple[int, LaidOutInput, File | SkippedPath | Reject]]:
        alone = len(self.laid_out) == 1
        for number, one in enumerate(self.laid_out):
            others = [other.root for other in self.laid_out[:number]]
            names = set()
            try:
                for item in _list(one.root, others=others, alone=alone):
                    if isinstance(item, File):
                        check_file(one.root, item.key)
                        if item.key in self._shards_in(one.root):
                            names.add(item.key)
                    yield number, one, self._skipped(one.root, item)
            except PathError as error:
                raise ConfigError(f"the input cannot be used: {error}") from error
            if self._shards_in(one.root):
                _check_complete(one.root.root, names)

    @functools.cached_property
    def _last(self) -> _LastFile:
        return _LastFile()

    def _is_empty(self, file: File) -> bool:
        """Return whether a file is empty, as Spark and others write for parts without rows."""
        if file.size > _SMALL or not file.size:
            return not file.size
        file_format = self.file_format(file)
        if file_format.compression is None or file_format.format not in TEXT:
            return False
        return TextFile(self.origin(file), file_format).is_blank

    def _is_metadata(self, root: InputRoot, file: File) -> bool:
        """Return whether a file is part of a dataset of recordmill or TFDS, but no records."""
        shards = self._shards_in(root)
        if shards:
            return file.key not in shards
        return _name(file) in _TFDS_FILES or file.key.endswith(CLASS_NAMES)

    def _shards_in(self, root: InputRoot) -> Collection[str]:
        """Return the names of the shards of a dataset of recordmill; none for other inputs."""
        known = self._known
        if root.place not in known:
            found = root.is_folder and is_dataset(root.root)
            known[root.place] = frozenset(shards_of(root.root)) if found else frozenset()
        return known[root.place]

    @functools.cached_property
    def _known(self) -> dict[Location, frozenset[str]]:
        """The shards of the inputs that were looked up."""
        return {}

    def _file_names(self, root: InputRoot) -> Iterator[str]:
        for item in _list(root):
            if isinstance(item, File) and isinstance(self._skipped(root, item), File):
                yield item.key

    def _skipped(
        self, root: InputRoot, item: File | SkippedPath | Reject
    ) -> File | SkippedPath | Reject:
        """Return the item, or a skipped path if a file of a folder does not hold rows."""
        if root.is_folder and isinstance(item, File) and self._is_metadata(root, item):
            return SkippedPath("metadata", files=0)
        if root.is_folder and isinstance(item, File) and not self.format.recognizes(_name(item)):
            return SkippedPath(filter_reason(_name(item)))
        return item


class _LastFile:
    """Cache of the reader of the last file; it is empty after pickling."""

    def __init__(self) -> None:
        self._last: tuple[File, RowFile] | None = None

    def get(self, file: File, opening: Callable[[], RowFile]) -> RowFile:
        """Return the reader of a file; `opening` makes it unless the file is the last one."""
        if self._last is None or self._last[0] != file:
            self._last = file, opening()
        return self._last[1]

    def __reduce__(self) -> tuple[type[_LastFile], tuple[()]]:
        return _LastFile, ()


def _check_complete(dataset: Location, names: Collection[str]) -> None:
    """Raise ConfigError if a dataset lacks a shard. names: of the files in it."""
    missing = sorted(shards_of(dataset).keys() - names)
    if missing:
        raise ConfigError(
            f"{shown(dataset)} lacks {missing[0]}"
            + (f" and {len(missing) - 1} more files" if missing[1:] else "")
            + f" of its manifest: {DAMAGED}"
        )


def _list(
    root: InputRoot, *, others: Sequence[InputRoot] = (), alone: bool = True
) -> Iterator[WalkItem]:
    """Yield the files of an input of rows, skipped paths and rejects. Raises ConfigError."""
    return list_files(root, depth=0, others=others, alone=alone, skip=skip_rule(root))


def _name(file: File) -> str:
    return file.key.rpartition("/")[2]
