"""Headers of .npy files: valid ones are read, invalid ones are rejected."""

import contextlib
import io
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from recordmill.errors import Reason, RecordError
from recordmill.transforms.sources.arrays.npy import HEAD, StoredArray, read_npy
from tests.examples_of_properties import many

NUMBERS = st.one_of(
    arrays.boolean_dtypes(),
    arrays.integer_dtypes(),
    arrays.unsigned_integer_dtypes(),
    arrays.floating_dtypes(sizes=(16, 32, 64)),
    arrays.complex_number_dtypes(sizes=(64, 128)),
)
SHAPES = arrays.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4)


def written(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version)
    return stream.getvalue()


def header(text: str, data: bytes = b"", *, version: int = 1) -> bytes:
    """A file with any header."""
    content = text.encode()
    length = struct.pack("<H" if version == 1 else "<I", len(content))
    return b"\x93NUMPY" + bytes([version, 0]) + length + content + data


def read(content: bytes) -> StoredArray:
    return read_npy(content[:HEAD], len(content))


@given(arrays.arrays(NUMBERS, SHAPES), st.booleans(), st.sampled_from([(1, 0), (2, 0), (3, 0)]))
def test_files_of_numpy_are_read(array, fortran, version) -> None:
    array = np.asfortranarray(array) if fortran else array
    content = written(array, version)
    stored = read(content)
    assert stored.numbers == array.dtype
    assert stored.shape == array.shape
    assert stored.bytes == array.nbytes
    raw = np.frombuffer(content, stored.numbers, offset=stored.offset)
    got = raw.reshape(stored.shape, order="F" if stored.fortran else "C")
    assert got.tobytes() == array.tobytes()
    assert StoredArray.from_text(stored.to_text()) == stored


def text_of(descr: str = "'<f4'", shape: str = "(2,)", fortran: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


EIGHT = bytes(8)
BAD = {
    "no header": (b"\x93NUMPY\x01\0", Reason.TRUNCATED, "it ends within its header"),
    "half a header": (header(text_of())[:30], Reason.TRUNCATED, "it ends within its header"),
    "version 9": (b"\x93NUMPY\x09\0" + EIGHT, Reason.UNSUPPORTED, "a header of version 9.0"),
    "no dictionary": (header("[1, 2]", EIGHT), Reason.CORRUPT, "cannot be parsed"),
    "a call": (header("__import__('os')", EIGHT), Reason.CORRUPT, "cannot be parsed"),
    "no text": (header("\0\0\0", EIGHT), Reason.CORRUPT, "cannot be parsed"),
    "brackets": (header("(" * 900, EIGHT), Reason.CORRUPT, "cannot be parsed"),
    "no such dtype": (header(text_of("'<q9'"), EIGHT), Reason.CORRUPT, "cannot be parsed"),
    "a long header": (
        header(text_of() + " " * 70000, EIGHT, version=2),
        Reason.CORRUPT,
        "more than numpy's 10000",
    ),
    "below 0": (header(text_of(shape="(-2,)"), EIGHT), Reason.CORRUPT, "the shape (-2,)"),
    "a bool": (header(text_of(shape="(True,)"), b"1234"), Reason.CORRUPT, "the shape (True,)"),
    "no tuple": (header(text_of(shape="2"), EIGHT), Reason.CORRUPT, "cannot be parsed"),
    "65 dimensions": (
        header(text_of(shape=str((1,) * 65)), EIGHT),
        Reason.CORRUPT,
        "65 dimensions, more than numpy's 64",
    ),
    "too little": (
        header(text_of(shape="(3,)"), EIGHT),
        Reason.TRUNCATED,
        "its header declares 3 float32, which is 12 bytes, but 8 bytes follow",
    ),
    "too much": (header(text_of(shape="(1,)"), EIGHT), Reason.CORRUPT, "4 bytes follow the array"),
    "absurd": (
        header(text_of(shape=f"({2**40}, {2**40})"), EIGHT),
        Reason.TOO_LARGE,
        "larger than any file",
    ),
    "absurd but empty": (
        header(text_of(shape=f"(0, {2**62})")),
        Reason.TOO_LARGE,
        "larger than any file",
    ),
    "objects": (written(np.array([{}, None])), Reason.UNSUPPORTED, "a pickle and never read"),
    "records": (
        written(np.zeros(2, [("a", "i4"), ("b", "f4")])),
        Reason.UNSUPPORTED,
        "structured array with the fields a, b",
    ),
    "records of objects": (
        written(np.zeros(2, [("a", "O")])),
        Reason.UNSUPPORTED,
        "a pickle and never read",
    ),
    "texts": (written(np.array(["a"])), Reason.UNSUPPORTED, "an array of str32"),
    "times": (
        written(np.array(["2020-01-01"], "M8[D]")),
        Reason.UNSUPPORTED,
        "an array of datetime64[D]",
    ),
    "voids": (written(np.zeros(2, "V3")), Reason.UNSUPPORTED, "an array of void24"),
    "arrays in arrays": (
        header(text_of("('<f4', (2,))", "(1,)"), EIGHT),
        Reason.UNSUPPORTED,
        "expected bool, integers, floats or complex",
    ),
    "long doubles": (written(np.zeros(2, "g")), Reason.UNSUPPORTED, "not the same on all machines"),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_arrays_are_rejected(name) -> None:
    content, reason, message = BAD[name]
    with pytest.raises(RecordError) as error:
        read(content)
    assert error.value.reason == reason
    assert message in error.value.detail


def test_a_pickle_is_never_run() -> None:
    class Bomb:
        def __reduce__(self):
            return pytest.fail, ("it was unpickled",)

    content = header(text_of("'|O'", "(1,)"), pickle.dumps(Bomb()))
    with pytest.raises(RecordError, match="never read"):
        read(content)


def test_files_of_python_2_are_read(recwarn) -> None:
    stored = read(header("{'descr': '<i2', 'fortran_order': False, 'shape': (4L,), }", EIGHT))
    assert stored.shape == (4,)
    assert not recwarn.list


@settings(max_examples=many(3))
@given(st.data())
def test_a_damaged_file_is_rejected_or_an_array(data) -> None:
    """Nothing else comes of a header in which bytes are changed."""
    content = bytearray(written(np.arange(6, dtype="<i2").reshape(2, 3)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    try:
        stored = read(bytes(content))
    except RecordError:
        return
    assert stored.offset + stored.bytes == len(content)


@given(st.text(max_size=60))
def test_any_header_is_rejected_or_an_array(text) -> None:
    with contextlib.suppress(RecordError):
        read(header(text, EIGHT))
