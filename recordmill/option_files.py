"""Reader of the small text files that options name, such as --labels-file."""

from __future__ import annotations

from recordmill.errors import ConfigError

DELIMITERS = (",", ";", "\t")  # between the columns of small CSV files
LARGEST = 256 << 20  # bytes: millions of keys for --exclude-keys


def read_option_file(flag: str, path: str, *, encoding: str = "utf-8-sig") -> str:
    """Return the text of a file that an option names.

    encoding: `utf-8-sig` accepts a byte order mark, `utf-8` does not.

    Raises:
      ConfigError: the file cannot be read, is larger than LARGEST, or is not UTF-8.
    """
    from recordmill.storage.files import Location, PathError  # the command line imports this

    try:
        place = Location.parse(path)
        size = place.stat().size if place.exists() else 0
        if size > LARGEST:
            raise ConfigError(
                f"{flag}: {path!r} has {size:,} bytes: expected a text file of at most {LARGEST:,}"
            )
        return place.read_bytes().decode(encoding)
    except PathError as error:
        raise ConfigError(f"{flag}: {error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{flag}: expected UTF-8 in {path!r}: {error}; save it as UTF-8"
        ) from error
