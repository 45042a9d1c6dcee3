"""Spelling of labels in text files, which may write a number or a boolean in several ways.

A column of numbers gets the labels that its numbers have in typed formats, such as Parquet, and
so does a column of booleans. If two of its texts would become one label, all stay as they are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.class_names import (
    BOOLS,
    are_integers,
    canonical_name,
    is_code,
    is_number,
    value_name,
)
from recordmill.transforms.model import batch
from recordmill.transforms.model.placeholders import is_placeholder

_MOST = 100_000  # distinct texts of a column; if there are more, they stay as they are


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelSpelling:
    """The texts of a label column.

    decimal: the decimal separator. separator: text between labels, if a text may hold several.
    texts: the distinct labels, unless `of_words`.
    of_words: whether the column holds other texts than numbers, or than booleans, or too many.
    """

    decimal: str = "."
    separator: str | None = None
    texts: frozenset[str] = frozenset()
    of_words: bool = False

    def add(self, column: pa.Array) -> LabelSpelling:
        """Return the spelling with the texts of further rows, string[n]."""
        if self.of_words:
            return self
        if self.separator is not None:
            parts = pc.split_pattern(column.fill_null(""), self.separator)
            column = pc.utf8_trim_whitespace(parts.flatten())
        return self._with(filter(None, column.unique().to_pylist()))

    def plus(self, other: LabelSpelling) -> LabelSpelling:
        """Return the spelling of both columns."""
        return other if other.of_words else self if self.of_words else self._with(other.texts)

    @property
    def of_integers(self) -> bool:
        """True if the labels that do not stand for a missing value are whole numbers."""
        labels = [label for label in self._labels().values() if not is_placeholder(label)]
        return not self.of_words and are_integers(labels)

    @property
    def of_values(self) -> bool:
        """True if each label is that of a number or a boolean."""
        labels = self._labels().values()
        return not self.of_words and all(one == self._label(one) for one in labels)

    def renames(self, missing: Iterable[str] = ()) -> dict[str, str | None]:
        """Return {text: label} of the texts that become another label, or none.

        missing: numbers and texts that stand for no label; numbers match by their value.
        """
        absent = {text: value_name(text) for text in missing}
        renames: dict[str, str | None] = {
            label: None for text, label in absent.items() if text != label
        }
        for text, label in self._labels().items():
            if label in absent.values():
                renames[text] = None
            elif text != label:
                renames[text] = label
        return renames

    def _labels(self) -> dict[str, str]:
        """Return {text: label}."""
        named = {text: self._label(text) for text in sorted(self.texts)}
        return named if len({*named.values()}) == len(named) else {one: one for one in named}

    def _with(self, texts: Iterable[str]) -> LabelSpelling:
        found = self.texts.union(texts)
        values = [self._number(text) for text in found if not is_placeholder(text)]
        of_numbers = all(is_number(one) and not is_code(one) for one in values)
        if not (of_numbers or all(one.lower() in BOOLS for one in values)) or len(found) > _MOST:
            return dataclasses.replace(self, texts=frozenset(), of_words=True)
        return dataclasses.replace(self, texts=found)

    def _number(self, text: str) -> str:
        """Return a number with a decimal point."""
        return text if self.decimal == "." else text.replace(".", "?").replace(self.decimal, ".")

    def _label(self, text: str) -> str:
        if is_placeholder(text):
            return text
        return text.lower() if text.lower() in BOOLS else canonical_name(self._number(text))


def respell(labels: pa.Array, renames: Mapping[str, str | None]) -> pa.Array:
    """Return labels with other spellings, string[n]. renames: as of `LabelSpelling`."""
    if not renames:
        return labels
    codes, texts = batch.encode(labels)
    return batch.decode(codes, [renames.get(text, text) for text in texts.to_pylist()])
