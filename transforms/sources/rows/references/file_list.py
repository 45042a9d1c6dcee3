"""Source of files named in listings: tables, such as CSV or Parquet files, with a row per file.

One column holds the path: relative to the folder of the listing (or to `input_root`), absolute, or
a URI. Other columns may hold label, split, group and key; the remaining ones are user columns.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason
from recordmill.job.input_facts import ColumnRoles
from recordmill.notes import Note, count_of
from recordmill.option_names import option_name
from recordmill.storage.files import Location, shown
from recordmill.storage.redaction import redact_uri
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.model.usual_columns import OF_TEMPLATE, PATHS, column_named, quoted
from recordmill.transforms.sources.files.file_stat import (
    EMPTY,
    FileStat,
    RejectCause,
    refuse_special,
)
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import key_prefixes
from recordmill.transforms.sources.files.other_kinds import compressed_tar, is_archive
from recordmill.transforms.sources.files.path_facts import PathFact
from recordmill.transforms.sources.files.path_rules import normal_path, parse_store
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.folders.path_layout import refuse_no_facts
from recordmill.transforms.sources.folders.references import COLUMNS
from recordmill.transforms.sources.folders.split_lists import SplitLists
from recordmill.transforms.sources.row_formats.reading.row_file import FileSection, Noun, Rows
from recordmill.transforms.sources.row_formats.reading.row_format import RowFormat, format_of
from recordmill.transforms.sources.rows.columns.path_columns import path_column
from recordmill.transforms.sources.rows.columns.record_columns import (
    InvalidRows,
    SystemColumns,
    invalid_rows,
)
from recordmill.transforms.sources.rows.columns.row_options import UsualNames
from recordmill.transforms.sources.rows.reading.record_layout import Attached, References, RowLayout
from recordmill.transforms.sources.rows.references.path_stats import PathOptions, StatCache
from recordmill.transforms.sources.rows.references.path_template import (
    PathTemplate,
    likely_template,
)
from recordmill.transforms.sources.rows.references.row_references import RowReferences
from recordmill.transforms.sources.rows.references.unlisted import ListedPaths, segment_notes

_NO_PATH = RejectCause(Reason.BAD_VALUE, "no path")
_NOTHING = FileStat("", 0, 0)
_SHOWN = 3  # paths in a message


def is_listing(place: Location) -> bool:
    """Return whether an input is a listing: an existing file with the extension of a table."""
    is_table = format_of(place.name) not in (None, "tfrecord")
    return is_table and place.is_file()


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileList(PathOptions, RowReferences):
    """Lists the files that listings name.

    If the listings are in different folders, keys begin with the names of the folders.

    Args:
      path: Path or URI of the listing, or several.
      format: Format of the rows. A .txt file with a delimiter is read as CSV or TSV.
      path_template: Template of the paths, if several columns make them, as in `PathTemplate`.
      path_column: By default a column with a usual name (path, file, filename, image, ...).
      segment_columns: Columns that distinguish rows with the same key, such as times of segments;
        None if rows cannot be segments of files.
    """

    path: str | Inputs
    path_column: str | None = None
    path_template: str | None = None
    segment_columns: tuple[str, ...] | None = None
    _leading_fields: ClassVar[tuple[pa.Field, ...]] = tuple(COLUMNS)
    _file_noun: ClassVar[Noun] = "listing"
    _repeats: ClassVar[bool] = True
    _takes_lists: ClassVar[bool] = True

    def _check_together(self) -> None:
        super()._check_together()
        if self._template is not None and self.path_column is not None:
            raise ConfigError(
                f"expected only one of {option_name('path_column')} and"
                f" {option_name('path_template')}: leave one out"
            )
        for place in self.places:
            if format_of(place.name) in (None, "lines") and self.row_format.format == "auto":
                raise ConfigError(
                    "expected a listing in .csv, .tsv, .jsonl, .parquet, .arrow or .avro, or in"
                    f" .txt with {option_name('delimiter')}, got {place}"
                )
        if self.input_root is not None:
            Location.parse(self.input_root)
        for store in self.stores:
            parse_store(store)

    @property
    def inputs(self) -> Inputs:
        return Inputs.of(self.path)

    @property
    def places(self) -> list[Location]:
        """The listings."""
        return [Location.parse(one.path) for one in self.inputs.paths]

    @property
    def _as_annotations(self) -> str | None:
        if self.inputs.single is None:
            return None
        path = self.inputs.single.path
        folder = os.path.dirname(path) or "." if self.input_root is None else self.input_root
        return f"--input {shlex.quote(folder)} --annotations {shlex.quote(path)}"

    @property
    def row_format(self) -> RowFormat:
        """Format of the rows, which the delimiter gives for a .txt file."""
        if self.format.delimiter is None or self.format.format != "auto":
            return self.format
        if any(format_of(place.name) != "lines" for place in self.places):
            return self.format
        by_tab = self.format.delimiter in ("\t", "\\t", "tab")
        return dataclasses.replace(self.format, format="tsv" if by_tab else "csv")

    @property
    def _usual(self) -> UsualNames:
        return UsualNames(PATHS, ("label", "class"))

    @property
    def _template(self) -> PathTemplate | None:
        return None if self.path_template is None else PathTemplate(self.path_template)

    @property
    def _main_column(self) -> str | None:
        return self.path_column if self._template is None else self._template.name

    @property
    def _inputs_of_rows(self) -> Inputs:
        return dataclasses.replace(self.inputs, group_from=None)

    @property
    def _path_roles(self) -> Mapping[str, str]:
        group = self.inputs.group_from
        return {} if group is None else {batch.GROUP: path_column("group", group)}

    @property
    def _made_columns(self) -> tuple[str, ...]:
        template = () if self._template is None else (self._template.name,)
        return (*template, *self._path_roles.values())

    def _rows_of(
        self,
        file: File,
        section: FileSection,
        wanted: pa.Schema,
        text: Collection[str],
        layout: RowLayout,
    ) -> Iterable[Rows]:
        found = super()._rows_of(file, section, wanted, text, layout)
        if self._template is not None:
            found = map(self._template.fill, found)
        if self.inputs.group_from is None:
            return found
        return (self._with_groups(rows, str(layout.roles.main)) for rows in found)

    def _with_groups(self, rows: Rows, main: str) -> Rows:
        """Return rows with a column of groups, from the paths in the column `main`."""
        fact = PathFact.parse("group_from", str(self.inputs.group_from))
        paths = rows.columns[main].dictionary_encode()
        groups = []
        for path in paths.dictionary.to_pylist():
            *folders, name = normal_path(path.replace("\\", "/")).split("/")
            groups.append(fact.of([one for one in folders if one], name))
        column = pa.array(groups, pa.string()).take(paths.indices)
        added = rows.columns.append_column(self._path_roles[batch.GROUP], column)
        return dataclasses.replace(rows, columns=added)

    @property
    def _distinct(self) -> tuple[str, ...]:
        return self.segment_columns or ()

    @property
    def _root_clause(self) -> str:
        if self.input_root is not None:
            return (
                f"{option_name('input_root', self.input_root)}: name the folder or archive that"
                " they are relative to"
            )
        return (
            f"{self.places[0].parent}: if they are relative to another folder, or to an archive,"
            f" name it with {option_name('input_root')}"
        )

    def _list(self) -> Iterator[ListingPart]:
        self._check_root()
        for place in self.places:
            if not place.exists():
                raise ConfigError(f"the listing {place} does not exist: check the path")
            if place.is_dir():
                raise ConfigError(f"expected a listing, but {place} is a folder")
            refuse_special(place)
        return super()._list()

    def _check_root(self) -> None:
        """Raise ConfigError for an `input_root` that is neither a folder nor a usable archive."""
        if self.input_root is None:
            return
        root = Location.parse(self.input_root)
        if what := compressed_tar(root.name):
            raise ConfigError(f"{option_name('input_root', shown(root))} {what}")
        if root.is_local and not root.is_dir() and not (is_archive(root.name) and root.exists()):
            raise ConfigError(
                f"{option_name('input_root', shown(root))} is neither a folder nor an archive"
                " (.tar, .zip): check the path"
            )

    def _roles(self, names: Sequence[str], of_path: Collection[str] = ()) -> ColumnRoles:
        roles = super()._roles(names, of_path)
        if self._template is not None:
            self._template.check([one for one in names if one not in roles.dropped], self.inputs)
            roles = dataclasses.replace(roles, others=self._template.columns)
        if roles.main is None:
            template = f"'{{{names[0]}}}.EXTENSION'"
            raise ConfigError(
                f"found no column of paths in {self.inputs}: expected one of {', '.join(PATHS)}; it"
                f" has {quoted([name for name in names if name not in roles.dropped])}; name the"
                f" column with {option_name('path_column')}, all columns with"
                f" {option_name('columns')} if it has no header line, or a form such as"
                f" {option_name('path_template', template)} if paths are made of columns"
            )
        return roles

    def _references(self, layout: RowLayout) -> References:
        return _NamedFiles(self, layout)


class _NamedFiles(References):
    """Files that the rows of listings name. Each distinct path is queried once."""

    def __init__(self, listing: FileList, layout: RowLayout) -> None:
        self._listing = listing
        self._main = str(layout.roles.main)
        self._users = [field.name for field in layout.columns]
        roots = [listing.root_of(place) for place in listing.places]
        self._prefixes: Mapping[Location, str] = key_prefixes(roots)
        self._stats: dict[Location, StatCache] = {}
        self._named = {root: ListedPaths(root) for root in roots}
        self._normal: dict[str, str] = {}  # {path: normal path} of the last rows
        self._lists = SplitLists.of(listing.inputs)
        self._first: list[str] = []  # keys of the first rows, and whether any has a group
        self._grouped = False
        self._backslashes = 0  # rows whose paths had backslashes that were read as slashes
        self._first_backslash = ""  # path of the first of them

    def keys(self, rows: Rows, roles: ColumnRoles, file: File) -> pa.Array:
        if roles.keys:
            return super().keys(rows, roles, file)
        paths = self._paths(rows, file).dictionary_encode()
        prefix = self._prefixes[self._listing.root_of(Location.parse(file.path))]
        names = [
            prefix + normal_path(path) if path else None for path in paths.dictionary.to_pylist()
        ]
        return pa.array(names, pa.string()).take(paths.indices)

    def see(self, rows: Rows, file: File) -> None:
        written = rows.columns[self._main]
        paths = self._paths(rows, file)
        if paths is not written:
            changed = pc.filter(written, pc.not_equal(paths, written))
            self._first_backslash = self._first_backslash or next(iter(changed.to_pylist()), "")
            self._backslashes += len(changed)
        paths = paths.drop_null().unique()
        root = self._listing.root_of(Location.parse(file.path))
        self._normal = {path: normal_path(path) for path in paths.to_pylist()}
        self._named[root].add(self._normal.values())

    def attach(self, rows: Rows, layout: RowLayout, file: File, system: SystemColumns) -> Attached:
        place = Location.parse(file.path)
        root = self._listing.root_of(place)
        paths = self._paths(rows, file).dictionary_encode()
        distinct = [*paths.dictionary.to_pylist(), ""]
        at = paths.indices.fill_null(len(distinct) - 1)  # int32[n], indices into `distinct`
        stated = zip(distinct, self._stats_of(place).stat(distinct), strict=True)
        found = [one if path else _NO_PATH for path, one in stated]
        files = [one if isinstance(one, FileStat) else _NOTHING for one in found]
        keys = None
        if layout.roles.key is None:
            # Rejected paths may hold secrets, and go to rejects.jsonl.
            names = (self._normal.get(path, path) for path in distinct)
            shown_names = (
                name if one.size else redact_uri(name)
                for name, one in zip(names, files, strict=True)
            )
            prefix = self._prefixes[root]
            keys = pa.array([prefix + name for name in shown_names], pa.string()).take(at)
        self._grouped = self._grouped or system.group.null_count < len(system.group)
        self._first = self._first or [path for path in distinct if path][:_SHOWN]
        columns = [
            pa.array([one[number] for one in files], field.type).take(at)
            for number, field in enumerate([*COLUMNS][-3:])
        ]

        def path_problem(row: int) -> RejectCause:
            problem = found[at[row].as_py()]
            assert isinstance(problem, RejectCause)
            return problem

        splits = None
        if self._lists is not None:
            named = zip(distinct, files, strict=True)
            for path, one in zip(distinct, found, strict=True):
                if path and isinstance(one, RejectCause):
                    self._lists.see(normal_path(path))
            given = [self._lists.find(one.path, path) if one.size else None for path, one in named]
            splits = pa.array(given, pa.string()).take(at)
        no_path = f"no path in {column_named(self._main)}"
        places = at.to_numpy()
        pathless = np.array([one is _NO_PATH for one in found])[places]
        unusable = np.array([isinstance(one, RejectCause) for one in found])[places]
        return Attached(
            columns,
            [InvalidRows(unusable, path_problem)],
            [invalid_rows(rows, pathless, lambda row: no_path, named=False)],
            keys,
            splits,
        )

    def _stats_of(self, place: Location) -> StatCache:
        root = self._listing.root_of(place)
        if root not in self._stats:
            self._stats[root] = self._listing.stats(place, "listing")
        return self._stats[root]

    def _paths(self, rows: Rows, file: File) -> pa.Array:
        """Return the paths of rows, with slashes for backslashes if only that path is a file.

        Raises:
          ConfigError: Both are files.
        """
        paths = rows.columns[self._main]
        if not pc.any(pc.match_substring(paths, "\\")).as_py():
            return paths
        encoded = paths.dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        stats = self._stats_of(Location.parse(file.path))
        given = [path for path in distinct if "\\" in path]
        others = [path.replace("\\", "/") for path in given]
        changed = {}
        for path, other, found, read in zip(
            *(given, others, stats.stat(given), stats.stat(others)), strict=True
        ):
            if isinstance(read, RejectCause) and read.reason is Reason.MISSING:
                continue
            if isinstance(found, FileStat) or found == EMPTY:
                raise ConfigError(
                    f"the path {path!r} in {file.key} may be two files, because {other!r} exists,"
                    " too: rename one of them, and write / between folders"
                )
            changed[path] = other
        read_as = pa.array([changed.get(path, path) for path in distinct], pa.string())
        return read_as.take(encoded.indices)

    def advice(self) -> str:
        root = next(iter(self._named))
        column = self._main
        if column.startswith(OF_TEMPLATE) or (path := next(iter(self._normal), None)) is None:
            return ""
        template = likely_template(root, path, column)
        if template is None:
            return ""
        option = option_name("path_template", f"'{template}'")
        return f"; {option} adds what the names lack"

    def end(self) -> ListingPart:
        listing = self._listing
        group = (listing.inputs.group_from, self._grouped)
        refuse_no_facts(self._first, label=(None, False), group=group)
        names = ", ".join(place.name for place in listing.places)
        notes = segment_notes(self._users, names) if listing.segment_columns == () else []
        for root, named in self._named.items():
            archives = self._stats[root].archives if root in self._stats else ()
            notes += named.notes(names, archives)
        notes += [] if self._lists is None else self._lists.close(listing.inputs)
        if self._backslashes:
            text = (
                f"{count_of(self._backslashes, 'path')} of {names}"
                f" {'has' if self._backslashes == 1 else 'have'} backslashes, such as"
                f" {self._first_backslash}, which were read as /"
            )
            notes.append(Note("backslashes", text))
        return ListingPart(notes=notes)
