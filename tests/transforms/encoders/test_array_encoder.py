"""Arrays from files into Examples and back, without a pipeline: bit for bit."""

import functools
import pathlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from recordmill.errors import ConfigError, Reject
from recordmill.loading import parse
from recordmill.tfrecord.example import encode_examples
from recordmill.tfrecord.features import Features
from recordmill.tfrecord.typed_records import RecordDecoder
from recordmill.transforms.encoders.array_options import ArrayOptions
from recordmill.transforms.encoders.arrays import ArrayEncoder
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.casts import DTYPES
from recordmill.transforms.model.data_type import Context
from recordmill.transforms.sources.arrays.array_headers import ArrayProbe
from recordmill.transforms.sources.arrays.array_splitter import ArraySplitter
from recordmill.transforms.sources.arrays.chunking import ArraySlicing
from recordmill.transforms.sources.folders.folders import FileTree
from recordmill.transforms.sources.splitters.split_files import SplitFiles
from tests.transforms.sources.test_npy import NUMBERS

CHUNK = functools.partial(ArraySlicing, unit="chunk")
ITEM = ArraySlicing(unit="item")
QUICK = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Records:
    """Records and rejects of the files in a folder."""

    def __init__(
        self, folder: pathlib.Path | str, cut: ArraySlicing | None = None, **options: Any
    ) -> None:
        cut = cut or ArraySlicing()
        probe = {
            name: options.pop(name) for name in [*options] if name in ArrayProbe.__annotations__
        }
        asked = ArrayOptions(**options)
        source = SplitFiles(
            files=FileTree(input=str(folder), unlabelled="keep", leave_out=()),
            splitter=ArraySplitter(
                probe=ArrayProbe(cut=cut, unlabelled="keep", **probe),
                dtype=asked.dtype,
                cast=asked.cast,
            ),
        )
        encoder = ArrayEncoder(options=asked, cut=cut, unlabelled=True)
        listed = [*source.scan()]
        self.notes = tuple(note for one in listed for note in one.notes)
        self.rejects: list[Reject] = [reject for one in listed for reject in one.rejects]
        parts = [one.rows for one in listed if one.rows is not None]
        layout = source.layout(parts)
        self.features: Features = encoder.features(layout.columns, Context(seed=0))
        self.groups: dict[str, str | None] = {}
        self.labels: dict[str, str | None] = {}
        self.examples: dict[str, bytes] = {}
        for part in parts:
            for read in source.read(part, layout):
                self.rejects += read.rejects
                if read.rows is None:
                    continue
                assert read.rows.schema.equals(layout.columns, check_metadata=True)
                encoded = encoder.encode(batch.complete(read.rows), Context(seed=0))
                self.rejects += encoded.rows.rejects
                kept = read.rows.take(pa.array(encoded.rows.kept))
                keys = kept[batch.KEY].to_pylist()
                examples = encode_examples(encoded.columns)
                for number, key in enumerate(keys):
                    start, stop = examples.offsets[number : number + 2]
                    self.examples[key] = examples.data[start:stop]
                self.groups |= zip(keys, kept[batch.GROUP].to_pylist(), strict=True)
                self.labels |= zip(keys, kept[batch.LABEL].to_pylist(), strict=True)

    def read(self) -> dict[str, dict[str, Any]]:
        decode = RecordDecoder(self.features)
        return {key: decode(example) for key, example in self.examples.items()}

    def arrays(self) -> dict[str, np.ndarray]:
        """As numpy has them."""
        name = "array/encoded" if "array/encoded" in self.features else "array/values"
        return {key: record[name] for key, record in self.read().items()}

    def in_tensorflow(self) -> dict[str, np.ndarray]:
        """As tf.io.decode_raw and reshape give them."""
        spec = {"array/encoded": tf.io.FixedLenFeature([], tf.string)}
        feature = self.features["array/encoded"]
        if feature.raw_shape:
            spec["array/shape"] = tf.io.FixedLenFeature([len(feature.raw_shape)], tf.int64)
        found = {}
        for key, example in self.examples.items():
            parsed = tf.io.parse_single_example(example, spec)
            shape = parsed.get("array/shape", tf.zeros([0], tf.int64))
            array = parse.decode_array(parsed["array/encoded"], feature, shape)
            found[key] = array.numpy()
        return found

    @property
    def told(self) -> dict[str, str]:
        return {reject.key: reject.detail for reject in self.rejects}


