"""The wire format, compared with TensorFlow's writer and reader; files of other writers; damage."""

import gzip
import io
import itertools
import os
import pathlib
import pickle
import random
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recordmill.tfrecord import framing
from recordmill.tfrecord.checksums import masked_crc32c
from recordmill.tfrecord.framing import (
    MAX_PAYLOAD_BYTES,
    FrameError,
    FrameSizeError,
    compression_of,
    frame,
    frame_headers,
    gzip_member,
    payload_of,
    read_frames,
)
from tests.paths import TFRECORDS

PAYLOADS = [b"first", b"", b"the third of them"]
FRAMES = [frame(payload) for payload in PAYLOADS]
FILE = b"".join(FRAMES)
STARTS = [0, 21, 37, 70]


@pytest.fixture(scope="module")
def tf():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow

    return tensorflow


def read(data: bytes, compression="none"):
    return list(read_frames(io.BytesIO(data), compression=compression))


def payloads(data: bytes, compression="none"):
    return [record.payload for record in read(data, compression)]


class Trickle(io.RawIOBase):
    """A stream that returns fewer bytes than requested."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data = io.BytesIO(data)
        self._step = step

    def read(self, size: int = -1) -> bytes:
        return self._data.read(min(size, self._step))


def test_frames_are_those_of_tensorflow(tf, tmp_path):
    path = str(tmp_path / "theirs")
    with tf.io.TFRecordWriter(path) as writer:
        for payload in PAYLOADS:
            writer.write(payload)
    assert pathlib.Path(path).read_bytes() == FILE


@pytest.mark.parametrize(
    "members",
    [
        pytest.param([FILE], id="one member"),
        pytest.param(FRAMES, id="a member per record"),
        pytest.param([FILE[:7], b"", FILE[7:50], FILE[50:]], id="members cut anywhere"),
    ],
)
def test_tensorflow_reads_gzip_of_many_members(tf, tmp_path, members):
    path = tmp_path / "ours.gz"
    path.write_bytes(b"".join(map(gzip_member, members)))
    records = tf.data.TFRecordDataset(str(path), compression_type="GZIP")
    assert [record.numpy() for record in records] == PAYLOADS


@pytest.mark.parametrize(
    ("name", "compression", "sizes"),
    [
        ("python-data.tfrecord", "none", [54]),
        ("python-singles.tfrecord", "none", [19, 20, 20]),
        ("tensorflow-images.tfrecord", "none", [16564, 12894]),
        ("gzip-test-00000-of-00001.tfrecord.gz", "gzip", [1920169, 1093291]),
        ("gzip-train-00000-of-00001.tfrecord.gz", "gzip", [2183855, 1433772]),
        ("gzip-validation-00000-of-00001.tfrecord.gz", "gzip", [1920175, 272817]),
    ],
)
def test_reads_files_of_other_writers(name, compression, sizes):
    with (TFRECORDS / name).open("rb") as stream:
        records = list(read_frames(stream, compression=compression))
    assert [len(record.payload) for record in records] == sizes


def test_reads_all_records_of_other_writers():
    data = (TFRECORDS / "python-42.tfrecord").read_bytes()
    records = read(data)
    assert len(records) == 42
    assert b"".join(frame(record.payload) for record in records) == data


@given(st.lists(st.integers(0, MAX_PAYLOAD_BYTES)))
@example([0, 255, 256, 65535, 1 << 24, MAX_PAYLOAD_BYTES])
def test_headers_hold_length_and_checksum(lengths):
    packed = [struct.pack("<Q", length) for length in lengths]
    expected = [length + struct.pack("<I", masked_crc32c(length)) for length in packed]
    assert [bytes(head) for head in frame_headers(np.array(lengths, np.int64))] == expected


@pytest.mark.parametrize("lengths", [[5, MAX_PAYLOAD_BYTES + 1], [-1, 5]])
def test_headers_of_invalid_lengths(lengths):
    with pytest.raises(ValueError, match="a record holds 0 to 2147483647 bytes, got"):
        frame_headers(np.array(lengths, np.int64))


@given(
    records=st.lists(st.binary(max_size=60)),
    cuts=st.lists(st.integers(0, 300)),
    step=st.integers(1, 100),
    chunk=st.integers(1, 50),
)
def test_framed_records_are_read_back(records, cuts, step, chunk):
    data = b"".join(map(frame, records))
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    members = [data[a:b] for a, b in itertools.pairwise(edges)]
    zipped = b"".join(map(gzip_member, members))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "_CHUNK", chunk)
        patch.setattr(framing, "_GZIP_CHUNK", chunk)
        plain = list(read_frames(Trickle(data, step), compression="none"))
        inflated = list(read_frames(Trickle(zipped, step), compression="gzip"))
    assert [record.payload for record in plain] == records
    assert [data[r.offset : r.offset + 16 + len(r.payload)] for r in plain] == list(
        map(frame, records)
    )
    assert inflated == plain


def test_records_longer_than_a_chunk():
    long = random.Random(1).randbytes(3 * framing._CHUNK)
    data = frame(b"before") + frame(long) + frame(b"after")
    assert payloads(data) == [b"before", long, b"after"]
    assert payloads(gzip_member(data), "gzip") == [b"before", long, b"after"]


def damaged(data: bytes, compression="none") -> tuple[list[bytes], FrameError]:
    """Return the records before the damage, and the damage."""
    before = []
    with pytest.raises(FrameError) as caught:
        before.extend(
            record.payload for record in read_frames(io.BytesIO(data), compression=compression)
        )
    return before, caught.value


def test_every_changed_byte_is_detected():
    for at in range(len(FILE)):
        for change in range(1, 256):
            data = bytearray(FILE)
            data[at] ^= change
            with pytest.raises(FrameError) as caught:
                read(bytes(data))
            record = max(i for i, start in enumerate(STARTS) if start <= at)
            assert (caught.value.record, caught.value.offset) == (record, STARTS[record])


def test_every_truncation_is_detected_except_between_frames():
    for size in range(len(FILE)):
        if size in STARTS:
            assert payloads(FILE[:size]) == PAYLOADS[: STARTS.index(size)]
        else:
            before, error = damaged(FILE[:size])
            record = max(i for i, start in enumerate(STARTS) if start <= size)
            assert before == PAYLOADS[:record]
            assert (error.record, error.offset) == (record, STARTS[record])
            assert error.what == "the file ends inside a record"


def test_every_truncation_of_gzip_is_detected_except_between_members():
    zipped = [gzip_member(one) for one in FRAMES]
    ends = {0: 0, len(zipped[0]): 1, len(zipped[0] + zipped[1]): 2}
    data = b"".join(zipped)
    for size in range(len(data)):
        if size in ends:
            assert payloads(data[:size], "gzip") == PAYLOADS[: ends[size]]
        else:
            assert damaged(data[:size], "gzip")[1].what == "the file ends inside a gzip member"


def test_changed_bytes_of_gzip_never_change_a_record():
    data = b"".join(map(gzip_member, FRAMES))
    found = 0
    for at in range(len(data)):
        for change in (1, 2, 16, 128, 255):
            changed = bytearray(data)
            changed[at] ^= change
            try:
                assert payloads(bytes(changed), "gzip") == PAYLOADS
            except FrameError:
                found += 1
    # A member has 10 bytes of header, of which 6 (the time, extra flags, the system) mean nothing.
    assert found > (len(data) - 3 * 6 - 3) * 4


def patched(at: int, *, by: bytes) -> bytes:
    return FILE[:at] + by + FILE[at + len(by) :]


ABSURD = struct.pack("<Q", 1 << 62)
LYING = bytes(frame_headers(np.array([MAX_PAYLOAD_BYTES]))[0])


@pytest.mark.parametrize(
    ("data", "compression", "record", "offset", "what"),
    [
        (patched(22, by=b"?"), "none", 1, 21, "length checksum does not match"),
        (patched(8, by=b"????"), "none", 0, 0, "length checksum does not match"),
        (patched(50, by=b"?"), "none", 2, 37, "payload checksum does not match"),
        (patched(66, by=b"????"), "none", 2, 37, "payload checksum does not match"),
        (FILE + LYING + b"few", "none", 3, 70, "the file ends inside a record"),
        (
            FILE + ABSURD + struct.pack("<I", masked_crc32c(ABSURD)),
            "none",
            3,
            70,
            "claims 4611686018427387904 bytes; a record holds 2147483647 at most",
        ),
        (FILE, "gzip", 0, 0, "not a gzip stream"),
        (b"\x1f", "gzip", 0, 0, "the file ends inside a gzip member"),
        (gzip_member(FILE) + FILE, "gzip", 3, 70, "not a gzip stream"),
        (gzip_member(FILE), "none", 0, 0, "length checksum does not match"),
        (gzip_member(FILE)[:-8] + bytes(8), "gzip", 0, 0, "the gzip stream is damaged"),
        (gzip_member(FILE[:60]), "gzip", 2, 37, "the file ends inside a record"),
    ],
)
def test_damage(data, compression, record, offset, what):
    before, error = damaged(data, compression)
    assert before == PAYLOADS[:record]
    assert (error.record, error.offset, error.what) == (record, offset, what)
    assert str(error) == f"record {record}, at byte {offset}: {what}"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "expected one frame of 0 bytes"),
        (FRAMES[0][:-1], "expected one frame of 20 bytes"),
        (FILE, "expected one frame of 70 bytes"),
        (b"\0" + FRAMES[0][1:], "length checksum does not match"),
        (FRAMES[0][:-1] + b"\0", "payload checksum does not match"),
    ],
    ids=["nothing", "cut off", "several", "length", "payload"],
)
def test_data_that_is_not_one_frame(data, what):
    assert payload_of(FRAMES[0]) == PAYLOADS[0]
    assert payload_of(FRAMES[1]) == b""
    with pytest.raises(FrameError) as caught:
        payload_of(data)
    assert caught.value.what == what


@pytest.mark.parametrize("length", [0, 35615, 35615 + (1 << 16)])
def test_compression_of_frames_that_begin_like_gzip(length):
    """A length of 35615 has the bytes of gzip's magic number."""
    data = frame(bytes(length))
    assert compression_of(data[:12]) == "none"
    assert compression_of(gzip_member(data)[:12]) == "gzip"
    assert compression_of(data[:8] + bytes(4)) == ("gzip" if length else "none")


@pytest.mark.parametrize("head", [b"", b"\x1f", b"text of some length"[:12]])
def test_uncompressed_files(head):
    assert compression_of(head) == "none"


@pytest.mark.parametrize("kind", [FrameError, FrameSizeError])
def test_errors_can_be_pickled(kind):
    error = kind(record=3, offset=70, what="not a gzip stream")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (copy.record, copy.offset, copy.what) == (3, 70, "not a gzip stream")
    assert str(copy) == str(error)


@given(st.binary(min_size=1))
def test_gzip_members(data):
    member = gzip_member(data)
    assert gzip.decompress(member) == data
    assert member[:10] == bytes.fromhex("1f8b08000000000000ff")


def test_empty_data_give_no_gzip_member(tf, tmp_path):
    """TensorFlow's reader takes an empty member for the end of the file."""
    assert gzip_member(b"") == b""
    assert payloads(b"", "gzip") == []
    path = tmp_path / "empty.gz"
    path.write_bytes(b"")
    assert list(tf.data.TFRecordDataset(str(path), compression_type="GZIP")) == []
