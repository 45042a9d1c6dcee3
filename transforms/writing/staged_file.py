"""Files of a shard in staging that are written as drafts while the shard is."""

from __future__ import annotations

from typing import Any, Self

from recordmill.storage.files import Location


class StagedFile:
    """A file that is moved to its place once it is complete.

    place: of the complete file. draft: place of the file until then.
    """

    def __init__(self, place: Location, draft: Location) -> None:
        self._place = place
        self._draft = draft
        self._sink: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._sink is not None:
            self._sink.close()

    def _open(self) -> Any:
        """Return the draft, opened for writing."""
        self._sink = self._draft.open_output()
        return self._sink

    def _complete(self) -> None:
        """Close the draft, and move it to its place."""
        self._sink.close()
        self._place.parent.make_dirs()
        self._draft.rename_to(self._place)
