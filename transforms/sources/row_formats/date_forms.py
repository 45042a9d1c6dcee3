"""Forms of dates and times in text, and the order of those forms that have one.

Texts of the form YYYY-MM-DD are ordered as dates when they are compared as texts. With a time they
are so only if all have the same separator and time zone, and the same precision.
"""

from __future__ import annotations

import dataclasses
import re
import shlex

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.option_checks import list_item

Mask = npt.NDArray[np.bool_]

ISO = "YYYY-MM-DD"
_ORDER_RULE = (
    "texts are compared from their first character on: write dates as 2024-01-31 in the condition"
    " and in the column"
)
_SHOWN = 40  # characters of a value in a message

_DAY = r"(0?[1-9]|[12]\d|3[01])"  # or a month, which may be first
_MONTH = r"(0[1-9]|1[0-2])"
_NAME = r"(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_END = r"($|[T ,])"
# The first character of the longest unit of time comes first, and each unit has as many digits.
_ORDERED = {
    ISO: rf"\d{{4}}-{_MONTH}($|-\d\d{_END})",  # also the beginning of a date, such as 2024-01
    "YYYY/MM/DD": rf"\d{{4}}/{_MONTH}/\d\d{_END}",
    "YYYY.MM.DD": rf"\d{{4}}\.{_MONTH}\.\d\d{_END}",
    "YYYYMMDD": rf"(19|20)\d\d{_MONTH}(0[1-9]|[12]\d|3[01])($|T)",
}
_OTHERS = {
    "DD.MM.YYYY": rf"{_DAY}\.{_DAY}\.\d{{4}}{_END}",
    "DD/MM/YYYY or MM/DD/YYYY": rf"{_DAY}/{_DAY}/(\d\d|\d{{4}}){_END}",
    "DD-MM-YYYY or MM-DD-YYYY": rf"{_DAY}-{_DAY}-\d{{4}}{_END}",
    "YYYY-M-D": rf"\d{{4}}[-/.](\d[-/.]\d\d?|\d\d[-/.]\d){_END}",
    "a month as a word": rf"({_DAY}[ .-]+{_NAME}|{_NAME}\.? +{_DAY})[ .,-]+\d{{4}}{_END}",
}
_FORMS = {**_ORDERED, **_OTHERS}
_ANY = "^(" + "|".join(_FORMS.values()) + ")"

_UTC = r" ?(Z|[+-]00(:?00)?)"
_ZONE = r" ?(Z|[+-]\d\d(:?\d\d)?)"
_CLOCK = r"\d\d:\d\d(:\d\d(\.\d+)?)?"
_OFFSET = r"\d ?[+-]\d\d(:?\d\d)?$"  # ends a time with another time zone than UTC
_TIME = rf"(?P<separator>[T ])(?P<clock>{_CLOCK})(?P<zone>{_ZONE})?$"
_LOOSE_TIME = r"[T ,]+\d"  # begins one that may have no order
_DATE = r"\d{4}([-/.])\d\d([-/.])\d\d"  # of any form that is ordered, and takes a _TIME
_CLOCK_NAMES = (
    (r"\d\d:\d\d:\d\d", "hh:mm:ss"),
    (r"\d:\d\d:\d\d", "h:mm:ss"),
    (r"\d\d:\d\d", "hh:mm"),
    (r"\d:\d\d", "h:mm"),
    (r"\d{6}", "hhmmss"),
    (r"\d{4}", "hhmm"),
    (r"\d", "n"),
)
# Spellings of ISO 8601 and RFC 3339 that Arrow does not parse, and how it writes them.
_ARROW_SPELLINGS = (
    (rf"^({_DATE})t", r"\1T"),
    (rf"^({_DATE}[T ]\d\d:\d\d:\d\d\.\d{{6}})\d+", r"\1"),
    (rf"^({_DATE}[T ]{_CLOCK}) ?(?:z|Z|UTC|GMT)$", r"\1Z"),
    (rf"^({_DATE}[T ]{_CLOCK}) ([+-]\d\d(?::?\d\d)?)$", r"\1\6"),
)
_HOUR_24 = r"^(?P<day>\d{4}-\d\d-\d\d)[T ]24:00(?::00(?:\.0+)?)?(?P<zone>Z|[+-]\d\d(?::?\d\d)?|)$"
_DAY_LONG = pa.scalar(86_400, pa.duration("s"))
# The parts of a time that differ between notations of equal times: its zone, and zeros at its end.
_SHORTER = (
    (rf"^({_DATE}[T ]{_CLOCK}){_ZONE}$", r"\1"),
    (rf"^({_DATE}[T ]\d\d:\d\d:\d\d)\.0+$", r"\1"),
    (rf"^({_DATE}[T ]\d\d:\d\d:\d\d\.\d*[1-9])0+$", r"\1"),
    (rf"^({_DATE}[T ]\d\d:\d\d):00$", r"\1"),
    (rf"^({_DATE})[T ]00:00$", r"\1"),
)