def save(folder: pathlib.Path, **files: Any) -> pathlib.Path:
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, array in files.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=True)
    return folder


def assert_bits(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.dtype == expected.dtype.newbyteorder("=")
    assert got.shape == expected.shape
    assert got.tobytes() == expected.astype(got.dtype).tobytes()


@QUICK
@given(
    array=arrays.arrays(NUMBERS, arrays.array_shapes(min_dims=0, max_dims=5, max_side=4)),
    fortran=st.booleans(),
)
def test_an_array_comes_back_bit_for_bit(array, fortran, tmp_path) -> None:
    records = Records(save(tmp_path / "in", x=np.asarray(array, order="CF"[fortran])))
    assert records.rejects == []
    # Through integers: a cast may change which NaN it is.
    swapped = (
        array
        if array.dtype.byteorder != ">"
        else array.byteswap().view(array.dtype.newbyteorder("<"))
    )
    for found in (records.arrays()["x.npy"], records.in_tensorflow()["x.npy"]):
        assert found.dtype == array.dtype.newbyteorder("=")
        assert found.shape == array.shape
        assert found.tobytes() == np.ascontiguousarray(swapped).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", range(6))
def test_every_dtype_of_every_rank_in_both_byte_orders(dtype, rank, tmp_path) -> None:
    shapes = [(2, 3, 1, 2, 3)[:rank], (1, 3, 2, 2, 3)[:rank]]
    draw = np.random.default_rng(rank)
    files = {}
    for order, shape in zip("><", shapes, strict=True):
        bits = draw.integers(0, 2 if dtype == "bool" else 256, 16 * 72, np.uint8)
        ordered = np.dtype(dtype).newbyteorder(order)
        count = int(np.prod(shape, dtype=int))
        files[f"{len(files)}"] = np.frombuffer(bits, ordered, count).reshape(shape)
    records = Records(save(tmp_path / "in", **files))
    assert records.features["array/encoded"].raw_dtype == dtype
    merged = (None, 3, None, 2, 3)[:rank]
    assert records.features["array/encoded"].raw_shape == merged
    for got in (records.arrays(), records.in_tensorflow()):
        for key, array in got.items():
            expected = files[key.removesuffix(".npy")]
            if expected.dtype.byteorder == ">":
                expected = expected.byteswap()
            assert (array.shape, array.tobytes()) == (expected.shape, expected.tobytes())


def test_what_a_record_has_beside_the_array(tmp_path) -> None:
    records = Records(save(tmp_path / "in", x=np.zeros((2, 3), ">i2")), CHUNK(size=1, stride=1))
    record = records.read()["x.npy#1"]
    assert record["array/dtype"] == b"int16"
    assert record["array/filename"] == b"x.npy"
    assert record["array/start"] == 1
    assert record["array/shape"].tolist() == [1, 3]


def test_items_are_records_and_are_split_one_by_one(tmp_path) -> None:
    stack = np.arange(24.0).reshape(4, 3, 2)
    records = Records(save(tmp_path / "in", x=stack), ITEM)
    assert records.features["array/encoded"].raw_shape == (3, 2)
    for number, item in enumerate(stack):
        assert_bits(records.arrays()[f"x.npy#{number}"], item)
    assert set(records.groups.values()) == {None}


def chunks(array: np.ndarray, axis: int, size: int, stride: int, rest: str) -> dict[int, Any]:
    """The plain way, by start."""
    found = {}
    length = array.shape[axis]
    for start in range(0, length, stride):
        one = array[(*(slice(None),) * axis, slice(start, start + size))]
        if one.shape[axis] == size or rest == "keep":
            found[start] = one
        if start + size >= length:
            break
    return found


@QUICK
@given(
    shape=arrays.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=7),
    fortran=st.booleans(),
    size=st.integers(1, 8),
    stride=st.integers(1, 8),
    rest=st.sampled_from(["keep", "drop"]),
    data=st.data(),
)
def test_chunks_are_those_of_a_loop(shape, fortran, size, stride, rest, data, tmp_path) -> None:
    array = np.arange(np.prod(shape)).reshape(shape)
    array = np.asfortranarray(array) if fortran else array
    axis = data.draw(st.integers(0, len(shape) - 1))
    expected = chunks(array, axis, size, stride, rest)
    given_axis = data.draw(st.sampled_from([axis, axis - len(shape)]))
    cut = CHUNK(size=size, stride=stride, axis=given_axis, rest=rest)
    folder = save(tmp_path / "in", x=array)
    if not expected:
        with pytest.raises(ConfigError, match="less than a chunk"):
            Records(folder, cut)
        return
    records = Records(folder, cut)
    found = records.arrays()
    assert found.keys() == {f"x.npy#{start}" for start in expected}
    for start, one in expected.items():
        assert_bits(found[f"x.npy#{start}"], one)
    assert set(records.groups.values()) == {"x.npy"}
    with_rest = chunks(array, axis, size, stride, "keep")
    ends = [
        max(start + one.shape[axis] for start, one in some.items())
        for some in (expected, with_rest)
    ]
    left = ends[1] - max(ends[0], max(with_rest)) if len(with_rest) > len(expected) else 0
    assert cut.unused_steps(shape) == left
    fill = "s at the ends of 1 array fill no chunk and were dropped"
    fill = " at the ends of 1 array fills no chunk and was dropped" if left == 1 else fill
    assert records.notes == ((f"{left} step{fill}",) if left else ())
    lengths = {one.shape[axis] for one in expected.values()}
    declared = records.features["array/encoded"].raw_shape
    assert declared[axis] == (lengths.pop() if len(lengths) == 1 else None)


