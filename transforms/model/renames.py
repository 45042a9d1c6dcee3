"""Check of the new names of features against the features that exist."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from recordmill.errors import ConfigError, did_you_mean


def check_renames(rename: Mapping[str, str], features: Collection[str]) -> None:
    """Check the option --rename.

    Raises:
      ConfigError: it names an unknown feature, or gives two features the same name.
    """
    for old, new in rename.items():
        if old not in features:
            for name, given in rename.items():
                if given == old and name in features:
                    raise ConfigError(
                        f"--rename {old}={new}: {old!r} is made of the column {name!r}: use"
                        f" --rename {name}={new}"
                    )
            raise ConfigError(
                f"--rename {old}={new}: there is no feature {old!r}{did_you_mean(old, features)}; "
                f"the features are {', '.join(sorted(features))}"
            )
    olds: dict[str, str] = {}
    for old in features:
        new = rename.get(old, old)
        if new in olds:
            raise ConfigError(
                f"--rename: {olds[new]!r} and {old!r} would both be named {new!r}: choose another "
                "name, or rename the other one too"
            )
        olds[new] = old
