"""The options of inputs that are files, which pictures, films and arrays share."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from recordmill.errors import ConfigError
from recordmill.pipelines.options.config import COLUMNS, MEANING, CommonConfig, refuse_given
from recordmill.pipelines.options.declaration import option
from recordmill.storage.files import Location
from recordmill.transforms.sources.files.file_stat import refuse_special
from recordmill.transforms.sources.files.folders import FileTree
from recordmill.transforms.sources.files.references import Unlabelled
from recordmill.transforms.sources.rows.listings import FileList, is_listing

_COLUMNS = ("path_column", *COLUMNS)
_LARGEST = 2**31 - 2**20  # bytes: protobuf holds 2 GiB, names and all that is small included


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilesConfig(CommonConfig):
    """How a listing names files."""

    path_column: str | None = option(
        None,
        group=MEANING,
        shapes_bytes=True,
        metavar="COLUMN",
        help="Where the input is a table: the column that names each record's file.",
    )
    input_root: str | None = option(
        None,
        group=MEANING,
        metavar="FOLDER",
        help="What the paths in a listing are relative to. Default: the listing's own folder.",
    )


def check_record_bytes(flag: str, size: int) -> None:
    """Raises ConfigError for a limit of records that no record could reach."""
    if not 1 <= size <= _LARGEST:
        raise ConfigError(
            f"{flag}: expected 1 to {_LARGEST}, the most that a record holds, got {size}"
        )


def files_of(
    config: FilesConfig,
    *,
    leave_out: Collection[str],
    unlabelled: Unlabelled | None = None,
    columns: Collection[str] = (),
) -> FileList | FileTree:
    """The files of an input: a listing by its extension; else a folder, a pattern, or a file.

    leave_out: extensions that are no input. unlabelled: what becomes of files without a class,
    where the option does not say it. columns: further options that are about listings.
    """
    place = Location.parse(config.input)
    refuse_special(place)
    unlabelled = unlabelled or config.unlabelled
    if is_listing(place):
        return FileList(
            path=config.input,
            **{name: getattr(config, name) for name in _COLUMNS},
            input_root=config.input_root,
            unlabelled=unlabelled,
        )
    refuse_given(
        config,
        (*_COLUMNS, *columns, "input_root"),
        f"is about listings (CSV, JSONL, Parquet), and --input {config.input!r} is no such"
        " file: leave it out, or name the listing as --input",
    )
    return FileTree(input=config.input, unlabelled=unlabelled, leave_out=tuple(leave_out))
