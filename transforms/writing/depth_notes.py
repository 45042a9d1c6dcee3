"""Notes on images of which not all bits were kept."""

import functools
from collections.abc import Iterable

from recordmill.format.ledger import Reduced
from recordmill.notes import Note

_TOP = (1 << 16) - 1


def depth_notes(several: Iterable[Reduced], *, sampled: bool = False) -> tuple[Note, ...]:
    """Return a note on records with images of more bits per channel than were kept.

    sampled: whether only a sample of the records was encoded.
    """
    found = functools.reduce(Reduced.plus, several, Reduced())
    if not found.records:
        return ()
    images = "image has" if found.records == 1 else "images have"
    text = f"{found.records:,} {images} more than 8 bits per channel"
    if sampled:
        text = f"in the sample that was encoded, {text}"
    if found.bits == 16:
        text += (
            f", of which Pillow reads only 8, such as {found.key}: it reads so the colours of JPEG"
            " 2000, AVIF and CMYK, separate planes that are compressed, and pixels with a colour"
            " profile other than sRGB"
        )
        return (Note("bit-depth", text),)
    text += f" and {'was' if found.records == 1 else 'were'} reduced to 8, such as {found.key}"
    if found.narrow:
        bits = max(found.highest.bit_length(), 1)
        levels = round(found.highest * 255 / _TOP) + 1
        some = "" if found.narrow == found.records else f" of {found.narrow:,} of them"
        text += (
            f"; the values{some} use only {bits} of 16 bits, which leaves at most {levels} levels"
            f" of 256: --intensity-window 0:{(1 << bits) - 1} maps that range of gray images to all"
            " levels"
        )
    text += "; --depth 16 with --image-format png or raw keeps 16 bits, --depth 8 omits this note"
    return (Note("bit-depth", text),)
