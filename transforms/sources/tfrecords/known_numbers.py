"""The numbers of the classes of datasets of recordmill and of TFDS, from the files beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from recordmill.format.label_map import parse_label_map
from recordmill.job.input_facts import ColumnRoles
from recordmill.storage.files import Location, PathError
from recordmill.transforms.model import batch
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import InputRoot, find_roots
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.folders.folders import list_files
from recordmill.transforms.sources.row_formats.tfrecords.known_folders import (
    TFDS,
    is_dataset,
    manifest_of,
    read_class_names,
)
from recordmill.transforms.sources.tfrecords.known_pixels import TfdsFeature, tfds_features

_MOST_BYTES = 16 << 20  # of a label map


class NumberedInput(NamedTuple):
    """An input that states the numbers of its classes. place: of the input, for messages."""

    place: str
    numbers: Mapping[str, int]


def numbered_inputs(inputs: Inputs, roles: ColumnRoles) -> list[NumberedInput]:
    """Return the inputs with the numbers of their classes; none unless all state these.

    roles: of the features of the records.
    """
    found = []
    for root in find_roots(inputs):
        numbers = _numbers(root, roles)
        if not numbers:
            return []
        found.append(NumberedInput(str(root.given), numbers))
    return found


def with_label_maps(found: Mapping[str, int], inputs: Inputs) -> Mapping[str, int]:
    """Return {class: number} with the further classes of label maps (*.pbtxt) beside the records.

    found: of the classes of records. A label map in which one has another number is left out.
    """
    numbers = dict(found)
    for text in _label_maps(inputs):
        more = parse_label_map(text)
        joined = {**numbers, **more}
        agrees = all(numbers.get(name, number) == number for name, number in more.items())
        if agrees and len({*joined.values()}) == len(joined):
            numbers = joined
    return numbers


def _label_maps(inputs: Inputs) -> Iterator[str]:
    """Yield the texts of the files of label maps in the folders of inputs, and in those below."""
    for root in find_roots(inputs):
        below = [root.root / one.name for one in root.root.list_dir() if one.kind == "dir"]
        for folder in [root.root, *(sorted(below, key=str) if root.is_folder else [])]:
            for entry in sorted(folder.list_dir(), key=lambda one: one.name):
                if entry.name.endswith(".pbtxt") and entry.kind == "file":
                    content = (folder / entry.name).read_range(0, _MOST_BYTES)
                    yield content.decode(errors="replace")


def _numbers(root: InputRoot, roles: ColumnRoles) -> dict[str, int]:
    """Return {class: number} of an input, none if nothing states it."""
    if is_dataset(root.root):
        if roles.classes not in (batch.LABEL, batch.LABELS):
            return {}
        manifest = manifest_of(root.root)
        return {name: n for n, name in enumerate(manifest.labels, start=manifest.label_offset)}
    folder = _folder(root)
    if roles.label is None or not (folder / TFDS).is_file():
        return {}
    names = read_class_names(folder, roles.label.replace("/", "."))
    if names is None:
        names = tuple(map(str, range(_count(tfds_features(folder).get(roles.label)))))
    return {name: n for n, name in enumerate(names)} if len({*names}) == len(names) else {}


def _folder(root: InputRoot) -> Location:
    """Return the folder of the first file of an input."""
    try:
        first = next((one for one in list_files(root, depth=1) if isinstance(one, File)), None)
    except PathError:
        first = None
    return root.root if first is None else Location.parse(first.path).parent


def _count(feature: TfdsFeature | None) -> int:
    """Return the number of classes of a ClassLabel; JSON of protobuf has it as text."""
    if feature is None or feature.classLabel is None:
        return 0
    text = str(feature.classLabel.numClasses)
    return min(int(text), 100_000) if text.isdecimal() and len(text) < 10 else 0
