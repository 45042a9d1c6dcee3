"""Notes on what encoders found, such as further pages in the files of images."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from recordmill.format.ledger import Counted, Noted, add_counted
from recordmill.notes import LeftUnread, Note


def encoder_notes(several: Iterable[Counted], *, sampled: bool = False) -> Iterator[Note]:
    """Yield a note on each kind of finding. sampled: whether only a sample was encoded."""
    found = functools.reduce(add_counted, several, dict[str, tuple[int, str]]())
    where = "in the sample that was encoded, " if sampled else ""
    for reason, (code, one, many, what) in _TEXTS.items():
        if reason in found:
            count, key = found[reason]
            text = f"{where}{count:,} {one if count == 1 else many} {what}"
            yield Note(code, text.format(key=key))
    unread = LeftUnread()
    for reason, part in _UNREAD.items():
        if reason in found:
            count, key = found[reason]
            unread.add(part, "image", such_as=key, count=count)
    yield from unread.notes(" in the sample that was encoded" if sampled else "")


# {reason: (code, subject and verb of one, of several, rest of the sentence)}
_TEXTS: dict[Noted, tuple[str, str, str, str]] = {
    "damaged_image": (
        "damaged-image",
        *("JPEG is", "JPEGs are"),
        "damaged, such as {key}: what libjpeg could decode was written, in which a part may be gray"
        " or displaced; look at such images and replace them, or reject them with --damaged reject",
    ),
    "pages": (
        "pages",
        *("file has", "files have"),
        "further pages or frames, of which only the first was read, such as {key}: write each that"
        " you need to a file of its own",
    ),
    "window_beyond": (
        "intensity-window",
        *("gray image has", "gray images have"),
        "8 bits, such as {key}: --intensity-window reaches beyond 255, so it darkens such images;"
        " leave them out, or scale them to the bit depth of the others",
    ),
    "window_unused": (
        "intensity-window",
        *("image has", "images have"),
        "colours, a palette, transparency or 1 bit, such as {key}, so --intensity-window was not"
        " applied: convert them to gray, or leave them out",
    ),
    "boxes_beyond": (
        "boxes",
        *("box reaches", "boxes reach"),
        "beyond the image by more than a pixel, such as one of {key}, and only the part inside was"
        " kept: check the annotations, or leave such boxes out with --boxes drop",
    ),
    "samples_beyond": (
        "full-scale",
        *("record has", "records have"),
        "samples beyond twice the full scale, such as {key}: waveforms should be within [-1, 1],"
        " and --dtype int16 limits larger values to this range; if files hold 16-bit levels as"
        " floats, divide these by 32768",
    ),
}

# {reason: part of images that was not read, or was taken as stored}
_UNREAD: dict[Noted, str] = {
    "unread_bands": "bands beyond gray or RGB",
    "high_range": "the range of HDR (PQ or HLG)",
    "unknown_band": "a fourth band that no tag explains (taken as alpha)",
}
