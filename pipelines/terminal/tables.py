"""Tables, lines and names, for `recordmill.pipelines.terminal.report` to put together.

Names come from the users' files and may hold anything: they are never markup, and what would move
the cursor is shown as an escape.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from recordmill.storage.storage_errors import shown

_NAME_WIDTH = 40
_JOINERS = "\u200c\u200d"  # not printable by themselves, but parts of words in many scripts


def count_of(count: int, what: str) -> str:
    """`1 record`, `2,000 records`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def new_table(name: str, *numbers: str, words: Sequence[str] = ()) -> Table:
    """A column of names, then columns of numbers, then columns of words."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(Text(name), overflow="ellipsis", no_wrap=True, max_width=_NAME_WIDTH)
    for title in numbers:
        table.add_column(Text(title), justify="right", no_wrap=True)
    for title in words:
        table.add_column(Text(title), overflow="fold")
    return table


def line(*parts: str | tuple[str, str]) -> Text:
    """A line that stays one, however long."""
    return Text.assemble(*parts, no_wrap=True, overflow="ignore")


def stack(*parts: RenderableType | None) -> RenderableType:
    """One below the other, with an empty line between."""
    there = [one for part in parts if part is not None for one in (Text(), part)]
    return Group(*there[1:])


def name_of(name: str | None) -> Text:
    return Text("(no class)", style="dim italic") if name is None else Text(clean(name))


def clean(value: object) -> str:
    """One line of printable text, in any script."""
    text = shown(value)
    return "".join(
        char if char.isprintable() or char in _JOINERS else char.encode("unicode_escape").decode()
        for char in text
    )
