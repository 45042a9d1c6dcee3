"""Notes on what was found in images: only a part of a file was read."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from recordmill.format.ledger import Counted, add_counted
from recordmill.notes import Note


def image_notes(several: Iterable[Counted], *, sampled: bool = False) -> Iterator[Note]:
    """Yield a note on each kind of findings. sampled: whether only a sample was encoded."""
    found = functools.reduce(add_counted, several, dict[str, tuple[int, str]]())
    where = "in the sample that was encoded, " if sampled else ""
    if "pages" in found:
        count, key = found["pages"]
        files = "file has" if count == 1 else "files have"
        yield Note(
            "pages",
            f"{where}{count:,} {files} further pages or frames, of which only the first was read,"
            f" such as {key}: write each that is meant to a file of its own",
        )
