"""Conversations in a column of rows: lists of messages, or such lists as JSON.

A message is `{"role": "user", "content": "Hi"}`, or in the form of ShareGPT `{"from": "human",
"value": "Hi"}`. A content may be a list of texts, or of parts `{"type": "text", "text": "Hi"}`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from recordmill.errors import Reason, RecordError
from recordmill.transforms.model.chat import (
    ASSISTANT,
    ROLES,
    SYSTEM,
    TURNS_FIELD,
    USER,
    Place,
    Turn,
    transcript,
)
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.row_formats.reading.row_file import Rows
from recordmill.transforms.sources.rows.columns.record_columns import InvalidRows

USUAL_CHATS = ("messages", "conversations", "conversation")  # names of columns
_NAMES = {"system": SYSTEM, "user": USER, "human": USER, "assistant": ASSISTANT, "gpt": ASSISTANT}
_FORMS = (("role", "content"), ("from", "value"))
# Keys of messages, and roles, that no template renders: left out, they would change a conversation.
_CALLS = ("tool_calls", "function_call", "tool_call_id", "reasoning_content", "thinking", "audio")
_TOOLS = ("tool", "function", "function_call", "function_response", "observation")
_SHOWN = 40  # characters of a value in a message


def read_conversations(
    rows: Rows, name: str, tokens: Collection[str]
) -> tuple[list[pa.Array], InvalidRows]:
    """Return the columns `text` and `__turns__` of rows, and the rows to reject.

    Args:
      rows: Rows of a file.
      name: Column of the conversations.
      tokens: Special tokens of the template, which contents must not contain.
    """
    texts: list[str] = []
    turns: list[list[Place]] = []
    problems: dict[int, RejectCause] = {}
    for row, value in enumerate(_values(rows.columns[name])):
        text, places = "", list[Place]()
        try:
            text, places = transcript(_turns(value, tokens))
        except UnicodeEncodeError:
            problems[row] = RejectCause(Reason.BAD_VALUE, "an unpaired surrogate")
        except RecordError as error:
            problems[row] = RejectCause(error.reason, error.detail)
        texts.append(text)
        turns.append(places)
    wrong = np.zeros(len(texts), np.bool_)
    wrong[[*problems]] = True

    def why(row: int) -> RejectCause:
        cause = problems[row]
        where = f"row {rows.numbers[row]}: column {name!r}"
        return RejectCause(cause.reason, f"{where}: {cause.detail}")

    columns = [pa.array(texts, pa.string()), pa.array(turns, TURNS_FIELD.type)]
    return columns, InvalidRows(wrong, why)


def _values(column: pa.Array) -> Iterator[Any]:
    """Yield the values of a column; a value with texts that are not UTF-8 as its bytes."""
    try:
        yield from column.to_pylist()
    except UnicodeDecodeError:
        for value in column:
            try:
                yield value.as_py()
            except UnicodeDecodeError as error:
                yield error.object


def _turns(value: Any, tokens: Collection[str]) -> list[Turn]:
    """Return the turns of a conversation. Raises RecordError."""
    if isinstance(value, bytes):
        raise RecordError(Reason.BAD_VALUE, "a message is not UTF-8")
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except ValueError as error:
            raise _bad("expected a list of messages, got a text that is not JSON") from error
    if value is None or value == []:
        raise RecordError(Reason.EMPTY, "a conversation without messages")
    if not isinstance(value, list):
        raise _bad(f"expected a list of messages, got {_shown(value)}")
    turns: list[Turn] = []
    for number, message in enumerate(value, 1):
        where = f"message {number}"
        turn = _turn(message, where)
        if turn.role == SYSTEM and number > 1:
            raise _bad(f"{where} is a system message: expected it only as the first message")
        if not turn.content.strip():
            if turn.role == SYSTEM:
                continue
            raise RecordError(Reason.EMPTY, f"{where}, of the {ROLES[turn.role]}, is empty")
        folded = unicodedata.normalize("NFKC", turn.content)  # as an option of the encoder may do
        held = next((one for one in tokens if one in turn.content or one in folded), None)
        if held is not None:
            raise _bad(f"{where} contains {held}, a special token of the template")
        turns.append(turn)
    if not any(turn.learned for turn in turns):
        raise _bad("expected a message of the assistant, without weight 0, to train on")
    return turns


def _turn(message: Any, where: str) -> Turn:
    """Return the turn of a message. Raises RecordError."""
    if not isinstance(message, Mapping):
        raise _bad(f"{where}: expected role and content, got {_shown(message)}")
    form = next((one for one in _FORMS if message.get(one[0]) is not None), None)
    if form is None:
        raise _bad(f"{where}: expected role and content, or from and value; it has neither role"
                   " nor from")  # fmt: skip
    name = message[form[0]]
    held = next((key for key in _CALLS if message.get(key)), None)
    if held is not None:
        raise _bad(f"{where} has {held}: expected only text")
    if name in _TOOLS:
        raise _bad(f"{where} has the role {name!r}: tool calls are not supported")
    role = _NAMES.get(name) if isinstance(name, str) else None
    if role is None:
        raise _bad(f"{where}: unknown role {_shown(name)}: expected {', '.join(_NAMES)}")
    learned = role == ASSISTANT
    weight = message.get("weight")
    if learned and weight is not None:
        if weight not in (0, 1):
            raise _bad(f"{where}: expected weight 0 or 1, got {_shown(weight)}")
        learned = weight == 1
    return Turn(role, _content(message.get(form[1]), where), learned)


def _content(value: Any, where: str) -> str:
    """Return the text of a content. Raises RecordError."""
    if value is None or isinstance(value, str):
        return value or ""
    if not isinstance(value, list):
        raise _bad(f"{where}: expected a text as content, got {_shown(value)}")
    texts = []
    for part in value:
        if isinstance(part, Mapping) and part.get("type", "text") == "text":
            part = part.get("text")
        if not isinstance(part, str):
            kind = part.get("type") if isinstance(part, Mapping) else part
            raise _bad(f"{where} has a part of type {_shown(kind)}: expected only text")
        texts.append(part)
    return "".join(texts)


def _bad(detail: str) -> RecordError:
    return RecordError(Reason.BAD_VALUE, detail)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
