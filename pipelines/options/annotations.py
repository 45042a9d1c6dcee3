"""The options of annotations: where they are, and what becomes of boxes and captions."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.pipelines.options import values
from recordmill.pipelines.options.config import CommonConfig
from recordmill.pipelines.options.declaration import Group, option, options_of
from recordmill.pipelines.options.labels_file import read_labels
from recordmill.storage.files import Location
from recordmill.transforms.encoders.objects import ObjectOptions
from recordmill.transforms.model.data_type import Source
from recordmill.transforms.model.label_sets import PictureClass
from recordmill.transforms.sources.annotations.annotated_files import AnnotatedFiles
from recordmill.transforms.sources.annotations.annotation_reader import Annotations

ANNOTATIONS = Group(35, "Boxes and captions")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotationsConfig(CommonConfig):
    """What is known of the objects in pictures."""

    annotations: tuple[str, ...] = option(
        (),
        group=ANNOTATIONS,
        parse=values.ordered_names,
        repeat=True,
        metavar="WHERE,...",
        help="Boxes or captions: JSON files of COCO, a folder of Pascal VOC's XML or of YOLO's txt"
        " files, or a CSV file of boxes.",
    )
    annotation_format: Literal["auto", "coco", "voc", "yolo", "csv"] = option(
        "auto",
        group=ANNOTATIONS,
        shapes_bytes=True,
        help="What --annotations are; auto tells by their names.",
    )
    box_units: Literal["pixels", "fractions"] = option(
        "pixels",
        group=ANNOTATIONS,
        shapes_bytes=True,
        help="What the corners in a CSV file are: fractions are of width and height.",
    )
    boxes: Literal["clip", "drop", "reject"] = option(
        "clip",
        group=ANNOTATIONS,
        shapes_bytes=True,
        help="What becomes of a box that reaches over the edge of the picture as it is written:"
        " clip leaves what is inside, drop leaves the box out, reject rejects the picture.",
    )
    min_box: float = option(
        0.0,
        group=ANNOTATIONS,
        shapes_bytes=True,
        metavar="PIXELS",
        help="Drop boxes whose shortest side is less on the picture as it is written; with --boxes"
        " reject, reject the picture.",
    )
    without_boxes: Literal["keep", "drop"] = option(
        "keep",
        group=ANNOTATIONS,
        shapes_bytes=True,
        help="What becomes of pictures that have no box, or none left.",
    )
    unannotated: Literal["reject", "keep", "drop"] = option(
        "reject",
        group=ANNOTATIONS,
        shapes_bytes=True,
        help="What becomes of pictures that --annotations say nothing of.",
    )
    box_frame: Literal["auto", "stored", "upright"] = option(
        "auto",
        group=ANNOTATIONS,
        shapes_bytes=True,
        help="Which picture boxes are drawn on, where EXIF turns it: as it is stored, or upright;"
        " auto tells by the size that the annotations say, and rejects those that fit both ways.",
    )
    picture_class: Literal["auto", "none", "rarest", "largest"] = option(
        "auto",
        group=ANNOTATIONS,
        shapes_bytes=True,
        help="The class of a picture that holds several: rarest is that which the fewest pictures"
        " hold, largest that of the largest box; auto is rarest with --balance, else none.",
    )
    segmentation: bool = option(
        True,
        group=ANNOTATIONS,
        shapes_bytes=True,
        help="Leave out the polygons and masks of COCO, which are kept as given.",
    )
    captions: Literal["all", "first"] = option(
        "all", group=ANNOTATIONS, shapes_bytes=True, help="Which of a picture's captions it has."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.annotations:
            for name, one in options_of(AnnotationsConfig).items():
                if one.group == ANNOTATIONS and getattr(self, name) != one.default:
                    raise ConfigError(f"--{one.key}: says nothing without --annotations")
        elif self.label_column is not None:
            raise ConfigError(
                "--label-column: with --annotations classes are those of the boxes: leave it out"
            )
        self.object_options()

    @property
    def listed_unlabelled(self) -> Literal["reject", "keep"]:
        """What becomes of files without a class of their own."""
        return "keep" if self.annotations else self.unlabelled

    @property
    def class_of_pictures(self) -> PictureClass | None:
        """Which of its classes a picture counts as."""
        if not self.annotations or self.picture_class == "none":
            return None
        if self.picture_class == "auto":
            return "rarest" if self.balance != "none" else None
        return self.picture_class

    def object_options(self) -> ObjectOptions:
        """What becomes of boxes. Raises ConfigError."""
        return ObjectOptions(
            boxes=self.boxes,
            min_box=self.min_box,
            without_boxes=self.without_boxes,
            box_frame=self.box_frame,
            captions=self.captions,
        )


def object_options(config: AnnotationsConfig) -> ObjectOptions | None:
    """What becomes of boxes; None without annotations.

    Raises ConfigError where it cannot be told what these are.
    """
    if not config.annotations:
        return None
    return dataclasses.replace(config.object_options(), fractions=_book(config).has_fractions)


def annotated(config: AnnotationsConfig, files: Source) -> AnnotatedFiles:
    """The files of a source, with their annotations. Raises ConfigError."""
    book = _book(config)
    return AnnotatedFiles(
        files=files,
        open_book=book,
        where=", ".join(place.name for place in book.places),
        unannotated=config.unannotated,
        without_boxes=config.without_boxes,
        classes=book.classes,
        picture_class=config.class_of_pictures,
        with_classes=config.repeat_threshold is not None,
        stratum_size=_stratum_size(config) if config.stratify else None,
    )


def _book(config: AnnotationsConfig) -> Annotations:
    return Annotations(
        places=tuple(map(_place, config.annotations)),
        format=config.annotation_format,
        segmentation=config.segmentation,
        units=config.box_units,
        classes=read_labels(config.labels_file),
    )


def _place(where: str) -> Location:
    try:
        return Location.parse(where)
    except ConfigError as error:
        raise ConfigError(f"--annotations: {error}") from error


def _stratum_size(config: AnnotationsConfig) -> int:
    """Pictures that a stratum has to have, so that some are in every split."""
    return max(len(config.splits), math.ceil(1 / min(config.splits.values())))
