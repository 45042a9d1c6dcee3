"""Conversations as columns, and the chat templates that render them.

A conversation is the column `text`, a transcript such as `user: Hi` and `assistant: Hello` with a
blank line between, and the column `__turns__` with the place of each content in the transcript.
Keys, counts and deduplication therefore do not depend on the template.

Sources of the templates: ChatML in `chat_template` of Qwen2.5, and that of Llama 3.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import pyarrow as pa

SYSTEM, USER, ASSISTANT = range(3)
ROLES = ("system", "user", "assistant")

TURNS = "__turns__"  # list<struct>: start and end of the content in `text`, in bytes
_TURN = pa.struct(
    [
        pa.field("start", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("role", pa.int8()),
        pa.field("learned", pa.bool_()),
    ]
)
TURNS_FIELD = pa.field(TURNS, pa.list_(_TURN), False)

TemplateName = Literal["chatml", "llama3"]


class Turn(NamedTuple):
    """A message of a conversation.

    Attributes:
      role: Index in `ROLES`.
      content: Text of the message.
      learned: Whether the loss mask of its content is 1.
    """

    role: int
    content: str
    learned: bool


Place = tuple[int, int, int, bool]  # a value in the column `__turns__`


def transcript(turns: Iterable[Turn]) -> tuple[str, list[Place]]:
    """Return the text of a conversation, and the places of its turns.

    Raises:
      UnicodeEncodeError: A content holds an unpaired surrogate.
    """
    parts: list[str] = []
    places = []
    at = 0
    for turn in turns:
        head = f"{ROLES[turn.role]}: "
        if parts:
            head = f"\n\n{head}"
        start = at + len(head)
        at = start + len(turn.content.encode())
        parts += [head, turn.content]
        places.append((start, at, turn.role, turn.learned))
    return "".join(parts), places


class Part(NamedTuple):
    """A part of a rendered turn. Boundaries of parts are boundaries of tokens.

    Attributes:
      kind: `token`, a special token; `text`, a fixed text; `content`, the text of the message.
      text: The special token or the fixed text.
      learned: Whether its loss mask is 1 in a turn that is learned.
    """

    kind: Literal["token", "text", "content"]
    text: str = ""
    learned: bool = False


_CONTENT = Part("content", learned=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChatTemplate:
    """Parts of which a conversation is made.

    Attributes:
      begin: Parts before the first turn.
      turns: The parts of a turn of each role, as many for every role, with one content.
      trims: Whether white space around contents is removed.
    """

    begin: tuple[Part, ...] = ()
    turns: tuple[tuple[Part, ...], ...]
    trims: bool = False

    @property
    def fixed(self) -> tuple[Part, ...]:
        """The different parts other than contents."""
        parts = (*self.begin, *(part for turn in self.turns for part in turn))
        return tuple(dict.fromkeys(p._replace(learned=False) for p in parts if p.kind != "content"))

    @property
    def tokens(self) -> tuple[str, ...]:
        """The special tokens."""
        return tuple(part.text for part in self.fixed if part.kind == "token")


def _chatml(role: str) -> tuple[Part, ...]:
    return (
        Part("token", "<|im_start|>"),
        Part("text", f"{role}\n"),
        _CONTENT,
        Part("token", "<|im_end|>", learned=True),
        Part("text", "\n"),
    )


def _llama3(role: str) -> tuple[Part, ...]:
    return (
        Part("token", "<|start_header_id|>"),
        Part("text", role),
        Part("token", "<|end_header_id|>"),
        Part("text", "\n\n"),
        _CONTENT,
        Part("token", "<|eot_id|>", learned=True),
    )


TEMPLATES: Mapping[TemplateName, ChatTemplate] = {
    "chatml": ChatTemplate(turns=tuple(map(_chatml, ROLES))),
    "llama3": ChatTemplate(
        begin=(Part("token", "<|begin_of_text|>"),), turns=tuple(map(_llama3, ROLES)), trims=True
    ),
}
