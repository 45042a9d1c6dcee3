"""Reader of the file of --labels-file."""

from __future__ import annotations

from collections import Counter

from recordmill.errors import ConfigError
from recordmill.option_files import read_option_file


def read_labels(path: str | None) -> tuple[str, ...] | None:
    """Return the class names in a file; None if `path` is None.

    Raises:
      ConfigError: the file cannot be read, has no name, or has one twice.
    """
    if path is None:
        return None
    lines = read_option_file("--labels-file", path).split("\n")
    labels = [label for line in lines if (label := line.removesuffix("\r"))]
    repeated = sorted(label for label, count in Counter(labels).items() if count > 1)
    if not labels or repeated:
        raise ConfigError(
            f"--labels-file: expected class names, one per line, each once; got"
            f" {f'{repeated[0]!r} twice' if repeated else 'none'} in {path!r}"
        )
    return tuple(labels)
