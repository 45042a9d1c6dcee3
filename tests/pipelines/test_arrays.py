"""`recordmill arrays` from end to end: through its command line, read back by numpy and tf.data."""

import pathlib

import h5py
import numpy as np
import pytest
import tensorflow as tf

import recordmill
from recordmill.transforms.model.casts import DTYPES
from tests.image_runs import Made, make, run
from tests.s3_server import s3_server

pytestmark = pytest.mark.usefixtures("encoders_with_credentials")

ALL = ("--splits", "train=1")


def save(folder: pathlib.Path, **files: np.ndarray) -> pathlib.Path:
    for name, array in files.items():
        path = folder / f"{name.replace('__', '/')}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, array, allow_pickle=True)
    return folder


def made_of(tmp_path: pathlib.Path, source: object, *options: object) -> Made:
    out = tmp_path / "out"
    return make(out, "--input", source, *ALL, *options, command="arrays")


def arrays(made: Made, name: str = "array/encoded") -> dict[str, np.ndarray]:
    """By key, as `recordmill.read` gives them."""
    records = recordmill.read(made.folder, "train")
    keys = [row["key"] for row in made.index("train")]
    return {key: record[name] for key, record in zip(keys, records, strict=True)}


def loaded(made: Made, name: str = "array/encoded") -> dict[str, np.ndarray]:
    """By key, as `recordmill.load` gives them."""
    data = recordmill.load(made.folder, as_supervised=False).as_numpy_iterator()
    keys = [row["key"] for row in made.index("train")]
    return {key: record[name] for key, record in zip(keys, data, strict=True)}


