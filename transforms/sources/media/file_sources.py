"""Choice of the source of files, such as images, by the shape of the input."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.processes.task_watch import DEFAULT_LIMITS, TaskLimits
from recordmill.storage.files import Location, shown
from recordmill.transforms.model.shape import Shape
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.other_kinds import compressed_tar, is_archive, other_kind
from recordmill.transforms.sources.folders.companions import Companion
from recordmill.transforms.sources.folders.folders import FileTree, has_extension
from recordmill.transforms.sources.folders.number_labels import NumberLabels
from recordmill.transforms.sources.media.media_rows import MediaRows
from recordmill.transforms.sources.media.object_columns import ObjectColumns
from recordmill.transforms.sources.rows.references.file_list import FileList


def source_of_files(
    shape: Shape,
    inputs: Inputs,
    columns: Mapping[str, Any],
    *,
    leave_out: Collection[str],
    labelled: bool = True,
    numbers: NumberLabels | None = None,
    companions: Sequence[Companion] = (),
    masks: tuple[str, ...] | None = None,
    annotated: bool = False,
    captioned: bool = False,
    segments: tuple[str, ...] | None = None,
    worker_limits: TaskLimits = DEFAULT_LIMITS,
    objects: ObjectColumns | None = None,
    **listed: Any,
) -> FileTree | FileList | MediaRows:
    """Return the source of files.

    Args:
      shape: Shape of the inputs, which are not TFRecord files.
      inputs: The inputs.
      columns: Fields that `FileList` and `MediaRows` have in common.
      leave_out: As in `FileTree`.
      labelled: As in `FileTree`.
      numbers: As in `FileTree`.
      companions: As in `FileTree`.
      masks: As in `FileTree`.
      annotated: As in `FileTree`.
      captioned: As in `FileTree`.
      segments: `segment_columns` of `FileList`.
      worker_limits: As in `MediaRows`.
      objects: As in `MediaRows`.
      **listed: Further fields of `FileList`.

    Raises:
      ConfigError: An input cannot be used.
    """
    if shape.column is not None:
        return MediaRows(
            input=inputs,
            bytes_column=shape.column,
            worker_limits=worker_limits,
            objects=objects,
            **columns,
        )
    if shape.payload == "self":
        for one in inputs.paths:
            _refuse_other_kind(Location.parse(one.path), leave_out)
        return FileTree(
            input=inputs,
            unlabelled=columns["unlabelled"],
            leave_out=tuple(leave_out),
            labelled=labelled,
            numbers=numbers,
            companions=tuple(companions),
            masks=masks,
            annotated=annotated,
            captioned=captioned,
        )
    return FileList(path=inputs, segment_columns=segments, **columns, **listed)


def _refuse_other_kind(place: Location, leave_out: Collection[str]) -> None:
    """Raise ConfigError for a single file that cannot be read, such as a compressed tar."""
    if is_archive(place.name) or not has_extension(place.name, leave_out):
        return
    if not place.is_file():
        return
    what = (
        compressed_tar(place.name)
        or other_kind(place.name)
        or "has an extension of files that this data type does not read"
    )
    raise ConfigError(f"{option_name('input', shown(place))} {what}")
