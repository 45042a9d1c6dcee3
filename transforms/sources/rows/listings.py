"""A listing as an input: a CSV, TSV, JSON lines or Parquet file with a row per file.

One column holds the path, relative to the listing's folder (or to `input_root`), absolute, or a
URI. Others may hold label, split, group and key; all the rest are carried along as the user's.
"""

from __future__ import annotations

import collections
import dataclasses
import posixpath
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.storage.files import Location, is_uri
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import ListingPart
from recordmill.transforms.sources.files.file_stat import Found, Problem, Stats, refuse_special
from recordmill.transforms.sources.files.references import COLUMNS, Unlabelled, check_unlabelled
from recordmill.transforms.sources.row_formats.column_types import as_nullable
from recordmill.transforms.sources.row_formats.row_files import (
    learn_kinds,
    open_rows,
    wanted_columns,
)
from recordmill.transforms.sources.row_formats.row_format import RowFormat
from recordmill.transforms.sources.row_formats.rows import Origin, RowFile, Rows
from recordmill.transforms.sources.rows.column_roles import Roles, find_roles, quoted
from recordmill.transforms.sources.rows.record_columns import (
    InvalidRows,
    carried,
    lay_out,
    our_columns,
)

_PATHS = ("path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path")
_LABELS = ("label", "class")
_FORMATS = ("csv", "tsv", "jsonl", "parquet")

_NO_PATH = Problem(Reason.BAD_VALUE, "no path")
_NOTHING = Found("", 0, 0)


def normal_path(path: str) -> str:
    """A path as a key: './a//b' is 'a/b'; URIs stay as they are."""
    if is_uri(path):
        return path
    normal = posixpath.normpath(path)
    return normal[1:] if normal.startswith("//") else normal


def is_listing(place: Location) -> bool:
    """Whether an input is a table, by its extension, that is to name the files."""
    return RowFormat().knows(place.name) and place.exists() and not place.is_dir()


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileList:
    """Lists the files that a listing names.

    path, input_root: local, or URIs; the root is the listing's folder unless given.
    path_column: path, file, filename, image and the like are found by themselves.
    label_column, split_column: 'label' or 'class', and 'split', are found by themselves.
    key_column: unique names of the records; the path as written (see `normal_path`) unless given.
    drop_columns: columns to leave out, as if the listing had none of that name.
    unlabelled: what becomes of rows without label in a listing that has a label column.
    """

    path: str
    path_column: str | None = None
    label_column: str | None = None
    split_column: str | None = None
    group_column: str | None = None
    key_column: str | None = None
    drop_columns: tuple[str, ...] = ()
    input_root: str | None = None
    unlabelled: Unlabelled = "reject"

    def __post_init__(self) -> None:
        check_unlabelled(self.unlabelled)
        _open(Location.parse(self.path))
        if self.input_root is not None:
            Location.parse(self.input_root)

    @property
    def unique_keys(self) -> bool:
        return False

    @property
    def root(self) -> Location:
        """What its paths are relative to."""
        if self.input_root is None:
            return Location.parse(self.path).parent
        return Location.parse(self.input_root)

    def roles(self, names: Sequence[str]) -> Roles:
        """Finds the columns. Raises ConfigError for one that is not there."""
        asked = Roles(
            main=self.path_column,
            label=self.label_column,
            split=self.split_column,
            group=self.group_column,
            key=self.key_column,
            dropped=self.drop_columns,
        )
        roles = find_roles(names, asked, where=self.path, mains=_PATHS, labels=_LABELS)
        if roles.main is None:
            names = [name for name in names if name not in self.drop_columns]
            raise ConfigError(
                f"no column of paths found in {self.path}: expected one named {', '.join(_PATHS)}; "
                f"it has {quoted(names)}; say which with --path-column"
            )
        return roles

    def scan(self) -> Iterator[ListingPart]:
        """Raises ConfigError if the listing cannot be understood or nothing in it be used."""
        place = Location.parse(self.path)
        if not place.exists():
            raise ConfigError(f"the listing {place} is not there: check the path")
        if place.is_dir():
            raise ConfigError(f"expected a listing, but {place} is a folder")
        refuse_special(place)
        root = self.root
        file = _open(place)
        kinds = file.header()
        if kinds is None:
            kinds = learn_kinds(file, file.sections())
        roles = self.roles(list(kinds))
        users = roles.users(list(kinds))
        others = [*users, *([""] if "" in kinds else [])]
        sections = list(file.sections())
        if not all(kinds[name].types for name in others):
            kinds |= as_nullable(learn_kinds(file, sections, others))
        wanted = wanted_columns(sorted(roles.named()), others, kinds)
        stats = Stats(root)
        kept = 0
        rejected: collections.Counter[Reason] = collections.Counter()
        first: Reject | None = None
        for section in sections:
            for rows in file.read(section, wanted, roles.named()):
                _check_unnamed(rows, place)
                listed = _refer(
                    rows,
                    roles=roles,
                    users=users,
                    stats=stats,
                    file=place.name,
                    unlabelled=self.unlabelled,
                )
                kept += 0 if listed.rows is None else len(listed.rows)
                rejected.update(reject.reason for reject in listed.rejects)
                first = first or next(iter(listed.rejects), None)
                yield listed
        if not kept:
            raise ConfigError(_nothing_usable(place, root, rejected, first))


