"""Arrays in .npy, .npz and HDF5 files: slices equal those of the array in numpy."""

import io
import os
import pathlib
import zipfile

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from recordmill.errors import ConfigError, Reason, RecordError
from recordmill.processes.task_watch import DEFAULT_LIMITS
from recordmill.storage.storage_errors import ChangedInputError
from recordmill.transforms.sources.arrays import array_file, hdf5
from recordmill.transforms.sources.arrays.array_file import Span
from recordmill.transforms.sources.arrays.array_formats import open_arrays
from recordmill.transforms.sources.arrays.npy import StoredArray
from recordmill.transforms.sources.files.header_tasks import read_headers
from tests.array_probe import kind_of_array
from tests.transforms.sources.test_npy import NUMBERS, SHAPES

FORMATS = ("npy", "npz", "deflated", "h5", "h5 in chunks")
MANY = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(path: pathlib.Path, array: np.ndarray, form: str) -> None:
    match form:
        case "npy":
            with path.open("wb") as file:
                np.save(file, array)
        case "npz":
            with path.open("wb") as file:
                np.savez(file, x=array)
        case "deflated":
            with path.open("wb") as file:
                np.savez_compressed(file, x=array)
        case _:
            with h5py.File(path, "w") as file:
                chunked = form == "h5 in chunks" and array.ndim > 0 and 0 not in array.shape
                file.create_dataset("x", data=array, **({"compression": "gzip"} if chunked else {}))


def opened(path: pathlib.Path) -> array_file.ArrayFile:
    status = path.stat()
    return open_arrays(str(path), size=status.st_size, mtime=status.st_mtime_ns)


def read(path: pathlib.Path, span: Span | None = None) -> np.ndarray:
    with opened(path) as file:
        return file.read(file.find(None), span)


