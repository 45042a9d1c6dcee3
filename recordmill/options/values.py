"""Parsers of option values, and their inverses.

A parser takes text and raises ValueError with what was expected and what was got; the caller adds
the name of the option. A `show_` function returns the canonical text of a value, which its parser
accepts.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeVar

from recordmill.notes import FAILABLE
from recordmill.option_checks import Item, list_item, split_list
from recordmill.options.durations import duration as duration
from recordmill.options.durations import show_duration as show_duration

_T = TypeVar("_T")

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_UNITS = {
    "": 1, "b": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SHOWN_UNITS = ("TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "KB")
_COLOURS = {"black": (0, 0, 0), "white": (255, 255, 255), "gray": (128, 128, 128)}
_RUNNERS: dict[str, Literal["direct", "flink"]] = {
    "direct": "direct",
    "directrunner": "direct",
    "flink": "flink",
    "flinkrunner": "flink",
}


def boolean(text: str) -> bool:
    """Parse `true`, `yes`, `on`, `1` or their opposites, in any case."""
    if text.lower() in _TRUE + _FALSE:
        return text.lower() in _TRUE
    raise ValueError(f"expected true or false, got {text!r}")


def text(text: str) -> str:
    """Return any text that is not empty."""
    if not text:
        raise ValueError("expected a value, got nothing")
    return str(text)


def each(read: Callable[[str], _T]) -> Callable[[Sequence[str]], tuple[_T, ...]]:
    """Return a parser of the values of a repeated flag, none of which may be empty."""
    return lambda texts: tuple(read(text(one)) for one in texts)


def lists(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the values of a repeated flag, which `split_list` splits, or which name files.

    Pairs of a list in a file, such as `a, b=c`, are put in quotes where they need them.
    """
    return tuple(
        list_item(one) if isinstance(one, Item) and "=" in one else text(one) for one in texts
    )


def show_lists(value: Sequence[str]) -> list[str]:
    """Return the inverse of `lists`."""
    return [
        part for one in value for part in (split_list(one, trim=False) if '"' in one else [one])
    ]


def whole_number(text: str) -> int:
    """Parse an integer, with an optional sign, and underscores between digits."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"expected a whole number, got {text!r}") from None


def whole_numbers(text: str) -> tuple[int, ...]:
    """Parse whole numbers, separated by commas."""
    return tuple(whole_number(part.strip()) for part in split_list(text))


def show_numbers(value: Sequence[int] | None) -> str | None:
    """Return the inverse of `whole_numbers`."""
    return None if value is None else ",".join(map(str, value))


def number(text: str) -> float:
    """Parse a finite decimal number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"expected a number, got {text!r}")
    return value


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser of one of the choices."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}; got {text!r}")
        return text

    return read


def some_of(*choices: str) -> Callable[[Sequence[str]], tuple[str, ...]]:
    """Return a parser of a subset of the choices, from repeated flags and comma-separated lists.

    It returns each word once, in the order of `choices`.
    """

    def read(texts: Sequence[str]) -> tuple[str, ...]:
        given = _words(texts)
        if unknown := sorted(given.difference(choices)):
            raise ValueError(f"expected some of {', '.join(choices)}; got {unknown[0]!r}")
        return tuple(word for word in choices if word in given)

    return read


def _words(texts: Sequence[str]) -> set[str]:
    """Return the words of comma-separated lists. Raises ValueError if lists hold no word."""
    found = {word for text in texts for word in split_list(text)} - {""}
    if texts and not found:
        raise ValueError("expected a value, got nothing")
    return found


def show_each(value: Sequence[object]) -> list[str]:
    """Return the inverse of `each`."""
    return list(map(str, value))


def note_codes(texts: Sequence[str]) -> tuple[str, ...]:
    """Parse repeated flags and comma-separated lists of codes of notes; `all` is every code."""
    found = some_of("all", *FAILABLE)(texts)
    return FAILABLE if "all" in found else found


def names(texts: Sequence[str]) -> tuple[str, ...]:
    """Parse repeated flags and comma-separated lists into sorted, distinct names."""
    return tuple(sorted(_words(texts)))


def ordered_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Parse repeated flags and comma-separated lists into names, in the order given."""
    return tuple(name for text in texts for name in split_list(text))


def distinct_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Parse names as `ordered_names` does, and keep the first of equal ones."""
    return tuple(dict.fromkeys(ordered_names(texts)))


def size(text: str) -> tuple[int, int]:
    """Parse `224` or `480x640` into (height, width) in pixels."""
    match = re.fullmatch(r"(\d{1,18})(?:[xX](\d{1,18}))?", text.strip(), re.ASCII)
    if match is None:
        raise ValueError(f"expected N or HEIGHTxWIDTH, such as 224 or 480x640; got {text!r}")
    height, width = int(match[1]), int(match[2] or match[1])
    if not height or not width:
        raise ValueError(f"expected a size of at least one pixel, got {text!r}")
    return height, width


