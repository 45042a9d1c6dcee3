"""Headers of image files: format, size and orientation, without decoding pixels.

The format is recognised by its signature and opened by Pillow's class for it. `Image.open` is not
used: it tries every plugin (some start other programs), confuses broken PNGs with text files, and
has its own global limit of pixels, which is an option here.
"""

from __future__ import annotations

import dataclasses
import io
import struct
import warnings
from collections.abc import Callable
from typing import BinaryIO

from PIL import Image as Pillow
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
from recordmill.format.file_content import HEAD, HEIC, identify
from recordmill.format.image_files import PNG_SIGNATURE, check_chunks, gif_size
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.tiff_directories import preview_problem
from recordmill.transforms.imaging.tiff_pixels import is_unknown_type, misread_pixels, tiff_pixels

# Pillow warns of bad metadata and of many pixels; both are handled here. The filter is set once and
# for its modules only, because `warnings.catch_warnings` is not thread-safe.
warnings.filterwarnings("ignore", module=r"PIL\.")

# Exceptions that Pillow raises for bad bytes, found by corrupting every image of the test data and
# by reading its source. MemoryError is not among them: the limit of pixels prevents it.
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
# Keys of `info` that may hold an orientation. Parsing them takes longer than the rest of a header.
_ORIENTED_BY = frozenset({"exif", "xmp", "Raw profile type exif", "XML:com.adobe.xmp"})
_END_EARLY = ("truncated", "not enough", "end of file", "unexpected end", "expected to read")