def test_more_records_than_a_part_of_a_listing_holds(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(limits, "PART_ROWS", 10)
    files = {name: np.arange(7 * size) for name, size in {"a": 3, "b": 1, "c": 5}.items()}
    folder = save(tmp_path / "in", **files, odd=np.zeros((40, 2)))
    np.savez(tmp_path / "more.npz", x=np.arange(35), y=np.arange(35) % 4)
    records = Records(folder, ITEM)
    assert len(records.examples) == 63
    assert [reject.key for reject in records.rejects] == ["odd.npy"]
    labelled = Records(tmp_path / "more.npz", ITEM, array="x", label_array="y")
    assert labelled.labels == {f"more.npz#{n}": str(n % 4) for n in range(35)}
    assert {key: int(one) for key, one in labelled.arrays().items()} == {
        f"more.npz#{n}": n for n in range(35)
    }


NAN = np.array([1.0, np.nan, -np.inf], np.float32)


@pytest.mark.parametrize(
    ("nan", "expected"), [("keep", NAN), ("zero", np.array([1.0, 0.0, -np.inf])), ("reject", None)]
)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_nan(nan, expected, dtype, tmp_path) -> None:
    records = Records(save(tmp_path / "in", x=NAN.astype(dtype), y=np.ones(3, dtype)), nan=nan)
    assert_bits(records.arrays()["y.npy"], np.ones(3, dtype))
    if expected is None:
        assert records.told == {
            "x.npy": "NaN in 1 of 3 numbers: use --nan zero or --nan keep to accept them"
        }
        return
    np.testing.assert_array_equal(records.arrays()["x.npy"], expected.astype(dtype))


@pytest.mark.parametrize(
    ("array", "dtype", "shape"),
    [
        (np.array([[1, 2], [3, 4]], "u1"), "int64", (2, 2)),
        (np.array([True, False]), "int64", (2,)),
        (np.array([2**32 - 1], "u4"), "int64", (1,)),
        (np.array([-(2**63)]), "int64", (1,)),
        (np.array(5, "i2"), "int64", ()),
        (np.array([0.1, 2], "f2"), "float32", (2,)),
        (np.array([[0.1], [2]], ">f4"), "float32", (2, 1)),
    ],
)
def test_values(array, dtype, shape, tmp_path) -> None:
    records = Records(save(tmp_path / "in", x=array), array_format="values")
    feature = records.features["array/values"]
    assert (feature.dtype, feature.shape) == (dtype, shape)
    got = records.arrays()["x.npy"]
    assert got.shape == shape
    np.testing.assert_array_equal(got, array.astype(dtype))


def test_values_of_several_shapes(tmp_path) -> None:
    tall = Records(
        save(tmp_path / "in", a=np.ones((2, 3), "f4"), b=np.ones((5, 3), "f4")),
        array_format="values",
    )
    assert tall.features["array/values"].shape == (None, 3)
    assert {key: one.shape for key, one in tall.arrays().items()} == {
        "a.npy": (2, 3),
        "b.npy": (5, 3),
    }
    wide = Records(
        save(tmp_path / "in", a=np.ones((2, 3), "f4"), b=np.ones((2, 5), "f4")),
        array_format="values",
    )
    assert wide.features["array/values"].shape == (None,)
    record = wide.read()["b.npy"]
    assert record["array/values"].reshape(record["array/shape"]).shape == (2, 5)


@pytest.mark.parametrize(
    ("dtype", "advice"),
    [
        ("float64", "cast with --dtype float32 --cast same-kind"),
        ("uint64", "cast with --dtype int64 --cast same-kind"),
        ("complex64", "use --array-format raw"),
    ],
)
def test_lists_cannot_hold_every_dtype(dtype, advice, tmp_path) -> None:
    folder = save(tmp_path / "in", x=np.ones(2, dtype))
    with pytest.raises(ConfigError, match=f"cannot hold {dtype} exactly: .*{advice}"):
        Records(folder, array_format="values")


def test_most_arrays_decide_what_the_others_are_held_against(tmp_path) -> None:
    files = {f"{n}": np.ones((2, 3), "f4") for n in range(3)}
    folder = save(tmp_path / "in", **files, wide=np.ones((2, 3)), flat=np.ones(3, "f4"))
    records = Records(folder)
    assert records.told == {
        "wide.npy": "an array of float64, but most are float32: --dtype float64 casts both",
        "flat.npy": "an array of 1 dimensions (3), but most records have 2: remove it, or build a"
        " separate dataset from such arrays",
    }
    both = Records(folder, dtype="float64")
    assert both.told.keys() == {"flat.npy"}
    assert_bits(both.arrays()["0.npy"], np.ones((2, 3)))
    narrow = Records(folder, dtype="float32")
    assert narrow.told["wide.npy"] == (
        "float32 cannot hold an array of float64 exactly: round with --cast same-kind, or choose"
        " a wider --dtype"
    )
    rounded = Records(folder, dtype="float32", cast="same-kind")
    assert_bits(rounded.arrays()["wide.npy"], np.ones((2, 3), "f4"))


def test_a_number_that_is_too_large_is_a_reject_of_its_record(tmp_path) -> None:
    stack = np.array([[1.0, 2.0], [1e300, 0.0], [3.0, 4.0]])
    records = Records(save(tmp_path / "in", x=stack), ITEM, dtype="float32", cast="same-kind")
    assert records.told == {"x.npy#1": "1e+300 is out of range of float32"}
    assert records.arrays().keys() == {"x.npy#0", "x.npy#2"}


def test_bools_of_other_bytes_are_rejects(tmp_path) -> None:
    odd = np.array([0, 1, 2], np.uint8).view(bool)
    records = Records(save(tmp_path / "in", a=odd, b=np.array([True, False, True])))
    assert records.told == {"a.npy": "bools other than 0 and 1"}


@pytest.mark.parametrize(
    ("array", "cut", "message"),
    [
        (np.zeros(()), ITEM, "a single number, which cannot be split"),
        (np.zeros((0, 3)), ITEM, "an array of 0x3, which has no values"),
        (np.zeros((2, 3)), CHUNK(size=1, stride=1, axis=2), "an array of 2x3, which has no axis 2"),
        (np.zeros((0, 3)), CHUNK(size=1, stride=1), "an array of 0x3, which has no values"),
        (np.array([None]), None, "an array of Python objects"),
        (np.zeros(300), None, "300 float64: 2400 bytes at once, more than --max-array-bytes 2000"),
        (np.zeros((2, 300)), ITEM, "2400 bytes at once, more than --max-array-bytes 2000"),
    ],
)
def test_what_gives_no_record(array, cut, message, tmp_path) -> None:
    folder = save(tmp_path / "in", bad=array)
    with pytest.raises(ConfigError) as error:
        Records(folder, cut, max_bytes=2000)
    assert str(error.value).startswith("no array can be used; the first: bad.npy")
    assert message in str(error.value)
    np.save(folder / "good.npy", np.ones((3, 2, 2)))
    assert message in Records(folder, cut, max_bytes=2000).told["bad.npy"]


def test_of_a_large_array_small_records_may_be_made(tmp_path) -> None:
    folder = save(tmp_path / "in", x=np.zeros((300, 10)))
    assert len(Records(folder, ITEM, max_bytes=80).examples) == 300
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros((300, 10)))
    with pytest.raises(ConfigError, match="compressed in one piece: 24000 bytes at once"):
        Records(tmp_path / "x.npz", ITEM, max_bytes=80)


