"""Choice of the source for TFRecord files, and of their columns with a role."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

from recordmill.errors import ConfigError
from recordmill.notes import Note
from recordmill.options.declaration import value_of
from recordmill.pipelines.options.common import rules
from recordmill.pipelines.options.common.config import COLUMNS, CommonConfig
from recordmill.pipelines.options.inputs.rows import FilesConfig
from recordmill.storage.members import MOST_INFLATED
from recordmill.transforms.encoders.source_ids import SOURCE_ID
from recordmill.transforms.sources.folders.references import Unlabelled
from recordmill.transforms.sources.media.media_rows import MediaRows
from recordmill.transforms.sources.row_formats.reading.row_format import RowFormat
from recordmill.transforms.sources.row_formats.tfrecords.tfrecord_file import TfrecordFile
from recordmill.transforms.sources.rows.reading.row_inputs import RowInput
from recordmill.transforms.sources.tfrecords.array_forms import ArrayForm, Files
from recordmill.transforms.sources.tfrecords.known_inputs import (
    Kind,
    dataset_columns,
    media_feature,
    rate_feature,
)
from recordmill.transforms.sources.tfrecords.known_pixels import pixels_of
from recordmill.transforms.sources.tfrecords.media_features import (
    CLASS_NUMBER,
    CLASS_TEXT,
    LABEL_NAMES,
    MADE,
    find_media,
    refuse_moving,
)
from recordmill.transforms.sources.tfrecords.tfrecord_media import TfrecordMedia

_ROLES = ("label_column", "split_column", "group_column", "key_column")
_SAMPLED = 16  # files of other programs whose first records are looked at for boxes and masks
_PACKED = (
    Note(
        "class-numbers",
        f"classes are numbered in the order of their names, not as in {CLASS_NUMBER!r}, which is"
        " not read from compressed files: decompress them (gunzip -k), or give the names in the"
        " order of their numbers with --labels-file",
    ),
)


def columns_of(config: CommonConfig, *, kind: Kind) -> dict[str, Any]:
    """Return the options `COLUMNS`, for datasets of recordmill with the columns of their index.

    Raises:
      ConfigError: only some inputs are such datasets, or they hold no text for `recordmill text`.
    """
    given = {name: getattr(config, name) for name in COLUMNS}
    roles = {name: column for name, column in given.items() if name in _ROLES}
    return given | dataset_columns(config.inputs, roles, config.drop_columns, kind=kind)


def records_of(
    config: FilesConfig, *, unlabelled: Unlabelled, labelled: bool, raw: Files | None
) -> TfrecordMedia | MediaRows:
    """Return the source of media in TFRecord files; images of gzip files are staged first.

    labelled: whether the records give labels. raw: the files that are made of raw arrays; None if
    the command reads none.

    Raises:
      ConfigError: an option does not apply to TFRecord files.
    """
    name, form = config.bytes_column, None
    first = next(_files(config), None)
    label_type = config.label_type if labelled or config.number_type is None else "none"
    if (media := media_feature(config.inputs, name)) is not None:
        name, feature = media
        is_array = feature.kind == "raw" or (feature.kind != "image" and feature.dtype != "string")
        if is_array and raw is None:
            raise ConfigError(
                f"--input {config.inputs} holds numbers in {name!r}, not files: recordmill arrays"
                " reads them"
            )
        if raw is not None and is_array:
            rate = rate_feature(config.inputs, name) if raw == "audio" else None
            form = ArrayForm.of(name, feature, raw, rate_feature=rate)
        elif feature.kind == "image" and raw == "arrays":
            raise ConfigError(
                f"--input {config.inputs} holds encoded images, not arrays, in {name!r}: read it"
                " with recordmill images"
            )
    columns = columns_of(config, kind="media")
    # Contents of the input that replace options.
    found = {} if columns["key_column"] is None else {"key-column": "the index"}
    if raw == "images" and form is None and first is not None and first.is_compressed:
        rules.check(config, shape="placed", where=config.inputs, found=found)
        names = [one for one in first.first_names() if one not in columns["drop_columns"]]
        why = ", because the file is compressed: decompress it (gunzip -k), or "
        refuse_moving(names, config.inputs, why)
        label = columns["label_column"] or next((n for n in LABEL_NAMES if n in names), None)
        columns["label_column"] = label
        columns["drop_columns"] += tuple(one for one in names if one in MADE and one != label)
        return MediaRows(
            input=config.inputs,
            format=RowFormat(format="tfrecord", max_row_bytes=MOST_INFLATED),
            bytes_column=name or find_media(names, config.inputs),
            label_type=label_type,
            unlabelled=unlabelled,
            worker_limits=config.worker_limits,
            remarks=_PACKED if label == CLASS_TEXT and CLASS_NUMBER in names else (),
            **columns,
        )
    pixels = None
    if value_of(config, "feature_set", "standard") != "standard":  # it keeps the ids of images
        given = config.drop_columns
        dropped = (n for n in columns["drop_columns"] if n in given or n != SOURCE_ID)
        columns["drop_columns"] = tuple(dropped)
    if raw == "images":
        pixels = pixels_of(
            config.inputs, functools.partial(_first_names, config), columns["drop_columns"]
        )
    if pixels is not None and pixels.class_mask is not None:
        found["masks"] = "the masks of the records"
    if pixels is not None and pixels.has_objects:
        used = ",".join(sorted(pixels.used))
        found["annotations"] = f"the boxes of the records (--drop-columns {used} leaves them out)"
    rules.check(config, shape="placed", where=config.inputs, found=found)
    if pixels is not None and pixels.has_objects:
        if columns["label_column"] is not None:  # that of the index
            columns["drop_columns"] += (columns["label_column"],)
        columns["label_column"], label_type, unlabelled = None, None, "keep"
    decides = config.key_column is not None or config.conflicts != "reject"
    return TfrecordMedia(
        input=config.inputs,
        conflicts=config.conflicts if decides else None,
        bytes_column=name,
        raw=form,
        pixels=pixels,
        label_type=label_type,
        unlabelled=unlabelled,
        **columns,
    )


def _files(config: FilesConfig) -> Iterator[TfrecordFile]:
    rows = RowInput(input=config.inputs, format=RowFormat(format="tfrecord"))
    for file in rows.files():
        yield TfrecordFile(rows.origin(file), MOST_INFLATED)


def _first_names(config: FilesConfig) -> list[str]:
    """Return the features of the first records of some files, sorted.

    A feature that only later records have is found when they are listed.
    """
    found = {
        name for one in itertools.islice(_files(config), _SAMPLED) for name in one.first_names()
    }
    return sorted(found)
