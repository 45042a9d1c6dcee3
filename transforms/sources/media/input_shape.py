"""Recognition of the shape of an input, such as files, a listing, or tables that hold files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from typing import Literal, NamedTuple

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.storage.files import Location, PathError
from recordmill.tfrecord.framing import HEADER_BYTES, begins_frame
from recordmill.transforms.model.shape import Shape
from recordmill.transforms.model.usual_columns import PATHS
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import InputRoot, find_roots
from recordmill.transforms.sources.files.other_kinds import is_archive, is_tfrecord_name
from recordmill.transforms.sources.files.skipped_names import (
    is_project_text,
    skipped_among_rows,
)
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.folders.companions import CompanionFinder
from recordmill.transforms.sources.folders.folders import list_files, may_be
from recordmill.transforms.sources.media.media_column import FORMATS, find_media_column
from recordmill.transforms.sources.row_formats.open_rows import open_rows
from recordmill.transforms.sources.row_formats.reading.row_file import Origin
from recordmill.transforms.sources.row_formats.reading.row_format import (
    RowFormat,
    compression_of,
    format_of,
)
from recordmill.transforms.sources.row_formats.reading.zip_files import is_zip
from recordmill.transforms.sources.row_formats.tfrecords.known_folders import is_dataset
from recordmill.transforms.sources.rows.references.file_list import is_listing
from recordmill.transforms.sources.rows.values.text_rows import column_of_paths

_SAMPLED_FILES = 10_000


def shape_of_media(
    inputs: Inputs,
    *,
    leave_out: Collection[str],
    format: RowFormat,  # noqa: A002
    path_column: str | None = None,
    bytes_column: str | None = None,
    dropped: Collection[str] = (),
) -> Shape:
    """Return the shape of inputs of files, such as images.

    Args:
      inputs: The inputs.
      leave_out: Extensions of files that are not records.
      format: Format of rows.
      path_column: Column with the paths of files, if an option names it.
      bytes_column: Column with the files, if an option names it.
      dropped: Columns to ignore.

    Raises:
      ConfigError: Inputs have several shapes, or cannot be used.
    """

    def decide(root: InputRoot) -> Shape:
        payload, table, listing = _content(root, leave_out)
        if payload == "placed":
            return Shape("record", "placed")
        if bytes_column is not None:
            return Shape("table", "held", bytes_column)
        if table is not None and path_column is None:
            file = open_rows(
                Origin(place=table, noun="listing"),
                RowFormat(encoding=format.encoding).resolve(table.path, way_out=""),
            )
            column = find_media_column(file, path_names=PATHS, dropped=[*dropped], where=str(table))
            if column is not None:
                return Shape("table", "held", column)
        if is_listing(Location.parse(root.given.path)):
            return Shape("table", "named")
        if listing is not None:
            raise ConfigError(
                f"{option_name('input', root.given)} holds tables, such as {listing}, and no"
                " other files: if they list files, pass each of them, as in"
                f" {option_name('input', listing)}"
            )
        return Shape("file", "self")

    return _one_shape(inputs, decide)


def shape_of_texts(
    inputs: Inputs,
    format: RowFormat,  # noqa: A002
    *,
    by_line: bool = False,
    by_path: bool = False,
    of_texts: bool = False,
    others: Collection[str] = (),
) -> Shape:
    """Return the shape of inputs of texts: files of rows, text files, or listings of these.

    Args:
      inputs: The inputs.
      format: Format of rows.
      by_line: Whether the lines of text files are documents; then text files are not files of rows.
      by_path: Whether an option says that rows name files.
      of_texts: Whether an option names columns of texts.
      others: Columns with another role, and columns to ignore.

    Raises:
      ConfigError: Inputs have several shapes, or cannot be used.
    """

    def decide(root: InputRoot) -> Shape:
        name = root.place.name
        listing = is_listing(Location.parse(root.given.path))
        if by_path:
            if not listing:
                raise ConfigError(
                    f"{option_name('input', root.given)}: expected a listing, which is one table,"
                    " because an option is for paths in listings: pass each listing"
                )
            return Shape("table", "named")
        if listing and not of_texts and format_of(name) != "lines" and not compression_of(name):
            file = open_rows(Origin(place=root.place), format.resolve(root.place.path))
            if (column := column_of_paths(file, root.place.parent, others)) is not None:
                return Shape("table", "named", column)
        zipped = is_zip(name) and format_of(name[: -len(".zip")]) not in (None, "lines")
        is_text = by_line and root.file and format_of(name) == "lines" and not compression_of(name)
        is_table = not root.archive and not is_text and (root.file or _holds_rows(root))
        if is_table and root.is_folder and format.format == "auto" and not of_texts:
            _refuse_listing_beside_texts(inputs, root)
        if format.format != "auto" or zipped or is_table:
            return Shape("table", "values")
        return Shape("file", "document")

    return _one_shape(inputs, decide)


def _one_shape(inputs: Inputs, decide: Callable[[InputRoot], Shape]) -> Shape:
    roots = find_roots(inputs, archives=True)
    shapes = [decide(root) for root in roots]
    for root, shape in zip(roots, shapes, strict=True):
        if shape != shapes[0]:
            raise ConfigError(
                f"expected inputs of one type, got {shapes[0]} ({roots[0].given.path})"
                f" and {shape} ({root.given.path}): make a dataset of each"
                + (f", or name the column with {option_name('bytes_column')}" * bool(shape.column))
            )
    return shapes[0]


class _Content(NamedTuple):
    """Content of an input by the names of its files.

    Attributes:
      payload: "placed" for TFRecords.
      table: The first table that may hold files; None if other files may be records.
      listing: The first table of a folder or a pattern, None if there are other files.
    """

    payload: Literal["placed", "self"]
    table: Location | None = None
    listing: Location | None = None


def _content(root: InputRoot, leave_out: Collection[str]) -> _Content:
    """Return the content of an input; in a large folder, only the first files are considered."""
    if root.archive:
        return _Content("self")
    if root.is_folder and is_dataset(root.root):
        return _Content("placed")
    if root.file and format_of(root.place.name) in FORMATS:
        return _Content("self", root.place)
    found, only_records, only_tables = False, True, True
    first: Location | None = None
    listing: Location | None = None
    try:
        for one in itertools.islice(list_files(root, depth=0), _SAMPLED_FILES):
            if not isinstance(one, File):
                continue
            name = one.key.rpartition("/")[2]
            is_other = may_be(name, leave_out)  # it may be a record by itself
            if is_tfrecord_name(name):
                found = True
                only_tables &= not is_other
            elif format_of(name) in FORMATS:
                only_records &= not is_other
                if not any(map(skipped_among_rows, one.key.split("/"))):
                    first = first or Location.parse(one.path)
            elif is_archive(name):
                only_tables = False
            elif format_of(name) not in (None, "lines"):
                listing = listing or Location.parse(one.path)
            elif is_other:
                # The names of some shards have no extension: train-00000-of-01024.
                is_frame = "." not in name and begins_frame(
                    Location.parse(one.path).read_range(0, HEADER_BYTES)
                )
                return _Content("placed" if is_frame else "self")
    except PathError:
        return _Content("self")  # the listing reports a better error
    if found and only_records:
        return _Content("placed")
    if not only_tables:
        return _Content("self")
    return _Content("self", first, None if found else first or listing)


def _refuse_listing_beside_texts(inputs: Inputs, root: InputRoot) -> None:
    """Raise ConfigError if a folder holds text files and a table with a column of paths."""
    tables = CompanionFinder(inputs, ("tables",))
    text = ""
    found = list_files(root, depth=0, skip=skipped_among_rows)
    for one in itertools.islice(found, _SAMPLED_FILES):
        if isinstance(one, File) and one.size:
            name = one.key.rpartition("/")[2]
            if format_of(name) != "lines":
                tables.skip(root, one)
            elif not is_project_text(name):
                text = text or one.key
    if text and (advice := tables.advice()):
        raise ConfigError(
            f"{option_name('input', root.given)} holds text files, such as {text}, and tables"
            f"{advice}; a pattern, such as *.csv, reads the rows of tables"
        )


def _holds_rows(root: InputRoot) -> bool:
    """Return whether the first files of an input have an extension of rows, such as .csv."""
    found = list_files(root, depth=0, skip=skipped_among_rows)
    some = itertools.islice(found, _SAMPLED_FILES)
    names = (one.key.rpartition("/")[2] for one in some if isinstance(one, File))
    return not {*map(format_of, names)} <= {None, "lines"}
