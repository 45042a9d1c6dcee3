"""TIFFs of gray images of 8x8 pixels, with the tags that a test wants."""

import struct

Tags = dict[int, int | tuple[int, int]]

SIDE = 8
PIXELS = 16  # where they begin
_IMAGE = {256: SIDE, 257: SIDE, 258: 8, 259: 1, 262: 1, 273: PIXELS, 277: 1, 278: SIDE,
          279: SIDE * SIDE}  # fmt: skip


def tiff(*pages: Tags, inner: Tags | None = None, mark: bytes = b"") -> bytes:
    """The bytes of a TIFF.

    pages: further tags of each page, with one or two values. inner: tags of an image inside the
    first (SubIFDs). mark: bytes at offset 8.
    """
    tags = [{**_IMAGE, **page} for page in pages]
    at = PIXELS + SIDE * SIDE
    places = []
    if inner is not None:
        tags[0][330] = 0
    for one in tags:
        places.append(at)
        at += 2 + 12 * len(one) + 4
    if inner is not None:
        tags[0][330] = at
    out = struct.pack("<2sHL", b"II", 42, places[0]) + mark.ljust(8, b"\0")
    out += bytes(range(100, 100 + SIDE * SIDE))
    for one, following in zip(tags, [*places[1:], 0], strict=True):
        out += _directory(one, following)
    return out if inner is None else out + _directory({**_IMAGE, **inner}, 0)


def _directory(tags: Tags, following: int) -> bytes:
    entries = []
    for tag, value in sorted(tags.items()):
        if isinstance(value, tuple):
            entries.append(struct.pack("<HHLHH", tag, 3, 2, *value))
        else:
            entries.append(struct.pack("<HHLL", tag, 4, 1, value))
    return struct.pack("<H", len(tags)) + b"".join(entries) + struct.pack("<L", following)
