"""Listings in a temporary folder: nothing is written to the output until the pipeline runs.

The submitter lists the input while it builds the pipeline, because the graph depends on the
listing. The pipeline may never run, for example because a later step raises an error.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import apache_beam as beam

from recordmill.job.staging import FOLDER, Listing, Staging
from recordmill.storage.files import Location
from recordmill.transforms.staged.listing import delete_derived_files

_LISTING = "listing.json"


def before_run(pipeline: beam.Pipeline, action: Callable[[], None]) -> None:
    """Call a function before a pipeline runs, on any runner and in a `with` block."""
    run = pipeline.run

    @functools.wraps(run)
    def act_and_run(*args: Any, **options: Any) -> Any:
        action()
        return run(*args, **options)

    pipeline.run = act_and_run


class PendingListing:
    """A listing in a temporary folder, until its pipeline runs.

    The folder is deleted with this object.

    Attributes:
      staging: The temporary staging folder, for `stage_listing`.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="recordmill-listing-")
        self.staging = Staging.of(Location.parse(self._folder.name), "listing")

    def named_as_before(self, listing: Listing, target: Staging) -> Listing:
        """Return the listing, with the part names of a staged listing of the same rows.

        With the same names, all files that were derived from the staged listing are kept.

        Args:
          listing: The pending listing.
          target: The staging folder of the run.
        """
        before = target.listing()
        if before is None or before.fingerprint != listing.fingerprint:
            return listing
        if len(before.parts) != len(listing.parts):
            return listing
        return dataclasses.replace(listing, parts=before.parts)

    def move(self, listing: Listing, target: Staging) -> None:
        """Copy the files to the staging folder of the run, unless it holds the same listing."""
        before = target.listing()
        if before is not None and before.parts == listing.parts:
            return
        if before is None or before.fingerprint != listing.fingerprint:
            delete_derived_files(target)
        own = self.staging.listing()
        assert own is not None, "the input was listed"
        renamed = {
            one.name: other.name for one, other in zip(own.parts, listing.parts, strict=True)
        }
        root = pathlib.Path(self._folder.name) / FOLDER / "listing"
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.is_file() and name != _LISTING:
                place = target.place(renamed.get(name, name))
                place.parent.make_dirs()
                place.write_bytes(path.read_bytes())
        target.place(_LISTING).write_bytes(listing.to_json())  # last: it marks the others complete
        kept = {part.name.rpartition("/")[0] for part in listing.parts}
        for entry in target.place("listing").list_if_exists():
            if f"listing/{entry.name}" not in kept:
                target.place(f"listing/{entry.name}").delete_tree()