@pytest.mark.parametrize("form", FORMATS)
@MANY
@given(array=arrays.arrays(NUMBERS, SHAPES), fortran=st.booleans(), data=st.data())
def test_a_slice_equals_that_of_numpy(form, array, fortran, data, tmp_path) -> None:
    array = np.asfortranarray(array) if fortran else array
    path = tmp_path / "file"
    write(path, array, form)
    got = read(path)
    assert (got.dtype, got.shape) == (array.dtype, array.shape)
    assert got.tobytes() == array.tobytes()
    if not array.ndim:
        return
    axis = data.draw(st.integers(0, array.ndim - 1))
    start = data.draw(st.integers(0, array.shape[axis]))
    stop = data.draw(st.integers(start, array.shape[axis]))
    expected = array[(*(slice(None),) * axis, slice(start, stop))]
    got = read(path, Span(axis, start, stop))
    assert got.shape == expected.shape
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("block", [1, 100, 1 << 26])
@pytest.mark.parametrize("order", "CF")
def test_a_strided_slice_is_read_in_blocks(block, order, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(array_file, "_BLOCK", block)
    array = np.asarray(np.arange(2 * 7 * 5 * 3, dtype=">i4").reshape(2, 7, 5, 3), order=order)
    np.save(tmp_path / "x.npy", array)
    for axis in range(4):
        got = read(tmp_path / "x.npy", Span(axis, 1, 2))
        np.testing.assert_array_equal(got, array.take([1], axis))


@pytest.mark.parametrize(
    ("form", "maps"),
    [("npy", True), ("npz", True), ("deflated", False), ("h5", True), ("h5 in chunks", False)],
)
def test_contiguous_arrays_are_read_directly(form, maps, tmp_path) -> None:
    array = np.arange(1000, dtype=np.int32)
    write(tmp_path / "file", array, form)
    with opened(tmp_path / "file") as file:
        stored = file.find(None)
    assert (stored.offset is not None) == maps
    if stored.offset is not None:
        data = (tmp_path / "file").read_bytes()[stored.offset :][: array.nbytes]
        assert data == array.tobytes()


def test_an_hdf5_file_may_have_a_user_block(tmp_path) -> None:
    with h5py.File(tmp_path / "x.mat", "w", userblock_size=512) as file:
        file["a/b"] = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(
        read(tmp_path / "x.mat", Span(1, 1, 3)), np.arange(12.0).reshape(3, 4)[:, 1:3]
    )


def npz(**members: bytes | np.ndarray) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            if isinstance(content, np.ndarray):
                one = io.BytesIO()
                np.save(one, content)
                content = one.getvalue()
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


def hdf5_of(write_into) -> bytes:
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        write_into(file)
    return stream.getvalue()


def stored_npz(array: np.ndarray) -> bytes:
    """An archive without compression, in which one bit of a value has changed."""
    stream = io.BytesIO()
    np.savez(stream, x=array)
    content = bytearray(stream.getvalue())
    content[len(content) // 2] ^= 4
    return bytes(content)


def damaged(content: bytes) -> bytes:
    """With other bytes in its middle."""
    at = content.index(b"\x08", 60) if b"PK" in content[:2] else len(content) // 2
    middle = max(at, len(content) // 3)
    return (
        content[:middle]
        + bytes(b ^ 0xFF for b in content[middle : middle + 40])
        + content[middle + 40 :]
    )


NOISE = np.random.default_rng(1).integers(0, 99, 2000)
BAD = {
    "text": (b"hello there", Reason.UNSUPPORTED, "neither .npy, .npz nor HDF5"),
    "a pickle": (b"\x80\x04K\x01.", Reason.UNSUPPORTED, "probably a pickle, which is never read"),
    "an empty archive": (npz(), Reason.EMPTY, "it contains no arrays"),
    "several arrays": (
        npz(x=NOISE, y=NOISE),
        Reason.BAD_VALUE,
        "several arrays, x, y: name one with --array",
    ),
    "half an archive": (npz(x=NOISE)[:-60], Reason.CORRUPT, "a damaged archive"),
    "a damaged member": (damaged(npz(x=NOISE)), Reason.CORRUPT, "a damaged archive"),
    "a damaged value": (stored_npz(NOISE), Reason.CORRUPT, "the checksum of 'x.npy' differs"),
    "an archive of objects": (npz(x=np.array([None])), Reason.UNSUPPORTED, "never read"),
    "a member that lies": (
        npz(x=b"\x93NUMPY\x01\0\x3c\0{'descr':'<f8','fortran_order':False,'shape':(9,)}".ljust(70)),
        Reason.TRUNCATED,
        "its header declares 9 float64",
    ),
    "no HDF5": (b"\x89HDF\r\n\x1a\n" + bytes(500), Reason.CORRUPT, "an HDF5 file that cannot be"),
    "half of HDF5": (
        hdf5_of(lambda file: file.create_dataset("x", data=NOISE))[:-900],
        Reason.CORRUPT,
        "an HDF5 file that cannot be read",
    ),
    "texts in HDF5": (
        hdf5_of(lambda file: file.create_dataset("x", data=["a", "b"])),
        Reason.UNSUPPORTED,
        "its array 'x' holds texts: expected numbers",
    ),
    "records in HDF5": (
        hdf5_of(lambda file: file.create_dataset("x", data=np.zeros(2, [("a", "f4")]))),
        Reason.UNSUPPORTED,
        "structured array with the fields a",
    ),
    "nothing in HDF5": (
        hdf5_of(lambda file: file.create_dataset("x", data=h5py.Empty("f4"))),
        Reason.EMPTY,
        "has no values",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_files_without_usable_array_are_rejected(name, tmp_path) -> None:
    content, reason, message = BAD[name]
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(RecordError) as error:
        read(tmp_path / "x")
    assert error.value.reason == reason
    assert message in error.value.detail


@pytest.mark.parametrize("form", ["npz", "deflated", "h5", "h5 in chunks"])
@MANY
@given(data=st.data())
def test_a_damaged_file_is_rejected_or_an_array(form, data, tmp_path) -> None:
    path = tmp_path / "file"
    write(path, np.arange(60, dtype="<i2").reshape(3, 20), form)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    [got] = read_headers(kind_of_array, [([str(path)], False)], task_limits=DEFAULT_LIMITS)
    assert isinstance(got, RecordError) or got in "biufc"


@pytest.mark.parametrize("kind", ["link", "external", "virtual"])
def test_other_files_are_never_read(kind, tmp_path) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = np.arange(4)
    (tmp_path / "secret.bin").write_bytes(bytes(32))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        if kind == "link":
            file["x"] = h5py.ExternalLink("secret.h5", "x")
        elif kind == "external":
            file.create_dataset("x", (4,), "i8", external=[(str(tmp_path / "secret.bin"), 0, 32)])
        else:
            layout = h5py.VirtualLayout((4,), "i8")
            layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "x", (4,))
            file.create_virtual_dataset("x", layout)
    with opened(tmp_path / "x.h5") as file:
        assert file.names() == ([] if kind == "link" else ["x"])
        with pytest.raises(RecordError, match="is in another file"):
            file.stored("x")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("xs", "no array 'xs', which --array names; did you mean 'x'?; there is x, y"),
        ("/", "no array '/'"),
    ],
)
def test_missing_arrays(asked, message, tmp_path) -> None:
    np.savez(tmp_path / "two.npz", x=NOISE, y=NOISE)
    with opened(tmp_path / "two.npz") as file, pytest.raises(RecordError) as error:
        file.find(asked)
    assert error.value.reason == Reason.MISSING
    assert message.split(";")[0] in error.value.detail


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.array([3, 0, -1], ">i2"), ["3", "0", "-1"]),
        (np.array([True, False, True]), ["true", "false", "true"]),
        (np.array([2**64 - 1, 0, 1], np.uint64), [str(2**64 - 1), "0", "1"]),
        (np.array(["é", "", "bb"]), ["é", None, "bb"]),
        (np.array(["é".encode(), b"", b"bb"]), ["é", None, "bb"]),
    ],
    ids=["integers", "bools", "unsigned", "texts", "bytes"],
)
def test_labels(form, labels, expected, tmp_path) -> None:
    path = tmp_path / "file"
    if form.startswith("h5") and labels.dtype.kind == "U":
        labels = labels.astype(object)  # HDF5 has texts of any length
    write(path, labels, form)
    with opened(path) as file:
        stored = file.find(None, texts=True)
        assert file.labels(stored, Span(0, 0, 3)).to_pylist() == expected
        assert file.labels(stored, Span(0, 1, 3)).to_pylist() == expected[1:]


