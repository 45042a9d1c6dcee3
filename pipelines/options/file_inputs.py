"""Choice of the source for inputs that consist of files, such as images."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import TypedDict

from recordmill.errors import ConfigError
from recordmill.pipelines.options import rules
from recordmill.pipelines.options.config import COLUMNS, CommonConfig
from recordmill.pipelines.options.media_inputs import media_rows
from recordmill.pipelines.options.rows import FilesConfig
from recordmill.pipelines.options.tfrecord_inputs import records_of
from recordmill.storage.files import Location, shown
from recordmill.transforms.sources.files.companions import Companion
from recordmill.transforms.sources.files.file_stat import refuse_special
from recordmill.transforms.sources.files.folders import FileTree, has_extension, may_be
from recordmill.transforms.sources.files.number_labels import NumberLabels
from recordmill.transforms.sources.files.other_kinds import compressed_tar, is_archive, other_kind
from recordmill.transforms.sources.files.references import Unlabelled
from recordmill.transforms.sources.media.media_rows import MediaRows
from recordmill.transforms.sources.rows.file_list import FileList, is_listing
from recordmill.transforms.sources.rows.joined_listings import JoinedListings
from recordmill.transforms.sources.tfrecords.array_forms import Files
from recordmill.transforms.sources.tfrecords.known_inputs import hold_records
from recordmill.transforms.sources.tfrecords.tfrecord_media import TfrecordMedia

_COLUMNS = ("path_column", *COLUMNS)
_LARGEST = 2**31 - 2**20  # bytes: protobuf holds 2 GiB, with 1 MiB left for the small features


def check_record_bytes(flag: str, size: int) -> None:
    """Raise ConfigError unless a limit of bytes per record is within what a record can hold."""
    if not 1 <= size <= _LARGEST:
        raise ConfigError(
            f"{flag}: expected 1 to {_LARGEST} bytes, the most that a record can hold, got {size}"
        )


def files_of(
    config: FilesConfig,
    *,
    leave_out: Collection[str],
    unlabelled: Unlabelled | None = None,
    columns: Collection[str] = (),
    labelled: bool = True,
    raw: Files | None = None,
    companions: Sequence[Companion] = ("sidecars", "tables"),
) -> FileList | JoinedListings | FileTree | TfrecordMedia | MediaRows:
    """Return the source for --input: listings, by their extension; else folders, patterns or files.

    Tables that hold the files themselves are not listings.

    leave_out: extensions of files to skip. unlabelled: overrides --unlabelled. columns: fields of
    the config that apply to listings only. labelled: whether folders or listings give labels. raw:
    kind of file as which raw arrays in TFRecords are read; None if the command reads none.
    companions: kinds of files in a folder for which notes are made.

    Raises:
      ConfigError: an option for listings is given without a listing, or the input is not a file
        or folder.
    """
    inputs = config.inputs
    row_format = config.rows.make()
    places = [Location.parse(one.path) for one in inputs.paths]
    for place in places:
        refuse_special(place)
    unlabelled = unlabelled or config.unlabelled
    if hold_records(inputs, functools.partial(may_be, leave_out=leave_out)):
        return records_of(config, unlabelled=unlabelled, labelled=labelled, raw=raw)
    label_type = config.label_type if labelled or config.number_type is None else "none"
    tables = media_rows(config, leave_out=leave_out, unlabelled=unlabelled, label_type=label_type)
    if tables is not None:
        return tables
    listings = [is_listing(place) for place in places]
    if not any(listings):
        rules.check(config, shape="files", where=inputs)
        for place in places:
            _refuse_other_kind(place, leave_out)
        return FileTree(
            input=inputs,
            unlabelled=unlabelled,
            leave_out=tuple(leave_out),
            companions=tuple(companions),
            **path_labels(config, labelled=labelled),
        )
    if not all(listings):
        other = inputs.paths[listings.index(False)]
        raise ConfigError(
            "expected only listings or only folders, patterns and files, got the listing"
            f" {inputs.paths[listings.index(True)].path} and {other.path}, which is not one: make"
            " two datasets, or name the files of both in listings"
        )
    rules.check(config, shape="listing", where=inputs)
    segments = tuple(column for name in columns if (column := getattr(config, name)) is not None)
    lists = tuple(
        FileList(
            path=one.path,
            format=row_format,
            **{name: getattr(config, name) for name in _COLUMNS},
            label_type=label_type,
            input_root=config.input_root,
            confine=config.confine,
            stores=config.allow_store,
            unlabelled=unlabelled,
            finds_split=config.split_from == "auto",
            conflicts=config.conflicts,
            segment_columns=segments if "start_column" in columns else None,
        )
        for one in inputs.paths
    )
    if len(lists) == 1 and inputs.paths[0].split is None:
        return lists[0]
    return JoinedListings(inputs=inputs, lists=lists)


class PathLabels(TypedDict):
    """Arguments of sources whose files get labels from their paths."""

    labelled: bool
    numbers: NumberLabels | None


def path_labels(config: CommonConfig, *, labelled: bool = True) -> PathLabels:
    """Return the arguments of a source for labels of paths. labelled: whether paths give labels."""
    numbers = None
    if labelled and config.number_type is not None:
        numbers = NumberLabels(label_type=config.number_type, unlabelled=config.unlabelled)
    return {"labelled": labelled and config.label_type != "none", "numbers": numbers}


def _refuse_other_kind(place: Location, leave_out: Collection[str]) -> None:
    """Raise ConfigError for a single file that cannot be read, such as a compressed tar."""
    if is_archive(place.name) or not has_extension(place.name, leave_out):
        return
    if not place.exists() or place.is_dir():
        return
    what = (
        compressed_tar(place.name)
        or other_kind(place.name)
        or "has an extension of files that this command does not read"
    )
    raise ConfigError(f"--input {shown(place)} {what}")