@dataclasses.dataclass(frozen=True)
class DateLiteral:
    """Text of a condition that begins with a date.

    day_form: the form of the date, such as YYYY-MM-DD. tail: the text after the date.
    """

    text: str
    day_form: str
    tail: str

    @property
    def form(self) -> str:
        """Form of the date and the time, such as YYYY-MM-DD hh:mm."""
        time = self._time
        if time is None:
            if not re.match(_LOOSE_TIME, self.tail):
                return self.day_form
            shown = self.tail
            for pattern, name in _CLOCK_NAMES:
                shown = re.sub(pattern, name, shown, flags=re.ASCII)
            return self.day_form + shown
        parts = zip(("hh", "mm", "ss"), time["clock"].partition(".")[0].split(":"), strict=False)
        clock = ":".join(name for name, _ in parts) + (".f" if "." in time["clock"] else "")
        return f"{self.day_form}{time['separator']}{clock}{time['zone'] or ''}"

    @property
    def shortest(self) -> str:
        """Shortest notation of this date or time, as `shorten_times` returns it."""
        text = self.text
        for pattern, shorter in _SHORTER:
            text = re.sub(pattern, shorter, text, flags=re.ASCII)
        return text

    @property
    def is_ordered(self) -> bool:
        """True if texts of this form, compared as texts, are in the order of time."""
        if self.day_form not in _ORDERED:
            return False
        compact = self.day_form == "YYYYMMDD"
        return compact or self._time is not None or not re.match(_LOOSE_TIME, self.tail, re.ASCII)

    def in_other_forms(self, texts: pa.Array) -> Mask:
        """Return whether texts begin with a date that has no order with this one, bool[n].

        That is a date in another form, or a time with another separator or time zone. Precision
        may differ: `shorten_times` removes the difference. Equal for all literals of one `form`.
        """
        dates = _matches(texts, _ANY)
        if not dates.any():
            return dates
        day = _FORMS[self.day_form]
        alike = _matches(texts, f"^({day})")
        time = self._time
        if time is not None:
            zone = _zone_pattern(time["zone"])
            date = day.removesuffix(_END) if self.day_form != ISO else rf"\d{{4}}-{_MONTH}(-\d\d)?"
            alone = "$|" if re.fullmatch(_UTC, time["zone"] or "Z") else ""
            rest = rf"{alone}{time['separator']}{_CLOCK}{zone}$|[T ,]+[^\dT ,]"
            alike &= _matches(texts, f"^({date})({rest})")
        elif self.day_form == "YYYYMMDD" and self.tail:
            alike &= _matches(texts, "^" + re.sub(r"\d", r"\\d", re.escape(self.text)) + "$")
        elif self.day_form in _ORDERED:
            alike &= ~(_matches(texts, rf"^\S+[T ]\d.*{_OFFSET}") & ~_matches(texts, _UTC + "$"))
        return dates & ~alike

    def mismatch(self, column: str, value: str, *, declarable: bool) -> str:
        """Return why a value of `in_other_forms` cannot be compared with this text.

        declarable: whether --types takes the column.
        """
        shown = value[:_SHOWN]
        found = date_literal(shown)
        rule = _ORDER_RULE
        if found is not None and found.day_form == self.day_form and self.day_form in _ORDERED:
            what = "forms" if found._zone == self._zone else "time zones"
            one = what.removesuffix("s")
            rule = (
                f"as texts, times of different {what} are not in the order of time: use one {one}"
                " in the condition and in the column"
            )
            if declarable and not found._zone and not self._zone:
                declared = shlex.quote(f"{list_item(column)}=timestamp")
                rule += f", or --types {declared}, which compares them as times"
        form = "none" if found is None else found.form
        return (
            f"column {column!r}: expected a date of the form {self.form}, such as {self.text!r} in"
            f" the condition, got {shown!r} ({form}); {rule}"
        )

    def disorder(self, column: str, where: str) -> str:
        """Return why texts of this form have no order. where: the input."""
        rule = _ORDER_RULE
        if self.day_form in _ORDERED:
            rule = "write times as 2024-01-31 08:05 in the condition and in the column"
        return (
            f"{self.text!r} is a date of the form {self.form}, and column {column!r} of {where} is"
            f" text; {rule}"
        )

    @property
    def _time(self) -> re.Match[str] | None:
        """The time after the date, if it is one that has an order."""
        return re.match(_TIME, self.tail, re.ASCII)

    @property
    def _zone(self) -> str | None:
        return None if self._time is None else self._time["zone"]


