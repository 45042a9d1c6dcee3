"""Opening of encoded images of a dataset by Pillow, in the formats that Recordmill reads."""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image

# Another one of Pillow's formats, EPS, would start Ghostscript.
_FORMATS = ("AVIF", "BMP", "GIF", "ICO", "JPEG", "JPEG2000", "PNG", "PPM", "TGA", "TIFF", "WEBP")
# Pillow's decoders are known to raise these for invalid content.
UNREADABLE_IMAGE = (
    *(OSError, SyntaxError, ValueError, EOFError, IndexError, OverflowError, RuntimeError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)


def open_image(content: bytes) -> Image.Image:
    """Read the header of an encoded image; its pixels are decoded when they are used.

    Raises:
      UNREADABLE_IMAGE: the content is invalid, or of another format.
    """
    return Image.open(io.BytesIO(content), formats=_FORMATS)
