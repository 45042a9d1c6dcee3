"""Files with 16 bits per channel for tests; Pillow has no mode for such colours."""

import struct
import zlib

import numpy as np

from tests.pictures import chunk

_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # of PNG, by the number of channels


def waves(height=30, width=40, channels=3, top=65535):
    """A smooth image with a little noise: uint16[height, width, channels]."""
    y, x = np.mgrid[:height, :width]
    bands = [(1 + np.sin(x / (7 + c) + y / (11 - c))) / 2 for c in range(channels)]
    noise = np.random.default_rng(7).uniform(0, 0.01, (height, width, channels))
    return np.rint(np.clip(np.stack(bands, axis=-1) * 0.99 + noise, 0, 1) * top).astype(np.uint16)


def png16(pixels, *chunks):
    """A PNG of uint16[height, width, channels], without filters; chunks go before the pixels."""
    height, width, channels = pixels.shape
    rows = pixels.astype(">u2").reshape(height, -1).view(np.uint8)
    header = struct.pack(">IIBBBBB", width, height, 16, _COLOUR_TYPES[channels], 0, 0, 0)
    body = zlib.compress(np.pad(rows, ((0, 0), (1, 0))).tobytes())
    parts = [chunk(b"IHDR", header), *chunks, chunk(b"IDAT", body), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def read_png16(data):
    """The pixels of a PNG with 16 bits per channel, decoded as the specification says."""
    width, height, bits, kind, *_ = struct.unpack(">IIBBBBB", data[16:29])
    assert bits == 16, bits
    channels = {count: number for number, count in _COLOUR_TYPES.items()}[kind]
    at, body = 8, b""
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        name, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert data[at : at + 12 + size] == chunk(name, content)
        body += content if name == b"IDAT" else b""
        at += 12 + size
    step, line = 2 * channels, 2 * channels * width
    packed, above, rows = zlib.decompress(body), bytearray(line), []
    for start in range(0, len(packed), line + 1):
        row = bytearray(packed[start + 1 : start + 1 + line])
        for place in range(line):
            left = row[place - step] if place >= step else 0
            corner = above[place - step] if place >= step else 0
            up = above[place]
            row[place] = (row[place] + _predicted(packed[start], left, up, corner)) % 256
        rows.append(bytes(row))
        above = row
    return np.frombuffer(b"".join(rows), ">u2").reshape(height, width, channels)


def _predicted(kind, left, up, corner):
    if kind == 4:
        guess = left + up - corner
        return min((left, up, corner), key=lambda one: abs(guess - one))
    return (0, left, up, (left + up) // 2)[kind]


def tiff(
    pixels,
    *,
    order="<",
    planar=False,
    kind=1,
    extra=None,
    photometric=None,
    deflate=False,
    orientation=1,
):
    """A TIFF of numbers[height, width, channels].

    kind: SampleFormat, 1 for integers and 3 for floats. extra: ExtraSamples. photometric: default
    2 (RGB) for three channels and more, else 1.
    """
    height, width, channels = pixels.shape
    planes = np.moveaxis(pixels, 2, 0) if planar else pixels[None]
    stored = [one.astype(pixels.dtype.newbyteorder(order)).tobytes() for one in planes]
    stored = [zlib.compress(one) for one in stored] if deflate else stored
    if photometric is None:
        photometric = 2 if channels >= 3 else 1
    tags = [
        (256, "I", [width]),
        (257, "I", [height]),
        (258, "H", [pixels.dtype.itemsize * 8] * channels),
        (259, "H", [8 if deflate else 1]),
        (262, "H", [photometric]),
        (273, "I", [0] * len(stored)),
        (274, "H", [orientation]),
        (277, "H", [channels]),
        (278, "I", [height]),
        (279, "I", [len(one) for one in stored]),
        (284, "H", [2 if planar else 1]),
        *([] if extra is None else [(338, "H", [extra])]),
        (339, "H", [kind] * channels),
    ]
    beyond = 8 + 2 + 12 * len(tags) + 4  # where values longer than four bytes begin
    start = beyond + sum(len(_packed(order, tag)) for tag in tags if len(_packed(order, tag)) > 4)
    starts = np.cumsum([start, *(len(one) for one in stored)])[:-1].tolist()
    entries, values = b"", b""
    for tag in tags:
        number, code, numbers = tag if tag[0] != 273 else (273, "I", starts)
        packed = _packed(order, (number, code, numbers))
        if len(packed) > 4:
            values += packed
            packed = struct.pack(order + "I", beyond + len(values) - len(packed))
        head = struct.pack(order + "HHI", number, {"H": 3, "I": 4}[code], len(numbers))
        entries += head + packed.ljust(4, b"\0")
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, len(tags))
    return head + entries + bytes(4) + values + b"".join(stored)


def _packed(order, tag):
    return struct.pack(f"{order}{len(tag[2])}{tag[1]}", *tag[2])
