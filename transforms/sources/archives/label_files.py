"""Files beside the records of an archive that hold their classes, as in WebDataset shards.

A record consists of files that follow each other and have paths that are equal up to the first dot
of the name: `0001.jpg 0001.cls 0001.json` (https://github.com/webdataset/webdataset, "The
WebDataset Format"). The class is the text of a file (`.cls`), or a field of a JSON object
(`.json:label`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from recordmill.errors import Reason, RecordError
from recordmill.transforms.sources.archives.archive_file import ListedMember, MemberProblem
from recordmill.transforms.sources.files.input_paths import LABEL_FILE
from recordmill.transforms.sources.files.inputs import is_utf8
from recordmill.transforms.sources.files.sample_images import sample_name
from recordmill.transforms.sources.row_formats.values.text_columns import json_text

_MOST = 1 << 20  # bytes of a file with a class
_LONGEST = 1 << 12  # characters of a class
_MOST_FILES = 64  # of a record
_MOST_NAMES = 12  # of fields, in a message
_ABSENT = object()
_Found = ListedMember | MemberProblem


@dataclasses.dataclass(frozen=True)
class LabelFiles:
    """The rule for the class of a record.

    extension: of the file. field: of its JSON object; `a.b` is the field b of the object a, if
      there is no field of the name `a.b`.
    """

    extension: str
    field: str | None = None

    @classmethod
    def parse(cls, text: str) -> LabelFiles | None:
        """Parse `.cls` or `.json:label`; None for other values of --label-from."""
        found = LABEL_FILE.fullmatch(text)
        return None if found is None else cls(found[1].lower(), found[2])

    def holds(self, name: str) -> bool:
        """Return whether a file is one that holds a class."""
        return name.lower().endswith(self._suffix)

    @functools.cached_property
    def _suffix(self) -> str:
        return f".{self.extension}"

    def read(self, content: bytes) -> str | None:
        """Return the class, None if it is blank or missing.

        Raises:
          RecordError: the file is not UTF-8 or JSON, or the field is a list or an object.
        """
        try:
            text = content.decode("utf-8-sig")
            found = None if self.field is None else json.loads(text)
        except (ValueError, RecursionError) as error:
            kind = "UTF-8" if isinstance(error, UnicodeDecodeError) else "JSON"
            raise RecordError(Reason.BAD_VALUE, f"its .{self.extension} is not {kind}") from error
        if self.field is None:
            return self._checked(text)
        value = field_of(found, self.field)
        if isinstance(value, str | int | float):
            label = (json_text(value) or "").strip()
            if not is_utf8(label):  # JSON may contain an escaped lone surrogate
                why = f"its .{self.extension} has a class with an unpaired surrogate"
                raise RecordError(Reason.BAD_VALUE, why)
            return self._checked(label)
        if value is None and isinstance(found, dict):
            return None
        what = f"its .{self.extension} has no text or number in the field {self.field!r}"
        if isinstance(value, dict):
            what += f", but an object with {_names(value, f'{self.field}.')}: name one of these"
        raise RecordError(Reason.BAD_VALUE, what)

    def expected(self, content: bytes) -> str:
        """Return the class that is missing in a file for which `read` returns None."""
        if self.field is None:
            return f"a class in its .{self.extension}, which is blank"
        where = f"a class in the field {self.field!r} of its .{self.extension}, which"
        found = json.loads(content.decode("utf-8-sig"))
        if field_of(found, self.field, _ABSENT) is not _ABSENT:
            return f"{where} is blank or null"
        return f"{where} has {_names(found) or 'no fields'}"

    def _checked(self, text: str) -> str | None:
        """Return a class without spaces around it. Raises RecordError if it is no name."""
        label = text.strip()
        if "\0" in label or len(label) > _LONGEST:
            what = "a zero byte" if "\0" in label else f"{len(label)} characters: it is no name"
            raise RecordError(Reason.BAD_VALUE, f"its .{self.extension} has a class with {what}")
        return label or None


def field_of(found: Any, name: str, default: object = None) -> Any:
    """Return the value of a field; `a.b` is the field b of the object a, or has this very name."""
    if not isinstance(found, dict):
        return default
    if name in found:
        return found[name]
    for dot in re.finditer(r"\.", name):
        inner = field_of(found.get(name[: dot.start()]), name[dot.end() :], _ABSENT)
        if inner is not _ABSENT:
            return inner
    return default


def _names(found: dict[str, Any], prefix: str = "") -> str:
    """Return the first fields of an object and of the objects in it, for messages."""
    names: list[str] = []
    for name, value in itertools.islice(found.items(), _MOST_NAMES + 1):
        inner = itertools.islice(value, _MOST_NAMES + 1) if isinstance(value, dict) else ()
        names += [f"{name}.{one}" for one in inner] or [name]
    shown = ", ".join(repr(f"{prefix}{name}"[:100]) for name in names[:_MOST_NAMES])
    return f"{shown}, ..." if len(names) > _MOST_NAMES else shown


CLASS_FILES = LabelFiles("cls")  # never records themselves


def with_labels(
    found: Iterator[_Found],
    rule: LabelFiles,
    *,
    read: Callable[[ListedMember], bytes],
    usable: Callable[[str], bool],
) -> Iterator[_Found]:
    """Yield members with the classes of their records, and problems.

    read: returns the content of a member. usable: returns whether a file may be a record, by name.
    """
    for _, group in itertools.groupby(found, _record_name):
        while some := list(itertools.islice(group, _MOST_FILES)):
            yield from _labelled(some, rule, read, usable)


def _record_name(one: _Found) -> str:
    return sample_name(one.name)


def _labelled(
    group: list[_Found],
    rule: LabelFiles,
    read: Callable[[ListedMember], bytes],
    usable: Callable[[str], bool],
) -> Iterator[_Found]:
    holders = [one for one in group if isinstance(one, ListedMember) and rule.holds(one.name)]
    label: str | None = None
    expected: str | None = None
    problem: RecordError | None = None
    try:
        if (one := _only_holder(holders, rule)) is not None:
            if one.size > _MOST:
                raise RecordError(Reason.TOO_LARGE, f"its .{rule.extension} has {one.size} bytes")
            content = read(one)
            label = rule.read(content)
            expected = rule.expected(content) if label is None else None
    except RecordError as error:
        problem = error
    records = [isinstance(one, ListedMember) and usable(one.name) for one in group]
    alone = not any(records)
    for member, is_record in zip(group, records, strict=True):
        if alone and member in holders:
            text = "a class without a record: no file of the same name is next to it"
            yield MemberProblem(member.name, Reason.MISSING, text)
        elif not isinstance(member, ListedMember) or not is_record:
            yield member
        elif problem is not None:
            yield MemberProblem(member.name, problem.reason, problem.detail)
        else:
            yield member._replace(label=label, expected=expected)


def _only_holder(holders: list[ListedMember], rule: LabelFiles) -> ListedMember | None:
    """Return the file with the class of a record: `1.json` before `1.meta.json`; None without one.

    Raises:
      RecordError: there are several.
    """
    exact = [one for one in holders if f"{_record_name(one)}.{rule.extension}" == _lower_end(one)]
    chosen = exact or holders
    if len(chosen) > 1:
        names = " and ".join(repr(one.name) for one in chosen[:2])
        why = (
            f"several .{rule.extension} files belong to it, such as {names}: files belong together"
            " if their paths are equal up to the first dot of the name"
        )
        raise RecordError(Reason.BAD_VALUE, why)
    return chosen[0] if chosen else None


def _lower_end(one: ListedMember) -> str:
    """Return the path of a member with its extension in lower case."""
    stem, dot, extension = one.name.rpartition(".")
    return stem + dot + extension.lower()