def date_literal(text: str) -> DateLiteral | None:
    """Return a text that begins with a date; None for other texts."""
    for name, form in _FORMS.items():
        if found := re.match(form, text, re.ASCII):
            end = found.end() - (found[0][-1] in "T ,")
            return DateLiteral(text, name, text[end:])
    return None


def shorten_times(texts: pa.Array) -> pa.Array:
    """Return times in their shortest notation, so that equal times are equal texts.

    They are without their time zone, and without seconds and times of day that are 0.
    """
    if _matches(texts, rf"^{_DATE}[T ]{_CLOCK}").any():
        for pattern, shorter in _SHORTER:
            texts = pc.replace_substring_regex(texts, pattern, shorter)
    return texts


def arrow_times(texts: pa.Array) -> pa.Array:
    """Return times of ISO 8601 and RFC 3339 in the notation that Arrow parses, other texts as is.

    Of a fraction, six digits are kept; 24:00 is the start of the next day.
    """
    for pattern, spelling in _ARROW_SPELLINGS:
        texts = pc.replace_substring_regex(texts, pattern, spelling)
    found = pc.extract_regex(texts, _HOUR_24)
    if found.null_count == len(found):
        return texts
    days, zones = (pc.struct_field(found, name) for name in ("day", "zone"))
    dates = pc.strptime(days, format="%Y-%m-%d", unit="s", error_is_null=True)
    exists = pc.equal(pc.strftime(dates, "%Y-%m-%d"), days)  # 31 June is read as 1 July
    after = pc.strftime(pc.add(dates, _DAY_LONG), "%Y-%m-%d")
    midnights = pc.binary_join_element_wise(after, " 00:00", zones, "")
    return pc.if_else(exists.fill_null(False), midnights, texts)


def _zone_pattern(zone: str | None) -> str:
    """Return the pattern of the notations of a time zone."""
    if zone is None:
        return ""
    if re.fullmatch(_UTC, zone):
        return _UTC
    sign, hours, minutes = zone.strip()[0], zone.strip()[1:3], zone.strip()[3:].strip(":")
    rest = f":?{minutes}" if minutes.strip("0") else "(:?00)?"
    return rf" ?[{sign}]{hours}{rest}"


def _matches(texts: pa.Array, pattern: str) -> Mask:
    return np.asarray(pc.match_substring_regex(texts, pattern).fill_null(False), bool)


def has_zone(text: str) -> bool:
    """Return whether a text is a date with a time and a time zone."""
    literal = date_literal(text)
    return literal is not None and literal._zone is not None
