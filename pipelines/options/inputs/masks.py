"""The options for masks of class ids: location, names, and meaning of their pixels."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from recordmill.errors import ConfigError
from recordmill.option_files import read_names, read_option_file
from recordmill.options import values
from recordmill.options.declaration import Group, GroupValues, option, option_group
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.storage.files import Location
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.mask_colours import MaskColours, parse_colours
from recordmill.transforms.imaging.mask_options import MaskOptions
from recordmill.transforms.model.source import Source
from recordmill.transforms.sources.files.walks import split_pattern
from recordmill.transforms.sources.folders.role_folders import folder_of_masks

if TYPE_CHECKING:
    from recordmill.transforms.sources.tfrecords.pixel_features import PixelFeatures

MASKS = Group(37, "Masks", shapes_bytes=True)


class MaskPlaces(NamedTuple):
    """Locations of masks, and their relation to the inputs.

    Attributes:
      places: Folders, patterns of folders, or archives.
      searched: Those that hold an input, or are one.
      inside: Names of folders of masks in the inputs, beside usual names; None if there are none.
      among_images: Whether masks may be in the folders of the images, by their suffix.
      is_input: Whether the only place is the only input.
    """

    places: tuple[Location, ...]
    searched: tuple[Location, ...]
    inside: tuple[str, ...] | None
    among_images: bool
    is_input: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class MasksConfig(CommonConfig):
    """Options for masks of class ids."""

    HEADING: ClassVar[Group] = MASKS

    masks: tuple[str, ...] = option(
        (),
        shapes_bytes=False,
        parse=values.each(str),
        repeat=True,
        metavar="FOLDER",
        help="Masks of class ids, with the names of the images: a folder, an archive or a pattern"
        " of folders, which may be the folder of --input. May be repeated.",
    )
    mask_suffix: str | None = option(
        None,
        shapes_bytes=False,
        metavar="[END=]SUFFIX,...",
        help="End of the names of masks, such as _mask in 7_mask.png for 7.jpg; with END= also the"
        " end of the names of images that it replaces; with * a prefix, as in mask_*. Default:"
        " none, or a usual one that all masks have, with a note.",
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
        if not self.masks and pixels is None:
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
        return hashed if self.masks or pixels is not None else {}

    def mask_places(self) -> MaskPlaces:
        """Return the locations of masks. Raises ConfigError if one is invalid."""
        try:
            places = tuple(map(Location.parse, self.masks))
        except ConfigError as error:
            raise ConfigError(f"--masks: {error}") from error
        inputs = [Location.parse(one.path) for one in self.input]
        roots = [(split_pattern(one) or [one])[0] for one in inputs] if places else []
        several = len(places) > 1 or any(split_pattern(one) for one in places)
        searched, inside, among = [], [], False
        for place in places:
            if not any(_is_in(place, root) or _is_in(root, place) for root in roots):
                continue
            if self.mask_suffix is None and any(_is_in(root, place) for root in roots):
                searched.append(place)
            elif several or self.mask_suffix is None or folder_of_masks(place.name) is not None:
                inside.append(place.name)
            else:
                among = among or any(_is_in(place, root) for root in roots)
        return MaskPlaces(
            places=places,
            searched=tuple(searched),
            inside=tuple(inside) if inside or searched else None,
            among_images=among,
            is_input=places == tuple(inputs),
        )

    @functools.cached_property
    def colours_beside(self) -> str | None:
        """Location of the colours beside masks of colours, if no option gives their meaning."""
        given = (self.mask_colours, self.mask_labels, self.mask["mask_values"])
        if not self.masks or any(one is not None for one in given):
            return None
        from recordmill.transforms.sources.annotations.mask_files import find_colours

        found = self.mask_places()
        place = find_colours(found.places, found.searched)
        return None if place is None else str(place)

    def _colours(self) -> MaskColours | None:
        path = self.mask_colours or self.colours_beside
        if path is None:
            return None
        try:
            return parse_colours(read_option_file("--mask-colours", path))
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(f"--mask-colours {path}: {error}") from error


def masked(config: MasksConfig, files: Source, *, limits: ImageOptions) -> Source:
    """Return a source of the same files with their masks; unchanged without masks.

    limits: for `max_pixels`.

    Raises:
      ConfigError: the location of the masks is invalid.
    """
    options = config.mask_options()
    if not config.masks or options is None:
        return files
    # Imported here: only inputs with --masks need these modules.
    from recordmill.transforms.sources.annotations.annotated_files import AnnotatedFiles, Wording
    from recordmill.transforms.sources.annotations.mask_files import MaskFolders

    found = config.mask_places()
    folders = MaskFolders(
        places=found.places,
        suffix=config.mask_suffix,
        options=options,
        limits=limits.of_masks,
        searched=found.searched,
        among_images=found.among_images,
        is_input=found.is_input,
        colours_from=config.colours_beside,
    )
    return AnnotatedFiles(
        files=files,
        open_annotations=folders,
        where=folders.where,
        wording=Wording(
            option="--masks",
            keep="--unmasked",
            absent="",
            noun="masks",
            parts="mask",
            affix="--mask-suffix",
        ),
        unannotated=config.unmasked,
    )


def _is_in(place: Location, folder: Location) -> bool:
    same_store = (place.root, place.query) == (folder.root, folder.query)
    return same_store and f"{place.path}/".startswith(f"{folder.path.rstrip('/')}/")
