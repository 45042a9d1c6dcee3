"""A listing as an input: a CSV, TSV, JSON lines or Parquet file with a row per file.

One column holds the path, relative to the listing's folder (or to `input_root`), absolute, or a
URI. Others may hold label, split, group and key; all the rest are carried along as the user's.
"""

from __future__ import annotations

import collections
import dataclasses
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason, Reject, did_you_mean
from recordmill.files import Location, is_uri
from transforms import batch
from transforms.kind import Listed
from transforms.sources.columns import null_inside
from transforms.sources.references import (
    COLUMNS,
    LINE_BREAK,
    Unlabelled,
    broken_label,
    check_unlabelled,
    known_split,
    no_label,
)
from transforms.sources.row_files import Rows, open_rows
from transforms.sources.stats import Found, Problem, Stats, refuse_special
from transforms.user_columns import is_list, user_feature

_PATHS = ("path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path")
_LABELS = ("label", "class")
_SPLITS = ("split",)
# The index that pandas writes under this name, or as a column without name (`_check_unnamed`).
_PANDAS_INDEX = re.compile(r"(__index_level_\d+__)?")

_NO_PATH = Problem(Reason.BAD_VALUE, "no path")
_NOTHING = Found("", 0, 0)


def normal_path(path: str) -> str:
    """A path as a key: './a//b' is 'a/b'; URIs stay as they are."""
    if is_uri(path):
        return path
    normal = posixpath.normpath(path)
    return normal[1:] if normal.startswith("//") else normal


@dataclasses.dataclass(frozen=True, kw_only=True)
class Roles:
    """Which column of a listing is what."""

    path: str
    label: str | None
    split: str | None
    group: str | None
    key: str | None
    dropped: tuple[str, ...] = ()

    def named(self) -> set[str]:
        return {n for n in (self.path, self.label, self.split, self.group, self.key) if n}

    def users(self, names: Sequence[str]) -> list[str]:
        """The columns that are carried along."""
        others = self.named().union(self.dropped)
        return [n for n in names if n not in others and not _PANDAS_INDEX.fullmatch(n)]


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
        open_rows(Location.parse(self.path))
        if self.input_root is not None:
            Location.parse(self.input_root)

    @property
    def unique_keys(self) -> bool:
        return False

    def roles(self, names: Sequence[str]) -> Roles:
        """Finds the columns. Raises ConfigError for one that is not there."""
        for name in self.drop_columns:
            if name not in names:
                raise ConfigError(
                    f"--drop-columns: no column {name!r} in {self.path}{did_you_mean(name, names)}:"
                    f" it has {_quoted(names)}"
                )
        names = [name for name in names if name not in self.drop_columns]
        path = self._find(names, self.path_column, _PATHS)
        if path is None:
            raise ConfigError(
                f"no column of paths found in {self.path}: expected one named {', '.join(_PATHS)}; "
                f"it has {_quoted(names)}; say which with --path-column"
            )
        roles = Roles(
            path=path,
            label=self._find(names, self.label_column, _LABELS),
            split=self._find(names, self.split_column, _SPLITS),
            group=self._find(names, self.group_column, ()),
            key=self._find(names, self.key_column, ()),
            dropped=self.drop_columns,
        )
        for name in roles.users(names):
            if name.startswith("__"):
                raise ConfigError(
                    f"column {name!r} in {self.path} starts with two underscores, as only our own "
                    "may: rename it"
                )
        return roles

    def scan(self) -> Iterator[Listed]:
        """Raises ConfigError if the listing cannot be understood or nothing in it be used."""
        place = Location.parse(self.path)
        if not place.exists():
            raise ConfigError(f"the listing {place} is not there: check the path")
        if place.is_dir():
            raise ConfigError(f"expected a listing, but {place} is a folder")
        refuse_special(place)
        root = place.parent if self.input_root is None else Location.parse(self.input_root)
        file = open_rows(place)
        roles = self.roles(file.names())
        stats = Stats(root)
        kept = 0
        rejected: collections.Counter[Reason] = collections.Counter()
        first: Reject | None = None
        for rows in file.read(roles.named(), roles.dropped):
            _check_unnamed(rows, place)
            listed = _refer(
                rows, roles=roles, stats=stats, file=place.name, unlabelled=self.unlabelled
            )
            kept += 0 if listed.rows is None else len(listed.rows)
            rejected.update(reject.reason for reject in listed.rejects)
            first = first or next(iter(listed.rejects), None)
            yield listed
        if not kept:
            raise ConfigError(_nothing_usable(place, root, rejected, first))

    def _find(self, names: Sequence[str], name: str | None, usual: Sequence[str]) -> str | None:
        """The column that was asked for, else the first of the usual ones, in any case."""
        if name is not None:
            if name in names:
                return name
            raise ConfigError(f"no column {name!r} in {self.path}: it has {_quoted(names)}")
        there = {name.lower(): name for name in reversed(names)}
        return next((there[name] for name in usual if name in there), None)


