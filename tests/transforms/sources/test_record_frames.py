import io
import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest

from recordmill.errors import Reason
from recordmill.tfrecord.framing import frame
from recordmill.transforms.sources.row_formats.reading.row_file import BadRow
from recordmill.transforms.sources.row_formats.tfrecords.record_frames import (
    FrameBlock,
    list_sections,
    map_blocks,
    read_blocks,
)


class Read(NamedTuple):
    """The records of a file: {number: payload}, and what was rejected."""

    payloads: dict[int, bytes]
    bad: list[BadRow]


def collect(blocks: Sequence[FrameBlock]) -> Read:
    payloads = {
        number: block.data[start:end].tobytes()
        for block in blocks
        for number, start, end in zip(
            block.numbers.tolist(), block.starts.tolist(), block.ends.tolist(), strict=True
        )
    }
    assert len(payloads) == sum(len(block.numbers) for block in blocks)
    return Read(payloads, [one for block in blocks for one in block.bad])


def read(data: bytes, *, section: int = 1 << 20) -> Read:
    """Read a file by sections, and check that mapping it finds the same headers damaged."""
    stream, size = io.BytesIO(data), len(data)
    sections = list(list_sections(stream, size, section=section))
    edges = [(one.start, one.end) for one in sections]
    assert [start for start, _ in edges] == [0, *(end for _, end in edges)][: len(edges)]
    assert not data or edges[-1][1] == size
    blocks = []
    for one in sections:
        blocks += read_blocks(stream, one, size=size, max_bytes=1 << 20)
        assert blocks[-1].bad or blocks[-1].numbers[-1] >= one.row
    found = collect(blocks)
    mapped = collect(list(map_blocks(np.frombuffer(data, np.uint8))))
    damaged = [one for one in found.bad if "content does not match" not in one.why]
    assert mapped.bad == damaged
    assert found.payloads.items() <= mapped.payloads.items()
    return found


def frames_of(count: int, seed: int = 0) -> list[bytes]:
    draw = random.Random(seed)
    return [frame(draw.randbytes(draw.choice((0, 1, 11, 40, 700)))) for _ in range(count)]


def payload_of(one: bytes) -> bytes:
    return one[12:-4]


@pytest.mark.parametrize("byte", range(12))
@pytest.mark.parametrize("section", [1, 500, 1 << 20])
def test_a_damaged_header_costs_its_record_only(byte, section) -> None:
    frames = frames_of(40)
    damaged = bytearray(frames[7])
    damaged[byte] ^= 0x10
    found = read(b"".join([*frames[:7], damaged, *frames[8:]]), section=section)
    assert found.payloads == {n: payload_of(one) for n, one in enumerate(frames) if n != 7}
    start = sum(map(len, frames[:7]))
    why = "its length does not match its checksum"
    skipped = (
        f"the bytes from {start} to {start + len(damaged)}, where the next intact record begins,"
    )
    assert found.bad == [BadRow(7, Reason.CORRUPT, f"{why}: {skipped} are skipped")]


@pytest.mark.parametrize("seed", range(60))
def test_records_outside_of_damage_are_read(seed) -> None:
    """Changed and inserted bytes cost the records that they touch, and single ones in between."""
    draw = random.Random(seed)
    frames = frames_of(draw.randrange(1, 200), seed)
    starts = np.cumsum([0, *map(len, frames)]).tolist()
    data = bytearray(b"".join(frames))
    touched: set[int] = set()
    for at in sorted(draw.sample(range(len(data)), min(len(data), 3)), reverse=True):
        count = draw.randrange(1, 300)
        changed = draw.choice((0, count))
        data[at : at + changed] = draw.choice((bytes(count), draw.randbytes(count)))
        last = max(at + changed, at + 1)
        touched |= {n for n in range(len(frames)) if starts[n] < last and starts[n + 1] > at}
    found = read(bytes(data), section=draw.choice((1, 1000, 1 << 20)))
    expected = Counter(
        payload_of(one)
        for n, one in enumerate(frames)
        if n not in touched and not {n - 1, n + 1} <= touched
    )
    payloads = Counter(found.payloads.values())
    assert expected <= payloads <= Counter(map(payload_of, frames))


def test_a_header_inside_a_record_is_not_taken_for_the_next_record() -> None:
    inner = frame(b"inner")
    frames = [frame(b"first"), frame(inner + b"more"), frame(b"last")]
    damaged = b"\xff" * 8 + frames[1][8:]
    found = read(frames[0] + damaged + frames[2])
    assert found.payloads == {0: b"first", 2: b"last"}


@pytest.mark.parametrize("lost", [1, 5, 20])
def test_a_file_that_ends_early(lost) -> None:
    frames = [frame(bytes(30)) for _ in range(5)]
    data = b"".join(frames)[:-lost]
    found = read(data)
    assert len(found.payloads) == 4
    rest = f"the last {46 - lost} of {len(data)} bytes of the file cannot be read"
    assert found.bad == [BadRow(4, Reason.TRUNCATED, f"the file ends inside it: {rest}")]


@pytest.mark.parametrize("size", range(1, 20))
def test_files_of_few_bytes(size) -> None:
    for data in (b"x" * size, bytes(size), frame(b"payload")[:size]):
        found = read(data)
        assert not found.payloads
        assert [one.number for one in found.bad] == [0]


def test_bytes_lost_inside_of_a_file() -> None:
    """A length reaches beyond the end of the file, but records follow."""
    frames = [frame(bytes(30)), frame(bytes(10_000)), *(frame(bytes(40)) for _ in range(9))]
    data = b"".join([frames[0], frames[1][:400], *frames[2:]])
    found = read(data)
    assert [len(one) for one in found.payloads.values()] == [30, *[40] * 9]
    why = (
        "its length reaches beyond the end of the file: the bytes from 46 to 446, where the next"
        " intact record begins, are skipped, about 9 records"
    )
    assert found.bad == [BadRow(number, Reason.CORRUPT, why) for number in range(1, 10)]
    assert min(found.payloads.keys() - {0}) == 10


def test_no_record_follows() -> None:
    frames = [frame(bytes(30)) for _ in range(5)]
    for noise in (bytes(200_000), random.Random(1).randbytes(700_000)):
        found = read(b"".join(frames) + b"\xff" * 4 + noise)
        assert len(found.payloads) == 5
        assert found.bad[0].why.startswith("its length does not match its checksum: the last")
        records = round((4 + len(noise)) / 46)
        assert found.bad[0].why.endswith(f"cannot be read, about {records} records")
        assert [one.number for one in found.bad] == list(range(5, 5 + records))


@pytest.mark.long
def test_records_after_megabytes_of_damage() -> None:
    """Chunks overlap, so that a header on their border is found."""
    after = frame(b"x") + frame(b"y")
    for size in range((1 << 18) - 20, (1 << 18) + 20):
        found = read(frame(b"") + b"\xff" * size + after)
        assert list(found.payloads.values()) == [b"", b"x", b"y"]
