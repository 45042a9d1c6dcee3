"""Options of commands that augment copies, or every record of train."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from recordmill.errors import ConfigError
from recordmill.options import values
from recordmill.options.declaration import Group, option


class AugmentingConfig(Protocol):
    """The options that `check_augment` compares."""

    @property
    def augment(self) -> tuple[str, ...]: ...
    @property
    def augment_all(self) -> bool: ...
    @property
    def balance(self) -> str: ...


def augment_option(names: Collection[str], group: Group) -> Any:
    """Return the option --augment, which takes some of these names."""
    return option(
        (),
        group=group,
        shapes_bytes=True,
        parse=values.some_of(*names),
        repeat=True,
        metavar="NAME,...",
        help=f"Random augmentations of the oversampled copies: {', '.join(names)}.",
    )


def augment_all_option(group: Group) -> Any:
    """Return the option --augment-all."""
    return option(
        False,
        group=group,
        shapes_bytes=True,
        help="Apply --augment to every record of train, not only to copies.",
    )


def check_augment(config: AugmentingConfig) -> None:
    """Raise ConfigError if one of the options would have no effect."""
    if config.augment_all and not config.augment:
        raise ConfigError("--augment-all: has no effect without --augment; add it")
    if config.augment and not config.augment_all and config.balance != "oversample":
        raise ConfigError(
            "--augment applies to oversampled copies, and there are none: add --balance"
            " oversample, or --augment-all for every record of train"
        )
