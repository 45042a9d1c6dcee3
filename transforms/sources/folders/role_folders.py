"""Folders with usual names for images, or for masks or captions of the images in other folders.

images/train masks/train           a folder for each, with the same subfolders
images/train captions/train        the same for captions
train/images train/masks           the same in the folder of each split
train trainannot                   the name of the other folder, and a word for masks
train_images train_masks           the name of a split, and a word for each
JPEGImages SegmentationClass       Pascal VOC
leftImg8bit gtFine                 Cityscapes
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from recordmill.format.split_names import canonical_split

# In upper or lower case, also followed by a format, as in images_png. CVAT puts images without a
# split into `default`.
_FORMAT = r"([-_ ]?(png|jpe?g|tiff?|bmp))?"
_IMAGES = re.compile(
    rf"(((original|raw|source|input)[-_ ]?)?images?|imgs?|jpegimages|leftimg8bit|default){_FORMAT}",
    re.IGNORECASE,
)
# Folders of images with the name of a split: train_images, images-train.
_SPLIT_IMAGES = re.compile(
    rf"(?P<of>.+?)[-_ ]?(images?|imgs?){_FORMAT}|(images?|imgs?)[-_ ](?P<behind>.+)", re.IGNORECASE
)
_WORDS = (
    "annot(ation)?s?|((semantic|segmentation)[-_ ]?)?(masks?|labels?)|gt|gtfine|gtcoarse"
    "|ground[-_ ]?truths?"
    "|seg|segmentations?|segmentationclass(aug|raw)?|trimaps?"
    "|(1st|2nd)[-_ ]manual"  # of two readers, in DRIVE
)
# Ids of objects, not of classes.
_OBJECTS = re.compile(rf"segmentationobject{_FORMAT}", re.IGNORECASE)
_OF_VOC = re.compile(rf"segmentation(class|object){_FORMAT}", re.IGNORECASE)
_MASKS = re.compile(
    rf"(?P<of>.*?)[-_ ]?({_WORDS}){_FORMAT}|({_WORDS})[-_ ](?P<behind>.+)", re.IGNORECASE
)
_CAPTIONS = re.compile(
    r"(?P<of>.*?)[-_ ]?(captions?|texts?|txts?|prompts?|descriptions?|sentences?|transcripts?"
    r"|transcriptions?)([-_ ]?(c10|files?))?|(captions?|texts?)[-_ ](?P<behind>.+)",
    re.IGNORECASE,
)
# Pattern of paths in which a folder may hold masks; it also fits some other names.
FOLDERS_OF_MASKS = rf"(?i:(^|/)[^/]*({_WORDS}){_FORMAT}/|(^|/)({_WORDS})[-_ ][^/]+/)"


@functools.lru_cache(maxsize=1 << 10)
def is_image_folder(name: str) -> bool:
    """Return whether a folder has a usual name for images, such as `images`; it is not a class."""
    return _IMAGES.fullmatch(name) is not None


@functools.lru_cache(maxsize=1 << 10)
def folder_of_masks(name: str) -> str | None:
    """Return the folder to whose images a folder of masks belongs, by its name.

    This is `train` for `trainannot`, an empty text for `masks`, and None for a folder that does not
    have a usual name for masks.
    """
    return _folder_of(_MASKS.fullmatch(name))


@functools.lru_cache(maxsize=1 << 10)
def folder_of_captions(name: str) -> str | None:
    """Return the folder to whose images a folder of captions belongs, as `folder_of_masks`."""
    return _folder_of(_CAPTIONS.fullmatch(name))


def _folder_of(found: re.Match[str] | None) -> str | None:
    if found is None:
        return None
    of: str = found["of"] or found["behind"] or ""
    if not of or is_image_folder(of):
        return ""
    return of if canonical_split(of) is not None else None


def holds_no_images(name: str) -> bool:
    """Return whether a folder has a usual name for masks, of classes or of objects."""
    return folder_of_masks(name) is not None or _OBJECTS.fullmatch(name) is not None


def may_hold_captions(name: str) -> bool:
    """Return whether a folder has a usual name for captions, or for labels, which may be texts."""
    return folder_of_captions(name) is not None or folder_of_masks(name) is not None


def holds_masks_of_voc(name: str) -> bool:
    """Return whether a folder holds masks, which Pascal VOC has beside its boxes."""
    return _OF_VOC.fullmatch(name) is not None


def path_of_image(path: str) -> str | None:
    """Return the path of the image of a mask, without folders that name either.

    Args:
      path: Path of a mask, such as `train/masks/7` or `trainannot/7`, which are both `train/7`.

    Returns:
      None if no folder in the path has a usual name for masks.
    """
    *folders, name = path.split("/")
    found = [folder_of_masks(folder) for folder in folders]
    if not any(of is not None for of in found):
        return None
    kept = (folder if of is None else of for folder, of in zip(folders, found, strict=True))
    return "/".join([*filter(None, kept), name])


def images_beside_annotations(folders: Sequence[str], *, captioned: bool = False) -> str | None:
    """Return the name of the folder of images beside folders of masks, labels or annotations.

    Args:
      folders: Names of folders.
      captioned: Whether folders of captions count, too.

    Returns:
      None if there is no such folder, or several.
    """
    found = [name for name in folders if is_image_folder(name)]
    beside = any(holds_no_images(one) or (captioned and may_hold_captions(one)) for one in folders)
    return found[0] if len(found) == 1 and beside else None


def folder_of_images(path: str) -> str | None:
    """Return the outermost folder of a path that is named like `images`; None without."""
    *folders, _ = path.split("/")
    at = next((n for n, name in enumerate(folders, 1) if is_image_folder(name)), None)
    return None if at is None else "/".join(folders[:at])


def without_image_folders(path: str) -> str:
    """Return a path without folders such as `images`; `train_images` becomes `train`."""
    *folders, name = path.split("/")
    return "/".join([*filter(None, map(without_images, folders)), name])


@functools.lru_cache(maxsize=1 << 10)
def without_images(name: str) -> str:
    """Return the name of a folder of images without its word for images: `train_images` is `train`.

    Names of other folders are returned as they are.
    """
    if is_image_folder(name):
        return ""
    found = _SPLIT_IMAGES.fullmatch(name)
    of = (found["of"] or found["behind"]) if found is not None else ""
    return of if of and canonical_split(of) is not None else name
