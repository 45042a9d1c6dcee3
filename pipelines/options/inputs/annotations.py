"""The options for annotations: location, format, and the handling of boxes and captions."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, ClassVar, Literal

from recordmill.errors import ConfigError
from recordmill.options import values
from recordmill.options.declaration import (
    Group,
    GroupValues,
    option,
    option_group,
    value_of,
)
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.pipelines.options.common.labels_file import read_labels
from recordmill.storage.files import Location
from recordmill.transforms.encoders.object_options import ObjectOptions
from recordmill.transforms.model.label_sets import ImageClass
from recordmill.transforms.model.source import Source
from recordmill.transforms.sources.annotations.object_labels import ObjectRules
from recordmill.transforms.sources.files.input_paths import LABEL_FILE

if TYPE_CHECKING:
    from recordmill.transforms.sources.annotations.annotation_reader import Annotations
    from recordmill.transforms.sources.annotations.formats.caption_files import CaptionFiles
    from recordmill.transforms.sources.tfrecords.pixel_features import PixelFeatures

ANNOTATIONS = Group(35, "Boxes and captions", shapes_bytes=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotationsConfig(CommonConfig):
    """Options for boxes and captions of images."""

    HEADING: ClassVar[Group] = ANNOTATIONS

    annotations: tuple[str, ...] = option(
        (),
        shapes_bytes=False,
        parse=values.ordered_names,
        repeat=True,
        metavar="PATH,...",
        help="Boxes or captions: files of COCO, CVAT or the Hugging Face hub, or a folder of them;"
        " a folder of Pascal VOC, YOLO, DOTA or LabelMe; or a table of boxes or captions.",
    )
    annotation_format: Literal[
        "auto", "coco", "voc", "yolo", "labelme", "flags", "dota", "cvat", "hub", "csv", "captions"
    ] = option(
        "auto",
        help="Format of --annotations; auto detects it from the file names and the beginning of the"
        " files.",
    )
    captions_from: str | None = option(
        None,
        metavar=".EXT|.json:FIELD",
        help="Captions in files with the names of the images, beside them (also in WebDataset"
        " shards) or in captions/ beside images/: the lines of .txt, or a field of .json with a"
        " text or a list.",
    )
    box_units: Literal["pixels", "fractions"] = option(
        "pixels",
        help="Units of the corners in a CSV file; fractions are of the image's width and height.",
    )
    objects: GroupValues[ObjectOptions] = option_group(ObjectOptions, group=ANNOTATIONS)
    unannotated: Literal["reject", "keep", "drop"] = option(
        "reject",
        after="without_boxes",
        help="Reject, keep or drop images without annotations, or without a file of"
        " --captions-from.",
    )
    absent_images: Literal["reject", "drop"] = option(
        "reject",
        after="unannotated",
        help="Reject or drop annotations of images that are not in the input.",
    )
    image_class: Literal["auto", "none", "rarest", "largest"] = option(
        "auto",
        after="box_frame",
        help="Class of an image whose boxes have several classes: rarest is the class that occurs"
        " in the fewest images, largest the class of the largest box; auto is rarest with"
        " --balance, else none.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.objects.make()
        self._caption_files()

    def _caption_files(self) -> tuple[str, str | None] | None:
        """Return the extension and the field of --captions-from. Raises ConfigError."""
        if self.captions_from is None:
            return None
        found = LABEL_FILE.fullmatch(self.captions_from)
        if found is None or self.captions_from.lower() == ".json":
            raise ConfigError(
                "--captions-from: expected the extension of files, as in .txt, or of files of JSON"
                f" and a field, as in .json:caption, got {self.captions_from!r}"
            )
        return found[1].lower(), found[2]

    def caption_files(self) -> CaptionFiles | None:
        """Return the files of --captions-from; None without them. Raises ConfigError."""
        found = self._caption_files()
        if found is None:
            return None
        from recordmill.transforms.sources.annotations.formats.caption_files import CaptionFiles

        optional = self.unannotated == "keep"
        return CaptionFiles(
            inputs=self.inputs, extension=found[0], field=found[1], optional=optional
        )

    def image_class_rule(self, *, has_boxes: bool) -> ImageClass | None:
        """Return the rule for the class of an image with several classes, or None for no class."""
        if not has_boxes or self.image_class == "none":
            return None
        if self.image_class == "auto":
            return "rarest" if self.balance != "none" else None
        return self.image_class

    def object_rules(self, classes: tuple[str, ...] | None) -> ObjectRules:
        """Return the rules for images with objects. classes: those allowed; None allows all."""
        return ObjectRules(
            without_boxes=self.objects["without_boxes"],
            classes=classes,
            image_class=self.image_class_rule(has_boxes=True),
            with_classes=self.repeat_threshold is not None,
            stratum_size=_stratum_size(self) if self.stratify else None,
            labels=self.label_rules(),
        )


def object_options(
    config: AnnotationsConfig, pixels: PixelFeatures | None, *, of_tables: bool = False
) -> ObjectOptions | None:
    """Return the handling of boxes; None without any.

    pixels: the features of TFRecords that hold boxes. of_tables: whether tables hold boxes.

    Raises:
      ConfigError: the format of the annotations is unknown.
    """
    if pixels is not None and pixels.has_objects:
        masks = config.objects["instance_masks"] or pixels.object_masks is not None
        return config.objects.make(fractions=True, masks=masks)
    if of_tables:
        return config.objects.make()
    if not config.annotations:
        return config.objects.make() if config.captions_from is not None else None
    reader = _reader(config)
    if config.objects["instance_masks"] and not reader.has_polygons:
        raise ConfigError(
            f"--instance-masks: needs polygons or masks, as in COCO, and {reader.resolved_format}"
            " has none: leave the option out"
        )
    return config.objects.make(
        fractions=reader.has_fractions, polygon_fractions=reader.polygon_fractions
    )


def gives_captions(config: AnnotationsConfig) -> bool:
    """Return whether --annotations are a table of captions. Raises ConfigError."""
    return bool(config.annotations) and _reader(config).resolved_format == "captions"


def gives_classes(config: AnnotationsConfig) -> bool:
    """Return whether --annotations are the classes of images. Raises ConfigError."""
    if not config.annotations or _reader(config).resolved_format != "flags":
        return False
    if config.image_class not in ("auto", "none"):
        raise ConfigError(
            f"--image-class {config.image_class}: needs boxes, and --annotations of the format"
            " flags have none: leave the option out"
        )
    return True


def annotated(config: AnnotationsConfig, files: Source, *, image_ids: bool) -> Source:
    """Return a source of the same files with their annotations; unchanged without annotations.

    image_ids: whether to keep the numbers of images in the annotations.

    Raises:
      ConfigError: a location of annotations is invalid.
    """
    captions = config.caption_files()
    if not config.annotations and captions is None:
        return files
    # Imported here, as in `_reader`: only inputs with --annotations need these modules.
    from recordmill.transforms.sources.annotations.annotated_files import AnnotatedFiles, Wording

    if captions is not None:
        return AnnotatedFiles(
            files=files,
            open_annotations=captions,
            where=captions.where,
            wording=Wording(
                option="--captions-from",
                noun="captions",
                parts="captions",
                remedy="; a folder of captions beside that of the images needs a name such as"
                " captions or texts",
            ),
            unannotated=config.unannotated,
            absent="drop",
        )
    reader = dataclasses.replace(_reader(config), image_ids=image_ids)
    if gives_classes(config):
        return AnnotatedFiles(
            files=files,
            open_annotations=reader,
            where=reader.where,
            wording=Wording(noun="true flags", parts="class"),
            unannotated=config.unannotated,
            absent=config.absent_images,
        )
    return AnnotatedFiles(
        files=files,
        open_annotations=reader,
        where=reader.where,
        unannotated=config.unannotated,
        absent=config.absent_images,
        rules=config.object_rules(reader.classes),
        splits_given=value_of(config, "split_from", "auto") != "auto",
    )


def _reader(config: AnnotationsConfig) -> Annotations:
    from recordmill.transforms.sources.annotations.annotation_reader import Annotations

    return Annotations(
        places=tuple(map(_place, config.annotations)),
        format=config.annotation_format,
        segmentation=config.objects["segmentation"] or config.objects["instance_masks"],
        units=config.box_units,
        decimal=value_of(config, "decimal", "."),
        classes=read_labels(config.labels_file),
        polygons=config.objects["instance_masks"],
    )


def _place(where: str) -> Location:
    try:
        return Location.parse(where)
    except ConfigError as error:
        raise ConfigError(f"--annotations: {error}") from error


def _stratum_size(config: AnnotationsConfig) -> int:
    """Return the minimum number of images of a stratum, so that every split gets one."""
    return max(len(config.fractions), math.ceil(1 / min(config.fractions.values())))
