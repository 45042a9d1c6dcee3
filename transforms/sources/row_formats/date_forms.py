"""Forms of dates in text, and which of them are ordered as dates when texts are compared."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

ISO = "YYYY-MM-DD"
ORDER_RULE = (
    "texts are compared from their first character on: write dates as 2024-01-31 in the condition"
    " and in the column"
)

_DAY = r"(0?[1-9]|[12]\d|3[01])"  # or a month, which may be first
_MONTH = r"(0[1-9]|1[0-2])"
_NAME = r"(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_END = r"($|[T ,])"
# The first character of the longest unit of time comes first, and each unit has as many digits.
_ORDERED = {
    ISO: rf"^\d{{4}}-{_MONTH}($|-\d\d{_END})",  # also the beginning of a date, such as 2024-01
    "YYYY/MM/DD": rf"^\d{{4}}/{_MONTH}/\d\d{_END}",
    "YYYY.MM.DD": rf"^\d{{4}}\.{_MONTH}\.\d\d{_END}",
    "YYYYMMDD": rf"^(19|20)\d\d{_MONTH}(0[1-9]|[12]\d|3[01])($|T)",
}
_OTHERS = {
    "DD.MM.YYYY": rf"^{_DAY}\.{_DAY}\.\d{{4}}{_END}",
    "DD/MM/YYYY or MM/DD/YYYY": rf"^{_DAY}/{_DAY}/(\d\d|\d{{4}}){_END}",
    "DD-MM-YYYY or MM-DD-YYYY": rf"^{_DAY}-{_DAY}-\d{{4}}{_END}",
    "YYYY-M-D": rf"^\d{{4}}[-/.](\d[-/.]\d\d?|\d\d[-/.]\d){_END}",
    "a month as a word": rf"^({_DAY}[ .-]+{_NAME}|{_NAME}\.? +{_DAY})[ .,-]+\d{{4}}{_END}",
}
_FORMS = {**_ORDERED, **_OTHERS}


def date_form(text: str) -> str | None:
    """Return the form of a text that begins with a date, such as YYYY-MM-DD; None for others."""
    return next((name for name, form in _FORMS.items() if re.match(form, text, re.ASCII)), None)


def is_ordered(form: str) -> bool:
    """Return whether texts of a form, compared as texts, are in the order of their dates."""
    return form in _ORDERED


def in_other_forms(texts: pa.Array, form: str) -> npt.NDArray[np.bool_]:
    """Return whether texts begin with a date in another form than `form`, bool[n]."""
    others = "|".join(pattern for name, pattern in _FORMS.items() if name != form)
    return np.asarray(pc.match_substring_regex(texts, others).fill_null(False), bool)
