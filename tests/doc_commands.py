"""Commands and code that README and docs show."""

import pathlib
import re
import shlex

from tests.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: pathlib.Path, language: str) -> list[str]:
    """Return the blocks of a page that are in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page: pathlib.Path) -> list[list[str]]:
    """Return the arguments of every `recordmill ...` in the shell blocks of a page."""
    lines = "".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    found = [shlex.split(line, comments=True) for line in lines]
    return [words[1:] for words in found if words[:1] == ["recordmill"]]


def layout_commands(page: pathlib.Path) -> list[list[str]]:
    """Return the arguments of every command in the table of layouts of a page."""
    _, _, section = page.read_text().partition("\n## Your layout\n")
    found = re.findall(r"`recordmill ([^`]*)`", section.partition("\n## ")[0])
    return [shlex.split(line) for line in found]