def assert_same(got: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert got.keys() == expected.keys()
    for key, array in expected.items():
        assert got[key].dtype == array.dtype
        assert got[key].shape == array.shape
        assert got[key].tobytes() == array.tobytes()


def error_of(capfd, *argv: object) -> str:
    assert run("arrays", *argv) == 2
    return capfd.readouterr().err


@pytest.mark.parametrize(("rank", "dtype"), [*enumerate(DTYPES)])
def test_every_dtype_through_numpy_and_tensorflow(rank, dtype, tmp_path) -> None:
    rank %= 6
    draw = np.random.default_rng(rank)
    files = {}
    for number in range(6):
        shape = (2 + number % 2, 3, 1 + number % 3, 2, 2)[:rank]
        bits = draw.integers(0, 2 if dtype == "bool" else 256, (*shape, 16), np.uint8)
        array = bits.view(dtype)[..., 0].copy()
        files[f"{number}"] = array
        stored = array.astype(array.dtype.newbyteorder(">")) if number % 2 else array
        if array.dtype.kind in "fc" and number % 2:  # a cast may change which NaN it is
            stored = array.byteswap().view(array.dtype.newbyteorder(">"))
        save(tmp_path / "in", **{str(number): np.asarray(stored, order="CF"[number % 3 == 0])})
    made = made_of(tmp_path, tmp_path / "in")
    expected = {f"{name}.npy": array for name, array in files.items()}
    assert_same(arrays(made), expected)
    assert_same(loaded(made), expected)


def test_folders_give_class_and_split(tmp_path) -> None:
    files = {
        f"{split}__{label}__{number}": np.full((2, 2), number)
        for split in ("train", "val")
        for label in ("a", "b")
        for number in range(3)
    }
    made = make(tmp_path / "out", "--input", save(tmp_path / "in", **files), command="arrays")
    assert made.keys("validation") == {f"val/{label}/{n}.npy" for label in "ab" for n in range(3)}
    assert {row["label"] for row in made.index("train")} == {"a", "b"}
    example = made.examples()["train/b/2.npy", 0]
    assert example["array/class/text"] == [b"b"]
    assert example["array/class/label"] == [1]


def test_a_pattern_finds_files_and_their_folders_the_class(tmp_path) -> None:
    files = {f"{label}__{n}": np.zeros(n + 1) for label in ("x", "y", "z") for n in range(4)}
    root = save(tmp_path / "in", **files, **{"y__sub__9": np.zeros(3)})
    (root / "x" / "notes.txt").write_text("no array")
    made = made_of(tmp_path, root / "[xy]" / "*.npy")
    labels = {row["key"]: row["label"] for row in made.index("train")}
    assert labels == {f"{label}/{n}.npy": label for label in "xy" for n in range(4)}
    flat = make(tmp_path / "flat", "--input", root / "x" / "*.npy", *ALL, command="arrays")
    assert {row["key"]: row["label"] for row in flat.index("train")} == {
        f"{n}.npy": None for n in range(4)
    }


def test_a_listing_gives_class_split_group_key_and_more(tmp_path) -> None:
    root = save(tmp_path / "data", **{f"{n}": np.full(3, n) for n in range(4)})
    np.savez(root / "4.npz", x=np.full(3, 4))
    lines = ["path,label,split,name,weight"]
    lines += [f"{n}.np{'yz'[n == 4]},{'ab'[n % 2]},train,n{n},{n / 2}" for n in range(5)]
    (tmp_path / "list.csv").write_text("\n".join(lines))
    made = made_of(tmp_path, tmp_path / "list.csv", "--input-root", root, "--key-column", "name",
                   "--split-column", "split")  # fmt: skip
    assert made.keys("train") == {f"n{n}" for n in range(5)}
    example = made.examples()["n3", 0]
    assert example["weight"] == [1.5]
    assert example["array/class/text"] == [b"b"]
    assert int(arrays(made)["n4"][0]) == 4


def test_a_listing_that_names_a_file_twice_counts_it_once(tmp_path) -> None:
    root = save(tmp_path / "data", x=np.zeros(3))
    (root / "list.csv").write_text("path\nx.npy\n./x.npy\n")
    made = made_of(tmp_path, root / "list.csv")
    assert made.keys("train") == {"x.npy"}
    assert made.manifest.ledger.inputs.filtered == 1


@pytest.mark.parametrize("where", ["npz", "npy", "h5"])
def test_a_stack_with_an_array_of_labels(where, tmp_path) -> None:
    stack, labels = np.arange(120, dtype="u1").reshape(30, 2, 2), np.arange(30) % 3
    if where == "npz":
        np.savez_compressed(tmp_path / "x.npz", x=stack, y=labels)
        options = ["--array", "x", "--label-array", "y"]
    elif where == "h5":
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file.create_dataset("in/x", data=stack, chunks=(7, 2, 2), compression="gzip")
            file["in/y"] = [f"c{label}" for label in labels]
        options = ["--array", "in/x", "--label-array", "/in/y"]
    else:
        np.save(tmp_path / "x.npy", stack)
        np.save(tmp_path / "y.npy", labels)
        options = ["--label-input", tmp_path / "y.npy"]
    made = made_of(
        tmp_path, tmp_path / f"x.{where}", "--per-item", "--balance", "oversample", *options
    )
    name = f"x.{where}"
    assert_same(arrays(made), {f"{name}#{n}": stack[n] for n in range(30)})
    prefix = "c" if where == "h5" else ""
    assert {row["key"]: row["label"] for row in made.index("train")} == {
        f"{name}#{n}": f"{prefix}{n % 3}" for n in range(30)
    }
    assert made.examples()[f"{name}#7", 0]["array/start"] == [7]
    supervised = recordmill.load(made.folder, batch_size=5)
    assert next(iter(supervised))[0].shape == (5, 2, 2)


def test_labels_that_change_are_an_input_that_changed(tmp_path, capfd) -> None:
    np.save(tmp_path / "x.npy", np.zeros((6, 2)))
    np.save(tmp_path / "y.npy", np.arange(6) % 2)
    options = ("--per-item", "--label-input", tmp_path / "y.npy")
    made = made_of(tmp_path, tmp_path / "x.npy", *options)
    np.save(tmp_path / "y.npy", np.arange(6) % 3)
    where = ("--input", tmp_path / "x.npy", "--output", made.folder)
    assert "the input has changed" in error_of(capfd, *where, *ALL, *options)


def test_the_class_in_a_name(tmp_path) -> None:
    root = save(tmp_path / "in", cat_1=np.zeros(2), dog_1=np.ones(2), _2=np.ones(2))
    options = ("--label-from", "([a-z]+)_[0-9]+", "--max-reject-fraction", "0.5")
    made = made_of(tmp_path, root, *options)
    assert {row["key"]: row["label"] for row in made.index("train")} == {
        "cat_1.npy": "cat",
        "dog_1.npy": "dog",
    }
    assert made.rejects == {"_2.npy": "unlabelled"}
    kept = make(
        tmp_path / "kept", "--input", root, *ALL, *options, "--unlabelled", "keep", command="arrays"
    )
    assert "array/class/label" not in kept.examples()["_2.npy", 0]


def test_chunks_of_a_file_stay_in_one_split(tmp_path) -> None:
    files = {f"{n}": np.arange(40.0).reshape(10, 4) + n for n in range(12)}
    made = make(
        tmp_path / "out",
        *("--input", save(tmp_path / "in", **files), "--chunk", 3, "--seed", 1),
        *("--splits", "train=0.5,test=0.5"),
        command="arrays",
    )
    train, test = made.keys("train"), made.keys("test")
    assert len(train | test) == 12 * 4
    assert train
    assert test
    assert not {key.split("#")[0] for key in train} & {key.split("#")[0] for key in test}
    assert made.manifest.features["array/encoded"].raw_shape == (None, 4)
    ledger = made.manifest.ledger
    assert (ledger.unit, ledger.inputs.read, ledger.records.made) == ("chunk", 12, 12 * 4)
    dropped = made_of(tmp_path / "b", tmp_path / "in", "--chunk", 3, "--chunk-rest", "drop")
    assert dropped.manifest.features["array/encoded"].raw_shape == (3, 4)
    assert len(dropped.keys("train")) == 12 * 3


def test_chunks_without_a_class_are_rejected_with_their_file(tmp_path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    for number in range(9):
        label = "" if number == 4 else "a"
        np.savez(root / f"{number}.npz", x=np.zeros((7, 2)), y=np.array([label]))
    np.save(root / "short.npy", np.zeros((0, 2)))
    made = made_of(
        tmp_path,
        root,
        *("--array", "x", "--label-array", "y", "--chunk", 2, "--max-reject-fraction", 0.5),
    )
    ledger = made.manifest.ledger
    assert (ledger.inputs.read, ledger.inputs.rejected) == (9, 1)
    assert (ledger.records.made, ledger.records.rejected) == (9 * 4, 4)
    assert sorted(made.rejects) == ["4.npz#0", "4.npz#2", "4.npz#4", "4.npz#6", "short.npy"]


def test_bad_files_are_rejects_and_stop_nothing(tmp_path) -> None:
    root = save(tmp_path / "in", **{f"{n}": np.zeros((2, 2)) for n in range(9)})
    save(root, objects=np.array([None, {}]), texts=np.array(["a"]), other=np.zeros((2, 2), "i4"))
    save(root, nan=np.array([[1, np.nan], [0, 0]]), fields=np.zeros(2, [("a", "i4")]))
    (root / "short.npy").write_bytes((root / "0.npy").read_bytes()[:-1])
    (root / "empty.npy").write_bytes(b"")
    (root / "text.npy").write_text("hello")
    (root / "pickle.npy").write_bytes(b"\x80\x04K\x01.")
    (root / "broken.npz").write_bytes(b"PK\x03\x04" + bytes(60))
    options = ("--max-reject-fraction", "1", "--nan", "reject")
    made = made_of(tmp_path, root, *options)
    assert made.keys("train") == {f"{n}.npy" for n in range(9)}
    assert made.rejects == {
        "broken.npz": "corrupt",
        "empty.npy": "empty",
        "fields.npy": "unsupported",
        "nan.npy": "bad_value",
        "objects.npy": "unsupported",
        "other.npy": "bad_value",
        "pickle.npy": "unsupported",
        "short.npy": "truncated",
        "text.npy": "unsupported",
        "texts.npy": "unsupported",
    }
    inputs = made.manifest.ledger.inputs
    assert (inputs.read + inputs.rejected, inputs.rejected) == (19, 9)  # NaN shows when it is read
    told = (made.folder / "rejects.jsonl").read_text()
    assert "0x" not in told
    assert str(tmp_path) not in told


def test_the_same_bytes_with_one_worker_and_with_two(tmp_path) -> None:
    files = {f"{'ab'[n % 2]}__{n}": np.full((n % 5 + 1, 300), n / 3) for n in range(60)}
    root = save(tmp_path / "in", **files)
    digests = set()
    for workers in (1, 2):
        out = tmp_path / f"out-{workers}"
        options = ("--num-shards", "train=3", "--balance", "oversample", "--workers", workers)
        assert run("arrays", "--input", root, "--output", out, "--seed", 3, *options) == 0
        digests.add(Made(out).manifest.digest)
    assert len(digests) == 1


def test_values_and_casts(tmp_path) -> None:
    root = save(tmp_path / "in", **{f"{n}": np.full((2, 3), n / 7) for n in range(4)})
    options = ("--array-format", "values", "--dtype", "float32", "--cast", "same-kind")
    made = made_of(tmp_path, root, *options)
    expected = {f"{n}.npy": np.full((2, 3), n / 7, np.float32) for n in range(4)}
    assert_same(arrays(made, "array/values"), expected)
    assert_same(loaded(made, "array/values"), expected)
    spec = {"array/values": tf.io.FixedLenFeature([2, 3], tf.float32)}
    files = [str(made.folder / shard.file) for shard in made.manifest.splits["train"].shards]
    for record in tf.data.TFRecordDataset(files):
        assert tf.io.parse_single_example(record, spec)["array/values"].shape == (2, 3)


WRONG = {
    "dtype": (["--dtype", "float33"], "expected one of bool, int8"),
    "chunk 0": (["--chunk", 0], "--chunk: expected 1 or more, got 0"),
    "stride 0": (["--chunk", 2, "--chunk-stride", 0], "--chunk-stride: expected 1 or more"),
    "bytes": (["--max-array-bytes", "3GB"], "--max-array-bytes: expected 1 to 2146435072"),
    "column": (["--label-column", "x"], "--label-column: applies only to listings"),
    "no labels": (
        ["--label-input", "nowhere.npy", "--per-item"],
        "--label-input: nowhere.npy does not exist",
    ),
    "values": (["--array-format", "values"], "cannot hold float64 exactly"),
    "balance": (["--balance", "oversample"], "needs classes, and the input has none"),
    "output": (["--rename", "array/encoded=array/dtype"], "would both be named 'array/dtype'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_usage_is_told_before_anything_is_written(name, tmp_path, capfd) -> None:
    options, message = WRONG[name]
    root = save(tmp_path / "in", x=np.zeros((3, 2)))
    assert message in error_of(capfd, "--input", root, "--output", tmp_path / "out", *options)
    assert not (tmp_path / "out" / "dataset.json").exists()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere.npy", "does not exist: check the path"),
        ("nowhere/*.npy", "no file matches"),
        ("in/*.h5", "no usable file matches"),
        ("in/text.npy", "its content is neither .npy, .npz nor HDF5"),
    ],
)
def test_an_input_without_arrays(source, message, tmp_path, capfd) -> None:
    root = save(tmp_path / "in", x=np.zeros((3, 2)))
    (root / "text.npy").write_text("hello")
    where = ("--input", tmp_path / source, "--output", tmp_path / "out")
    assert message in error_of(capfd, *where)


def test_labels_of_one_file_for_several(tmp_path, capfd) -> None:
    root = save(tmp_path / "in", x=np.zeros((3, 2)), y=np.zeros(3, int))
    options = ("--per-item", "--label-input", root / "y.npy", "--output", tmp_path / "out")
    assert "--label-input holds the labels of one file" in error_of(
        capfd, "--input", root, *options
    )


def test_from_a_store_come_the_same_bytes(tmp_path) -> None:
    from recordmill.storage.files import Location

    stack = np.arange(2400, dtype=">i4").reshape(20, 10, 12)
    root = save(tmp_path / "in", a__x=stack, b__y=np.asfortranarray(stack[:7]))
    (root / "b").mkdir(exist_ok=True)
    np.savez_compressed(root / "b" / "z.npz", stack)
    with h5py.File(root / "a" / "w.h5", "w") as file:
        file.create_dataset("x", data=stack, chunks=(4, 10, 12))
    options = ("--chunk", 5, "--chunk-axis", 1)
    here = made_of(tmp_path, root, *options)
    with s3_server() as uri:
        for path in root.rglob("*.*"):
            place = Location.parse(uri(f"arrays/{path.relative_to(root)}"))
            place.write_bytes(path.read_bytes())
        there = make(tmp_path / "there", "--input", uri("arrays"), *ALL, *options, command="arrays")
    assert there.manifest.digest == here.manifest.digest


def test_arrays_without_values_are_rejected(tmp_path):
    (tmp_path / "in").mkdir()
    for name, shape in (("a", (2, 3)), ("b", (0, 3)), ("c", (2, 0)), ("d", (0, 0))):
        np.save(tmp_path / "in" / f"{name}.npy", np.ones(shape, np.float32))
    argv = ("--input", tmp_path / "in", "--splits", "train=1", "--max-reject-fraction", 1)
    for number, more in enumerate(((), ("--array-format", "values"))):
        made = make(tmp_path / f"{number}", *argv, *more, command="arrays")
        assert made.keys("train") == {"a.npy"}
        assert set(made.rejects.items()) == {(f"{name}.npy", "empty") for name in "bcd"}
