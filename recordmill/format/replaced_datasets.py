"""Detects datasets that are replaced while they are read, as by a run with --overwrite.

Publishing deletes dataset.json before it changes any other file, and writes it last. So as long as
dataset.json is the same file, all files are those that it names.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from recordmill.errors import RunError, StorageError
from recordmill.format.manifest import MANIFEST
from recordmill.storage.files import Location, shown


class DatasetReplacedError(RunError):
    """A dataset was replaced while it was read; nothing is known about the new one."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetVersion:
    """The version of a dataset at one time.

    manifest: (size, modification time in nanoseconds) of dataset.json; None if there was none.
    """

    dataset: Location
    manifest: tuple[int, int] | None

    @classmethod
    def of(cls, dataset: Location) -> DatasetVersion:
        """Return the present version of a dataset, which may be missing."""
        try:
            entry = (dataset / MANIFEST).stat()
        except StorageError:  # reading the dataset reports it
            return cls(dataset=dataset, manifest=None)
        return cls(dataset=dataset, manifest=(entry.size, entry.mtime_ns))

    def check(self) -> None:
        """Raise DatasetReplacedError unless this is still the version of the dataset."""
        if DatasetVersion.of(self.dataset) != self:
            raise DatasetReplacedError(
                f"the dataset {shown(self.dataset)} was replaced or removed while it was read, so"
                " that nothing can be said about it: try again once the run that writes it has"
                " ended"
            )


@contextlib.contextmanager
def expect_unchanged(*datasets: Location) -> Iterator[None]:
    """Raise DatasetReplacedError if a dataset is replaced while it is read inside this context.

    It takes the place of errors of the reader, such as damage, which the replacement caused.
    """
    versions = [DatasetVersion.of(dataset) for dataset in datasets]
    try:
        yield
    except (RunError, ValueError, LookupError) as error:
        for version in versions:
            try:
                version.check()
            except DatasetReplacedError as replaced:
                raise replaced from error
        raise
    for version in versions:
        version.check()
