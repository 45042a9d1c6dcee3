"""Builds a balanced, shuffled, sharded TFRecord dataset from images.

    recordmill images --input photos/ --output out/ --size 224 --balance oversample

The input is a folder of `class/...`, of `split/class/...` or of images without classes, a glob
pattern, a single image, or a listing: a CSV, JSONL or Parquet file that names the image files. It
may also be an archive, a table that holds the images, or TFRecord files.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.format.manifest import MASK_LABELS
from recordmill.pipelines.duplicate_rules import near_duplicates, same_content
from recordmill.pipelines.options import values
from recordmill.pipelines.options.annotations import AnnotationsConfig, annotated, object_options
from recordmill.pipelines.options.augmentation import (
    augment_all_option,
    augment_option,
    check_augment,
)
from recordmill.pipelines.options.declaration import Group, option
from recordmill.pipelines.options.file_inputs import FilesConfig, files_of
from recordmill.pipelines.options.labels_file import read_labels
from recordmill.pipelines.options.masks import MasksConfig, masked
from recordmill.transforms.encoders.image_contents import ImageContents
from recordmill.transforms.encoders.image_headers import ImageHeaders
from recordmill.transforms.encoders.images import ImageEncoder
from recordmill.transforms.imaging.augment import AUGMENTATIONS
from recordmill.transforms.imaging.image_options import ColorMode, ImageOptions, ResizeMode
from recordmill.transforms.imaging.mask_options import MaskOptions
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.model.source import Source
from recordmill.transforms.sources.files.companions import Companion
from recordmill.transforms.sources.files.folders import NOT_IMAGES
from recordmill.transforms.sources.files.references import Unlabelled
from recordmill.transforms.sources.tfrecords.tfrecord_media import TfrecordMedia

IMAGES = Group(30, "Images")
_DEFAULT = ImageOptions()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImagesConfig(AnnotationsConfig, MasksConfig, FilesConfig):
    """The options of `recordmill images`."""

    size: tuple[int, int] | None = option(
        None,
        group=IMAGES,
        shapes_bytes=True,
        parse=values.size,
        show=values.show_size,
        metavar="N|HxW",
        help="Height and width in pixels. Default: every image keeps its own size.",
    )
    resize_mode: ResizeMode = option(
        "crop",
        group=IMAGES,
        shapes_bytes=True,
        help="How an image is brought to --size. crop: scale to cover it, cut the rest off. pad:"
        " scale to fit into it, fill the rest with --background. stretch: scale without keeping"
        " the aspect ratio. fit: only shrink until it fits into it. none: do not resize, and keep"
        " the original bytes if format and mode already match.",
    )
    mode: ColorMode = option("rgb", group=IMAGES, shapes_bytes=True, help="Colour channels.")
    background: tuple[int, int, int] = option(
        _DEFAULT.background,
        group=IMAGES,
        shapes_bytes=True,
        parse=values.colour,
        show=values.show_colour,
        metavar="R,G,B",
        help="Colour behind transparent pixels, and of the padding of --resize-mode pad.",
    )
    image_format: Literal["jpeg", "png", "raw"] = option(
        "jpeg",
        group=IMAGES,
        shapes_bytes=True,
        help="Encoding of the images; raw is the bytes of the pixel array, for tf.io.decode_raw.",
    )
    depth: Literal["auto", "8", "16"] = option(
        "auto",
        group=IMAGES,
        shapes_bytes=True,
        help="Bits per channel of every image; 16 needs --image-format png or raw. auto: 16 if the"
        " format allows 16 and an image of train has more than 8; else 8, with a note if images"
        " have more.",
    )
    quality: int = option(
        _DEFAULT.quality, group=IMAGES, shapes_bytes=True, help="JPEG quality, 1 to 95."
    )
    normalize: Literal["none", "unit", "signed", "imagenet"] = option(
        "none",
        group=IMAGES,
        shapes_bytes=True,
        help="Write raw pixels as float32. unit: in [0, 1]. signed: in [-1, 1]. imagenet:"
        " standardized by ImageNet's mean and standard deviation. none: uint8, or uint16 with"
        " --depth 16.",
    )
    intensity_window: tuple[float, float] | Literal["image"] | None = option(
        None,
        group=IMAGES,
        shapes_bytes=True,
        parse=values.intensity_window,
        show=values.show_intensity_window,
        metavar="LOW:HIGH",
        help="Scale the intensities of gray images so that LOW becomes black and HIGH becomes"
        " white, for medical and scientific images of 16 bits or floating point. image: LOW and"
        " HIGH are the extremes of each image. Default: the full range of the type.",
    )
    one_hot_label: bool = option(
        False,
        group=IMAGES,
        shapes_bytes=True,
        help="Add the class as a one-hot float32 vector, image/class/one_hot.",
    )
    feature_set: Literal["standard", "tf-object-detection"] = option(
        "standard",
        group=IMAGES,
        shapes_bytes=True,
        help="tf-object-detection adds image/source_id, image/key/sha256 and the file"
        " label_map.pbtxt, for decoders of the TensorFlow Object Detection API, Model Garden and"
        " FiftyOne. Classes need --label-offset 1.",
    )
    max_pixels: int = option(
        _DEFAULT.max_pixels,
        group=IMAGES,
        shapes_bytes=True,
        help="Reject images with more pixels, judged by the header before decoding.",
    )
    min_size: int = option(
        _DEFAULT.min_size,
        group=IMAGES,
        shapes_bytes=True,
        metavar="PIXELS",
        help="Drop images whose shorter side is below this.",
    )
    damaged: Literal["keep", "reject"] = option(
        _DEFAULT.damaged,
        group=IMAGES,
        shapes_bytes=True,
        help="JPEGs whose data is damaged, although libjpeg can decode them. keep: write them, with"
        " a note. reject: reject them.",
    )
    augment: tuple[str, ...] = augment_option(AUGMENTATIONS, IMAGES)
    augment_all: bool = augment_all_option(IMAGES)
    probe: Literal["auto", "header", "none"] = option(
        "auto",
        group=IMAGES,
        shapes_bytes=True,
        help="header reads every image header before planning, so that undecodable images do not"
        " unbalance the classes; auto does so with --balance oversample or undersample.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.image_options()
        if self.feature_set == "tf-object-detection" and self.image_format == "raw":
            raise ConfigError(
                "--feature-set tf-object-detection: its decoders read JPEG and PNG, got"
                " --image-format raw; use jpeg or png"
            )
        check_augment(self)

    def image_options(self) -> ImageOptions:
        """Return the size and encoding of the written images. Raises ConfigError."""
        names = [field.name for field in dataclasses.fields(ImageOptions)]
        return ImageOptions(**{name: getattr(self, name) for name in names})


def data_type(config: ImagesConfig) -> DataType:
    """Return the source, check and encoder of images."""
    # Annotations give the classes.
    unlabelled: Unlabelled = "keep" if config.annotations else config.unlabelled
    companions: list[Companion] = (
        [] if config.annotations else ["annotations", "sidecars", "tables"]
    )
    companions += [] if config.masks else ["masks"]
    # Either option selects the images of samples, as the note advises.
    companions += [] if config.masks or config.exclude_keys else ["samples"]
    source = files_of(
        config,
        leave_out=NOT_IMAGES,
        unlabelled=unlabelled,
        raw="images",
        companions=companions,
    )
    pixels = source.pixels if isinstance(source, TfrecordMedia) else None
    has_boxes = bool(config.annotations) or (pixels is not None and pixels.has_objects)
    held_masks = pixels if pixels is not None and pixels.class_mask is not None else None
    config.check_annotations(in_records=has_boxes)
    config.check_masks(in_records=held_masks is not None)
    options = config.image_options()
    masks = config.mask_options(held_masks)
    joined = _with_annotations(config, source, masks)
    inputs = [one.path for one in config.inputs.paths]
    names = config.mask_names(held_masks)
    probe = config.probe == "header" or (config.probe == "auto" and config.changes_counts)
    encoder = ImageEncoder(
        options=options,
        one_hot_label=config.one_hot_label,
        augment=config.augment,
        augment_all=config.augment_all,
        unlabelled=has_boxes or config.unlabelled == "keep",
        objects=object_options(config, pixels),
        classed=config.image_class_rule(has_boxes=has_boxes) is not None,
        feature_set=config.feature_set,
        masks=masks,
    )
    return DataType(
        name="images",
        source=masked(config, joined, inputs=inputs, limits=options),
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
    )


def _with_annotations(config: ImagesConfig, source: Source, masks: MaskOptions | None) -> Source:
    """Return a source of the same images with their annotations. masks: those of records."""
    if not isinstance(source, TfrecordMedia) or source.pixels is None:
        return annotated(config, source, image_ids=config.feature_set != "standard")
    # Imported here: only TFRecords with annotations need it.
    from recordmill.transforms.sources.tfrecords.annotated_records import AnnotatedRecords

    pixels = source.pixels
    is_foreign = pixels.class_mask is not None and pixels.mask_depth is None
    return AnnotatedRecords(
        files=source,
        pixels=pixels,
        rules=config.object_rules(read_labels(config.labels_file)),
        unmasked=config.unmasked,
        masks=masks if is_foreign else None,
        limits=config.image_options().of_masks,
    )


if __name__ == "__main__":
    from recordmill.pipelines.cli import run_process

    run_process(["images", *sys.argv[1:]])
