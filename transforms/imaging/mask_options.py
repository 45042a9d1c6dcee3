"""Options of segmentation masks."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from recordmill.errors import ConfigError
from recordmill.option_checks import check_options
from recordmill.option_names import option_name
from recordmill.options.declaration import option
from recordmill.options.values import show_numbers, whole_numbers

Frame = Literal["auto", "stored", "upright"]

_TOPS = {8: 255, 16: 65535}  # the largest id, by bits per pixel


def _named(field: str, *value: Any) -> str:
    return option_name(field, *value, flag=f"mask-{field}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskOptions:
    """How masks of class ids are decoded and written.

    The `help` of each option describes it.

    Attributes:
      colours: (red, green, blue, id); None if masks hold ids.
      classes: Number of classes; larger ids are rejected, except `ignore`. None accepts all.
      optional: Whether images may lack a mask.

    Raises:
      ConfigError: A value is invalid, or options contradict each other.
    """

    depth: int = option(
        8,
        name="mask_depth",
        given="8",
        convert=int,
        choices=("8", "16"),
        help="Bits of written masks. With 8, images whose masks have ids above 255 are rejected.",
    )
    ignore: int | None = option(
        None,
        name="mask_ignore",
        metavar="ID",
        help="Id of pixels without a class. Default: 255, or 65535 with --mask-depth 16.",
    )
    padding: int | None = option(
        None,
        name="mask_padding",
        metavar="ID",
        help="Id of the padding of --resize-mode pad. Default: that of --mask-ignore.",
    )
    values: tuple[int, ...] | None = option(
        None,
        name="mask_values",
        parse=whole_numbers,
        show=show_numbers,
        metavar="N,...",
        help="Gray levels of masks that stand for the ids 0, 1, ..., such as 0,255. Default: levels"
        " and palette indices are ids.",
    )
    colours: tuple[tuple[int, int, int, int], ...] | None = None
    classes: int | None = None
    frame: Frame = option(
        "auto",
        name="mask_frame",
        help="For images that EXIF rotates: masks fit the stored image, or the upright image. auto"
        " compares sizes, and rejects images where both fit.",
    )
    optional: bool = False

    def __post_init__(self) -> None:
        check_options(self, self._check_together)

    def _check_together(self) -> None:
        if self.depth not in _TOPS:
            raise ConfigError(f"{_named('depth')}: expected 8 or 16, got {self.depth}")
        for name, value in (("ignore", self.ignore), ("padding", self.padding)):
            if value is not None and not 0 <= value <= self.top:
                raise ConfigError(
                    f"{_named(name)}: expected an id from 0 to {self.top} with"
                    f" {_named('depth', self.depth)}, got {value}"
                )
        if self.values is not None:
            self._check_values(self.values)
        if self.classes is not None and self.classes > self.top + 1:
            raise ConfigError(
                f"{option_name('classes', flag='mask-labels')}: {self.classes} classes need ids up"
                f" to {self.classes - 1}, and {_named('depth', self.depth)} holds"
                f" {self.top}: use {_named('depth', '16')}"
            )

    def _check_values(self, values: tuple[int, ...]) -> None:
        if self.colours is not None:
            raise ConfigError(
                f"{_named('values')}: contradicts {_named('colours')}; use only one of them"
            )
        if len(set(values)) < len(values) or not all(0 <= one <= _TOPS[16] for one in values):
            raise ConfigError(
                f"{_named('values')}: expected different levels from 0 to 65535, such as"
                f" 0,255, got {','.join(map(str, values))}"
            )

    @property
    def top(self) -> int:
        """The largest id."""
        return _TOPS[self.depth]

    @property
    def ignored(self) -> int:
        """The id of pixels without a class."""
        return self.top if self.ignore is None else self.ignore

    @property
    def padded(self) -> int:
        """The id of pixels outside the image."""
        return self.ignored if self.padding is None else self.padding
