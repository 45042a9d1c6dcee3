"""Infers the dtype, shape and kind of every feature from adopted records.

Files are scanned independently and their summaries are merged, so the result does not depend on the
processes that scanned them, or on their order.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np

from recordmill.tfrecord.decode import (
    ExampleError,
    Value,
    decode_example,
    decode_sequence_example,
    decode_steps,
    is_sequence_example,
)
from recordmill.tfrecord.features import DType, Feature, Features, Kind

RecordType = Literal["Example", "SequenceExample"]

_DTYPES: dict[str, DType] = {"i": "int64", "f": "float32"}  # by numpy's kind

# JPEG, PNG and GIF. WebP and BMP need further checks: RIFF also holds audio, and BM begins words.
_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a")
_BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)  # sizes of the header after the file header
# Control characters that texts do not contain; C1 (U+0080 to U+009F) is encoded as UTF-8.
_CONTROL_CHARACTERS = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]|\xc2[\x80-\x9f]")


@dataclasses.dataclass(kw_only=True)
class FeatureSummary:
    """Summary of a feature's values.

    dtype: None if no record has a list of values.
    first: number of the first record that has such a list.
    sequence: whether it is a feature list of SequenceExamples.
    records: number of records that have the feature.
    least, most: the fewest and most values of a record, or steps of a feature list; -1 before the
      first record.
    step_least, step_most: the fewest and most values of a step; -1 before the first step.
    filled: whether any value is not empty.
    images, texts: whether all values are images, or texts.
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
    images: bool = True
    texts: bool = True


class InconsistentFeatureError(ValueError):
    """Features or records have different types."""


class FeatureInference:
    """Summarizes the features of records, which are added one after another.

    first_records: number of the first record of each type; a record without features has no type.
    """

    def __init__(self) -> None:
        self.records = 0
        self.features: dict[str, FeatureSummary] = {}
        self.first_records: dict[RecordType, int] = {}

    def add(self, payload: bytes) -> Mapping[str, Value]:
        """Add a serialized Example or SequenceExample; return its features, or its context.

        Raises:
          ExampleError: the payload is neither.
          InconsistentFeatureError: the record, or a feature, has another type than in earlier
            records.
        """
        context = decode_example(payload)
        steps: Mapping[str, list[Value]] = {}
        is_sequence = is_sequence_example(payload)
        if is_sequence:
            decode_sequence_example(payload)  # raises if the reader could not decode the record
            steps = decode_steps(payload)
        for name, value in context.items():
            if name in steps:
                raise ExampleError(f"has {name!r} both in its context and as a feature list")
            one = self._summary(name, value, sequence=False)
            _count_values(one, 0 if value is None else len(value))
        for name, values in steps.items():
            one = self._summary(name, None, sequence=True)
            for value in values:
                one = self._summary(name, value, sequence=True)
                _count_step_values(one, 0 if value is None else len(value))
            _count_values(one, len(values))
        if is_sequence or context:
            self._add_type("SequenceExample" if is_sequence else "Example")
        self.records += 1
        return context

    def _add_type(self, kind: RecordType) -> None:
        self.first_records.setdefault(kind, self.records)
        for other, first in self.first_records.items():
            if other != kind:
                raise InconsistentFeatureError(_mixed(kind, f"record {first}", other))

    def _summary(self, name: str, value: Value, *, sequence: bool) -> FeatureSummary:
        """Return the summary of a feature, after checking and adding the type of a value."""
        one = self.features.get(name)
        if one is None:
            one = self.features[name] = FeatureSummary(sequence=sequence, first=self.records)
        if one.sequence != sequence:
            raise InconsistentFeatureError(
                _difference(name, one, f"in record {one.first}", sequence=sequence)
            )
        if value is None:
            return one
        dtype: DType = "string" if isinstance(value, list) else _DTYPES[value.dtype.kind]
        if one.dtype is None:
            one.dtype, one.first = dtype, self.records
        elif one.dtype != dtype:
            raise InconsistentFeatureError(
                _difference(name, one, f"in record {one.first}", dtype=dtype)
            )
        if isinstance(value, list):
            _add_bytes(one, value)
        return one


def _count_values(one: FeatureSummary, count: int) -> None:
    one.records += 1
    one.least = count if one.least < 0 else min(one.least, count)
    one.most = max(one.most, count)


def _count_step_values(one: FeatureSummary, count: int) -> None:
    one.step_least = count if one.step_least < 0 else min(one.step_least, count)
    one.step_most = max(one.step_most, count)


