"""What a picture file says of itself, and whether to believe it: nothing is decoded here.

Formats are told by their first bytes and opened by Pillow's class for them, not by `Image.open`:
that tries every plugin it has (some start other programs), cannot tell a broken PNG from a text
file, and has a limit of pixels of its own, which is global. Ours is an option.
"""

from __future__ import annotations

import dataclasses
import io
import struct
import warnings
from collections.abc import Callable
from typing import BinaryIO

from PIL.AvifImagePlugin import AvifImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.IcoImagePlugin import IcoFile, IcoImageFile
from PIL.Image import DecompressionBombError, Image
from PIL.ImageFile import ImageFile
from PIL.Jpeg2KImagePlugin import Jpeg2KImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.PpmImagePlugin import PpmImageFile
from PIL.TgaImagePlugin import TgaImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from recordmill.errors import Filtered, Reason, RecordError
from recordmill.transforms.imaging.image_options import ImageOptions

# Pillow warns of bad metadata and of many pixels, both of which are our business. A filter for its
# modules alone, set once, because `warnings.catch_warnings` is not safe where there are threads.
warnings.filterwarnings("ignore", module=r"PIL\.")

# What Pillow raises on bad bytes, by breaking every picture of the test data in many ways and by
# its source. MemoryError is not here: the limit of pixels keeps a file from asking for too much.
DECODE_ERRORS = (
    DecompressionBombError,
    EOFError,
    IndexError,
    KeyError,
    OSError,
    OverflowError,
    struct.error,
    SyntaxError,
    TypeError,
    ValueError,
)

_HEAD = 18  # bytes: the whole header of a TGA, the only format without a signature
_ORIENTATION = 0x0112  # EXIF's tag; 1 is upright
# Where Pillow keeps what may hold an orientation. Parsing it takes longer than all else here.
_ORIENTED_BY = ("exif", "xmp", "Raw profile type exif", "XML:com.adobe.xmp")
_END_EARLY = ("truncated", "not enough", "end of file", "unexpected end", "expected to read")