def _open(place: Location) -> RowFile:
    """The listing. Raises ConfigError for a file that by its name is none."""
    if RowFormat().knows(place.name):
        shape = RowFormat().of(place.path)
        if shape.format in _FORMATS and shape.compression in (None, "gz"):
            return open_rows(Origin(place=place, noun="listing"), shape)
    raise ConfigError(
        f"expected a listing in .csv, .tsv, .jsonl (each also .gz) or .parquet, got {place}"
    )


def _refer(
    rows: Rows,
    *,
    roles: Roles,
    users: Sequence[str],
    stats: Stats,
    file: str,
    unlabelled: Unlabelled,
) -> ListingPart:
    """Makes a reference or a reject of every row; what paths need is done once per distinct one."""
    columns = rows.columns
    paths = columns[roles.main].dictionary_encode()
    distinct = [*paths.dictionary.to_pylist(), ""]
    at = paths.indices.fill_null(len(distinct) - 1)  # int32[n] into `distinct`; null is no path
    found = [
        _NO_PATH if not d else f for d, f in zip(distinct, stats.look_at(distinct), strict=True)
    ]
    files = [item if isinstance(item, Found) else _NOTHING for item in found]
    ours = our_columns(rows, roles)
    if roles.key is None:
        key = pa.array([normal_path(path) for path in distinct], pa.string()).take(at)
        ours = ours._replace(key=key)
    path, size, mtime = (
        pa.array([item[n] for item in files], COLUMNS.field(name).type).take(at)
        for n, name in enumerate((batch.PATH, batch.SIZE, batch.MTIME))
    )

    def no_path(row: int) -> Problem:
        detail = f"row {rows.numbers[row]}: no path in column {roles.main!r}"
        return Problem(Reason.BAD_VALUE, detail)

    def unusable(row: int) -> Problem:
        problem = found[at[row].as_py()]
        assert isinstance(problem, Problem)
        return problem

    pathless = np.array([item is _NO_PATH for item in found])[at.to_numpy()]
    useless = np.array([isinstance(item, Problem) for item in found])[at.to_numpy()]
    schema = pa.schema([*COLUMNS, *(carried(columns.schema.field(name)) for name in users)])
    return lay_out(
        rows,
        ours,
        roles,
        own=[path, size, mtime],
        schema=schema,
        nameless=[InvalidRows(pathless, no_path, named=False)],
        faults=[InvalidRows(useless, unusable)],
        file=file,
        reject_unlabelled=unlabelled == "reject",
    )


def _check_unnamed(rows: Rows, place: Location) -> None:
    """Raises ConfigError for a column without name, unless nothing is lost with it.

    Empty, or pandas' index where it counts the rows from 0.
    """
    if "" not in rows.columns.schema.names:
        return
    column = rows.columns[""]
    counts = np.asarray(rows.numbers) - 1
    if column.null_count < len(column) and column.to_pylist() != counts.tolist():
        raise ConfigError(
            f"a column of {place} has no name, and it is more than row numbers: give it one, or "
            "leave it out of the listing (pandas writes its index so, unless index=False)"
        )


def _nothing_usable(
    place: Location, root: Location, rejected: Mapping[Reason, int], first: Reject | None
) -> str:
    if first is None:
        return f"the listing {place} has no rows"
    told = ", ".join(f"{n} {reason}" for reason, n in sorted(rejected.items()))
    message = f"no row of {place} can be used ({told}); the first: {first.key}: {first.detail}"
    if Reason.MISSING in rejected:
        message += f"; relative paths were looked for in {root}: if they are relative to another "
        message += "folder, say which with --input-root"
    return message
