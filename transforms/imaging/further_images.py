"""Images in a file after the first, the only one that is read: pages, and frames of animations."""

from __future__ import annotations

import io

from PIL.AvifImagePlugin import AvifImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from recordmill.transforms.imaging.headers import DECODE_ERRORS
from recordmill.transforms.imaging.tiff_directories import has_further_pages


def has_further_images(image: ImageFile, data: bytes) -> bool:
    """Return whether an image file holds several images.

    Previews do not count, nor the images that cameras put after a JPEG, nor the sizes of an icon.

    data: content of the file.
    """
    match image:
        case PngImageFile() | WebPImageFile() | AvifImageFile():
            return image.is_animated
        case TiffImageFile():
            return image.is_animated and has_further_pages(io.BytesIO(data))
        case GifImageFile():
            try:
                return GifImageFile(io.BytesIO(data)).is_animated
            except DECODE_ERRORS:
                return False  # the first frame is intact, as it was read
    return False
