"""Building blocks of the reports: tables, lines, and names made safe to print.

Names come from users' files and may contain any characters: they are never parsed as markup, and
control characters are printed as escapes.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from recordmill.printable import printable

_NAME_WIDTH = 40


def new_table(name: str, *numbers: str, words: Sequence[str] = ()) -> Table:
    """Return an empty table: a column of names, then columns of numbers, then columns of words."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(Text(name), overflow="ellipsis", no_wrap=True, max_width=_NAME_WIDTH)
    for title in numbers:
        table.add_column(Text(title), justify="right", no_wrap=True)
    for title in words:
        table.add_column(Text(title), overflow="fold")
    return table


def line(*parts: str | tuple[str, str]) -> Text:
    """Return a line that is never wrapped."""
    return Text.assemble(*parts, no_wrap=True, overflow="ignore")


def stack(*parts: RenderableType | None) -> RenderableType:
    """Return the parts one below the other, separated by empty lines; None parts are skipped."""
    there = [one for part in parts if part is not None for one in (Text(), part)]
    return Group(*there[1:])


def name_of(name: str | None) -> Text:
    """Return a name as safe text; None is shown as `(no class)`."""
    return Text("(no class)", style="dim italic") if name is None else Text(printable(name))
