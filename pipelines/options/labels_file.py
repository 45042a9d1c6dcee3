"""Readers of small text files that options name, such as --labels-file."""

from __future__ import annotations

from recordmill.errors import ConfigError


def read_labels(path: str | None) -> tuple[str, ...] | None:
    """Return the class names in a file; None if `path` is None.

    Raises:
      ConfigError: the file cannot be read, has no name, or has one twice.
    """
    if path is None:
        return None
    lines = read_file("--labels-file", path).split("\n")
    labels = [label for line in lines if (label := line.removesuffix("\r"))]
    repeated = sorted({label for label in labels if labels.count(label) > 1})
    if not labels or repeated:
        raise ConfigError(
            f"--labels-file: expected class names, one per line, each once; got"
            f" {f'{repeated[0]!r} twice' if repeated else 'none'} in {path!r}"
        )
    return tuple(labels)


def read_file(flag: str, path: str) -> str:
    """Return the text of a file that an option names, without a byte order mark.

    Raises:
      ConfigError: the file cannot be read, or is not UTF-8.
    """
    from recordmill.storage.files import Location, PathError  # the command line imports this

    try:
        return Location.parse(path).read_bytes().decode("utf-8-sig")
    except PathError as error:
        raise ConfigError(f"{flag}: {error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{flag}: expected UTF-8 in {path!r}: {error}; save it as UTF-8"
        ) from error
