"""Pictures made for tests, and how to compare them."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageCms

from recordmill.errors import RecordError
from recordmill.transforms.imaging.pixels import ImageOptions, process

RED, GREEN, BLUE, WHITE, BLACK = (
    (255, 0, 0),
    (0, 255, 0),
    (0, 0, 255),
    (255, 255, 255),
    (0, 0, 0),
)
AS_PNG = ImageOptions(image_format="png")
ALL_MODES = [ImageOptions(image_format="png", mode=mode) for mode in ("rgb", "gray", "rgba")]


def saved(image, kind="PNG", **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def levels(image):
    return np.asarray(image).astype(int)


def distance(one, other):
    """Mean absolute difference, in levels."""
    return float(np.abs(levels(one) - levels(other)).mean())


def photo(width=120, height=90):
    """A smooth picture with detail, the same everywhere."""
    y, x = np.mgrid[:height, :width]
    waves = [127 + 120 * np.sin(x / (7 + c) + y / (11 - c)) for c in range(3)]
    return Image.fromarray(np.stack(waves, axis=-1).astype(np.uint8))


def reject(data, options=AS_PNG):
    with pytest.raises(RecordError) as caught:
        process(data, options)
    return caught.value


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def profile_of(primaries, gamma):
    """An ICC v2 profile: matrix of D50-adapted primaries (rows X, Y, Z), one gamma for all."""

    def tag(kind, body):
        return kind + bytes(4) + body

    def xyz(column):
        return tag(b"XYZ ", b"".join(struct.pack(">i", round(v * 65536)) for v in column))

    curve = tag(b"curv", struct.pack(">IH", 1, round(gamma * 256))) + bytes(2)
    white = (0.9642, 1.0, 0.8249)
    tags = {b"wtpt": xyz(white)} | {
        name: xyz([row[place] for row in primaries])
        for place, name in enumerate((b"rXYZ", b"gXYZ", b"bXYZ"))
    }
    tags |= {b"rTRC": curve, b"gTRC": curve, b"bTRC": curve}
    offset, table, body = 128 + 4 + 12 * len(tags), b"", b""
    for name, content in tags.items():
        table += name + struct.pack(">II", offset + len(body), len(content))
        body += content
    head = bytearray(128)
    head[8:12], head[12:24], head[36:40] = b"\2\x20\0\0", b"mntrRGB XYZ ", b"acsp"
    head[68:80] = struct.pack(">3i", *(round(v * 65536) for v in white))
    data = struct.pack(">I", len(tags)) + table + body
    head[:4] = struct.pack(">I", len(data) + 128)
    return bytes(head) + data


# Source: https://registry.color.org/rgb-registry/displayp3, adapted to D50.
DISPLAY_P3 = ((0.5151, 0.2920, 0.1571), (0.2412, 0.6922, 0.0666), (-0.0011, 0.0419, 0.7841))
SWAPPED = tuple(row[::-1] for row in DISPLAY_P3)  # red where blue was
SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
