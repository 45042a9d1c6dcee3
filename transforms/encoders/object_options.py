"""Options for boxes and captions of images."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Literal

from recordmill.option_checks import Between, check_options
from recordmill.options.declaration import option
from recordmill.transforms.imaging.mask_options import Frame

BoxPolicy = Literal["clip", "drop", "reject"]
Captions = Literal["all", "first"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObjectOptions:
    """Policies for boxes and captions. The `help` of each option describes it.

    With `boxes` reject, boxes that only augmentation moved across the edge are clipped.

    Attributes:
      fractions: Whether corners are fractions of the sides instead of pixels.
      polygon_fractions: The same for the points of polygons.

    Raises:
      ConfigError: A value is invalid.
    """

    boxes: BoxPolicy = option(
        "clip",
        help="Boxes that cross the edge of the written image: clip cuts the box at the edge, drop"
        " drops the box, reject rejects the image.",
    )
    min_box: Annotated[float, Between(0, math.inf)] = option(
        0.0,
        metavar="PIXELS",
        help="Drop boxes whose shorter side in the written image is below this; with --boxes"
        " reject, reject the image.",
    )
    without_boxes: Literal["keep", "drop"] = option(
        "keep", help="Keep or drop images without boxes, or whose boxes were all dropped."
    )
    box_frame: Frame = option(
        "auto",
        help="Coordinates of boxes in images that EXIF rotates: those of the stored image, or of"
        " the upright one. auto compares with the image size in the annotations, and rejects images"
        " where both fit.",
    )
    fractions: bool = False
    polygon_fractions: bool = False
    captions: Captions = option(
        "all", after="instance_masks", help="Captions to write for each image."
    )
    segmentation: bool = option(
        True, help="Drop COCO's polygons and masks, which are otherwise written as they are."
    )
    masks: bool = option(
        False,
        name="instance_masks",
        help="Draw polygons, and COCO's masks: for each object a PNG of the size of the image.",
    )

    def __post_init__(self) -> None:
        check_options(self)
