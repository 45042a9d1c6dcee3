"""docs/troubleshooting.md quotes messages that the sources contain."""

import ast
import re

import pytest

from tests.paths import ROOT
from tests.sources import modules

PAGE = ROOT / "docs" / "troubleshooting.md"
VARIES = "..."  # a part of a message that the sources fill in
QUOTED = re.findall(r"^```text\n(.*?)\n```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def text_of(node: ast.AST) -> str | None:
    """The text of a string or f-string, with a zero byte for each value that is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else filled_in(part)
            for part in node.values
        )
    return None


def filled_in(part: ast.expr) -> str:
    """The flag that `option_name` gives within a command; a zero byte for other values."""
    match part:
        case ast.FormattedValue(
            value=ast.Call(func=ast.Name("option_name"), args=[ast.Constant(name), *values])
        ):
            shown = [
                str(value.value) if isinstance(value, ast.Constant) else "\0" for value in values
            ]
            return " ".join(["--" + str(name).replace("_", "-"), *shown])
    return "\0"


@pytest.fixture(scope="module")
def messages() -> list[str]:
    texts = [text_of(node) for tree in modules().values() for node in ast.walk(tree)]
    return [text for text in texts if text]


def test_the_page_quotes_messages():
    assert len(QUOTED) > 20


@pytest.mark.parametrize("quoted", QUOTED)
def test_a_quoted_message_is_in_the_sources(quoted, messages):
    fragments = [part.strip() for part in quoted.split(VARIES) if len(part.strip()) > 2]
    assert fragments
    for fragment in fragments:
        assert any(fragment in message for message in messages), fragment