def show_size(value: tuple[int, int] | None) -> str | None:
    """Return the inverse of `size`; a square becomes one number."""
    if value is None:
        return None
    height, width = value
    return str(height) if height == width else f"{height}x{width}"


def byte_size(text: str) -> int:
    """Parse `128MB`, `1GiB`, `1.5GB` or `1000000` into bytes; MB is 10^6, MiB 2^20."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower(), re.ASCII)
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"expected bytes, such as 128MB, 1GiB or 1000000; got {text!r}")
    whole, _, decimals = match[1].partition(".")
    # Integer arithmetic, because a float has only 15 exact digits.
    return int(whole + decimals) * _UNITS[match[2]] // int(10 ** len(decimals))


def show_bytes(value: int | None) -> str | None:
    """Return the inverse of `byte_size`, in the largest unit that divides the value."""
    if not value:
        return None if value is None else "0"
    for unit in _SHOWN_UNITS:
        if value % _UNITS[unit.lower()] == 0:
            return f"{value // _UNITS[unit.lower()]}{unit}"
    return str(value)


def step(text: str) -> int | str | None:
    """Parse a duration into microseconds; `auto` is None, and other text names a column."""
    given = text.strip()
    if not given:
        raise ValueError("expected auto, a duration such as 10s, or a column, got nothing")
    if given == "auto":
        return None
    try:
        return duration(given)
    except ValueError:
        return given


def show_step(value: int | str | None) -> str:
    """Return the inverse of `step`."""
    if value is None:
        return "auto"
    return value if isinstance(value, str) else str(show_duration(value))


def moments(text: str) -> dict[str, int]:
    """Parse `validation=2005-01-01,test=2005-03-01T12:00` into {split: microseconds since 1970}."""
    found = {}
    for item in split_list(text):
        name, equals, moment = item.partition("=")
        try:
            when = datetime.datetime.fromisoformat(moment)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise ValueError(f"expected NAME=TIME,..., such as test=2026-01-31T18:00; got {item!r}")
        if when.tzinfo is None:
            when = when.replace(tzinfo=datetime.UTC)
        found[name] = (when - _EPOCH) // datetime.timedelta(microseconds=1)
    return found


def show_moments(value: Mapping[str, int]) -> str | None:
    """Return the inverse of `moments`."""
    start = _EPOCH.replace(tzinfo=None)
    times = {name: start + datetime.timedelta(microseconds=us) for name, us in value.items()}
    return ",".join(f"{name}={time.isoformat()}" for name, time in times.items()) or None


def colour(text: str) -> tuple[int, int, int]:
    """Parse `255,255,255`, `#ffffff` or a name into red, green and blue, each 0 to 255."""
    lowered = text.strip().lower().replace("grey", "gray")
    if lowered in _COLOURS:
        return _COLOURS[lowered]
    if re.fullmatch(r"#[0-9a-f]{6}", lowered):
        red, green, blue = bytes.fromhex(lowered[1:])
        return red, green, blue
    match = re.fullmatch(r"(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})", lowered, re.ASCII)
    if match is None or max(map(int, match.groups())) > 255:
        raise ValueError(
            "expected a colour as R,G,B of 0 to 255, as #rrggbb, or one of "
            f"{', '.join(_COLOURS)}; got {text!r}"
        )
    return int(match[1]), int(match[2]), int(match[3])


def show_colour(value: tuple[int, int, int] | None) -> str | None:
    """Return the inverse of `colour`."""
    return None if value is None else ",".join(map(str, value))


def intensity_window(text: str) -> tuple[float, float] | Literal["image"]:
    """Parse `-100:400` into (low, high), or `image`."""
    if text == "image":
        return "image"
    low, colon, high = text.partition(":")
    if not colon:
        raise ValueError(f"expected LOW:HIGH, such as 0:4095, or image; got {text!r}")
    return number(low), number(high)


def show_intensity_window(value: tuple[float, float] | Literal["image"] | None) -> str | None:
    """Return the inverse of `intensity_window`."""
    return value if value is None or value == "image" else f"{value[0]!r}:{value[1]!r}"


def fractions(text: str) -> dict[str, float]:
    """Parse `train=0.8,test=0.2` into {name: fraction}, in the order given."""
    expected = "expected NAME=FRACTION,..., such as train=0.8,test=0.2"
    return {name: _number(value, expected) for name, value in _pairs(text, expected).items()}


def shard_counts(text: str) -> int | dict[str, int]:
    """Parse `16`, for every split, or `train=16,test=2`."""
    expected = "expected a number of shards, such as 16 or train=16,test=2"
    if "=" not in text:
        return _count(text, expected)
    return {name: _count(value, expected) for name, value in _pairs(text, expected).items()}


def balance_target(text: str) -> int | str:
    """Parse a number of records, `median`, or `repeat:0.001`, the threshold of repeat factors."""
    if text == "median":
        return text
    expected = "expected a number of records, median or repeat:THRESHOLD"
    if text.startswith("repeat:"):
        if not 0 < number(text.removeprefix("repeat:")) <= 1:
            raise ValueError(f"{expected}, a fraction such as repeat:0.001; got {text!r}")
        return text
    return _count(text, expected)


def renames(texts: Sequence[str]) -> dict[str, str]:
    """Parse repeated `image/encoded=image_raw` into {old: new}; the old name may contain `=`."""
    out: dict[str, str] = {}
    for text in texts:
        old, _, new = text.rpartition("=")
        if not old or not new:
            raise ValueError(f"expected OLD=NEW, such as image/encoded=image_raw; got {text!r}")
        _set_once(out, old, new, noun="new name")
    return out


def by_column(texts: Sequence[str]) -> dict[str, str]:
    """Parse `age=10,hours=4`, possibly repeated, into {column: value}, sorted by column."""
    out: dict[str, str] = {}
    for part in _parts(texts):
        column, _, value = part.rpartition("=")
        if not column or not value:
            raise ValueError(f"expected COLUMN=VALUE,..., got {part!r}")
        if column in out:
            raise ValueError(
                f"expected one value for {column!r}, got {out[column]!r} and {value!r}"
            )
        out[column] = value
    return dict(sorted(out.items()))


def columns_from(texts: Sequence[str]) -> dict[str, str]:
    """Parse `lang=folder:1,year=`, possibly repeated, into {column: part of a path}, sorted."""
    out: dict[str, str] = {}
    for part in _parts(texts):
        name, equals, fact = part.partition("=")
        if not name or not equals:
            raise ValueError(
                f"expected NAME=PART,..., such as speaker=([^_]+)_ or lang=folder:1; got {part!r}"
                " (a PART with a comma is in double quotes with its name)"
            )
        _set_once(out, name, fact or f"{name}=", noun="part")
    return dict(sorted(out.items()))


def split_map(texts: Sequence[str]) -> dict[str, str]:
    """Parse `5=test,*=train`, possibly repeated, into {value: split}, sorted by value."""
    out: dict[str, str] = {}
    for part in _parts(texts):
        value, _, split = part.rpartition("=")
        if not value or not split:
            raise ValueError(f"expected VALUE=SPLIT,..., such as 5=test,*=train; got {part!r}")
        _set_once(out, value, split, noun="split")
    return dict(sorted(out.items()))


def split_files(texts: Sequence[str]) -> dict[str, str]:
    """Parse `test=a.txt,train=*`, possibly repeated, into {split: path}, sorted by split."""
    expected = "expected SPLIT=FILE,..., such as test=testing_list.txt,train=*"
    out: dict[str, str] = {}
    for text in texts:
        for split, path in _pairs(text, expected).items():
            if split in out:
                raise ValueError(f"{expected}; got {split!r} twice")
            out[split] = path
    return dict(sorted(out.items()))


def drift_limits(texts: Sequence[str]) -> dict[str, float]:
    """Parse `0.2`, `age=0.3` or both, possibly repeated, into {column: limit}; "" is all others."""
    expected = "expected a limit from 0 to 1, for all columns (0.2) or for one (age=0.2)"
    out: dict[str, float] = {}
    for part in (part for text in texts for part in split_list(text)):
        column, _, value = part.rpartition("=")
        limit = _number(value, expected)
        if not 0 <= limit <= 1 or column in out:
            raise ValueError(f"{expected}, each once; got {', '.join(texts)!r}")
        out[column] = limit
    return dict(sorted(out.items()))


def show_drift_limits(value: Mapping[str, float]) -> list[str]:
    """Return text that `drift_limits` parses to the same value."""
    return [f"{column}={limit:g}" if column else f"{limit:g}" for column, limit in value.items()]


def runner(text: str) -> Literal["direct", "flink"]:
    """Parse `direct` or `flink`; also Beam's spellings of them, which schedulers pass."""
    if text.lower() not in _RUNNERS:
        raise ValueError(f"expected direct or flink (or DirectRunner, FlinkRunner); got {text!r}")
    return _RUNNERS[text.lower()]


def _parts(texts: Sequence[str]) -> Iterator[str]:
    """Yield the parts of lists with commas between."""
    return (part for text in texts for part in split_list(text))


def _set_once(out: dict[str, str], name: str, value: str, *, noun: str) -> None:
    """Add a value. Raises ValueError if the name has another one. noun: of the values."""
    if out.setdefault(name, value) != value:
        raise ValueError(f"expected one {noun} for {name!r}, got {out[name]!r} and {value!r}")


def _pairs(text: str, expected: str) -> Mapping[str, str]:
    out: dict[str, str] = {}
    for part in split_list(text):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise ValueError(f"{expected}; got {text!r}")
        if name in out:
            raise ValueError(f"{expected}; got {name!r} twice")
        out[name] = value
    return out


def _number(text: str, expected: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{expected}; got {text!r}") from None


def _count(text: str, expected: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{expected}; got {text!r}") from None
