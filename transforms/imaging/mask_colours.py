"""Colours of classes, for masks that hold colours instead of class ids."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

_FEWEST = 2  # delimiters between three levels
_IGNORE = "ignore"  # name of colours without a class
_DIGITS = re.compile(r"[0-9]{1,6}")
_FORMS = (
    "the colours may be three columns of numbers, before or after the names, in a text or CSV file,"
    " with or without a header such as id,name,r,g,b, or CVAT's NAME:R,G,B::"
)
_NUMBER = re.compile(r"\d{1,3}")
_OF_CVAT = re.compile(r"(?P<name>[^:]+):(?P<levels>\d+,\d+,\d+):[^:]*:[^:]*")  # labelmap.txt
_LEVELS = re.compile(r"[\d.]+[\s,;]+[\d.]+[\s,;]+[\d.]+")  # no header has numbers, valid or not

# Names of columns in a header.
_LEVEL_NAMES = (("r", "red"), ("g", "green"), ("b", "blue"))
_NAMES = ("name", "names", "class", "class_name", "label", "label_name", "category")
_IDS = ("id", "index", "idx", "number", "class_id", "label_id", "class_index")


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

    Spaces, tabs, commas or semicolons separate them. A first line without levels is a header. If it
    names columns of red, green and blue, it gives their order. It may also name a column of ids,
    which must number the classes from 0 or 1. The name `ignore` stands for colours without a class.
    Lines NAME:R,G,B:PARTS:ACTIONS are those of CVAT.

    Raises:
        ValueError: a line does not have three levels or is ambiguous, the header names no levels, a
          colour or a name is repeated, ids have a gap, or only some have names.
    """
    colours: list[tuple[int, int, int]] = []
    ignored: list[tuple[int, int, int]] = []
    names: list[str] = []
    ids: list[str] = []
    lines: list[int] = []
    header = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        if number == 1 and not _LEVELS.search(line):
            header = _Header.parse(line)
            continue
        found = _parse_line(line) if header is None else header.read(line)
        if found is None:
            raise ValueError(
                f"expected R G B NAME with levels from 0 to 255, line {number} is {line[:60]!r};"
                f" {_FORMS}"
            )
        colour, name, id_ = found
        if colour in (*colours, *ignored):
            raise ValueError(f"line {number} repeats the colour {','.join(map(str, colour))}")
        if name == _IGNORE:
            ignored.append(colour)
        elif name in names and name.strip("0123456789 "):  # numbers may be a misread column
            raise ValueError(
                f"line {number} repeats the name {name!r} of line {lines[names.index(name)]}, and"
                " each line is a separate class: give it another name, or the name ignore"
            )
        else:
            colours.append(colour)
            names.append(name)
            ids.append(id_)
            lines.append(number)
    if not colours:
        raise ValueError("expected a line R G B NAME for each class, found none")
    if any(names) and not all(names):
        raise ValueError(f"the class {names.index('')} has no name, but others have")
    order = _order_of(ids, lines)
    return MaskColours(
        colours=tuple(colours[at] for at in order),
        ignored=tuple(ignored),
        names=tuple(names[at] for at in order) if all(names) else (),
    )


def _order_of(ids: Sequence[str], lines: Sequence[int]) -> Sequence[int]:
    """Return the rows in the order of their ids ("" without an id). Raises ValueError."""
    if not any(ids):
        return range(len(ids))
    numbers = [int(one) if _DIGITS.fullmatch(one) else -1 for one in ids]
    order = sorted(range(len(ids)), key=numbers.__getitem__)
    for expected, at in enumerate(order, start=int(numbers[order[0]] == 1)):
        if numbers[at] != expected:
            raise ValueError(
                f"line {lines[at]} has the id {ids[at]!r} instead of {expected}, but ids count from"
                " 0 or 1 without gaps: add lines for the missing ids, or remove the column to"
                " number the classes in the order of the lines"
            )
    return order


class _Header(NamedTuple):
    """The order of columns by their names.

    width: number of columns. levels: columns of red, green and blue. name, id: columns of names
    and of ids, or None.
    """

    width: int
    levels: tuple[int, int, int]
    name: int | None
    id: int | None

    @classmethod
    def parse(cls, line: str) -> Self | None:
        """Return the order of columns, None for a comment or title that names none.

        Raises:
          ValueError: it names columns, but no levels.
        """
        columns = [name.lower() for name in _fields(line.lstrip("# "))]
        found = [[at for at, name in enumerate(columns) if name in one] for one in _LEVEL_NAMES]
        if any(len(places) != 1 for places in found):
            if len(columns) > len(found) and not line.startswith("#"):
                raise ValueError(
                    f"the first line, {line[:60]!r}, names no columns of red, green and blue:"
                    " rename these columns to r, g and b"
                )
            return None
        (red,), (green,), (blue,) = found
        named = [at for at, name in enumerate(columns) if name in _NAMES]
        numbered = [at for at, name in enumerate(columns) if name in _IDS]
        return cls(
            len(columns),
            (red, green, blue),
            named[-1] if named else None,
            numbered[0] if numbered else None,
        )

    def read(self, line: str) -> tuple[tuple[int, int, int], str, str] | None:
        """Return the colour, the name and the id of a line, None if it has no colour.

        A line may have more fields than the header, if the name has several words, or if a first
        column `class` holds ids and the name comes last.
        """
        fields = _fields(line)
        more = len(fields) - self.width
        name, id_ = self.name, self.id
        if more > 0 and name == 0 and _delimiter_of(line) is None and not fields[0].isdigit():
            fields[: more + 1] = [" ".join(fields[: more + 1])]
        elif more > 0 and name is not None and name < min(self.levels) and id_ is None:
            name, id_ = None, name
        if len(fields) < self.width or not all(_is_level(fields[at]) for at in self.levels):
            return None
        red, green, blue = (int(fields[at]) for at in self.levels)
        first = self.width if name is None else name
        at_the_end = first >= self.width - 1
        text = _joined(fields[first:], line) if at_the_end else fields[first]
        return (red, green, blue), text, "" if id_ is None else fields[id_]


def _parse_line(line: str) -> tuple[tuple[int, int, int], str, str] | None:
    """Return the colour and the name (empty without one) of a line, None if it has no colour.

    Raises:
      ValueError: four numbers and a name may be an id and a colour, or a colour and a name.
    """
    if found := _OF_CVAT.fullmatch(line.strip()):
        line = f"{found['levels']},{found['name'].replace(',', ' ')}"
    parts = _fields(line)
    if len(parts) > 4 and any(all(map(_is_level, four)) for four in (parts[:4], parts[-4:])):
        raise ValueError(
            f"{line[:60]!r} has more than three numbers: name the columns in the first line, such"
            " as id,r,g,b,name"
        )
    for levels, rest in ((parts[:3], parts[3:]), (parts[-3:], parts[:-3])):
        if len(levels) == 3 and all(map(_is_level, levels)):
            red, green, blue = map(int, levels)
            return (red, green, blue), _joined(rest, line), ""
    return None


def _fields(line: str) -> list[str]:
    return [part.strip() for part in line.split(_delimiter_of(line))]


def _joined(parts: list[str], line: str) -> str:
    return (_delimiter_of(line) or " ").join(parts).strip()


def _delimiter_of(line: str) -> str | None:
    """Return the delimiter of the fields of a line, None for white space."""
    found = (one for one in (",", ";") if line.count(one) >= _FEWEST)
    return next(found, "," if "," in line else None)


def _is_level(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and int(text) < 256