_OPENERS: dict[str, Callable[[BinaryIO], ImageFile]] = {
    # The class and not `jpeg_factory`, for which a JPEG with more pictures after it (MPO, as
    # cameras write it) is an animation; for everybody else it is a JPEG.
    "JPEG": JpegImageFile,
    "PNG": PngImageFile,
    "GIF": GifImageFile,
    "WebP": WebPImageFile,
    "BMP": BmpImageFile,
    "TIFF": TiffImageFile,
    "AVIF": AvifImageFile,
    "JPEG 2000": Jpeg2KImageFile,
    "PNM": PpmImageFile,
    "ICO": IcoImageFile,
    "TGA": TgaImageFile,
}
_SIGNATURES = {
    b"\xff\xd8\xff": "JPEG",
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"GIF87a": "GIF",
    b"GIF89a": "GIF",
    b"BM": "BMP",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"II+\0": "TIFF",
    b"MM\0+": "TIFF",
    b"\xff\x4f\xff\x51": "JPEG 2000",
    b"\0\0\0\x0cjP  \r\n\x87\n": "JPEG 2000",
    b"\0\0\1\0": "ICO",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Header:
    """What a picture file says of itself; width and height in pixels, of the upright picture;
    channels as they are stored, 1 for a palette.
    """

    format: str
    width: int
    height: int
    channels: int


def read_header(data: bytes | BinaryIO, options: ImageOptions) -> Header:
    """Reads no more than it must. Raises RecordError and Filtered, as `open_picture`."""
    image = open_picture(io.BytesIO(data) if isinstance(data, bytes) else data, options)
    width, height = image.size
    if orientation(image) >= 5:
        width, height = height, width
    return Header(format=name_of(image), width=width, height=height, channels=len(image.getbands()))


def open_picture(file: BinaryIO, options: ImageOptions) -> ImageFile:
    """Opens a picture without decoding it; its sides are as stored, not yet upright.

    Raises:
        RecordError: EMPTY, NOT_AN_IMAGE, CORRUPT, TRUNCATED, UNSUPPORTED or TOO_MANY_PIXELS.
        Filtered: the shortest side is less than `min_size`.
    """
    head = file.read(_HEAD)
    if not head:
        raise RecordError(Reason.EMPTY, "the file is empty")
    name = _sniff(head)
    if name is None:
        known = ", ".join(_OPENERS)
        raise RecordError(
            Reason.NOT_AN_IMAGE, f"starts with {head[:12]!r}, which is none of {known}"
        )
    try:
        if name == "ICO":
            # Pillow loads an icon as it opens it, whatever size its directory claims.
            _check_size(_icon_size(file), options)
        file.seek(0)
        image = _OPENERS[name](file)
    except RecordError:
        raise  # the file layer's, or ours: a ValueError too
    except DECODE_ERRORS as error:
        raise broken(name, error, options, opened=False) from error
    _check_size(image.size, options)
    if min(image.size) < options.min_size:
        raise Filtered("min-size")
    return image


def _check_size(size: tuple[int, int], options: ImageOptions) -> None:
    width, height = size
    if width * height > options.max_pixels:
        raise RecordError(
            Reason.TOO_MANY_PIXELS,
            f"{width}x{height} pixels, more than --max-pixels {options.max_pixels}",
        )


def broken(
    name: str, error: BaseException, options: ImageOptions, *, opened: bool = True
) -> RecordError:
    """The reject for what Pillow raised, in words that stay the same from release to release.

    opened: whether it was in decoding. Of a file that it cannot open, Pillow often says the same
      for bytes that are broken and for a kind that it does not know.
    """
    text = str(error).lower()
    if isinstance(error, DecompressionBombError):
        return RecordError(
            Reason.TOO_MANY_PIXELS,
            f"a {name} that unfolds to more pixels than --max-pixels {options.max_pixels} or "
            "Pillow allows",
        )
    if isinstance(error, EOFError) or any(phrase in text for phrase in _END_EARLY):
        return RecordError(Reason.TRUNCATED, f"the {name} ends before the picture is complete")
    if "too large" in text or "too much memory" in text:
        return RecordError(Reason.CORRUPT, f"text or a profile in the {name} unfolds to megabytes")
    if "unsupported" in text:
        return RecordError(Reason.UNSUPPORTED, f"a kind of {name} that Pillow cannot read")
    if not opened:
        return RecordError(
            Reason.CORRUPT,
            f"starts as a {name}, but Pillow cannot open it: broken, or of a kind that Pillow does "
            "not know",
        )
    return RecordError(Reason.CORRUPT, f"starts as a {name}, but its content is broken")


def name_of(image: ImageFile) -> str:
    """The format in our own words, as in messages."""
    return next(name for name, opener in _OPENERS.items() if type(image) is opener)


def orientation(image: ImageFile) -> int:
    """EXIF's orientation, 1 to 8; 1 (upright) where there is none or none that makes sense.

    Source: Exif 2.32 (CIPA DC-008), 4.6.4 A. Orientation.
    """
    # Pillow turns TIFFs by itself as it loads them, and says their upright size before.
    if isinstance(image, TiffImageFile) or not any(key in image.info for key in _ORIENTED_BY):
        return 1
    try:
        # The base's, because a PNG's own would decode the picture for it.
        value = Image.getexif(image).get(_ORIENTATION)
    except DECODE_ERRORS:
        return 1  # broken metadata is no reason to lose a picture
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _sniff(head: bytes) -> str | None:
    """The format that the first bytes of a file promise."""
    for signature, name in _SIGNATURES.items():
        if head.startswith(signature):
            return name
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WebP"
    if head[4:8] == b"ftyp" and head[8:12] in (b"avif", b"avis", b"mif1", b"msf1"):
        return "AVIF"
    if head[:1] == b"P" and head[1:2] in b"123456f" and head[2:3].isspace():
        return "PNM"
    if len(head) == _HEAD and head[1] <= 1 and head[2] in (1, 2, 3, 9, 10, 11):
        return "TGA" if head[16] in (1, 8, 16, 24, 32) else None
    return None


def _icon_size(file: BinaryIO) -> tuple[int, int]:
    """(width, height) of the largest picture of an icon, by its own header.

    Source: https://learn.microsoft.com/en-us/previous-versions/ms997538(v=msdn.10)
    """
    file.seek(0)
    file.seek(IcoFile(file).entry[0].offset)
    head = file.read(24)
    width: int
    height: int
    if head.startswith(b"\x89PNG"):
        width, height = struct.unpack(">II", head[16:24])
        return width, height
    if head[0] == 12:  # the header of OS/2
        width, height = struct.unpack("<HH", head[4:8])
    else:
        width, height = struct.unpack("<ii", head[4:12])
    return abs(width), abs(height) // 2  # the mask stands above the picture
