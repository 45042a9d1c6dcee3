"""A new local folder that a command writes: it gets its name when it is complete."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator

from recordmill.errors import ConfigError
from recordmill.storage.files import Location, sync_folders


def check_new_folder(output: str) -> Location:
    """Return the place of `--output`, a local folder that does not exist yet.

    Raises:
      ConfigError: it is not local, or exists.
    """
    place = Location.parse(output)
    if not place.is_local:
        raise ConfigError(f"--output {output}: expected a local folder")
    if place.exists():
        raise ConfigError(f"--output {output}: exists already; name a new folder")
    return place


@contextlib.contextmanager
def new_folder(output: str) -> Iterator[pathlib.Path]:
    """Yield an empty folder, which becomes `--output` when the context ends without an error.

    Raises as `check_new_folder`.
    """
    place = check_new_folder(output)
    place.parent.make_dirs()
    # Beside its place, so that it gets its name at once.
    with tempfile.TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent.local_path) as name:
        folder = pathlib.Path(name) / "new"
        folder.mkdir()
        yield folder
        made = Location.parse(str(folder))
        files = [Location.parse(str(path)) for path in folder.rglob("*") if path.is_file()]
        for file in files:
            file.sync_file()
        sync_folders(files, top=made.parent)
        made.rename_to(place)
        place.parent.sync_folder()
