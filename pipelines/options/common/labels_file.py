"""Reader of the file of --labels-file."""

from __future__ import annotations

from collections import Counter

from recordmill.errors import ConfigError
from recordmill.option_files import read_names


def read_labels(path: str | None) -> tuple[str, ...] | None:
    """Return the class names in a file; None if `path` is None.

    Raises:
      ConfigError: the file cannot be read, is not a list of names, has no name, or has one twice.
    """
    if path is None:
        return None
    labels = read_names("--labels-file", path)
    repeated = sorted(label for label, count in Counter(labels).items() if count > 1)
    if not labels or repeated:
        raise ConfigError(
            f"--labels-file: expected class names, one per line, each once; got"
            f" {f'{repeated[0]!r} twice' if repeated else 'none'} in {path!r}"
        )
    return labels
