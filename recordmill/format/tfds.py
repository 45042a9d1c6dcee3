"""The files that let `tfds.builder_from_directory` open a dataset as if TFDS had written it.

They follow dataset_info.proto and feature.proto of tensorflow-datasets 4.9.10, and are tested with
that version. TFDS cannot read gzip, and an array may have at most one dimension that varies.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recordmill import strict_json
from recordmill.format.dataset_card import DatasetCard
from recordmill.format.manifest import SplitInfo
from recordmill.format.schema import fixed_shape
from recordmill.notes import Note, notes_of
from recordmill.tfrecord.features import Feature, Features

DATASET_INFO = "dataset_info.json"

_CLASSES = "tensorflow_datasets.core.features"
# The dtypes of tf.io.decode_raw; TFDS reads uint64 as int64 and casts the bits.
_RAW_DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TfdsFiles:
    """Files by name, and notes on them for the manifest."""

    files: Mapping[str, bytes]
    notes: tuple[Note, ...] = ()


def tfds_files(
    *,
    features: Features,
    labels: Sequence[str],
    label_offset: int,
    compression: str,
    splits: Mapping[str, SplitInfo],
) -> TfdsFiles:
    """Return dataset_info.json, features.json and a file of class names per label feature.

    If TFDS cannot read the dataset there are no files, but a note that says why.
    """
    if compression != "none":
        return TfdsFiles(
            files={},
            notes=notes_of("tfds", [f"no TFDS files: TFDS cannot read {compression} TFRecords"]),
        )
    if any(feature.sequence for feature in features.values()):
        why = "TFDS would leave out the feature lists of SequenceExamples"
        return TfdsFiles(files={}, notes=notes_of("tfds", [f"no TFDS files: {why}"]))
    notes = []
    named = bool(labels)
    if [*labels] == [str(number) for number in range(label_offset, label_offset + len(labels))]:
        named = named and label_offset == 0  # other numbers are the names
    elif named and label_offset != 0:
        notes.append(
            "TFDS shows labels as plain numbers:"
            f" it has no place for the label offset {label_offset}"
        )
        named = False
    elif not all(_fits_a_line(label) for label in labels):
        notes.append(
            "TFDS shows labels as plain numbers: a class name is empty, has line breaks, or begins"
            " or ends with spaces, which its file of names cannot hold"
        )
        named = False
    connectors = {}
    for name, feature in sorted(features.items()):
        connectors[name], note = _connector(feature, len(labels) if named else 0)
        if note:
            notes.append(f"TFDS shows {name} as bytes: {note}")
    names = "".join(f"{label}\n" for label in labels).encode()
    name_files = {
        f"{name.replace('/', '.')}.labels.txt": names
        for name, feature in features.items()
        if named and feature.kind == "label"
    }
    top = {
        "pythonClassName": f"{_CLASSES}.features_dict.FeaturesDict",
        "featuresDict": {"features": connectors},
    }
    files = {
        DATASET_INFO: dataset_info(features, splits),
        "features.json": _json(top),
        **name_files,
    }
    return TfdsFiles(files=files, notes=notes_of("tfds", notes))


def dataset_info(
    features: Features, splits: Mapping[str, SplitInfo], card: DatasetCard | None = None
) -> bytes:
    """Return dataset_info.json. TFDS takes only versions of three numbers."""
    card = card or DatasetCard()
    is_version = re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", card.version or "", re.ASCII)
    given = {
        "description": card.description,
        "citation": card.citation,
        "location": {"urls": [card.url]} if card.url else None,
        "redistributionInfo": {"license": card.license} if card.license else None,
    }
    info: Json = {
        "name": "recordmill",
        "version": card.version if is_version else "1.0.0",
        **{name: value for name, value in given.items() if value},
        "fileFormat": "tfrecord",
        "splits": [
            {
                "name": name,
                "filepathTemplate": "{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
                "numBytes": str(split.bytes),
                "shardLengths": [str(shard.records) for shard in split.shards],
            }
            for name, split in sorted(splits.items())
            if split.shards
        ],
    }
    supervised = _supervised(features)
    if supervised:
        items = [{"featureKey": name} for name in supervised]
        info["supervisedKeys"] = {"tuple": {"items": items}}
    return _json(info)


def _supervised(features: Features) -> tuple[str, str] | None:
    """Return the features for as_supervised: the one image, array or text, and the one label."""

    def single(kind: str) -> str | None:
        names = [name for name, f in features.items() if f.kind == kind and f.shape == ()]
        return names[0] if len(names) == 1 else None

    label = single("label")
    content = single("image") or single("raw") or single("text")
    return (content, label) if content and label else None


def _connector(feature: Feature, classes: int) -> tuple[Json, str | None]:
    """Return the JSON of a feature connector, and a note if the feature is shown as bytes."""
    element, note = _element(feature, classes)
    if feature.shape == ():
        return element, note
    shape = fixed_shape(feature)
    if shape is not None and "tensor" in element:
        return _tensor(feature.dtype, shape), note
    if len(feature.shape) > 1 and None not in feature.shape[1:] and "tensor" in element:
        return _tensor(feature.dtype, feature.shape), note  # TFDS derives the number of rows
    sequence = {
        "pythonClassName": f"{_CLASSES}.sequence_feature.Sequence",
        "sequence": {
            "feature": element,
            "length": str(int(np.prod(shape, dtype=np.int64)) if shape is not None else -1),
        },
    }
    return sequence, note


def _element(feature: Feature, classes: int) -> tuple[Json, str | None]:
    """Return the connector of one value of the feature, and a note if it is shown as bytes."""
    match feature.kind:
        case "label" if classes:
            return {
                "pythonClassName": f"{_CLASSES}.class_label_feature.ClassLabel",
                "classLabel": {"numClasses": str(classes)},
            }, None
        case "text":
            return {"pythonClassName": f"{_CLASSES}.text_feature.Text", "text": {}}, None
        case "image":
            # Three channels, TFDS' default: it converts greyscale images and drops alpha.
            image: Json = {"dtype": "uint8", "shape": _shape((None, None, 3))}
            if feature.raw_dtype == "uint16":  # only of PNG
                image |= {"dtype": "uint16", "encodingFormat": "png"}
            return {
                "pythonClassName": f"{_CLASSES}.image_feature.Image",
                "image": image,
            }, None
        case "mask":
            sides = feature.raw_shape or (None, None, 1)
            mask = {"dtype": feature.raw_dtype, "shape": _shape(sides), "encodingFormat": "png"}
            return {"pythonClassName": f"{_CLASSES}.image_feature.Image", "image": mask}, None
        case "raw":
            note = _raw_note(feature)
            if note is None and feature.raw_dtype is not None and feature.raw_shape is not None:
                dtype = np.dtype(feature.raw_dtype).name
                return _tensor(dtype, feature.raw_shape, encoding="bytes"), None
            return _tensor("string", ()), note
    return _tensor(feature.dtype, ()), None


def _raw_note(feature: Feature) -> str | None:
    """Return why TFDS cannot decode an array, or None if it can."""
    if feature.raw_dtype is None or feature.raw_shape is None:
        return "the dtype and shape of its arrays are not declared"
    if np.dtype(feature.raw_dtype).name not in _RAW_DTYPES:
        return f"it cannot decode arrays of {feature.raw_dtype}"
    if feature.shape_is_open:
        return "it can derive only one unknown dimension of an array"
    if feature.shape != ():
        return "a record holds several arrays"
    return None


def _tensor(dtype: str, shape: tuple[int | None, ...], *, encoding: str = "none") -> Json:
    # A Scalar has no encoding, so bytes of one value are a Tensor.
    name = "tensor_feature.Tensor" if shape or encoding != "none" else "scalar.Scalar"
    return {
        "pythonClassName": f"{_CLASSES}.{name}",
        "tensor": {"dtype": dtype, "encoding": encoding, "shape": _shape(shape)},
    }


def _shape(shape: tuple[int | None, ...]) -> Json:
    if not shape:
        return {}
    return {"dimensions": [str(-1 if size is None else size) for size in shape]}


def _fits_a_line(label: str) -> bool:
    """Return whether TFDS reads a class name back unchanged: it strips lines of a file."""
    return label == label.strip() != "" and "\n" not in label and "\r" not in label


def _json(data: Json) -> bytes:
    return (strict_json.to_text(data, sort_keys=True, indent=2) + "\n").encode()
