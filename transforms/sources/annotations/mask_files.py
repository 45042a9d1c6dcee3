"""Masks of class ids: folders of files with the names of the images."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow as pa

from recordmill.errors import ConfigError, Reason, RecordError, Reject
from recordmill.notes import count_of
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.storage.input_files import read_file
from recordmill.transforms.imaging.class_masks import stored_mask
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.mask_options import MaskOptions
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import MASK_COLUMNS
from recordmill.transforms.sources.annotations.formats.annotation_table import AnnotationTable
from recordmill.transforms.sources.annotations.mask_sample import check_mask_sample
from recordmill.transforms.sources.files.input_paths import InputPath, Inputs
from recordmill.transforms.sources.files.inputs import InputRoot, find_roots
from recordmill.transforms.sources.files.other_kinds import archive_stem, is_archive
from recordmill.transforms.sources.files.skipped_names import skipped_among_media
from recordmill.transforms.sources.files.walks import File, find_folders, walk
from recordmill.transforms.sources.folders.companions import MASK_SUFFIXES
from recordmill.transforms.sources.folders.folders import NOT_IMAGES, FileTree, may_be
from recordmill.transforms.sources.folders.path_matcher import replace_affixes
from recordmill.transforms.sources.folders.role_folders import (
    folder_of_masks,
    is_image_folder,
    path_of_image,
)

_COLOUR_FILES = ("labelmap.txt", "label_colors.txt")  # of CVAT, for Pascal VOC and CamVid
_REFERENCE = (batch.PATH, batch.SIZE, batch.MTIME)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskFolders:
    """Locations of masks; calling it lists them.

    Attributes:
      places: Folders, patterns of folders, or archives.
      suffix: Text that masks have after the stem of their image, or "END=SUFFIX" if it replaces the
        end of that stem; each may be "PREFIX*SUFFIX". Commas separate several. None: no suffix, or
        a usual one that all masks have.
      options: Options for decoding the masks, of which a sample is checked.
      limits: Options with `max_pixels`.
      searched: Places that also hold images. Only folders in them with a usual name for masks are
        read.
      among_images: Whether masks may be in the folders of the images.
      is_input: Whether the only place is the only input: then masks and images have the same keys.
      colours_from: File beside the masks with the classes of their colours, if no option gives it.
    """

    places: tuple[Location, ...]
    suffix: str | None
    options: MaskOptions
    limits: ImageOptions
    searched: tuple[Location, ...] = ()
    among_images: bool = False
    is_input: bool = False
    colours_from: str | None = None

    @property
    def where(self) -> str:
        """Names of the places, for messages."""
        return ", ".join(place.name for place in self.places)

    def __call__(self) -> AnnotationTable:
        """List the masks.

        Raises:
          ConfigError: there are none, most images have two, or the options do not fit them.
        """
        places = [one for place in self.places for one in _matching(place)]
        inputs = Inputs(paths=tuple(InputPath(str(one)) for one in places), split_from="none")
        tree = FileTree(
            input=inputs,
            unlabelled="keep",
            leave_out=NOT_IMAGES,
            labelled=False,
        )
        rejects: list[Reject] = []
        keys: list[str] = []
        parts: list[pa.RecordBatch] = []
        try:
            roots = find_roots(inputs, archives=True)
            for part in tree.scan():
                rejects += part.rejects
                if part.rows is not None:
                    keys += part.rows[batch.KEY].to_pylist()
                    parts.append(part.rows.select(_REFERENCE))
        except ConfigError as error:
            raise ConfigError(f"{option_name('masks')}: {error}") from error
        columns = pa.Table.from_batches(parts).combine_chunks().to_batches()
        references = pa.record_batch(columns[0].columns, schema=MASK_COLUMNS)
        named = [(n, name) for n, key in enumerate(keys) if (name := self._name(key, roots))]
        if not named:
            (place, *_) = self.searched
            raise ConfigError(
                f"{option_name('masks', place)} holds the images, too, and no folder in it has a"
                " usual name for masks, such as masks, labels or trainannot: name the folders of"
                f" the masks, as in {option_name('masks')} '{place}/*/NAME', or, if masks are"
                f" beside their images and have a suffix, add {option_name('mask_suffix')}"
            )
        empty = {
            name: reject
            for reject in rejects
            if reject.reason == Reason.EMPTY and (name := self._name(reject.key, roots))
        }
        if self.suffix is not None:  # other files in the folders are not masks
            empty = {name: reject for name, reject in empty.items() if self._has_suffix(name)}
            named = [(n, name) for n, name in named if self._has_suffix(name)]
            if not named:
                raise ConfigError(
                    f"{option_name('mask_suffix', self.suffix)}: no name in {self._given} has it"
                    f" before the extension; names are such as {keys[0]!r}; a prefix is given as"
                    f" {option_name('mask_suffix')} 'PREFIX*'"
                )
        keys = [keys[n] for n, _ in named]
        references = references.take(pa.array([n for n, _ in named], pa.int64()))
        own_keys, own_paths = frozenset(keys), references[0]
        first, faults = self._one_each([name for _, name in named], keys)
        names, keys = [named[n][1] for n in first], [keys[n] for n in first]
        references = references.take(pa.array(first, pa.int64()))
        checked = check_mask_sample(keys, references, self.options, self.limits, where=self.where)
        # An empty mask file rejects its image; otherwise the image would be reported as having no
        # mask.
        empty = {name: reject for name, reject in empty.items() if name not in {*names}}
        rejects = [one for one in rejects if one not in empty.values()]
        for name, reject in empty.items():
            faults[len(names)] = f"its mask {reject.key!r} is {reject.detail}"
            names.append(name)
        nothing = pa.RecordBatch.from_pylist([{}] * len(empty), schema=MASK_COLUMNS)
        references = batch.concat([references, nothing])
        suffixes, notes = self._suffixes(names)
        if self.colours_from is not None:
            notes = (*notes, f"{self.colours_from} gives the colours and names of their classes")
        tops = {name.partition("/")[0] if "/" in name else "" for name in names}
        alone = len(tops) == len(roots) == 1 and not self.among_images and not self.searched
        folder = (tops.pop() or None) if alone else None
        usual = folder is not None and folder_of_masks(folder) == ""
        plain = [path_of_image(name) or name for name in names]
        if plain == names or len({*plain}) < len(names):
            plain = []
        return AnnotationTable(
            names=names,
            table=references,
            faults=faults,
            rejects=[self._of_mask(reject) for reject in rejects],
            suffixes=suffixes,
            folder=folder,
            plain_names=plain,
            folder_is_known=usual or folder == archive_stem(places[0].name),
            paths=own_paths if self.among_images else None,
            keys=own_keys if self.is_input else (),
            beside_images=bool(self.searched) or len(roots) > 1,
            notes=(*notes, *checked),
        )

    @property
    def _given_suffixes(self) -> Sequence[tuple[str, str]]:
        """Pairs of affixes of an image and of its mask, as `AnnotationReader.suffixes`."""
        parts = (one.rpartition("=") for one in (self.suffix or "").split(","))
        return [(old, new) for old, _, new in parts]

    def _has_suffix(self, name: str) -> bool:
        """Return whether a mask has one of the given suffixes."""
        return any(replace_affixes(name, one, "") is not None for _, one in self._given_suffixes)

    @property
    def _given(self) -> str:
        return ",".join(map(str, self.places))

    def _of_mask(self, reject: Reject) -> Reject:
        where = f"{self.where}/" if len(self.places) == 1 else ""
        return dataclasses.replace(reject, key=f"{where}{reject.key}")

    def _name(self, key: str, roots: Sequence[InputRoot]) -> str | None:
        """Return the end of the path of a mask's image; None if the file is not in such a folder.

        Several places differ in the names of folders, as in `train/masks` and `test/masks`. The
        paths of images have the same names, except the usual name for masks.
        """
        stem = _stem(key)
        root = next(root for root in roots if key.startswith(root.prefix))
        if root.place in self.searched:
            return path_of_image(stem)
        if not root.prefix:
            return stem
        *around, own = root.prefix.rstrip("/").split("/")
        folders = [*around, folder_of_masks(own) or ""]
        return "/".join([*filter(None, folders), stem[len(root.prefix) :]])

    def _suffixes(self, names: Sequence[str]) -> tuple[Sequence[tuple[str, str]], Sequence[str]]:
        if self.suffix is not None:
            return self._given_suffixes, ()
        common = [one for one in MASK_SUFFIXES if all(name.endswith(one) for name in names)]
        if not common:
            return (("", ""),), ()
        note = (
            f"the names of {count_of(len(names), 'mask')} end in {common[0]!r}, which is"
            " removed to find their images"
        )
        return (("", ""), ("", common[0])), (note,)

    def _one_each(
        self, names: Sequence[str], keys: Sequence[str]
    ) -> tuple[list[int], dict[int, str]]:
        """Return the first mask of each name, by its index, and {row of these: problem}.

        Raises:
          ConfigError: Most images have two masks.
        """
        rows: dict[str, int] = {}
        first: list[int] = []
        faults: dict[int, str] = {}
        for n, name in enumerate(names):
            row = rows.setdefault(name, len(first))
            if row == len(first):
                first.append(n)
            else:
                both = f"{keys[first[row]]!r} and {keys[n]!r} may both be the mask of {name!r}"
                faults.setdefault(row, f"{both}: remove one of them")
        if len(faults) * 2 > len(first):
            raise ConfigError(
                f"{option_name('masks', self._given)}: {len(faults):,} of {len(first):,} images"
                f" have two masks: {faults[min(faults)].partition(':')[0]}: pass folders that hold"
                f" one mask of each image, or the end of its name as {option_name('mask_suffix')}"
            )
        return first, faults


def _matching(place: Location) -> list[Location]:
    """Return the places of masks that a place or a pattern stands for. Raises ConfigError."""
    found = find_folders(place)
    if not found:
        raise ConfigError(f"{option_name('masks')}: no folder matches {place}: check the pattern")
    for one in found:
        if not one.exists():
            raise ConfigError(f"{option_name('masks')}: {one} does not exist: check the path")
        if not one.is_dir() and not is_archive(one.name):
            raise ConfigError(f"{option_name('masks')}: expected a folder or an archive, got {one}")
    return found


def find_colours(places: Sequence[Location], searched: Sequence[Location]) -> Location | None:
    """Return CVAT's file of the classes of colours, in the folder of masks or the one above.

    Args:
      places: Places of masks, as in `MaskFolders`.
      searched: Those that also hold images.

    Returns:
      None without such a file, or if the first mask holds no colours.
    """
    for place in (one for given in places for one in find_folders(given) if one.is_dir()):
        files = (folder / name for folder in (place, place.parent) for name in _COLOUR_FILES)
        found = next((one for one in files if one.exists()), None)
        if found is not None:
            return found if _holds_colours(place, searched=place in searched) else None
    return None


def _holds_colours(place: Location, *, searched: bool) -> bool:
    """Return whether the first valid mask of a folder holds colours. searched: as `searched`."""

    def enter(key: str) -> bool:
        return not (searched and is_image_folder(key.rpartition("/")[2]))

    limits = ImageOptions().of_masks
    for item in walk(place, skipped_among_media, depth=1, enter=enter):
        if not isinstance(item, File) or not may_be(item.key, NOT_IMAGES):
            continue
        if not searched or path_of_image(item.key) is not None:
            try:
                content = read_file(item.path, size=item.size, mtime=item.mtime)
                return stored_mask(content, limits) is None
            except RecordError:
                continue
    return False


def _stem(key: str) -> str:
    folder, slash, name = key.rpartition("/")
    stem, dot, _ = name.rpartition(".")
    return f"{folder}{slash}{stem if stem and dot else name}"
