"""Checks of the new names of features."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from recordmill.errors import ConfigError, did_you_mean
from recordmill.option_names import option_name


def check_new_names(option: str, rename: Mapping[str, str]) -> None:
    """Raise ConfigError if two names would become the same. option: the name of the option."""
    olds: dict[str, str] = {}
    for old, new in rename.items():
        if new in olds:
            raise ConfigError(f"{option}: both {olds[new]!r} and {old!r} would become {new!r}")
        olds[new] = old


def check_renames(
    rename: Mapping[str, str],
    features: Collection[str],
    *,
    implied: Mapping[str, str] | None = None,
    option: str = "--rename",
) -> None:
    """Check new names against the features that exist.

    implied: new names that other options give, by the old ones; a part of `rename`. option: the
      name of the option, `rename` for a custom pipeline.

    Raises:
      ConfigError: it names an unknown feature, or gives two features the same name.
    """
    for old, new in rename.items():
        if old not in features:
            for name, given in rename.items():
                if given == old and name in features:
                    raise ConfigError(
                        f"{option} {old}={new}: {old!r} is made of the column {name!r}: use"
                        f" {option} {name}={new}"
                    )
            raise ConfigError(
                f"{option} {old}={new}: there is no feature {old!r}{did_you_mean(old, features)}; "
                f"the features are {', '.join(sorted(features))}"
            )
    olds: dict[str, str] = {}
    for old in features:
        new = rename.get(old, old)
        if new in olds:
            for one in (old, olds[new]):
                if one in (implied or {}):
                    raise ConfigError(
                        f"the {new} of a record, in the column {one!r}, becomes the feature"
                        f" {new!r}, but another column has this name: leave it out"
                        f" ({option_name('drop_columns', new)}), or rename it ({option} {new}=NAME)"
                    )
            raise ConfigError(
                f"{option}: {olds[new]!r} and {old!r} would both be named {new!r}: choose another "
                "name, or rename the other one too"
            )
        olds[new] = old
