"""Publishing: a finished job folder becomes the dataset, in steps that can all be repeated.

1. everything is complete in staging   2. the intent is written   3. the old dataset.json goes
4. the files of the old dataset go   5. the new files move in   6. the new dataset.json is written
7. staging is swept

Between 3 and 6 there is no dataset, never a mixed one. A run that finds an intent goes on from it.
Two jobs may have one, where the second is to overwrite what the first has not finished; the first
to touch the output withdraws the other's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from recordmill.errors import RunError
from recordmill.format.manifest import JOB, MANIFEST, Manifest, ManifestError, load
from recordmill.job.staging import INTENT, Staging, jobs, to_json
from recordmill.storage.files import Location, shown


def stage_files(staging: Staging, manifest: Manifest, files: Mapping[str, bytes]) -> None:
    """Step 1: writes the files beside the shards (job.json too), the manifest the last of them."""
    if staging.read_json(INTENT) is not None:
        # An earlier attempt has begun to publish: what it moved may have names that we have not.
        staging.place(INTENT).write_bytes(to_json(sorted(_old_files(staging))))
    for name, content in files.items():
        place = staging.place(f"side/{name}")
        place.parent.make_dirs()
        place.write_bytes(content)
    staging.place(f"side/{MANIFEST}").write_bytes(manifest.to_bytes())


def publish(staging: Staging) -> None:
    """Steps 2 to 6; what is to be removed is settled before anything is touched.

    Raises:
      RunError: if staging lacks a file of the new dataset.
    """
    manifest = _staged_manifest(staging)
    assert manifest is not None, "stage_files comes first"
    if staging.read_json(INTENT) is None:
        # From here on a file that staging lacks counts as moved already.
        for name in manifest.paths():
            if not _staged(staging, name, manifest).exists():
                raise RunError(
                    f"{shown(_staged(staging, name, manifest))} has vanished before it was"
                    " published: run the same command again, it is written anew"
                )
        staging.place(INTENT).write_bytes(to_json(sorted(_old_files(staging))))
    finish(staging)


def _old_files(staging: Staging) -> set[str]:
    """What an earlier dataset, or a publishing of other options that was cut off, left behind."""
    old: set[str] = set()
    with contextlib.suppress(ManifestError):  # no dataset, or a damaged one: nothing to go by
        old.update(load(staging.output).paths())
    for other in jobs(staging.output):
        intent = other.read_json(INTENT)
        if intent is not None:
            manifest = _staged_manifest(other)
            old.update(intent)
            old.update(manifest.paths() if manifest else ())
    return old


def _staged_manifest(staging: Staging) -> Manifest | None:
    place = staging.place(f"side/{MANIFEST}")
    return Manifest.from_bytes(place.read_bytes()) if place.exists() else None


def interrupted(output: Location) -> Staging | None:
    """The job whose publishing into this output began and whose staging is still there."""
    for staging in jobs(output):
        if staging.place(INTENT).exists():
            return staging
    return None


def finish(staging: Staging) -> None:
    """Steps 3 to 6, after the intent; repeatable from the start at any moment."""
    manifest = _staged_manifest(staging)
    if manifest is None:  # it has moved: step 6 is done
        return
    output = staging.output
    for other in jobs(output):
        # Its own publishing cannot go on once its files give way to ours, which the intent lists.
        if other.root != staging.root:
            other.place(INTENT).delete(missing_ok=True)
    (output / MANIFEST).delete(missing_ok=True)
    new = {name: _staged(staging, name, manifest) for name in manifest.paths()}
    # A file of the new dataset that has left staging is already in its place.
    moved = {name for name, source in new.items() if not source.exists()}
    for name in staging.read_json(INTENT):
        if name not in moved:
            (output / name).delete(missing_ok=True)
    for name, source in new.items():  # dataset.json is the last of them
        if name not in moved:
            (output / name).parent.make_dirs()
            source.rename_to(output / name)


def _staged(staging: Staging, name: str, manifest: Manifest) -> Location:
    if name.startswith("index/"):
        return staging.place(name)
    if name in manifest.files or name in (JOB, MANIFEST):
        return staging.place(f"side/{name}")
    return staging.place(f"shards/{name}")
