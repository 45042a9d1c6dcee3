"""Whether a folder may become a dataset: it is new, empty or one of ours. No other is touched."""

from __future__ import annotations

from recordmill.errors import ConfigError
from recordmill.format.manifest import MANIFEST, ManifestError, load
from recordmill.job.staging import FOLDER
from recordmill.storage.files import Location, shown


def refuse_foreign(output: Location) -> None:
    """Raises ConfigError for a file, and for a folder that holds what is not a dataset of ours."""
    if not output.exists():
        return
    if not output.is_dir():
        raise ConfigError(f"--output: expected a folder, got the file {shown(output)}")
    if (output / FOLDER).exists():
        return
    if (output / MANIFEST).exists():
        try:
            load(output)
        except ManifestError as error:
            raise ConfigError(
                f"--output {shown(output)} holds a {MANIFEST} that is not ours ({error}): choose"
                " another folder"
            ) from error
        return
    # Another worker of this very run may make our own folder right now.
    found = [entry.name for entry in output.list_dir() if entry.name != FOLDER]
    if found:
        raise ConfigError(
            f"--output {shown(output)} is not empty and no dataset of ours (it holds"
            f" {', '.join(map(repr, found[:3]))}{', ...' if len(found) > 3 else ''}): choose an"
            " empty or a new folder; --overwrite replaces datasets only"
        )
