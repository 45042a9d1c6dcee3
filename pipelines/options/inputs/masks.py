"""The options for masks of class ids: location, names, and meaning of their pixels."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from recordmill.errors import ConfigError
from recordmill.option_files import read_names, read_option_file
from recordmill.options.declaration import Group, GroupValues, option, option_group
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.storage.files import Location
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.mask_colours import MaskColours, parse_colours
from recordmill.transforms.imaging.mask_options import MaskOptions
from recordmill.transforms.model.source import Source

if TYPE_CHECKING:
    from recordmill.transforms.sources.tfrecords.pixel_features import PixelFeatures

MASKS = Group(37, "Masks", shapes_bytes=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MasksConfig(CommonConfig):
    """Options for masks of class ids."""

    HEADING: ClassVar[Group] = MASKS

    masks: str | None = option(
        None,
        shapes_bytes=False,
        metavar="FOLDER",
        help="Masks of class ids, one per image, with its relative path and name: PNG; also GIF,"
        " BMP, TIFF.",
    )
    mask_suffix: str | None = option(
        None,
        shapes_bytes=False,
        metavar="[END=]SUFFIX",
        help="End of the names of masks, such as _mask in 7_mask.png for 7.jpg; with END= also the"
        " end of the names of images that it replaces. Default: none, or a usual one that all masks"
        " have, with a note.",
    )
    mask_labels: str | None = option(
        None,
        shapes_bytes=False,
        metavar="FILE",
        help="Class names of the ids 0, 1, ..., one per line. Images with larger ids in their masks"
        " are rejected.",
    )
    mask_colours: str | None = option(
        None,
        shapes_bytes=False,
        metavar="FILE",
        help="Colours of the classes in masks of colours: a line R G B NAME for the ids 0, 1, ...;"
        " the name ignore stands for --mask-ignore.",
    )
    mask: GroupValues[MaskOptions] = option_group(
        MaskOptions, group=MASKS, mask_values={"after": "mask_colours"}
    )
    unmasked: Literal["reject", "keep", "drop"] = option(
        "reject",
        help="Reject, keep or drop images without a mask.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._options(colours=() if self.mask_colours is not None else None)

    def _options(self, depth: int = 8, **more: Any) -> MaskOptions:
        depth = max(int(self.mask["mask_depth"]), depth)
        return self.mask.make(depth=depth, optional=self.unmasked == "keep", **more)

    def mask_options(self, pixels: PixelFeatures | None = None) -> MaskOptions | None:
        """Return how masks are read and written, None without masks.

        pixels: the features of TFRecords that hold masks.

        Raises:
          ConfigError: an option is invalid.
        """
        if self.masks is None and pixels is None:
            return None
        depth = (pixels.mask_depth if pixels is not None else None) or 8
        colours = self._colours()
        ids = None if colours is None else tuple(colours.ids(self._options(depth).ignored))
        return self._options(depth, colours=ids, classes=len(self.mask_names(pixels)) or None)

    def mask_names(self, pixels: PixelFeatures | None = None) -> tuple[str, ...]:
        """Return the class names of ids, empty if they have none.

        pixels: the features of TFRecords that hold masks.

        Raises:
          ConfigError: a file cannot be read, or has no valid names.
        """
        colours = self._colours()
        names = () if colours is None else colours.names
        if self.mask_labels is None:
            return names or (() if pixels is None else pixels.mask_names)
        if names:
            raise ConfigError(
                f"--mask-labels: {self.mask_colours!r} of --mask-colours names the classes: leave"
                " --mask-labels out"
            )
        names = read_names("--mask-labels", self.mask_labels)
        if not names:
            raise ConfigError(
                f"--mask-labels: expected a class name in each line of {self.mask_labels!r}, got an"
                " empty file"
            )
        return names

    def mask_shaping(self, pixels: PixelFeatures | None = None) -> dict[str, str]:
        """Return {option: hash} of the files that options for masks name.

        pixels: the features of TFRecords that hold masks.

        Raises:
          ConfigError: as `mask_names`.
        """
        colours = self._colours()
        found = {"mask_labels": "\n".join(self.mask_names(pixels))}
        if colours is not None:
            found["mask_colours"] = repr(colours)
        hashed = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in found.items()}
        return hashed if self.masks is not None or pixels is not None else {}

    def _colours(self) -> MaskColours | None:
        if self.mask_colours is None:
            return None
        try:
            return parse_colours(read_option_file("--mask-colours", self.mask_colours))
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(f"--mask-colours {self.mask_colours}: {error}") from error


def masked(
    config: MasksConfig, files: Source, *, inputs: Sequence[str], limits: ImageOptions
) -> Source:
    """Return a source of the same files with their masks; unchanged without masks.

    inputs: places of the images. limits: for `max_pixels`.

    Raises:
      ConfigError: the masks are among the images, and have no suffix.
    """
    options = config.mask_options()
    if config.masks is None or options is None:
        return files
    # Imported here: only inputs with --masks need these modules.
    from recordmill.transforms.sources.annotations.annotated_files import AnnotatedFiles, Wording
    from recordmill.transforms.sources.annotations.mask_files import MaskFolder

    try:
        place = Location.parse(config.masks)
    except ConfigError as error:
        raise ConfigError(f"--masks: {error}") from error
    around = [one for one in inputs if _is_in(place, Location.parse(one))]
    if around and config.mask_suffix is None:
        raise ConfigError(
            f"--masks {config.masks} is in --input {around[0]}, so masks would be taken for images:"
            " pass the folder of the images alone as --input, or, if masks are beside their images"
            " and have a suffix, --mask-suffix"
        )
    folder = MaskFolder(
        place=place,
        suffix=config.mask_suffix,
        options=options,
        limits=limits.of_masks,
        among_images=bool(around),
        is_input=[str(Location.parse(one)) for one in inputs] == [str(place)],
    )
    return AnnotatedFiles(
        files=files,
        open_annotations=folder,
        where=place.name,
        wording=Wording(
            option="--masks",
            keep="--unmasked",
            absent="",
            noun="masks",
            parts="mask",
            remedy="; if names of masks have a suffix, give it as --mask-suffix",
        ),
        unannotated=config.unmasked,
    )


def _is_in(place: Location, folder: Location) -> bool:
    return str(place) == str(folder) or str(place).startswith(f"{str(folder).rstrip('/')}/")
