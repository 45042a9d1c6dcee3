"""Files of a shard in staging that are written while the shard is."""

from __future__ import annotations

import contextlib
import shutil
from typing import Any, Self

from recordmill.storage.files import Location

_COPY_BYTES = 8 << 20


class StagedFile:
    """A file that is moved to its place once it is complete.

    place: of the complete file. draft: place until then; equal to `place` if the file is not moved.
    copy: place for the draft, if the file is uploaded to a store and read here again.
    """

    def __init__(self, place: Location, draft: Location, copy: Location | None = None) -> None:
        self._place = place
        self._draft = draft
        self._copy = copy
        self._opened = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _open(self) -> Any:
        """Return the draft, opened for writing."""
        return self._keep(self._draft.open_output())

    def _keep(self, writer: Any) -> Any:
        """Return a writer, which is closed before what it writes to, also after an error.

        Otherwise Arrow closes it with the last reference, and prints that it fails.
        """
        self._opened.callback(writer.close)
        return writer

    def _complete(self) -> None:
        """Close the draft, and move it to its place."""
        self._opened.close()
        if self._draft == self._place:
            return
        place = self._place
        if self._copy is not None:
            with self._draft.open_input() as source, place.open_output() as target:
                shutil.copyfileobj(source, target, _COPY_BYTES)
            place = self._copy
        place.parent.make_dirs()
        self._draft.rename_to(place)