def _add_bytes(one: FeatureSummary, values: Iterable[bytes]) -> None:
    for value in values:
        one.filled = one.filled or bool(value)
        one.images = one.images and is_image(value)
        one.texts = one.texts and is_text(value)


def is_image(value: bytes) -> bool:
    """Return whether the bytes begin as a JPEG, PNG, GIF, BMP or WebP file does."""
    if value.startswith(_SIGNATURES):
        return True
    if value.startswith(b"BM"):
        # Two letters are weak evidence, so the reserved bytes and the header size are checked, too.
        return value[6:10] == bytes(4) and int.from_bytes(value[14:18], "little") in _BMP_HEADERS
    return value.startswith(b"RIFF") and value[8:12] == b"WEBP"


def is_text(value: bytes) -> bool:
    """Return whether the bytes are UTF-8, without control characters except tab, LF, FF and CR."""
    if _CONTROL_CHARACTERS.search(value) is not None:
        return False
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def merge_summaries(
    files: Iterable[tuple[str, Mapping[str, FeatureSummary]]],
) -> dict[str, FeatureSummary]:
    """Merge the summaries of all files, given as (name of the file, {feature: summary}).

    Raises:
      InconsistentFeatureError: a feature has another type than in an earlier file; the message
        names file, record and feature.
    """
    found: dict[str, FeatureSummary] = {}
    first_files: dict[str, str] = {}  # the file of the record `first` of each summary
    for file, features in files:
        for name, one in features.items():
            before = found.get(name)
            if before is None:
                found[name], first_files[name] = dataclasses.replace(one), file
                continue
            where = f"in {first_files[name]}, record {before.first}"
            here = f"{file}, record {one.first}: "
            if before.sequence != one.sequence:
                what = _difference(name, before, where, sequence=one.sequence)
                raise InconsistentFeatureError(here + what)
            if one.dtype is not None and before.dtype not in (None, one.dtype):
                what = _difference(name, before, where, dtype=one.dtype)
                raise InconsistentFeatureError(here + what)
            if before.dtype is None:
                first_files[name] = file
            found[name] = _merge(before, one)
    return found


def check_record_types(files: Iterable[tuple[str, Mapping[RecordType, int]]]) -> None:
    """Check that the records of all files, given as (name of the file, {type: record}), match.

    Raises:
      InconsistentFeatureError: some are Examples and some are SequenceExamples; the message names
        file and record.
    """
    before: tuple[RecordType, str] | None = None
    for file, first_records in files:
        for kind, record in first_records.items():
            if before is not None and before[0] != kind:
                what = _mixed(kind, before[1], before[0])
                raise InconsistentFeatureError(f"{file}, record {record}: {what}")
            before = before or (kind, f"{file}, record {record}")


def _mixed(kind: RecordType, where: str, other: RecordType) -> str:
    return (
        f"expected {_article(other)}, as {where} is, got {_article(kind)}: adopt Examples and"
        " SequenceExamples as separate datasets"
    )


def _article(kind: RecordType) -> str:
    return f"{'an' if kind == 'Example' else 'a'} {kind}"


def _merge(one: FeatureSummary, other: FeatureSummary) -> FeatureSummary:
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
        images=one.images and other.images,
        texts=one.texts and other.texts,
    )


def _difference(
    name: str,
    before: FeatureSummary,
    where: str,
    *,
    dtype: DType | None = None,
    sequence: bool | None = None,
) -> str:
    """Return a message about a feature that has another type, or is another kind, than before."""
    if sequence is None:
        return f"feature {name!r} holds {dtype}, but {where} it holds {before.dtype}"
    kinds = ("a feature", "a feature list")
    return f"{name!r} is {kinds[sequence]}, but {where} it is {kinds[not sequence]}"


def declare_features(summaries: Mapping[str, FeatureSummary], *, records: int) -> Features:
    """Return the declaration of the features of `records` records, sorted by name."""
    return {name: _feature(one, records) for name, one in sorted(summaries.items())}


def _feature(one: FeatureSummary, records: int) -> Feature:
    least = one.least if one.records == records else 0
    shape: tuple[int | None, ...] = (_size(least, one.most),)
    if one.sequence:
        if one.step_most > 0 and not one.step_least == one.step_most == 1:
            shape += (_size(one.step_least, one.step_most),)
    elif shape == (1,):
        shape = ()
    return Feature(
        # Without any value the dtype is unknown, but parsers need one.
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
    if one.images:
        return "image"
    return "text" if one.texts else "value"


def single_number(value: Value) -> int | None:
    """Return the first integer of a feature's values, or None if it has no integers."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "i" and len(value):
        return int(value[0])
    return None