def test_labels_have_to_be_one_for_each_record(tmp_path) -> None:
    cases = {
        "short": ((5, 2), np.arange(4)),
        "floats": ((5, 2), np.zeros(5)),
        "one-hot": ((5, 2), np.eye(5, dtype=int)),
    }
    for name, (shape, labels) in cases.items():
        np.savez(tmp_path / f"{name}.npz", x=np.zeros(shape), y=labels)
    np.savez(tmp_path / "good.npz", x=np.zeros((5, 2)), y=np.array(["a", "b", "", "c\nd", "a"]))
    records = Records(tmp_path, ITEM, array="x", label_array="y")
    assert records.told == {
        "short.npz": "labels of shape [4] for 5 items: expected one label each",
        "floats.npz": "labels of float64: --label-type float reads them as numbers to predict,"
        " --label-type class keeps them as classes",
        "one-hot.npz": "labels of shape [5, 5] for 5 items: expected one label each",
        "good.npz#3": "the class name 'c\\nd' contains a line break, but labels.txt has one name"
        " per line: rename the class",
    }
    assert [*records.labels.values()] == ["a", "b", None, "a"]


@pytest.mark.parametrize("kind", ["npy", "npz", "compressed", "h5"])
@pytest.mark.parametrize("dtype", [np.uint8, np.bool_, "U1", "S1"])
def test_labels_may_be_a_column(kind, dtype, tmp_path) -> None:
    labels = np.array([1, 0, 1, 0, 0]).astype(dtype)
    expected = ["true" if int(one) else "false" for one in labels]
    if dtype is not np.bool_:
        expected = [str(int(one)) for one in labels]
    x, column = np.zeros((5, 2)), labels.reshape(-1, 1)
    more = {"array": "x", "label_array": "y"}
    if kind == "npy":
        np.save(tmp_path / "x.npy", x)
        np.save(tmp_path / "y.npy", column)
        more = {"label_input": str(tmp_path / "y.npy")}
    elif kind == "h5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file["x"] = x
            file["y"] = column.astype("S1") if dtype == "U1" else column
    else:
        (np.savez if kind == "npz" else np.savez_compressed)(tmp_path / "x.npz", x=x, y=column)
    source = tmp_path / "x.npy" if kind == "npy" else tmp_path
    assert [*Records(source, ITEM, **more).labels.values()] == expected


def test_one_label_for_a_whole_file(tmp_path) -> None:
    for name, label in {
        "a": np.array(3),
        "b": np.array([["x"]]),
        "c": np.array(["x", "y"]),
    }.items():
        np.savez(tmp_path / f"{name}.npz", x=np.zeros((5, 2)), y=label)
    records = Records(tmp_path, array="x", label_array="y")
    assert records.labels == {"a.npz": "3", "b.npz": "x"}
    assert "--per-item makes a record of each item" in records.told["c.npz"]
    cut = Records(tmp_path, CHUNK(size=3, stride=3), array="x", label_array="y")
    assert cut.labels == {"a.npz#0": "3", "a.npz#3": "3", "b.npz#0": "x", "b.npz#3": "x"}
