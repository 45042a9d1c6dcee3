"""Images as Examples, encoded from the files that rows name."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import PIL
import pyarrow as pa
import simplejpeg
from PIL import features as pillow_features

from recordmill.errors import ConfigError, Filtered, RecordError
from recordmill.format.content_hashes import ContentHashes
from recordmill.format.example_facts import ExampleFacts
from recordmill.format.label_map import label_map
from recordmill.format.ledger import Counted, Reduced, add_counted
from recordmill.format.manifest import LABEL_MAP
from recordmill.option_checks import check_options
from recordmill.option_names import option_name
from recordmill.storage.input_files import read_ahead, read_file
from recordmill.tfrecord.features import Feature, Features
from recordmill.transforms.encoders.class_masks import PlacedMasks, mask_features
from recordmill.transforms.encoders.image_headers import (
    DepthAnalysis,
    HeaderCheck,
    references,
    source_columns,
    with_found_depth,
)
from recordmill.transforms.encoders.labels import (
    label_columns,
    label_feature,
    one_hot,
    one_hot_feature,
    text_feature,
)
from recordmill.transforms.encoders.object_options import ObjectOptions
from recordmill.transforms.encoders.objects import PlacedObjects, object_features
from recordmill.transforms.encoders.source_ids import (
    SOURCE_FEATURES,
    check_source_ids,
    source_id_columns,
    source_ids,
)
from recordmill.transforms.imaging import png16, resample
from recordmill.transforms.imaging.augment import check_names
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.mask_options import MaskOptions
from recordmill.transforms.imaging.pixels import EncodedImage, process
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import (
    CAPTIONS,
    MASK_COLUMNS,
    OBJECT_MASK_COLUMNS,
    OBJECTS,
    SEGMENTATION_FRAME,
    SIDES,
)
from recordmill.transforms.model.augmentations import augmentations_of, describe_augmentations
from recordmill.transforms.model.data_type import (
    Analysis,
    Context,
    Encoded,
    ExampleInputs,
    OutcomeCollector,
    RowCheck,
    needs_classes,
)
from recordmill.transforms.model.generators import generator_for
from recordmill.transforms.model.ragged import binary_array
from recordmill.transforms.model.user_columns import user_fields, with_users

FeatureSet = Literal["standard", "tf-object-detection"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageEncoder:
    """Encoder that reads, decodes and encodes the images that rows name.

    Args:
      options: Size and encoding of the images.
      one_hot_label: Add the label as float32[classes].
      augment: Names of the augmentations of copies.
      augment_all: Augment all records of split `train`, not only copies.
      unlabelled: Rows without a label may occur; they have no label features.
      objects: Policies for annotated boxes and captions; None without annotations.
      classed: Whether images with annotated objects also have a class themselves.
      feature_set: `tf-object-detection` adds the features that decoders of the TensorFlow Object
        Detection API need, and a label map.
      masks: Options for masks of class ids; None without masks.
    """

    options: ImageOptions
    one_hot_label: bool = False
    augment: tuple[str, ...] = ()
    augment_all: bool = False
    unlabelled: bool = False
    objects: ObjectOptions | None = None
    classed: bool = True
    feature_set: FeatureSet = "standard"
    masks: MaskOptions | None = None

    def __post_init__(self) -> None:
        check_options(self, self._check_together)

    def _check_together(self) -> None:
        check_names(self.augment)
        if self.augment_all and not self.augment:
            raise ConfigError(
                f"{option_name('augment_all')}: requires {option_name('augment')}, such as"
                f" {option_name('augment')} flip,crop"
            )

    @property
    def analysis(self) -> Analysis | None:
        """Finds the depth of the images, if the options leave it open."""
        return DepthAnalysis(options=self.options) if self.options.finds_depth else None

    def row_check(self, *, balanced: bool = False) -> RowCheck | None:
        """Return the check of headers, if classes are balanced."""
        if not balanced:
            return None
        return HeaderCheck(options=self.options, masks=self.masks is not None)

    def features(self, rows: pa.Schema, context: Context) -> Features:
        """Return the features of every record.

        Raises:
            ConfigError: a column of the user has an unsupported type or the name of a feature;
                there are no classes for `one_hot_label`; or classes have the number 0, which
                `feature_set` reserves.
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
            declared |= self._label_features(rows, context)
        elif self.one_hot_label:
            raise needs_classes(option_name("one_hot_label"))
        mask = Feature(
            dtype="string",
            kind="mask",
            raw_dtype="uint8",
            raw_shape=(*(self._fixed_sides or (None, None)), 1),
            shape_features=context.names(_SIDES),
        )
        if self.masks is not None:
            declared |= mask_features(self.masks, mask)
        if self.objects is not None:
            declared |= object_features(rows, self.objects, mask)
        if self._has_source_ids:
            if context.label_offset < 1 and (context.labels or OBJECTS in rows.names):
                raise ConfigError(
                    f"{option_name('feature_set', self.feature_set)}: decoders of the Object"
                    " Detection API reserve the class number 0 for the background; add"
                    f" {option_name('label_offset')} 1"
                )
            check_source_ids(rows)
            declared |= SOURCE_FEATURES
        return with_users(declared, self._users(rows), where="listing")

    def files(self, context: Context) -> Mapping[str, bytes]:
        """Return {name: content} of the files that describe the classes to other programs."""
        if not context.labels or not self._has_source_ids:
            return {}
        return {LABEL_MAP: label_map(context.labels, label_offset=context.label_offset)}

    @property
    def _has_source_ids(self) -> bool:
        return self.feature_set == "tf-object-detection"

    def _users(self, rows: pa.Schema) -> list[pa.Field]:
        """Return the user's fields that are features under their own names."""
        made = SOURCE_FEATURES if self._has_source_ids else {}
        return [field for field in user_fields(rows) if field.name not in made]

    def _has_classes(self, rows: pa.Schema) -> bool:
        return self.classed or OBJECTS not in rows.names

    def _label_features(self, rows: pa.Schema, context: Context) -> dict[str, Feature]:
        declared = {
            "image/class/label": label_feature(rows, unlabelled=self.unlabelled),
            "image/class/text": text_feature(rows, unlabelled=self.unlabelled),
        }
        if self.one_hot_label:
            hot = one_hot_feature(rows, context, unlabelled=self.unlabelled)
            declared["image/class/one_hot"] = hot
        return declared

    def _encoded_feature(self, context: Context) -> Feature:
        options = with_found_depth(self.options, context.artifacts)
        fixed = self._fixed_sides
        feature = Feature(
            dtype="string",
            kind="raw" if options.is_raw else "image",
            raw_dtype=f"uint{options.bits}" if options.normalize == "none" else "float32",
            raw_shape=(*(fixed or (None, None)), options.channels),
        )
        if fixed or feature.kind == "image":
            return feature
        names = context.names((*_SIDES, "image/channels"))
        return dataclasses.replace(feature, shape_features=names)

    @property
    def _fixed_sides(self) -> tuple[int, int] | None:
        """(height, width) of all images; None if they vary."""
        return None if self.options.resize_mode == "fit" else self.options.size

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the libraries that affect pixels or bytes."""
        found = {
            "pillow": PIL.__version__,
            "simplejpeg": simplejpeg.__version__,
            **resample.versions(),
        }
        has_masks = self.masks is not None or (self.objects is not None and self.objects.masks)
        if self.options.bits == 16 or self.options.finds_depth or has_masks:
            found |= png16.versions()
        for name, feature in _LIBRARIES.items():
            version = pillow_features.version(feature)
            if version is not None:
                found[name] = version
        return found

    @property
    def source_columns(self) -> tuple[str, ...]:
        """Names of the columns that identify a file, and its mask."""
        return source_columns(masks=self.masks is not None)

    def settings(self) -> str:
        """Return the options that shape every Example; augmentations are those of a row."""
        return repr(dataclasses.replace(self, augment=(), augment_all=False))

    def inputs(self, rows: pa.RecordBatch, context: Context) -> ExampleInputs:
        """Return all that shapes the Examples of rows, beside files and settings."""
        augmentations = self._augmentations(rows)
        described = describe_augmentations(rows, augmentations, seed=context.seed)
        columns = {batch.KEY: rows[batch.KEY], "": described}
        common: dict[str, object] = {}
        if context.labels and self._has_classes(rows.schema):
            numbers, names = label_columns(rows, context)
            columns |= {batch.LABEL: names, "number": numbers}
            if self.one_hot_label:
                common["classes"] = [len(context.labels), context.label_offset]
        if self.objects is not None:
            common["labels"] = [context.labels, context.label_offset]
            annotations = (OBJECTS, CAPTIONS, SIDES, SEGMENTATION_FRAME, *OBJECT_MASK_COLUMNS.names)
            objects = [name for name in annotations if name in rows.schema.names]
            columns |= {name: rows[name] for name in objects}
        if self._has_source_ids:
            columns["image/source_id"] = source_ids(rows)
        if self.masks is not None:
            columns |= {name: rows[name] for name in MASK_COLUMNS.names}
        columns |= {field.name: rows[field.name] for field in self._users(rows.schema)}
        return ExampleInputs(common=common, columns=columns)

    def _augmentations(self, rows: pa.RecordBatch) -> list[tuple[str, ...]]:
        """Return the names of the augmentations of each row."""
        return augmentations_of(rows, self.augment, all_of_train=self.augment_all)

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        """Encode the files that rows name, in order; unreadable images are rejected."""
        options = with_found_depth(self.options, context.artifacts)
        outcomes = OutcomeCollector("encode")
        images: list[EncodedImage] = []
        # Rows have the hash if duplicates were looked for before.
        hashes = ContentHashes() if batch.CONTENT not in rows.schema.names else None
        reduced = Reduced()
        noted: Counted = {}
        objects = None if self.objects is None else PlacedObjects(rows, self.objects, self.options)
        masks = None if self.masks is None else PlacedMasks(rows, self.masks, self.options)
        copies, augmentations = rows[batch.COPY].to_pylist(), self._augmentations(rows)
        facts: list[ExampleFacts] = []
        files = references(rows)
        of_masks = [masks.files if masks else [], objects.mask_files if objects else []]
        places = [[file[1:] for file in files], *filter(None, of_masks)]
        for row, (key, path, size, mtime) in enumerate(read_ahead(files, *places)):
            names = augmentations[row]
            generator = generator_for(context.seed, key=key, copy=copies[row]) if names else None
            try:
                data = read_file(path, size=size, mtime=mtime)
                image = process(data, options, names, generator)
                mask = None if masks is None else masks.place(row, image)
                if objects is not None:
                    objects.place(row, image)
            except (RecordError, Filtered) as error:
                outcomes.leave_out(key, error)
            else:
                images.append(image)
                if masks is not None:
                    masks.keep(mask)
                if hashes is not None:
                    hashes.add(data)
                outcomes.keep(row)
                fact = _facts(image, objects, options.bits)
                facts.append(fact)
                if not copies[row] and fact is not _NO_FACTS:
                    reduced = reduced.plus(fact.reduced_of(key))
                    noted = add_counted(noted, fact.noted_of(key))
        outcome = outcomes.result()
        kept = rows.take(pa.array(outcome.kept))
        columns = _image_columns(kept, images)
        if context.labels and self._has_classes(rows.schema):
            columns |= self._label_columns(kept, context)
        if masks is not None:
            columns |= masks.columns()
        if objects is not None:
            columns |= objects.columns(context)
        if self._has_source_ids:
            columns |= source_id_columns(kept, [image.data for image in images])
        columns |= {field.name: kept.column(field.name) for field in self._users(rows.schema)}
        return Encoded(
            columns=pa.RecordBatch.from_pydict(columns),
            rows=outcome,
            content=None if hashes is None else hashes.result(),
            sizes=(_sides(images, "width"), _sides(images, "height")),
            objects=None if objects is None else objects.counts,
            dropped_objects={} if objects is None else objects.dropped,
            reduced=reduced,
            noted=noted,
            facts=facts,
        )

    def _label_columns(self, rows: pa.RecordBatch, context: Context) -> dict[str, pa.Array]:
        numbers, names = label_columns(rows, context)
        columns = {"image/class/label": numbers, "image/class/text": names}
        if self.one_hot_label:
            columns["image/class/one_hot"] = one_hot(rows, context)
        return columns


_NO_FACTS = ExampleFacts()
_SIDES = ("image/height", "image/width")

# Libraries that affect pixels or bytes, and Pillow's names of them.
_LIBRARIES = {
    "libjpeg-turbo": "libjpeg_turbo",
    "pillow-zlib": "zlib",  # may differ from Python's
    "zlib-ng": "zlib_ng",
    "libtiff": "libtiff",
    "libwebp": "webp",
    "libavif": "avif",
    "openjpeg": "jpg_2000",
    "littlecms2": "littlecms2",
}


def _image_columns(kept: pa.RecordBatch, images: Sequence[EncodedImage]) -> dict[str, pa.Array]:
    return {
        "image/encoded": binary_array([image.data for image in images]),
        "image/filename": kept.column(batch.KEY),
        "image/format": binary_array([image.format.encode() for image in images]),
        "image/height": pa.array(_sides(images, "height")),
        "image/width": pa.array(_sides(images, "width")),
        "image/channels": pa.array(_sides(images, "channels")),
    }


def _sides(images: Sequence[EncodedImage], name: str) -> npt.NDArray[np.int64]:
    return np.array([getattr(image, name) for image in images], np.int64)


def _facts(image: EncodedImage, objects: PlacedObjects | None, bits: int) -> ExampleFacts:
    """Return the facts about an image, after its objects were placed. bits: per channel."""
    if objects is None and image.reduced is None and not image.noted:
        return _NO_FACTS
    reduced = None if image.reduced is None else (image.reduced, bits)
    facts = ExampleFacts() if objects is None else objects.facts_of_last()
    noted = {**facts.noted, **Counter(image.noted)}
    return dataclasses.replace(facts, reduced=reduced, noted=noted)
