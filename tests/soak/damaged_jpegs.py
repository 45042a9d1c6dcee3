"""Counts damaged JPEGs that are reported, and checks that pixels are those of Pillow.

    .venv/bin/python -m tests.soak.damaged_jpegs [FOLDER ...]

240 files are damaged in 12 ways. Those that Pillow decodes to other pixels than before without a
word are counted as reported or silent. The JPEGs of the folders, and those of the test data, must
have the pixels that Pillow gives them, at full and at reduced sizes.
"""

import io
import pathlib
import sys
from collections import Counter

import numpy as np
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from recordmill.format.image_files import has_reduced_sizes, load_image
from tests.damaged_jpegs import damaged, intact_kinds
from tests.paths import DATA, SMALL_CLOTHING

_SCALES = (1, 2, 4, 8)
_KINDS = ("baseline", "progressive", "restarts", "gray")


def _opened(content: bytes, scale: int = 1, mode: str | None = None) -> JpegImageFile:
    image = JpegImageFile(io.BytesIO(content))
    width, height = image.size
    if has_reduced_sizes(image, content):
        image.draft(mode, (max(1, width // scale), max(1, height // scale)))
    return image


def _by_pillow(content: bytes, scale: int = 1, mode: str | None = None) -> np.ndarray | None:
    """The pixels; None if Pillow refuses the file."""
    try:
        return np.asarray(_opened(content, scale, mode))
    except (OSError, SyntaxError, ValueError):
        return None


def count_damaged() -> Counter[tuple[str, str]]:
    """{(kind of damage, outcome): files}."""
    photos = sorted(SMALL_CLOTHING.glob("*/*.jpg"))[::200]
    found: Counter[tuple[str, str]] = Counter()
    for number, path in enumerate(photos):
        kinds = intact_kinds(Image.open(path).convert("RGB").resize((300, 400)))
        for name in _KINDS:
            whole = kinds[name]
            expected = np.asarray(_opened(whole))
            for kind, content in damaged(whole, each=1, seed=hash_of(number, name)):
                pixels = _by_pillow(content)
                if pixels is None:
                    found[kind, "rejected"] += 1
                    continue
                warning = load_image(_opened(content), content)
                changed = pixels.shape != expected.shape or bool((pixels != expected).any())
                outcome = ("silent" if changed else "intact") if warning is None else "reported"
                found[kind, outcome + (" though right" if warning and not changed else "")] += 1
    return found


def hash_of(number: int, name: str) -> int:
    return number * 100 + _KINDS.index(name)


def check_pixels(folders: list[pathlib.Path]) -> Counter[str]:
    """{outcome: files}. Raises AssertionError if pixels differ from those of Pillow."""
    found: Counter[str] = Counter()
    contents = {
        path.read_bytes(): path
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix.lower() in (".jpg", ".jpeg", ".jpe", ".jfif")
    }
    for content, path in contents.items():
        if not content.startswith(b"\xff\xd8\xff") or _by_pillow(content) is None:
            found["refused by Pillow"] += 1
            continue
        for scale in _SCALES:
            for mode in (None, "L"):
                image = _opened(content, scale, mode)
                warning = load_image(image, content)
                if warning is not None:
                    continue
                assert np.array_equal(np.asarray(image), _by_pillow(content, scale, mode)), path
        warning = load_image(_opened(content), content)
        if warning is not None:
            print(f"{path}: {warning}")
        found["with Pillow's pixels" if warning is None else "reported"] += 1
    return found


def main() -> None:
    counted = count_damaged()
    for (kind, outcome), count in sorted(counted.items()):
        print(f"{kind}: {count} {outcome}")
    totals = Counter[str]()
    for (_, outcome), count in counted.items():
        totals[outcome] += count
    print(f"{sum(totals.values())} damaged files: {dict(totals)}")
    print(dict(check_pixels([DATA, *map(pathlib.Path, sys.argv[1:])])))


if __name__ == "__main__":
    main()
