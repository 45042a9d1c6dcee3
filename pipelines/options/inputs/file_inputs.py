"""Choice of the source for inputs that consist of files, such as images."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, TypedDict

from recordmill.errors import ConfigError
from recordmill.pipelines.options.common import rules
from recordmill.pipelines.options.common.config import COLUMNS, CommonConfig
from recordmill.pipelines.options.inputs.rows import FilesConfig
from recordmill.pipelines.options.inputs.tfrecord_inputs import records_of
from recordmill.transforms.model.shape import Shape
from recordmill.transforms.model.source import Source
from recordmill.transforms.sources.folders.companions import Companion
from recordmill.transforms.sources.folders.number_labels import NumberLabels
from recordmill.transforms.sources.folders.references import Unlabelled
from recordmill.transforms.sources.media.file_sources import source_of_files
from recordmill.transforms.sources.media.input_shape import shape_of_media
from recordmill.transforms.sources.media.object_columns import NAME, ObjectColumns
from recordmill.transforms.sources.row_formats.reading.row_file import RowFile
from recordmill.transforms.sources.row_formats.values.nested import columns_of
from recordmill.transforms.sources.rows.reading.row_inputs import RowInput
from recordmill.transforms.sources.tfrecords.array_forms import Files
from recordmill.transforms.sources.tfrecords.tfrecord_media import TfrecordMedia

_LARGEST = 2**31 - 2**20  # bytes: protobuf holds 2 GiB, with 1 MiB left for the small features


def check_record_bytes(flag: str, size: int) -> None:
    """Raise ConfigError unless a limit of bytes per record is within what a record can hold."""
    if not 1 <= size <= _LARGEST:
        raise ConfigError(
            f"{flag}: expected 1 to {_LARGEST} bytes, the most that a record can hold, got {size}"
        )


class MediaFiles(NamedTuple):
    """Source of the files of an input.

    Attributes:
      source: The source.
      shape: Shape of the input.
      records: The source of TFRecord files.
      has_boxes: Whether tables hold boxes of their images.
    """

    source: Source
    shape: Shape
    records: TfrecordMedia | None = None
    has_boxes: bool = False


def files_of(
    config: FilesConfig,
    *,
    leave_out: Collection[str],
    unlabelled: Unlabelled | None = None,
    columns: Collection[str] = (),
    labelled: bool = True,
    raw: Files | None = None,
    companions: Sequence[Companion] = ("sidecars", "tables"),
    masks: tuple[str, ...] | None = None,
    annotated: bool = False,
    captioned: bool = False,
    boxes: Callable[[RowFile], ObjectColumns | None] | None = None,
) -> MediaFiles:
    """Return the source of the files of --input.

    Args:
      config: The options.
      leave_out: Extensions of files to skip.
      unlabelled: Overrides --unlabelled.
      columns: Options with columns of segments.
      labelled: Whether folders or listings give labels.
      raw: Kind of file as which raw arrays in TFRecords are read; None if they are not.
      companions: Kinds of files in a folder for which notes are made.
      masks: Folders of masks in the input, as in `FileTree`.
      annotated: As in `FileTree`.
      captioned: As in `FileTree`.
      boxes: Returns the columns of boxes of a table that holds files; None if boxes are not read.

    Raises:
      ConfigError: An option does not apply to the input, or the input cannot be used.
    """
    inputs, row_format = config.inputs, config.rows.make()
    unlabelled = unlabelled or config.unlabelled
    shape = shape_of_media(
        inputs,
        leave_out=leave_out,
        format=row_format,
        path_column=config.path_column or config.path_template,
        bytes_column=config.bytes_column,
        dropped=config.drop_columns,
    )
    objects = None
    if shape.column is not None and boxes is not None:
        rows = RowInput(input=inputs, format=row_format)
        first = next(rows.files(), None)
        objects = None if first is None else boxes(rows.open(first))
        if objects is not None and columns_of(config.drop_columns, objects.columns):
            objects = None
    found_boxes = None if objects is None else {"annotations": f"the boxes in column {NAME!r}"}
    rules.check(config, shape=shape.payload, where=inputs, found=found_boxes)
    if shape.payload == "placed":
        found = records_of(config, unlabelled=unlabelled, labelled=labelled, raw=raw)
        return MediaFiles(found, shape, found if isinstance(found, TfrecordMedia) else None)
    fields: dict[str, Any] = {name: getattr(config, name) for name in COLUMNS}
    number_labels = config.label_type if labelled or config.number_type is None else "none"
    fields |= {"format": row_format, "label_type": number_labels, "unlabelled": unlabelled}
    if objects is not None:
        fields |= {"label_column": None, "label_type": None, "unlabelled": "keep"}
    fields |= {"input_root": config.input_root, "confine": config.confine}
    given = tuple(column for name in columns if (column := getattr(config, name)) is not None)
    source = source_of_files(
        shape,
        inputs,
        fields | {"stores": config.allow_store},
        leave_out=leave_out,
        **path_labels(config, labelled=labelled),
        companions=companions,
        masks=masks,
        annotated=annotated,
        captioned=captioned,
        segments=given if columns else None,
        worker_limits=config.worker_limits,
        objects=objects,
        path_column=config.path_column,
        path_template=config.path_template,
        conflicts=config.conflicts,
    )
    return MediaFiles(source, shape, has_boxes=objects is not None)


class PathLabels(TypedDict):
    """Arguments of sources whose files get labels from their paths."""

    labelled: bool
    numbers: NumberLabels | None


def path_labels(config: CommonConfig, *, labelled: bool = True) -> PathLabels:
    """Return the arguments of a source for labels of paths. labelled: whether paths have labels."""
    numbers = None
    if labelled and config.number_type is not None:
        numbers = NumberLabels(label_type=config.number_type, unlabelled=config.unlabelled)
    return {"labelled": labelled and config.label_type != "none", "numbers": numbers}
