"""Files for decoders: seeks outside of a file are damage, and faults of the machine are kept."""

import os
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.storage.decoder_stream import DecoderStream, seek_target
from recordmill.storage.storage_errors import StorageError

PLACES = st.integers(0, 100)
OFFSETS = st.integers(-(2**63), 2**63 - 1)


def opened(path: pathlib.Path) -> DecoderStream:
    status = path.stat()
    return DecoderStream(str(path), size=status.st_size, mtime=status.st_mtime_ns)


@given(OFFSETS, st.sampled_from([os.SEEK_SET, os.SEEK_CUR, os.SEEK_END]), PLACES, PLACES)
def test_seeks_stay_within_a_file(offset, whence, place, more):
    size = place + more
    target = seek_target(offset, whence, place=place, size=size)
    asked = offset + (0, place, size)[whence]
    assert 0 <= target <= size
    assert target == (asked if 0 <= asked <= size else place if asked < 0 else size)


@pytest.mark.parametrize("place", [-1, -(2**63), 2**62, 2**63 - 1])
def test_a_seek_outside_of_a_file_is_not_a_fault(tmp_path, place):
    path = tmp_path / "x.nut"
    path.write_bytes(b"content")
    stream = opened(path)
    assert stream.seek(3) == 3
    assert stream.seek(place) == (3 if place < 0 else 7)
    assert stream.read(10) == (b"tent" if place < 0 else b"")
    stream.check()
    stream.close()


def test_a_seek_that_fails_is_a_fault_of_the_machine(tmp_path, monkeypatch):
    path = tmp_path / "x.nut"
    path.write_bytes(b"content")
    stream = opened(path)

    class _Failing:
        def tell(self) -> int:
            return 0

        def seek(self, place: int) -> int:
            raise StorageError(f"the disk fails at {place}")

    monkeypatch.setattr(stream, "_file", _Failing())
    stream.seek(3)
    assert stream.read(1) == b""
    with pytest.raises(StorageError, match="the disk fails at 3"):
        stream.check()