_OPENERS: dict[str, Callable[[BinaryIO], ImageFile]] = {
    # The class, because `jpeg_factory` returns an animation for a JPEG that is followed by further
    # images (MPO, as cameras write it).
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
    PNG_SIGNATURE: "PNG",
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
    """Header of an image file.

    format: name, as in messages.
    width, height: of the upright image, in pixels.
    channels: as stored; 1 for a palette.
    """

    format: str
    width: int
    height: int
    channels: int


def read_header(data: bytes | BinaryIO, options: ImageOptions) -> Header:
    """Read the header of an image file, and no more bytes than needed.

    Raises:
        RecordError, Filtered: as `open_image`.
    """
    image = open_image(io.BytesIO(data) if isinstance(data, bytes) else data, options)
    width, height = image.size
    if orientation(image) >= 5:
        width, height = height, width
    return Header(
        format=format_name(image), width=width, height=height, channels=len(image.getbands())
    )


def open_image(file: BinaryIO, options: ImageOptions) -> ImageFile:
    """Open an image without decoding it; its size is as stored, not yet upright.

    Raises:
        RecordError: EMPTY, NOT_AN_IMAGE, CORRUPT, TRUNCATED, UNSUPPORTED or TOO_MANY_PIXELS.
        Filtered: the shortest side is less than `min_size`.
    """
    _raise_limit(options.max_pixels)
    head = file.read(_HEAD)
    if not head:
        raise RecordError(Reason.EMPTY, "the file is empty")
    name = _sniff(head)
    if name is None:
        raise _not_an_image(head + file.read(HEAD))
    if name == "AVIF" and identify(head + file.read(HEAD)) == HEIC:  # in the same container
        raise RecordError(Reason.UNSUPPORTED, str(HEIC))
    try:
        if name == "ICO":
            # Pillow decodes an icon when it opens it, whatever size its directory states.
            _check_size(_icon_size(file), options)
        if name == "GIF":
            _check_size(gif_size(file), options)
        if name == "TIFF" and (problem := preview_problem(file)):
            raise RecordError(Reason.UNSUPPORTED, problem)
        file.seek(0)
        image = _OPENERS[name](file)
    except RecordError:
        raise  # it is a ValueError, and so among DECODE_ERRORS
    except DECODE_ERRORS as error:
        if name == "TIFF" and is_unknown_type(error) and (pixels := tiff_pixels(file)):
            raise RecordError(Reason.UNSUPPORTED, f"a TIFF of {pixels}") from error
        if name in ("PNG", "ICO"):
            file.seek(0)
            check_chunks(file.read())  # which names the damage
        raise decode_error(name, error, options, opened=False) from error
    except RuntimeError as error:
        if name != "AVIF":  # libavif alone reports bad bytes so
            raise
        raise decode_error(name, error, options, opened=False) from error
    if isinstance(image, TiffImageFile) and (pixels := misread_pixels(image)):
        raise RecordError(Reason.UNSUPPORTED, f"a TIFF of {pixels}")
    _check_size(image.size, options)
    if min(image.size) < options.min_size:
        raise Filtered("min-size")
    return image


def _raise_limit(max_pixels: int) -> None:
    """Let Pillow decode `max_pixels`: it checks the size of TIFFs, GIFs and icons again.

    It refuses images of more than twice its limit, which belongs to the process. The limit is never
    lowered, so that threads with other options do not disturb each other.
    """
    limit = Pillow.MAX_IMAGE_PIXELS
    if limit is not None and max_pixels > 2 * limit:
        Pillow.MAX_IMAGE_PIXELS = (max_pixels + 1) // 2


def _check_size(size: tuple[int, int], options: ImageOptions) -> None:
    width, height = size
    if width * height > options.max_pixels:
        raise RecordError(
            Reason.TOO_MANY_PIXELS,
            f"{width}x{height} pixels, more than --max-pixels {options.max_pixels}",
        )


def decode_error(
    name: str, error: BaseException, options: ImageOptions, *, opened: bool = True
) -> RecordError:
    """Return the reject for an exception of Pillow, worded the same for every release of Pillow.

    opened: false if the file could not be opened. Pillow's message is then often the same for
        broken bytes and for an unsupported variant.
    """
    text = str(error).lower()
    if isinstance(error, DecompressionBombError):
        return RecordError(
            Reason.TOO_MANY_PIXELS,
            f"the {name} decodes to more pixels than --max-pixels {options.max_pixels} or Pillow "
            "allows",
        )
    if isinstance(error, EOFError) or any(phrase in text for phrase in _END_EARLY):
        return RecordError(Reason.TRUNCATED, f"the {name} ends before the image is complete")
    if "too large" in text or "too much memory" in text:
        return RecordError(
            Reason.CORRUPT, f"text or a profile in the {name} decompresses to megabytes"
        )
    if "unsupported" in text:
        return RecordError(Reason.UNSUPPORTED, f"a variant of {name} that Pillow cannot read")
    if not opened:
        return RecordError(
            Reason.CORRUPT,
            f"has the signature of {name}, but Pillow cannot open it: corrupt, or an unsupported "
            "variant",
        )
    return RecordError(Reason.CORRUPT, f"has the signature of {name}, but its content is corrupt")


def format_name(image: ImageFile) -> str:
    """Return the name of the format, as in messages."""
    return next(name for name, opener in _OPENERS.items() if type(image) is opener)


def orientation(image: ImageFile) -> int:
    """Return the orientation of EXIF, 1 to 8; 1 (upright) if missing or invalid.

    Source: Exif 2.32 (CIPA DC-008), 4.6.4 A. Orientation.
    """
    if isinstance(image, TiffImageFile) or _ORIENTED_BY.isdisjoint(image.info):
        return 1  # Pillow rotates a TIFF when it loads it, and reports its upright size
    return _stated_orientation(image)


def rotated_by_loading(image: ImageFile) -> int:
    """Return the orientation, 1 to 8, that Pillow applies to an image when it loads it.

    1 for images other than TIFFs, and for loaded ones, which no longer have one.
    """
    return _stated_orientation(image) if isinstance(image, TiffImageFile) else 1


def _stated_orientation(image: ImageFile) -> int:
    try:
        # The method of the base class: that of PNG would decode the image.
        value = Image.getexif(image).get(_ORIENTATION)
    except DECODE_ERRORS:
        return 1  # an image with broken metadata is kept
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _sniff(head: bytes) -> str | None:
    """Return the format by the first bytes of a file; None if unknown."""
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


def _not_an_image(head: bytes) -> RecordError:
    """Return the error for a file without a known image format, given its first bytes."""
    content = identify(head)
    known = ", ".join(_OPENERS)
    if content is None:
        why = f"starts with {head[:12]!r}: expected one of {known}"
        return RecordError(Reason.NOT_AN_IMAGE, why)
    reason = Reason.UNSUPPORTED if content.kind == "image" else Reason.NOT_AN_IMAGE
    return RecordError(
        reason, str(content) if content.advice else f"{content}: expected one of {known}"
    )


def _icon_size(file: BinaryIO) -> tuple[int, int]:
    """Return (width, height) of the largest image of an icon, from that image's header.

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
    return abs(width), abs(height) // 2  # the height includes the mask
