"""Builds a balanced, shuffled, sharded TFRecord dataset from images.

    recordmill images --input photos/ --output out/ --size 224 --balance oversample

The input is a folder of `class/...`, `split/class/...` or images without classes, a glob pattern,
an image, a listing (CSV, JSONL, Parquet), an archive, tables that hold images, or TFRecord files.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import ClassVar, Literal

from recordmill.format.manifest import MASK_LABELS
from recordmill.options.declaration import Group, GroupValues, option, option_group
from recordmill.pipelines.jobs.duplicate_rules import near_duplicates, same_content
from recordmill.pipelines.options.common.augmentation import augment_all_option, augment_option
from recordmill.pipelines.options.common.labels_file import read_labels
from recordmill.pipelines.options.inputs.annotations import (
    AnnotationsConfig,
    annotated,
    gives_captions,
    gives_classes,
    object_options,
)
from recordmill.pipelines.options.inputs.file_inputs import MediaFiles, files_of
from recordmill.pipelines.options.inputs.masks import MasksConfig, masked
from recordmill.pipelines.options.inputs.rows import FilesConfig
from recordmill.transforms.encoders.image_contents import ImageContents
from recordmill.transforms.encoders.image_headers import ImageHeaders
from recordmill.transforms.encoders.images import ImageEncoder
from recordmill.transforms.imaging.augment import AUGMENTATIONS
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.mask_options import MaskOptions
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.model.source import Source
from recordmill.transforms.sources.folders.companions import Companion
from recordmill.transforms.sources.folders.folders import NOT_IMAGES
from recordmill.transforms.sources.folders.references import Unlabelled
from recordmill.transforms.sources.media.object_columns import object_columns

IMAGES = Group(30, "Images", shapes_bytes=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImagesConfig(AnnotationsConfig, MasksConfig, FilesConfig):
    """The options of `recordmill images`."""

    HEADING: ClassVar[Group] = IMAGES

    images: GroupValues[ImageOptions] = option_group(ImageOptions, group=IMAGES)
    one_hot_label: bool = option(
        False,
        after="intensity_window",
        help="Add the class as a one-hot float32 vector, image/class/one_hot.",
    )
    feature_set: Literal["standard", "tf-object-detection"] = option(
        "standard",
        after="one_hot_label",
        help="tf-object-detection adds image/source_id, image/key/sha256 and the file"
        " label_map.pbtxt, for decoders of the TensorFlow Object Detection API, Model Garden and"
        " FiftyOne. Classes need --label-offset 1.",
    )
    augment: tuple[str, ...] = augment_option(AUGMENTATIONS, IMAGES)
    augment_all: bool = augment_all_option(IMAGES)
    probe: Literal["auto", "header", "none"] = option(
        "auto",
        help="header reads every image header before planning, so that undecodable images do not"
        " unbalance the classes; auto does so with --balance oversample or undersample.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.images.make()


def data_type(config: ImagesConfig) -> DataType:
    """Return the source, check and encoder of images."""
    # Annotations give the classes; captions do not need any, nor masks beside the images.
    beside_masks = config.mask_places().inside
    captioned = config.captions_from is not None
    keep = bool(config.annotations) or captioned or beside_masks is not None
    unlabelled: Unlabelled = "keep" if keep else config.unlabelled
    companions: list[Companion] = (
        [] if config.annotations else ["annotations", "sidecars", "tables"]
    )
    companions = [one for one in companions if one != "sidecars" or not captioned]
    companions += ["lists"] if config.masks else ["lists", "masks"]
    # Either option selects the images of samples, as the note advises.
    companions += [] if config.masks or config.exclude_keys else ["samples"]
    labels = read_labels(config.labels_file)
    classed = gives_classes(config)
    files = files_of(
        config,
        leave_out=NOT_IMAGES,
        unlabelled=unlabelled,
        raw="images",
        companions=companions,
        masks=beside_masks,
        annotated=bool(config.annotations or config.masks),
        captioned=captioned,
        boxes=lambda file: object_columns(file, labels, config.object_rules(labels)),
        labelled=not (gives_captions(config) or classed),
    )
    pixels = None if files.records is None else files.records.pixels
    of_records = files.has_boxes or (pixels is not None and pixels.has_objects)
    has_boxes = (bool(config.annotations) and not classed) or of_records
    held_masks = pixels if pixels is not None and pixels.class_mask is not None else None
    options = config.images.make()
    masks = config.mask_options(held_masks)
    joined = _with_annotations(config, files, masks)
    names = config.mask_names(held_masks)
    probe = config.probe == "header" or (config.probe == "auto" and config.changes_counts)
    encoder = ImageEncoder(
        options=options,
        one_hot_label=config.one_hot_label,
        augment=config.augment,
        augment_all=config.augment_all,
        unlabelled=has_boxes or unlabelled == "keep",
        objects=object_options(config, pixels, of_tables=files.has_boxes),
        classed=config.image_class_rule(has_boxes=has_boxes) is not None,
        feature_set=config.feature_set,
        masks=masks,
    )
    return DataType(
        name="images",
        source=masked(config, joined, limits=options),
        encoder=encoder,
        check=encoder.row_check(balanced=probe),
        analysis=encoder.analysis,
        headers=ImageHeaders(options=options),
        duplicates=same_content(config),
        content=ImageContents.of(options, near=config.near_duplicates != "none"),
        near=near_duplicates(config, "distance"),
        artifacts={MASK_LABELS: "".join(f"{name}\n" for name in names).encode()} if names else {},
        shaping=config.mask_shaping(held_masks),
        of_objects=has_boxes,
        shape=files.shape,
    )


def _with_annotations(config: ImagesConfig, files: MediaFiles, masks: MaskOptions | None) -> Source:
    """Return a source of the same images with their annotations. masks: those of records."""
    if files.records is None or (pixels := files.records.pixels) is None:
        return annotated(config, files.source, image_ids=config.feature_set != "standard")
    # Imported here: only TFRecords with annotations need it.
    from recordmill.transforms.sources.tfrecords.annotated_records import AnnotatedRecords

    is_foreign = pixels.class_mask is not None and pixels.mask_depth is None
    return AnnotatedRecords(
        files=files.records,
        pixels=pixels,
        rules=config.object_rules(read_labels(config.labels_file)),
        unmasked=config.unmasked,
        masks=masks if is_foreign else None,
        limits=config.images.make().of_masks,
    )


if __name__ == "__main__":
    from recordmill.pipelines.cli import run_process

    run_process(["images", *sys.argv[1:]])