def test_invalid_labels(tmp_path) -> None:
    np.save(tmp_path / "y.npy", np.array([b"\xff"]))
    with opened(tmp_path / "y.npy") as file, pytest.raises(RecordError, match="not UTF-8"):
        file.labels(file.find(None, texts=True), Span(0, 0, 1))


def test_missing_h5py_is_a_config_error_with_advice(tmp_path, monkeypatch) -> None:
    write(tmp_path / "x.h5", NOISE, "h5")
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(ConfigError, match=r"recordmill\[arrays\]'"):
        opened(tmp_path / "x.h5")
    assert (tmp_path / "x.h5").read_bytes()[:8] == hdf5.MAGIC


def test_a_file_that_changed_since_it_was_listed_fails_the_job(tmp_path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, NOISE)
    status = path.stat()
    np.save(path, NOISE[1:])
    with pytest.raises(ChangedInputError, match="changed while the job ran"):
        open_arrays(str(path), size=status.st_size, mtime=status.st_mtime_ns)


def test_a_file_that_shrinks_while_it_is_read_fails_the_job(tmp_path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, NOISE)
    with opened(path) as file:
        stored = file.find(None)
        os.truncate(path, 500)
        with pytest.raises(ChangedInputError, match="became shorter"):
            file.read(stored)


def test_no_file_is_left_open(tmp_path) -> None:
    for number, (content, _, _) in enumerate(BAD.values()):
        (tmp_path / str(number)).write_bytes(content)
    before = len(os.listdir("/proc/self/fd"))
    for path in tmp_path.iterdir():
        with pytest.raises(RecordError):
            read(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_headers_round_trip_through_text() -> None:
    stored = StoredArray(dtype=">f4", shape=(2, 3), fortran=True, offset=128, member="a/b")
    assert StoredArray.from_text(stored.to_text()) == stored
