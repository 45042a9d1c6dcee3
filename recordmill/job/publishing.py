"""Publishing: moves the files of a finished job from its staging folder to the output.

Every step can be repeated:

1. All files are complete in staging, and on disk.
2. The intent, a list of the files to delete, is written to staging.
3. The old dataset.json is deleted.
4. The other files of the old dataset are deleted.
5. The new files are moved to the output, or copied in an object store.
6. The new dataset.json is moved there.
7. Staging is deleted.

Between steps 3 and 6 there is no dataset, and never a mixture of two. Each step is on disk before
the next one begins, so that this holds after a power cut, too. A run that finds an intent continues
from it. Two jobs can have an intent if the second is to overwrite the unfinished dataset
of the first; the one that changes the output first withdraws the intent of the other.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Collection, Mapping
from typing import Annotated

from recordmill.errors import ConfigError, RunError
from recordmill.format.file_names import checked_name
from recordmill.format.manifest import JOB, MANIFEST, RECIPES, Manifest, ManifestError, load
from recordmill.format.typed_json import Checked
from recordmill.job.staging import FOLDER, INTENT, STAGED, Staging, jobs, to_json
from recordmill.option_names import option_name
from recordmill.storage.files import (
    Location,
    StorageError,
    for_each,
    move_or_copy,
    results_of,
    results_of_each,
    shown,
    sync_folders,
)
from recordmill.storage.storage_errors import MissingError, raise_storage_errors


def check_output_folder(output: Location) -> None:
    """Check that a folder may become a dataset: it is new, empty, or holds a dataset.

    Raises:
      ConfigError: it is a file, or holds anything else.
    """
    if not output.is_dir():
        if output.is_file():
            raise ConfigError(
                f"{option_name('output')}: expected a folder, got the file {shown(output)}"
            )
        _check_parent(output)
        return
    if (output / FOLDER).is_dir():
        return
    if (output / MANIFEST).exists():
        try:
            load(output)
        except ManifestError as error:
            raise ConfigError(
                f"{option_name('output', shown(output))} holds a {MANIFEST} that is damaged or that"
                f" Recordmill did not write ({error}): choose another folder"
            ) from error
        return
    # Another worker of the same run may create the staging folder at this moment.
    found = [entry.name for entry in output.list_dir() if entry.name != FOLDER]
    if found:
        raise ConfigError(
            f"{option_name('output', shown(output))} is not empty and not a dataset (it holds"
            f" {', '.join(map(repr, found[:3]))}{', ...' if len(found) > 3 else ''}): choose an"
            f" empty or a new folder; {option_name('overwrite')} replaces datasets only"
        )


def _check_parent(output: Location) -> None:
    """Raise ConfigError if a part of the path of the output is a file or a broken link."""
    if not output.is_local:
        return
    path = output.local_path
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if os.path.isdir(path):
        return
    if os.path.islink(path):
        raise ConfigError(
            f"{option_name('output', shown(output))}: {shown(path)} is a symbolic link to"
            f" {shown(os.readlink(path))}, which is no folder: create that folder, or remove the"
            " link"
        )
    raise ConfigError(
        f"{option_name('output', shown(output))}: expected a folder, got the file {shown(path)}"
    )


def stage_files(
    staging: Staging,
    manifest: Manifest,
    files: Mapping[str, bytes],
    *,
    staged: Mapping[str, str] | None = None,
) -> None:
    """Write the files beside the shards, with job.json, and last the manifest (step 1).

    staged: {name of a shard or index: its name in staging}, if the names differ.
    """
    if staging.read_json(INTENT, _FileNames) is not None:
        # An earlier attempt began to publish, and may have moved files with other names.
        staging.place(INTENT).write_bytes(to_json(sorted(_old_files(staging))))
    contents = {f"side/{name}": content for name, content in files.items()}
    if not staging.root.can_move:
        contents[STAGED] = to_json(staged or {})
    for name in contents:
        staging.place(name).parent.make_dirs()
    for_each(
        lambda name: staging.place(name).write_bytes(contents[name]), contents, at=staging.root
    )
    staging.place(f"side/{MANIFEST}").write_bytes(manifest.to_bytes())


def publish(staging: Staging) -> None:
    """Publish a staged dataset (steps 2 to 6).

    The files to delete are determined before anything changes.

    Raises:
      RunError: a file of the new dataset is missing in staging.
    """
    manifest, old, new = _staged(staging)
    assert manifest is not None, "stage_files comes first"
    sync_folders(new.values(), top=staging.output.parent)
    missing = _missing(new.values(), at=staging.root)
    if old is None:
        # Once the intent is written, a file that is missing in staging counts as already moved.
        if missing:
            first = min(missing, key=str)
            raise RunError(
                f"{shown(first)} vanished before it was published: run the same command again"
                " to write it"
            )
        old = sorted(_old_files(staging))
        _refuse_links(staging.output, {*old, *manifest.paths()})
        staging.place(INTENT).write_bytes(to_json(old))
    staging.root.sync_folder()
    bring(staging, new, missing=missing, old=old)


def _refuse_links(output: Location, names: Collection[str]) -> None:
    """Raise StorageError if a folder of these files is a symbolic link.

    Later, when the old dataset is deleted already, it would be too late.
    """
    for folder in {(output / name).parent for name in names} - {output}:
        with (
            contextlib.suppress(MissingError),
            raise_storage_errors("access", folder),
            folder.pinned(itself=True),
        ):
            pass


def replace_files(staging: Staging, manifest: Manifest, files: Mapping[str, bytes]) -> None:
    """Replace files beside the shards, and the manifest, of the published dataset.

    files: those that change. The others that the manifest names are in the output already; those
    that it does not name are deleted.
    """
    gone = set(load(staging.output).paths()) - set(manifest.paths())
    for folder in ("shards", "index"):  # of an interrupted run: the published ones stay
        staging.place(folder).delete_tree()
    stage_files(staging, manifest, files)
    staged = [staging.place(f"side/{name}") for name in (*files, MANIFEST)]
    sync_folders(staged, top=staging.output.parent)
    staging.place(INTENT).write_bytes(to_json(sorted(gone)))
    staging.root.sync_folder()
    finish(staging)


def _old_files(staging: Staging) -> set[str]:
    """Return the files of an earlier dataset, or of an interrupted publishing of another job."""
    output = staging.output
    old: set[str] = set()
    content, others = results_of(
        (output / MANIFEST).read_if_exists, lambda: [*jobs(output)], at=output
    )
    if content is not None:
        with contextlib.suppress(ManifestError):  # without a valid manifest no files are known
            old.update(Manifest.from_bytes(content).paths())
    intents = results_of_each(lambda job: job.read_json(INTENT, _FileNames), others, at=output)
    for other, intent in zip(others, intents, strict=True):
        if intent is not None:
            manifest = _staged_manifest(other)
            old.update(intent)
            old.update(manifest.paths() if manifest else ())
    return old


def _staged_manifest(staging: Staging) -> Manifest | None:
    content = staging.place(f"side/{MANIFEST}").read_if_exists()
    return None if content is None else Manifest.from_bytes(content)


def interrupted(output: Location) -> Staging | None:
    """Return the job that began to publish to this output and did not finish; None if none did."""
    for staging in jobs(output):
        if staging.place(INTENT).exists():
            return staging
    return None


def is_published(staging: Staging) -> bool:
    """Return whether the dataset of a job is published, and its staging not yet removed."""
    return (
        staging.place(INTENT).exists()
        and not staging.place(f"side/{MANIFEST}").exists()
        and (staging.output / MANIFEST).exists()
    )


def expect_published(staging: Staging, error: RunError) -> None:
    """Raise the error unless the dataset is published, and only staging is left to remove."""
    try:
        if is_published(staging):
            return
    except StorageError:
        raise error from None
    raise error


def swept_manifest(staging: Staging) -> Manifest | None:
    """Return the manifest of a job whose staging was swept after publishing; None before.

    A runner that retries the last steps of such a job finds nothing left to do.
    """
    if staging.root.is_dir() or not (staging.output / MANIFEST).exists():
        return None
    return load(staging.output)


def sweep(staging: Staging) -> str:
    """Sweep staging after publishing, and return a sentence if that fails."""
    try:
        staging.sweep()
    except RunError as error:
        return f"{shown(staging.root)} was not removed: {error}"
    return ""


def finish(staging: Staging) -> None:
    """Perform steps 3 to 6, after the intent is written; can be repeated at any point."""
    manifest, old, new = _staged(staging)
    if manifest is None:  # already moved by step 6
        staging.output.sync_folder()
        return
    bring(staging, new, missing=_missing(new.values(), at=staging.root), old=old or ())


def bring(
    staging: Staging,
    new: Mapping[str, Location],
    *,
    missing: Collection[Location],
    old: Collection[str],
) -> None:
    """Perform steps 3 to 6.

    new: {name: place in staging} of the files of the dataset. missing: places in `new` without a
    file. old: the intent.
    """
    output = staging.output
    for other in jobs(output):
        # Its publishing cannot continue, because this one deletes the files that it moved.
        if other.root != staging.root:
            other.place(INTENT).delete(missing_ok=True)
            other.root.sync_folder()
    (output / MANIFEST).delete(missing_ok=True)
    output.sync_folder()
    # A file of the new dataset that is no longer in staging is already in the output.
    to_delete = [output / name for name in old if name not in new or new[name] not in missing]
    for_each(lambda place: place.delete(missing_ok=True), to_delete, at=output)
    to_bring = {
        source: output / name
        for name, source in new.items()
        if name != MANIFEST and source not in missing
    }
    for place in to_bring.values():
        place.parent.make_dirs()
    move_or_copy(to_bring)
    sync_folders([output / name for name in new], top=output)
    new[MANIFEST].rename_to(output / MANIFEST)
    output.sync_folder()


def _missing(places: Collection[Location], *, at: Location) -> set[Location]:
    """Return the files that do not exist, by listing their folders."""
    folders = [*{place.parent for place in places}]
    found = {
        folder: {entry.name for entry in entries}
        for folder, entries in zip(
            folders, results_of_each(Location.list_if_exists, folders, at=at), strict=True
        )
    }
    return {place for place in places if place.name not in found[place.parent]}


def _file_name(name: str) -> str:
    return name if name == MANIFEST else checked_name(name)


# The content of an intent: publishing deletes these files.
_FileNames = list[Annotated[str, Checked(_file_name)]]


# {name of a shard or index: its name in staging}.
_StagedNames = dict[Annotated[str, Checked(checked_name)], Annotated[str, Checked(checked_name)]]


def _staged(
    staging: Staging,
) -> tuple[Manifest | None, list[str] | None, dict[str, Location]]:
    """Return the staged manifest, the intent, and {name: place in staging} of the files."""
    manifest, intent, named = results_of(
        functools.partial(_staged_manifest, staging),
        functools.partial(staging.read_json, INTENT, _FileNames),
        lambda: None if staging.root.can_move else staging.read_json(STAGED, _StagedNames),
        at=staging.root,
    )
    places = {} if manifest is None else _staged_files(staging, manifest, named or {})
    return manifest, intent, places


def _staged_files(
    staging: Staging, manifest: Manifest, named: Mapping[str, str]
) -> dict[str, Location]:
    """Return {name: place in staging} of the files of a dataset. named: the content of `STAGED`."""
    beside = {*manifest.files, JOB, MANIFEST, RECIPES}

    def usual(name: str) -> str:
        if name.startswith("index/"):
            return name
        return f"side/{name}" if name in beside else f"shards/{name}"

    return {name: staging.place(named.get(name, usual(name))) for name in manifest.paths()}
