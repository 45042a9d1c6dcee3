"""Colours of classes, for masks that hold colours instead of class ids."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

_IGNORE = "ignore"  # name of colours without a class
_NUMBER = re.compile(r"\d{1,3}")
_OF_CVAT = re.compile(r"(?P<name>[^:]+):(?P<levels>\d+,\d+,\d+):[^:]*:[^:]*")  # labelmap.txt
_LEVELS = re.compile(r"[\d.]+[\s,]+[\d.]+[\s,]+[\d.]+")  # right or wrong, no header has them


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskColours:
    """Colours in the order of the class ids, and colours without a class.

    colours, ignored: (red, green, blue). names: of the classes; empty if they have none.
    """

    colours: tuple[tuple[int, int, int], ...]
    ignored: tuple[tuple[int, int, int], ...] = ()
    names: tuple[str, ...] = ()

    def ids(self, ignore: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (red, green, blue, id). ignore: id of pixels without a class."""
        for number, colour in enumerate(self.colours):
            yield (*colour, number)
        for colour in self.ignored:
            yield (*colour, ignore)


def parse_colours(text: str) -> MaskColours:
    """Parse a line of three levels and optionally a name, on either side, for each class.

    Spaces, tabs or commas separate them. A first line without levels is a header. The name
    `ignore` stands for colours without a class. Lines NAME:R,G,B:PARTS:ACTIONS are those of CVAT.

    Raises:
        ValueError: a line has no three levels, a colour comes twice, or only some have names.
    """
    colours: list[tuple[int, int, int]] = []
    ignored: list[tuple[int, int, int]] = []
    names: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = _parse_line(line)
        if found is None:
            if number == 1 and not _LEVELS.search(line):
                continue
            raise ValueError(
                f"expected R G B NAME with levels from 0 to 255, line {number} is {line[:60]!r}"
            )
        colour, name = found
        if colour in (*colours, *ignored):
            raise ValueError(f"line {number} repeats the colour {','.join(map(str, colour))}")
        if name == _IGNORE:
            ignored.append(colour)
        else:
            colours.append(colour)
            names.append(name)
    if not colours:
        raise ValueError("expected a line R G B NAME for each class, found none")
    if any(names) and not all(names):
        raise ValueError(f"the class {names.index('')} has no name, but others have")
    return MaskColours(
        colours=tuple(colours),
        ignored=tuple(ignored),
        names=tuple(names) if all(names) else (),
    )


def _parse_line(line: str) -> tuple[tuple[int, int, int], str] | None:
    """Return the colour and the name (empty without one) of a line, None if it has no colour."""
    if found := _OF_CVAT.fullmatch(line.strip()):
        line = f"{found['levels']},{found['name'].replace(',', ' ')}"
    separator = "," if "," in line else None
    parts = [part.strip() for part in line.split(separator)]
    for levels, rest in ((parts[:3], parts[3:]), (parts[-3:], parts[:-3])):
        if len(levels) == 3 and all(_NUMBER.fullmatch(one) and int(one) < 256 for one in levels):
            red, green, blue = map(int, levels)
            return (red, green, blue), ("," if separator else " ").join(rest).strip()
    return None
