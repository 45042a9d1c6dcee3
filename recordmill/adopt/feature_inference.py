"""What the records of others hold: each feature's dtype, shape and kind, inferred over all of them.

Files are looked at by themselves and what was seen is merged, so that it does not matter which
process has looked at which, nor in what order.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping

import numpy as np

from recordmill.format.decode import (
    ExampleError,
    Value,
    decode_example,
    decode_sequence_example,
    decode_steps,
    is_sequence_example,
)
from recordmill.format.features import DType, Feature, Features, Kind

_DTYPES: dict[str, DType] = {"i": "int64", "f": "float32"}  # by numpy's kind

# JPEG, PNG and GIF; RIFF holds WebP, but also sound, and BM begins words.
_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a")
_BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)  # bytes of the header after the file's own
# Control characters that no text has, C1 (U+0080 to U+009F) as it is in UTF-8.
_NO_TEXT = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]|\xc2[\x80-\x9f]")


@dataclasses.dataclass(kw_only=True)
class FeatureSummary:
    """What was seen of a feature.

    dtype: None where no record has a list of values. first: the first record that has one.
    sequence: it is a feature list of SequenceExamples.
    records: those that have the feature. least, most: values in one of them; of a feature list,
      steps. step_least, step_most: values in a step; -1 where there was none yet.
    filled: a value is more than no bytes. pictures, texts: every value is one.
    """

    dtype: DType | None = None
    first: int = 0
    sequence: bool = False
    records: int = 0
    least: int = -1
    most: int = -1
    step_least: int = -1
    step_most: int = -1
    filled: bool = False
    pictures: bool = True
    texts: bool = True


class UnlikeError(ValueError):
    """Records hold one feature as different things."""


class Inference:
    """Looks at records, one after another."""

    def __init__(self) -> None:
        self.records = 0
        self.seen: dict[str, FeatureSummary] = {}

    def add(self, payload: bytes) -> Mapping[str, Value]:
        """Looks at a serialised Example, or SequenceExample, and returns its features, or context.

        Raises:
          ExampleError: it is neither.
          UnlikeError: a feature is not what it was in records before.
        """
        context = decode_example(payload)
        steps: Mapping[str, list[Value]] = {}
        if is_sequence_example(payload):
            decode_sequence_example(payload)  # what our readers cannot read is no dataset
            steps = decode_steps(payload)
        for name, value in context.items():
            if name in steps:
                raise ExampleError(f"has {name!r} both in its context and as a feature list")
            one = self._of(name, value, sequence=False)
            _widen(one, 0 if value is None else len(value))
        for name, values in steps.items():
            one = self._of(name, None, sequence=True)
            for value in values:
                one = self._of(name, value, sequence=True)
                _widen_steps(one, 0 if value is None else len(value))
            _widen(one, len(values))
        self.records += 1
        return context

    def _of(self, name: str, value: Value, *, sequence: bool) -> FeatureSummary:
        one = self.seen.get(name)
        if one is None:
            one = self.seen[name] = FeatureSummary(sequence=sequence, first=self.records)
        if one.sequence != sequence:
            raise UnlikeError(_unlike(name, one, f"in record {one.first}", sequence=sequence))
        if value is None:
            return one
        dtype: DType = "string" if isinstance(value, list) else _DTYPES[value.dtype.kind]
        if one.dtype is None:
            one.dtype, one.first = dtype, self.records
        elif one.dtype != dtype:
            raise UnlikeError(_unlike(name, one, f"in record {one.first}", dtype=dtype))
        if isinstance(value, list):
            _look_at(one, value)
        return one


def _widen(one: FeatureSummary, count: int) -> None:
    one.records += 1
    one.least = count if one.least < 0 else min(one.least, count)
    one.most = max(one.most, count)


def _widen_steps(one: FeatureSummary, count: int) -> None:
    one.step_least = count if one.step_least < 0 else min(one.step_least, count)
    one.step_most = max(one.step_most, count)


def _look_at(one: FeatureSummary, values: Iterable[bytes]) -> None:
    for value in values:
        one.filled = one.filled or bool(value)
        one.pictures = one.pictures and is_picture(value)
        one.texts = one.texts and is_text(value)


def is_picture(value: bytes) -> bool:
    """Whether the bytes begin as those of a JPEG, PNG, GIF, BMP or WebP."""
    if value.startswith(_SIGNATURES):
        return True
    if value.startswith(b"BM"):
        # Two letters prove little: what stands in the reserved bytes, and a header's size, more.
        return value[6:10] == bytes(4) and int.from_bytes(value[14:18], "little") in _BMP_HEADERS
    return value.startswith(b"RIFF") and value[8:12] == b"WEBP"


def is_text(value: bytes) -> bool:
    """Whether the bytes are UTF-8 without control characters, but for tabs and line breaks."""
    if _NO_TEXT.search(value) is not None:
        return False
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def merged(files: Iterable[tuple[str, Mapping[str, FeatureSummary]]]) -> dict[str, FeatureSummary]:
    """What was seen in all files: (name of the file, what was seen there).

    Raises:
      UnlikeError: names file, record and feature, where one is not what it is in others.
    """
    found: dict[str, FeatureSummary] = {}
    homes: dict[str, str] = {}  # where a feature was seen first with what it holds
    for file, seen in files:
        for name, one in seen.items():
            before = found.get(name)
            if before is None:
                found[name], homes[name] = dataclasses.replace(one), file
                continue
            where = f"in {homes[name]}, record {before.first}"
            here = f"{file}, record {one.first}: "
            if before.sequence != one.sequence:
                raise UnlikeError(here + _unlike(name, before, where, sequence=one.sequence))
            if one.dtype is not None and before.dtype not in (None, one.dtype):
                raise UnlikeError(here + _unlike(name, before, where, dtype=one.dtype))
            if before.dtype is None:
                homes[name] = file
            found[name] = _together(before, one)
    return found


def _together(one: FeatureSummary, other: FeatureSummary) -> FeatureSummary:
    def least(a: int, b: int) -> int:
        return max(a, b) if min(a, b) < 0 else min(a, b)

    return FeatureSummary(
        dtype=one.dtype or other.dtype,
        first=other.first if one.dtype is None else one.first,
        sequence=one.sequence,
        records=one.records + other.records,
        least=least(one.least, other.least),
        most=max(one.most, other.most),
        step_least=least(one.step_least, other.step_least),
        step_most=max(one.step_most, other.step_most),
        filled=one.filled or other.filled,
        pictures=one.pictures and other.pictures,
        texts=one.texts and other.texts,
    )


def _unlike(
    name: str,
    before: FeatureSummary,
    where: str,
    *,
    dtype: DType | None = None,
    sequence: bool | None = None,
) -> str:
    if sequence is None:
        return f"feature {name!r} holds {dtype}, {where} it holds {before.dtype}"
    kinds = ("a feature", "a feature list")
    return f"{name!r} is {kinds[sequence]}, {where} it is {kinds[not sequence]}"


def features_of(seen: Mapping[str, FeatureSummary], *, records: int) -> Features:
    """The features to declare for `records` records in which this was seen, sorted by name."""
    return {name: _feature(one, records) for name, one in sorted(seen.items())}


def _feature(one: FeatureSummary, records: int) -> Feature:
    least = one.least if one.records == records else 0
    shape: tuple[int | None, ...] = (_size(least, one.most),)
    if one.sequence:
        if one.step_most > 0 and not one.step_least == one.step_most == 1:
            shape += (_size(one.step_least, one.step_most),)
    elif shape == (1,):
        shape = ()
    return Feature(
        # Where no record has a value it may be anything; a parser has to be told something.
        dtype=one.dtype or "string",
        shape=shape,
        kind=_kind(one),
        sequence=one.sequence,
    )


def _size(least: int, most: int) -> int | None:
    return most if least == most > 0 else None


def _kind(one: FeatureSummary) -> Kind:
    if one.dtype != "string" or not one.filled:
        return "value"
    if one.pictures:
        return "image"
    return "text" if one.texts else "value"


def single_number(value: Value) -> int | None:
    """The one integer that a feature holds, None where it holds none."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "i" and len(value):
        return int(value[0])
    return None
