"""JPEGs whose data is damaged in several ways, and JPEGs of several kinds to damage."""

import random
from collections.abc import Callable, Iterator

from PIL import Image

from tests.pictures import saved

_ESCAPED = b"\xff\0"  # a byte 0xFF of coded data


def intact_kinds(photo: Image.Image) -> dict[str, bytes]:
    """{name: content} of a photo as JPEGs that libjpeg decodes without a warning."""
    gray = photo.convert("L")
    return {
        "baseline": saved(photo, "JPEG"),
        "full-chroma": saved(photo, "JPEG", subsampling=0),
        "half-chroma": saved(photo, "JPEG", subsampling=1),
        "rgb": saved(photo, "JPEG", keep_rgb=True),
        "gray": saved(gray, "JPEG"),
        "gray-progressive": saved(gray, "JPEG", progressive=True),
        "progressive": saved(photo, "JPEG", progressive=True),
        "restarts": saved(photo, "JPEG", restart_marker_blocks=4),
        "progressive-restarts": saved(photo, "JPEG", progressive=True, restart_marker_rows=1),
        "cmyk": saved(photo.convert("CMYK"), "JPEG"),
    }


def coded_data(content: bytes) -> int:
    """The offset of the coded data of the first scan."""
    at = content.index(b"\xff\xda") + 2
    return at + int.from_bytes(content[at : at + 2])


def _place(content: bytes, random_: random.Random, length: int = 1) -> int:
    """An offset inside the coded data, behind its first tenth and before its end."""
    start = coded_data(content)
    return random_.randrange(start + (len(content) - start) // 10, len(content) - 2 - length)


def _replaced(content: bytes, at: int, new: bytes) -> bytes:
    return content[:at] + new + content[at + len(new) :]


def _bit(content: bytes, random_: random.Random) -> bytes:
    at = _place(content, random_)
    return _replaced(content, at, bytes([content[at] ^ 1 << random_.randrange(8)]))


def _byte(content: bytes, random_: random.Random) -> bytes:
    at = _place(content, random_)
    return _replaced(content, at, bytes([content[at] ^ random_.randrange(1, 256)]))


def _many_bytes(content: bytes, random_: random.Random) -> bytes:
    for _ in range(20):
        content = _byte(content, random_)
    return content


def _zeros(content: bytes, random_: random.Random) -> bytes:
    return _replaced(content, _place(content, random_, 64), bytes(64))


def _noise(content: bytes, random_: random.Random) -> bytes:
    return _replaced(content, _place(content, random_, 64), random_.randbytes(64))


def _lost(content: bytes, random_: random.Random) -> bytes:
    at = _place(content, random_, 64)
    return content[:at] + content[at + random_.randrange(1, 64) :]


def _doubled(content: bytes, random_: random.Random) -> bytes:
    at = _place(content, random_, 64)
    return content[: at + 64] + content[at:]


def _inserted(content: bytes, random_: random.Random) -> bytes:
    at = _place(content, random_)
    return content[:at] + random_.randbytes(16).replace(b"\xff", _ESCAPED) + content[at:]


def _swapped(content: bytes, random_: random.Random) -> bytes:
    at = _place(content, random_, 64)
    return content[:at] + content[at + 32 : at + 64] + content[at : at + 32] + content[at + 64 :]


def _early_end(content: bytes, random_: random.Random) -> bytes:
    return content[: _place(content, random_)] + b"\xff\xd9"


def _line_ends(content: bytes, random_: random.Random) -> bytes:
    start = coded_data(content)
    del random_  # as a transfer in text mode changes a file
    return content[:start] + content[start:].replace(b"\n", b"\r\n")


def _cleared_high_bits(content: bytes, random_: random.Random) -> bytes:
    at = _place(content, random_, 128)
    return _replaced(content, at, bytes(byte & 0x7F for byte in content[at : at + 128]))


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "bit": _bit,
    "byte": _byte,
    "many-bytes": _many_bytes,
    "zeros": _zeros,
    "noise": _noise,
    "lost": _lost,
    "doubled": _doubled,
    "inserted": _inserted,
    "swapped": _swapped,
    "early-end": _early_end,
    "line-ends": _line_ends,
    "cleared-high-bits": _cleared_high_bits,
}


def damaged(content: bytes, *, each: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield (kind, content) of a JPEG, damaged `each` times in every way."""
    for kind, damage in DAMAGES.items():
        random_ = random.Random(f"{seed} {kind}")
        for _ in range(each):
            changed = damage(content, random_)
            if changed != content:
                yield kind, changed