def _refer(rows: Rows, *, roles: Roles, stats: Stats, file: str, unlabelled: Unlabelled) -> Listed:
    """Makes a reference or a reject of every row; what paths need is done once per distinct one."""
    columns = rows.columns
    paths = columns[roles.path].dictionary_encode()
    distinct = [*paths.dictionary.to_pylist(), ""]
    at = paths.indices.fill_null(len(distinct) - 1)  # int32[n] into `distinct`; null is no path
    found = [
        _NO_PATH if not d else f for d, f in zip(distinct, stats.look_at(distinct), strict=True)
    ]
    files = [item if isinstance(item, Found) else _NOTHING for item in found]

    nulls = pa.nulls(len(columns), pa.string())
    label, group, split, key = (
        nulls if name is None else _filled(columns[name])
        for name in (roles.label, roles.group, roles.split, roles.key)
    )
    if roles.key is None:
        key = pa.array([normal_path(path) for path in distinct], pa.string()).take(at)
    path, size, mtime = (
        pa.array([item[n] for item in files], COLUMNS.field(name).type).take(at)
        for n, name in enumerate((batch.PATH, batch.SIZE, batch.MTIME))
    )

    unusable = np.array([isinstance(item, Problem) for item in found])[at.to_numpy()]
    keyless = key.is_null().to_numpy(zero_copy_only=False)
    labelless = np.zeros(len(columns), np.bool_)
    if roles.label is not None and unlabelled == "reject":
        labelless = label.is_null().to_numpy(zero_copy_only=False)
    broken = _matches(label, LINE_BREAK)
    users = roles.users(columns.schema.names)
    fields = [_carried(columns.schema.field(name)) for name in users]
    holes = {n: null_inside(columns[n]) for n in users if is_list(columns[n].type)}
    bad = np.logical_or.reduce([unusable, keyless, labelless, broken, *holes.values()])

    rejects = [_bad_row(file, number, why) for number, why in rows.bad]
    for row in np.flatnonzero(bad):
        problem = found[at[row].as_py()]
        number = int(rows.numbers[row])
        if problem is _NO_PATH:
            rejects.append(_bad_row(file, number, f"no path in column {roles.path!r}"))
        elif keyless[row]:
            rejects.append(_bad_row(file, number, f"no key in column {roles.key!r}"))
        elif isinstance(problem, Problem):
            rejects.append(Reject(key[row].as_py(), "read", problem.reason, problem.detail))
        elif labelless[row]:
            problem = no_label(f"one in column {roles.label!r}, row {number}")
            rejects.append(Reject(key[row].as_py(), "read", problem.reason, problem.detail))
        else:
            why = broken_label(label[row].as_py() or "") or _hole(holes, int(row))
            detail = f"row {number}: {why}"
            rejects.append(Reject(key[row].as_py(), "read", Reason.BAD_VALUE, detail))

    arrays = [key, label, group, _splits(split), path, size, mtime, *(columns[n] for n in users)]
    schema = pa.schema([*COLUMNS, *fields])
    kept = pa.record_batch(arrays, schema=schema).filter(pa.array(~bad))
    return Listed(rows=kept if len(kept) else None, rejects=rejects)


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


def _filled(column: pa.Array) -> pa.Array:
    """Empty text as null."""
    return pc.if_else(pc.equal(column, ""), None, column)


def _matches(column: pa.Array, pattern: re.Pattern[str]) -> npt.NDArray[np.bool_]:
    """Which texts have the pattern in them, bool[n]; a null has not."""
    found = pc.match_substring_regex(column, pattern.pattern).fill_null(False)
    mask: npt.NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return mask


def _carried(field: pa.Field) -> pa.Field:
    """A user's column as it goes on. Raises ConfigError where it cannot."""
    user_feature(field)
    # Of lists of a fixed size no row that is kept has a null, see `null_inside`.
    always = pa.types.is_fixed_size_list(field.type)
    return field.remove_metadata().with_nullable(field.nullable and not always)


def _hole(holes: Mapping[str, npt.NDArray[np.bool_]], row: int) -> str:
    name = next(name for name, mask in holes.items() if mask[row])
    return (
        f"a null inside the list in column {name!r}, which an Example cannot hold: fill it, or "
        "leave the row out"
    )


def _splits(column: pa.Array) -> pa.Array:
    """The usual names of splits as train, validation and test; others as they are."""
    encoded = column.dictionary_encode()
    names = [known_split(name) or name for name in encoded.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(encoded.indices)


def _bad_row(file: str, number: int, why: str) -> Reject:
    return Reject(f"{file}#{number}", "read", Reason.BAD_VALUE, f"row {number}: {why}")


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "no columns"


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
