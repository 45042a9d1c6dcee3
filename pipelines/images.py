"""Pictures to a balanced, shuffled, verified TFRecord dataset.

    python -m recordmill images --input=photos/ --output=out/ --size=224 --balance=oversample

The input is a folder of `class/...` or `split/class/...` or of pictures without labels, a pattern,
a single picture, or a CSV, JSONL or Parquet listing that names files. `recordmill images` is the
same command.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.pipelines.options import values
from recordmill.pipelines.options.annotations import AnnotationsConfig, annotated, object_options
from recordmill.pipelines.options.declaration import Group, option
from recordmill.pipelines.options.file_inputs import FilesConfig, files_of
from recordmill.transforms.encoders.images import HeaderCheck, ImageEncoder, PictureHeaders
from recordmill.transforms.imaging.augment import AUGMENTATIONS
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.sources.files.folders import NOT_PICTURES

PICTURES = Group(30, "Pictures")
_DEFAULT = ImageOptions()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImagesConfig(AnnotationsConfig, FilesConfig):
    """The options of `recordmill images`."""

    size: tuple[int, int] | None = option(
        None,
        group=PICTURES,
        shapes_bytes=True,
        parse=values.size,
        show=values.show_size,
        metavar="N|HxW",
        help="Height and width in pixels. Default: every picture keeps its own.",
    )
    resize_mode: Literal["crop", "pad", "stretch", "fit", "none"] = option(
        "crop",
        group=PICTURES,
        shapes_bytes=True,
        help="How a picture gets to --size: crop covers it and cuts the rest off; pad fits into it"
        " and fills up with --background; stretch ignores proportions; fit shrinks until it fits"
        " inside; none keeps the size, and the original bytes where they comply.",
    )
    mode: Literal["rgb", "gray", "rgba"] = option(
        "rgb", group=PICTURES, shapes_bytes=True, help="The channels."
    )
    background: tuple[int, int, int] = option(
        _DEFAULT.background,
        group=PICTURES,
        shapes_bytes=True,
        parse=values.colour,
        show=values.show_colour,
        metavar="R,G,B",
        help="What shows through transparent pixels, and fills up for pad.",
    )
    image_format: Literal["jpeg", "png", "raw"] = option(
        "jpeg",
        group=PICTURES,
        shapes_bytes=True,
        help="How pixels are stored; raw is the array itself, for tf.io.decode_raw.",
    )
    quality: int = option(
        _DEFAULT.quality, group=PICTURES, shapes_bytes=True, help="Of JPEG, 1 to 95."
    )
    normalize: Literal["none", "unit", "signed", "imagenet"] = option(
        "none",
        group=PICTURES,
        shapes_bytes=True,
        help="Raw pixels as float32: unit [0, 1], signed [-1, 1], imagenet by its mean and"
        " deviation; none is uint8.",
    )
    one_hot_label: bool = option(
        False, group=PICTURES, shapes_bytes=True, help="Add the label as float32 per class."
    )
    max_pixels: int = option(
        _DEFAULT.max_pixels,
        group=PICTURES,
        shapes_bytes=True,
        help="Reject pictures of more, by their header, before memory is spent on them.",
    )
    min_size: int = option(
        _DEFAULT.min_size,
        group=PICTURES,
        shapes_bytes=True,
        metavar="PIXELS",
        help="Leave out pictures whose shortest side is less.",
    )
    augment: tuple[str, ...] = option(
        (),
        group=PICTURES,
        shapes_bytes=True,
        parse=values.some_of(*AUGMENTATIONS),
        repeat=True,
        metavar="NAME,...",
        help=f"Vary the oversampled copies: {', '.join(AUGMENTATIONS)}.",
    )
    augment_all: bool = option(
        False, group=PICTURES, shapes_bytes=True, help="Augment every record of train."
    )
    probe: Literal["auto", "header", "none"] = option(
        "auto",
        group=PICTURES,
        shapes_bytes=True,
        help="Read every header before planning, so that bad pictures cannot unbalance the classes;"
        " auto does with --balance oversample or undersample.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.image_options()
        if self.augment_all and not self.augment:
            raise ConfigError("--augment-all: says nothing without --augment; name what to vary")
        if self.augment and not self.augment_all and self.balance != "oversample":
            raise ConfigError(
                "--augment varies oversampled copies, and there are none: add --balance oversample,"
                " or --augment-all for every record of train"
            )

    def image_options(self) -> ImageOptions:
        """How pictures shall come out."""
        names = [field.name for field in dataclasses.fields(ImageOptions)]
        return ImageOptions(**{name: getattr(self, name) for name in names})


def kind(config: ImagesConfig) -> DataType:
    """What pictures put on the road."""
    source = files_of(config, leave_out=NOT_PICTURES, unlabelled=config.listed_unlabelled)
    options = config.image_options()
    balanced = config.balance in ("oversample", "undersample")
    probe = config.probe == "header" or (config.probe == "auto" and balanced)
    return DataType(
        name="images",
        source=annotated(config, source) if config.annotations else source,
        encoder=ImageEncoder(
            options=options,
            one_hot_label=config.one_hot_label,
            augment=config.augment,
            augment_all=config.augment_all,
            unlabelled=config.listed_unlabelled == "keep",
            objects=object_options(config),
            classed=config.class_of_pictures is not None,
        ),
        check=HeaderCheck(options=options) if probe else None,
        headers=PictureHeaders(options=options),
    )


if __name__ == "__main__":
    from recordmill.pipelines.cli import main

    sys.exit(main(["images", *sys.argv[1:]]))
