"""Search for tables that hold files among inputs: Parquet, Arrow and JSON lines with bytes."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.storage.files import Location, PathError
from recordmill.transforms.sources.files.folders import list_files, may_be
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import InputRoot, find_roots
from recordmill.transforms.sources.files.other_kinds import is_archive
from recordmill.transforms.sources.files.skipped_names import skipped_among_rows
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.media.media_column import FORMATS, find_media_column
from recordmill.transforms.sources.row_formats.open_rows import open_rows
from recordmill.transforms.sources.row_formats.row_file import Origin
from recordmill.transforms.sources.row_formats.row_format import RowFormat, format_of
from recordmill.transforms.sources.rows.file_list import PATHS

_SAMPLED_FILES = 10_000


def find_bytes_column(
    inputs: Inputs, *, encoding: str, dropped: Sequence[str], leave_out: Collection[str]
) -> str | None:
    """Return the column with the files of tables; None if the inputs are something else.

    encoding: of JSON lines. dropped: columns to ignore. leave_out: extensions of files that are no
    records.

    Raises:
      ConfigError: some inputs are such tables, and others are not.
    """
    roots = find_roots(inputs)
    found = [_find_column(root, encoding, dropped, leave_out) for root in roots]
    column = next((one for one in found if one is not None), None)
    if column is None:
        return None
    for root, one in zip(roots, found, strict=True):
        if one != column:
            what = "holds no files" if one is None else f"holds them in column {one!r}"
            raise ConfigError(
                f"expected tables that hold files in column {column!r}, but"
                f" {option_name('input', root.given)} {what}: make two datasets, or name the column"
                f" with {option_name('bytes_column')}"
            )
    return column


def _find_column(
    root: InputRoot, encoding: str, dropped: Sequence[str], leave_out: Collection[str]
) -> str | None:
    """Return the column of files in the first table of an input, None without one."""
    try:
        place = _first_table(root, leave_out)
    except PathError:
        return None  # listing it reports a better error
    if place is None:
        return None
    file_format = RowFormat(encoding=encoding).resolve(place.path, way_out="")
    file = open_rows(Origin(place=place, noun="listing"), file_format)
    return find_media_column(file, path_names=PATHS, dropped=dropped, where=str(place))


def _first_table(root: InputRoot, leave_out: Collection[str]) -> Location | None:
    """Return the first table of an input, None if it has other files that may be records.

    Of a large folder, only the first files are looked at.
    """
    if root.file:
        return root.place if format_of(root.place.name) in FORMATS else None
    first = None
    for one in itertools.islice(list_files(root, depth=0), _SAMPLED_FILES):
        if not isinstance(one, File):
            continue
        name = one.key.rpartition("/")[2]
        if any(map(skipped_among_rows, one.key.split("/"))) and format_of(name) in FORMATS:
            continue
        if format_of(name) in FORMATS:
            first = first or one
        elif is_archive(name) or may_be(name, leave_out):
            return None
    return None if first is None else Location.parse(first.path)
