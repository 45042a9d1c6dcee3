"""Mutations of files: flipped bits, cut ends, repeated and omitted parts, absurd numbers.

Of JSON also other values, names and depths.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

_HEAD = 512  # bytes: where headers are
_WORST = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        0,
        1.5,
        1e999,
        2**63,
        10**30,
        "",
        "a\0b",
        "../../tmp/x",
        "/etc/passwd",
        "a/b",
    ),
    *([], {}, [[3]], {"a": {}}, "x" * 70_000, "train", "\ud800", "train.tfrecord-00000-of-00001"),
)


def mutate(data: bytes, other: bytes, random: np.random.Generator) -> tuple[bytes, tuple[str, ...]]:
    """Return a file after one to three mutations, and their names.

    other: content of another file, of which parts may be taken.
    """
    steps = []
    for _ in range(random.integers(1, 4)):
        mutation = _MUTATIONS[random.integers(len(_MUTATIONS))]
        data = mutation(data, other, random)
        steps.append(mutation.__name__)
    return data, tuple(steps)


def change_json(content: bytes, random: np.random.Generator) -> bytes:
    """Return JSON with one or two other values or names."""
    value = json.loads(content)
    for _ in range(int(random.integers(1, 3))):
        places = list(_places(value))
        if not places:
            break
        holder, key = places[int(random.integers(len(places)))]
        new = copy.deepcopy(_VALUES[int(random.integers(len(_VALUES)))])
        match int(random.integers(4)):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[new if isinstance(new, str) else str(new)] = holder.pop(key)
            case _:
                holder[key] = new
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of every value inside."""
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        yield value, key
        yield from _places(inner)


def flip_bits(data: bytes, other: bytes, random: np.random.Generator) -> bytes:
    del other
    flipped = np.frombuffer(data, np.uint8).copy()
    if flipped.size:
        for _ in range(random.integers(1, 17)):
            flipped[_place(flipped.size, random)] ^= np.uint8(1 << random.integers(8))
    return flipped.tobytes()


def cut_off(data: bytes, other: bytes, random: np.random.Generator) -> bytes:
    del other
    return data[: _place(len(data) + 1, random)]


def splice(data: bytes, other: bytes, random: np.random.Generator) -> bytes:
    """The head of another file, then this one."""
    at = _place(len(other) + 1, random)
    return other[:at] + data[at if random.integers(2) else 0 :]


def repeat_part(data: bytes, other: bytes, random: np.random.Generator) -> bytes:
    del other
    at, size = _place(len(data) + 1, random), int(random.integers(1, 4096))
    return data[: at + size] + data[at:]


def leave_part_out(data: bytes, other: bytes, random: np.random.Generator) -> bytes:
    del other
    at, size = _place(len(data) + 1, random), int(random.integers(1, 256))
    return data[:at] + data[at + size :]


def write_extremes(data: bytes, other: bytes, random: np.random.Generator) -> bytes:
    """A number where a length or a size may stand."""
    del other
    at, width = _place(len(data) + 1, random), int(random.choice([1, 2, 4]))
    value = int(random.choice(_WORST)) & ((1 << 8 * width) - 1)
    order = "big" if random.integers(2) else "little"
    return data[:at] + value.to_bytes(width, order) + data[at + width :]  # type: ignore[arg-type]


def write_noise(data: bytes, other: bytes, random: np.random.Generator) -> bytes:
    del other
    at, size = _place(len(data) + 1, random), int(random.integers(1, 64))
    return data[:at] + random.bytes(size) + data[at + size :]


_Mutation = Callable[[bytes, bytes, np.random.Generator], bytes]
_MUTATIONS: tuple[_Mutation, ...] = (
    flip_bits,
    cut_off,
    splice,
    repeat_part,
    leave_part_out,
    write_extremes,
    write_noise,
)


def _place(size: int, random: np.random.Generator) -> int:
    """A place below `size`, every other time among the headers."""
    below = min(size, _HEAD) if random.integers(2) else size
    return int(random.integers(max(below, 1)))
