"""The file of --labels-file: class names, one per line, in the order of their integer labels."""

from __future__ import annotations

from recordmill.errors import ConfigError
from recordmill.storage.files import Location, StorageError


def read_labels(path: str | None) -> tuple[str, ...] | None:
    """Return the class names in a file; None if `path` is None.

    Raises:
      ConfigError: the file cannot be read, has no name, or has one twice.
    """
    if path is None:
        return None
    try:
        lines = Location.parse(path).read_bytes().decode().split("\n")
    except (StorageError, UnicodeDecodeError) as error:
        raise ConfigError(f"--labels-file: cannot read {path!r}: {error}") from error
    labels = [label for line in lines if (label := line.removesuffix("\r"))]
    repeated = sorted({label for label in labels if labels.count(label) > 1})
    if not labels or repeated:
        raise ConfigError(
            f"--labels-file: expected class names, one per line, each once; got"
            f" {f'{repeated[0]!r} twice' if repeated else 'none'} in {path!r}"
        )
    return tuple(labels)
