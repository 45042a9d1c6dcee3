"""Secrets in files, which no other user can read, unlike command lines and environments."""

from __future__ import annotations

import os
import stat

from recordmill.errors import ConfigError


def read_secret(path: str, *, option: str, fewest: int = 16) -> str:
    """Return the secret in a file that only its owner can read.

    option: name of the option with the file. fewest: characters of a secret.

    Raises:
      ConfigError: the file cannot be read, is open to other users, or holds no secret.
    """
    try:
        with open(path, encoding="ascii") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(4096).strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
        raise ConfigError(f"{option}: cannot read {path}: {why}") from error
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigError(f"{option}: other users can read {path}: run chmod 600 {path}")
    if len(text) < fewest:
        raise ConfigError(
            f"{option}: expected at least {fewest} characters in {path}, got"
            f" {len(text)}: make one with openssl rand -hex 32"
        )
    return text
