"""Choice of the source for tables that hold files: Parquet, Arrow, JSON lines with bytes."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import TYPE_CHECKING

from recordmill.errors import ConfigError
from recordmill.storage.files import Location, PathError
from recordmill.transforms.sources.files.folders import list_files, may_be
from recordmill.transforms.sources.files.inputs import InputRoot, find_roots
from recordmill.transforms.sources.files.number_labels import LabelType
from recordmill.transforms.sources.files.other_kinds import is_archive
from recordmill.transforms.sources.files.references import Unlabelled
from recordmill.transforms.sources.files.skipped_names import skipped_among_rows
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.media.media_column import FORMATS, find_media_column
from recordmill.transforms.sources.media.media_rows import MediaRows
from recordmill.transforms.sources.row_formats.open_rows import open_rows
from recordmill.transforms.sources.row_formats.row_file import Origin
from recordmill.transforms.sources.row_formats.row_format import RowFormat, format_of
from recordmill.transforms.sources.rows.file_list import PATHS

if TYPE_CHECKING:
    from recordmill.pipelines.options.file_inputs import FilesConfig

_SAMPLED_FILES = 10_000


def media_rows(
    config: FilesConfig,
    *,
    leave_out: Collection[str],
    unlabelled: Unlabelled,
    label_type: LabelType | None,
) -> MediaRows | None:
    """Return the source for tables that hold files; None if --input is something else.

    leave_out, unlabelled: as for `files_of`. label_type: reading of the label column.

    Raises:
      ConfigError: some inputs are such tables, and others are not; or an option does not apply.
    """
    column = config.bytes_column
    if column is None:
        if config.path_column is not None:
            return None
        roots = find_roots(config.inputs)
        found = [_find_column(root, config, leave_out) for root in roots]
        column = next((one for one in found if one is not None), None)
        if column is None:
            return None
        for root, one in zip(roots, found, strict=True):
            if one != column:
                what = "holds no files" if one is None else f"holds them in column {one!r}"
                raise ConfigError(
                    f"expected tables that hold files in column {column!r}, but --input"
                    f" {root.given} {what}: make two datasets, or name the column with"
                    " --bytes-column"
                )
    elif config.path_column is not None:
        raise ConfigError(
            "--bytes-column: cannot be combined with --path-column, because a row either holds a"
            " file or names it: leave one out (for structs of bytes and a path, give"
            " --bytes-column)"
        )
    for name, meaning in (("annotations", "names"), ("masks", "is matched by names of")):
        if getattr(config, name, None):
            raise ConfigError(
                f"--{name}: {meaning} image files, but --input {config.inputs} holds the images in"
                f" the column {column!r}: write each image to a file"
            )
    config.refuse_label_from()
    return MediaRows(
        input=config.inputs,
        format=config.row_format(),
        bytes_column=column,
        label_column=config.label_column,
        split_column=config.split_column,
        group_column=config.group_column,
        key_column=config.key_column,
        drop_columns=config.drop_columns,
        label_type=label_type,
        unlabelled=unlabelled,
        where=config.where,
        weight_column=config.weight_column,
        label_separator=config.label_separator,
        input_root=config.input_root,
        confine=config.confine,
        stores=config.allow_store,
        worker_limits=config.worker_limits,
    )


def _find_column(root: InputRoot, config: FilesConfig, leave_out: Collection[str]) -> str | None:
    """Return the column of files in the first table of an input, None without one."""
    try:
        place = _first_table(root, leave_out)
    except PathError:
        return None  # listing it reports a better error
    if place is None:
        return None
    file_format = RowFormat(encoding=config.encoding).resolve(place.path, way_out="")
    file = open_rows(Origin(place=place, noun="listing"), file_format)
    return find_media_column(file, path_names=PATHS, dropped=config.drop_columns, where=str(place))


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
