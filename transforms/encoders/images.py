"""Picture files as Examples: an encoder and a header check for rows that name files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import PIL
import pyarrow as pa
from PIL import features as pillow_features

from recordmill.errors import ConfigError, Filtered, RecordError
from recordmill.format.features import Feature, Features
from recordmill.storage.files import open_file, read_file
from recordmill.transforms.encoders.labels import label_feature, label_numbers
from recordmill.transforms.encoders.objects import ObjectOptions, PlacedObjects, object_features
from recordmill.transforms.imaging import resample
from recordmill.transforms.imaging.augment import check_names, generator_for
from recordmill.transforms.imaging.headers import read_header
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.pixels import Picture, process
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import OBJECTS
from recordmill.transforms.model.data_type import (
    Context,
    Encoded,
    OutcomeCollector,
    RowOutcome,
    needs_classes,
)
from recordmill.transforms.model.ragged import binary_array
from recordmill.transforms.model.user_columns import user_fields, with_users


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeaderCheck:
    """Finds the pictures whose header already tells that they are bad or too small."""

    options: ImageOptions

    def check(self, rows: pa.RecordBatch) -> RowOutcome:
        """Opens every file, and reads of it what its header takes."""
        sorter = OutcomeCollector("check")
        for row, (key, path, size, mtime) in enumerate(_references(rows)):
            try:
                with open_file(path, size=size, mtime=mtime) as file:
                    read_header(file, self.options)
            except (RecordError, Filtered) as error:
                sorter.leave_out(key, error)
            else:
                sorter.keep(row)
        return sorter.result()


@dataclasses.dataclass(frozen=True, kw_only=True)
class PictureHeaders:
    """Reads the headers of pictures, for schemas and statistics."""

    options: ImageOptions

    @property
    def fields(self) -> pa.Schema:
        sides = [pa.field(f"image/{name}", pa.int64()) for name in ("height", "width", "channels")]
        return pa.schema([pa.field("image/format", pa.string()), *sides])

    def read(self, rows: pa.RecordBatch) -> tuple[RowOutcome, pa.RecordBatch]:
        """Of the pictures as they are before anything is made of them; the format in lower case."""
        sorter = OutcomeCollector("check")
        found = []
        for row, (key, path, size, mtime) in enumerate(_references(rows)):
            try:
                with open_file(path, size=size, mtime=mtime) as file:
                    found.append(read_header(file, self.options))
            except (RecordError, Filtered) as error:
                sorter.leave_out(key, error)
            else:
                sorter.keep(row)
        columns = {
            "image/format": pa.array([one.format.lower() for one in found], pa.string()),
            "image/height": pa.array([one.height for one in found], pa.int64()),
            "image/width": pa.array([one.width for one in found], pa.int64()),
            "image/channels": pa.array([one.channels for one in found], pa.int64()),
        }
        return sorter.result(), pa.RecordBatch.from_pydict(columns, schema=self.fields)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageEncoder:
    """Loads, decodes and encodes the pictures that rows name.

    one_hot_label: adds the label as float32[classes], 1 at the class's index.
    augment: names of augmentations, for copies; with `augment_all` for all of split `train`.
    unlabelled: rows without a label may occur, and have no label features.
    objects: what becomes of the boxes and captions that annotations give rows. classed: whether
    pictures whose objects have classes have one themselves.
    """

    options: ImageOptions
    one_hot_label: bool = False
    augment: tuple[str, ...] = ()
    augment_all: bool = False
    unlabelled: bool = False
    objects: ObjectOptions | None = None
    classed: bool = True

    def __post_init__(self) -> None:
        check_names(self.augment)
        if self.augment_all and not self.augment:
            raise ConfigError("--augment-all: needs --augment to say what to do, such as flip,crop")

    def features(self, rows: pa.Schema, context: Context) -> Features:
        """Raises ConfigError for a user column that no feature can hold, or of a feature's name,
        and for `one_hot_label` where there are no classes.
        """
        integer, text = Feature(dtype="int64"), Feature(dtype="string", kind="text")
        declared = {
            "image/encoded": self._encoded_feature(context),
            "image/filename": text,
            "image/format": text,
            "image/height": integer,
            "image/width": integer,
            "image/channels": integer,
        }
        if context.labels and self._has_classes(rows):
            declared |= self._label_features(context)
        elif self.one_hot_label:
            raise needs_classes("--one-hot-label")
        if self.objects is not None:
            declared |= object_features(rows)
        return with_users(declared, user_fields(rows), where="listing")

    def _has_classes(self, rows: pa.Schema) -> bool:
        return self.classed or OBJECTS not in rows.names

    def _label_features(self, context: Context) -> dict[str, Feature]:
        shape = (None,) if self.unlabelled else ()
        declared = {
            "image/class/label": label_feature(unlabelled=self.unlabelled),
            "image/class/text": Feature(dtype="string", shape=shape, kind="text"),
        }
        if self.one_hot_label:
            classes = None if self.unlabelled else len(context.labels)
            declared["image/class/one_hot"] = Feature(dtype="float32", shape=(classes,))
        return declared

    def _encoded_feature(self, context: Context) -> Feature:
        fixed = self.options.size is not None and self.options.resize_mode != "fit"
        sides = self.options.size if fixed and self.options.size else (None, None)
        feature = Feature(
            dtype="string",
            kind="raw" if self.options.is_raw else "image",
            raw_dtype="uint8" if self.options.normalize == "none" else "float32",
            raw_shape=(*sides, self.options.channels),
        )
        if fixed or feature.kind == "image":
            return feature
        told = ("image/height", "image/width", "image/channels")
        return dataclasses.replace(feature, shape_features=tuple(map(context.name, told)))

    def versions(self) -> Mapping[str, str]:
        """Of all that decodes or encodes: a different release may round differently."""
        found = {"pillow": PIL.__version__, **resample.versions()}
        for name, feature in _LIBRARIES.items():
            version = pillow_features.version(feature)
            if version is not None:
                found[name] = version
        return found

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        """Reads every file named, in the order of the rows; what cannot be read is left out."""
        sorter = OutcomeCollector("encode")
        pictures: list[Picture] = []
        objects = None if self.objects is None else PlacedObjects(rows, self.objects)
        copies = rows.column(batch.COPY).to_pylist()
        splits = rows.column(batch.SPLIT).to_pylist()
        for row, (key, path, size, mtime) in enumerate(_references(rows)):
            changed = copies[row] > 0 or (self.augment_all and splits[row] == "train")
            names = self.augment if changed else ()
            generator = generator_for(context.seed, key=key, copy=copies[row]) if names else None
            try:
                data = read_file(path, size=size, mtime=mtime)
                picture = process(data, self.options, names, generator)
                if objects is not None:
                    objects.place(row, picture)
            except (RecordError, Filtered) as error:
                sorter.leave_out(key, error)
            else:
                pictures.append(picture)
                sorter.keep(row)
        outcome = sorter.result()
        kept = rows.take(pa.array(outcome.kept))
        columns = _picture_columns(kept, pictures)
        if context.labels and self._has_classes(rows.schema):
            columns |= self._label_columns(kept.column(batch.LABEL), context)
        if objects is not None:
            columns |= objects.columns(context)
        columns |= {field.name: kept.column(field.name) for field in user_fields(rows.schema)}
        return Encoded(
            columns=pa.RecordBatch.from_pydict(columns),
            rows=outcome,
            objects=None if objects is None else objects.counts,
        )

    def _label_columns(self, labels: pa.Array, context: Context) -> dict[str, pa.Array]:
        numbers = label_numbers(labels, context)
        columns = {"image/class/label": numbers, "image/class/text": labels}
        if self.one_hot_label:
            count = len(context.labels)
            classes = np.asarray(numbers.fill_null(-1)) - context.label_offset
            hot = (classes[:, None] == np.arange(count)).astype(np.float32)
            columns["image/class/one_hot"] = pa.FixedSizeListArray.from_arrays(
                pa.array(hot.ravel()), count, mask=numbers.is_null()
            )
        return columns


# What shapes pixels or bytes, by the names Pillow has for them.
_LIBRARIES = {
    "libjpeg-turbo": "libjpeg_turbo",
    "pillow-zlib": "zlib",  # another one than Python's, where others were loaded first
    "zlib-ng": "zlib_ng",
    "libtiff": "libtiff",
    "libwebp": "webp",
    "libavif": "avif",
    "openjpeg": "jpg_2000",
    "littlecms2": "littlecms2",
}


def _references(rows: pa.RecordBatch) -> Sequence[tuple[str, str, int, int]]:
    """(key, path, size in bytes, mtime in nanoseconds) of every row."""
    names = (batch.KEY, batch.PATH, batch.SIZE, batch.MTIME)
    return list(zip(*(rows.column(name).to_pylist() for name in names), strict=True))


def _picture_columns(kept: pa.RecordBatch, pictures: Sequence[Picture]) -> dict[str, pa.Array]:
    def integers(name: str) -> pa.Array:
        return pa.array(np.array([getattr(picture, name) for picture in pictures], np.int64))

    return {
        "image/encoded": binary_array([picture.data for picture in pictures]),
        "image/filename": kept.column(batch.KEY),
        "image/format": binary_array([picture.format.encode() for picture in pictures]),
        "image/height": integers("height"),
        "image/width": integers("width"),
        "image/channels": integers("channels"),
    }
