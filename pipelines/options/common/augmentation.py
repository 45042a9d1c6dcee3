"""Options of commands that augment copies, or every record of train."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from recordmill.options import values
from recordmill.options.declaration import Group, option


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
