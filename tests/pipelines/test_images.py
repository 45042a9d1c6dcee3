"""`recordmill images` from end to end: real pictures in, read back by TensorFlow."""

import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image

from recordmill.pipelines.cli import main
from tests.folders import make_folder, make_picture
from tests.image_runs import Made, images, make
from tests.paths import CLOTHING, ODD
from tests.tensorflow_reads import parse

pytestmark = pytest.mark.usefixtures("encoders")


# --- The command of the README, on real photos -------------------------------------------------


@pytest.fixture(scope="module")
def clothing(tmp_path_factory) -> Made:
    return make(
        tmp_path_factory.mktemp("clothing") / "out",
        *("--input", CLOTHING, "--size", 48),
        *("--splits", "train=0.8,validation=0.1,test=0.1"),
        *("--balance", "oversample", "--seed", 7),
    )


def test_verify_finds_no_damage(clothing, capfd):
    assert main(["verify", "--dataset", os.fspath(clothing.folder), "--deep"]) == 0
    assert "every image decoded: no damage" in capfd.readouterr().out


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_tensorflow_reads_what_the_manifest_says(clothing, split):
    stated = clothing.manifest.splits[split]
    records = parse(clothing, split)
    assert len(records) == stated.records
    assert Counter(r["image/class/text"].numpy().decode() for r in records) == stated.classes
    labels = clothing.manifest.labels
    for record in records:
        assert labels[int(record["image/class/label"])].encode() == record["image/class/text"]
    assert tf.io.decode_jpeg(records[0]["image/encoded"]).shape == (48, 48, 3)


def test_every_class_of_train_equals_the_largest(clothing):
    index = clothing.index("train")
    originals = Counter(row["label"] for row in index if row["copy"] == 0)
    largest = max(originals.values())
    assert Counter(row["label"] for row in index) == dict.fromkeys(originals, largest)
    assert len(originals) == len(list(CLOTHING.iterdir()))


def test_validation_and_test_hold_no_copy(clothing):
    assert {row["copy"] for split in ("validation", "test") for row in clothing.index(split)} == {0}


def test_every_picture_is_in_one_split(clothing):
    keys = [clothing.keys(split) for split in ("train", "validation", "test")]
    assert sum(map(len, keys)) == len(set.union(*keys))
    files = CLOTHING.rglob("*.jpg")
    assert set.union(*keys) == {os.fspath(f.relative_to(CLOTHING)) for f in files}


def test_labels_are_in_the_order_of_their_numbers(clothing):
    lines = (clothing.folder / "labels.txt").read_text().splitlines()
    assert lines == sorted(lines) == list(clothing.manifest.labels)
    record = next(iter(clothing.examples("test").values()))
    assert lines[record["image/class/label"][0]] == record["image/class/text"][0].decode()


def test_copies_are_far_from_each_other_in_the_order(clothing):
    """Copies of a record next to each other are the mark of a shuffle within bundles."""
    keys = [row["key"] for row in clothing.index("train")]
    neighbours = sum(one == other for one, other in itertools.pairwise(keys))
    # Of 209 pairs about three are of one picture by chance; 137 if copies stay together.
    assert neighbours < 12


# --- Odd pictures ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def odd(tmp_path_factory) -> tuple[int, bool, Made]:
    """At the default limit (exit code, whether there is a dataset), then without a limit."""
    argv = ["--input", ODD / "pillow", "--size", 32]
    out = tmp_path_factory.mktemp("odd") / "out"
    code = images(*argv, "--output", out)
    published = (out / "dataset.json").exists()
    return code, published, make(out, *argv, "--max-reject-fraction", 1)


def test_too_many_odd_pictures_make_no_dataset(odd):
    code, published, _ = odd
    assert (code, published) == (1, False)


def test_odd_pictures_are_written_or_rejected_by_name(odd):
    made = odd[2]
    lines = (made.folder / "rejects.jsonl").read_text().splitlines()
    rejects = [json.loads(line) for line in lines]
    written = [row["key"] for split in made.manifest.splits for row in made.index(split)]
    files = sorted(path.name for path in (ODD / "pillow").iterdir())
    assert sorted([*written, *(reject["key"] for reject in rejects)]) == files
    assert made.manifest.ledger.records.rejected == len(rejects)
    for reject in rejects:
        assert reject["reason"] in ("corrupt", "truncated", "too_many_pixels", "unsupported")
        # Words of ours: no addresses, no paths, no names of Python's or Pillow's.
        assert not re.search(r"\b0x|/|Error|<|object at", reject["detail"]), reject


def test_every_orientation_comes_out_upright(tmp_path):
    """The real files, shrunk so that the test is quick; their EXIF block is kept as it is."""
    (tmp_path / "in").mkdir()
    for path in (ODD / "exif").iterdir():
        with Image.open(path) as image:
            image.reduce(8).save(
                tmp_path / "in" / path.name, exif=image.info["exif"], quality=100, subsampling=0
            )
    made = make(
        tmp_path / "out",
        *("--input", tmp_path / "in", "--splits", "train=1"),
        *("--resize-mode", "none", "--image-format", "png"),
    )
    pictures = {
        record["image/filename"].numpy().decode(): tf.io.decode_png(record["image/encoded"])
        for record in parse(made, "train")
    }
    assert len(pictures) == 18
    for name, picture in pictures.items():
        family = name.partition("_")[0]
        upright = pictures[f"{family}_1.jpg"].numpy().astype(float)
        assert np.abs(picture.numpy() - upright).mean() <= 2, name


# --- The same bytes, whatever shall not matter -------------------------------------------------

SHAPING = (
    *("--balance", "oversample", "--augment", "flip,rotate", "--stratify"),
    *("--size", 24, "--num-shards", 3, "--seed", 5),
)


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> pathlib.Path:
    return make_folder(tmp_path_factory.mktemp("photos"), {"ant": 16, "bee": 7, "cow": 4})


@pytest.fixture(scope="module")
def digest(photos, tmp_path_factory) -> str:
    """Of the folder itself, by one worker, with the hash seed that this process happens to have."""
    made = make(tmp_path_factory.mktemp("digest") / "out", "--input", photos, *SHAPING)
    assert made.manifest.ledger.copies.written > 0
    return made.manifest.digest


def write_listing(path: pathlib.Path, photos: pathlib.Path, *, shuffle: int) -> pathlib.Path:
    rows = [f"{f.parent.name}/{f.name},{f.parent.name}\n" for f in photos.rglob("*.jpg")]
    random.Random(shuffle).shuffle(rows)
    path.write_text("path,label\n" + "".join(rows))
    return path


def test_workers_hash_seed_and_order_do_not_matter(photos, digest, tmp_path):
    """A listing of the same files, shuffled, by four workers in a process of its own."""
    listing = write_listing(tmp_path / "list.csv", photos, shuffle=1)
    argv = ["--input", listing, "--input-root", photos, "--output", tmp_path / "out"]
    argv = ["--quiet", "--workers", "4", *map(str, argv), *map(str, SHAPING)]
    subprocess.run(
        [sys.executable, "-m", "recordmill", "images", *argv],
        env=os.environ | {"PYTHONHASHSEED": "0"},
        check=True,
    )
    assert Made(tmp_path / "out").manifest.digest == digest


def test_neither_order_nor_spilling_matter(photos, digest, tmp_path):
    listing = write_listing(tmp_path / "list.csv", photos, shuffle=2)
    argv = ["--input", listing, "--input-root", photos, "--workers", 2, "--spill-above", 1]
    assert make(tmp_path / "out", *argv, *SHAPING).manifest.digest == digest


# --- Listings ----------------------------------------------------------------------------------

ROWS = [
    {
        "file_name": f"{label}/{number:03d}.jpg",
        "label": label,
        "patient": f"p{(number * 7 + len(label)) % 6}",
        "age": number * 3 - 5,
        "dose": number / 8,
        "note": f"déjà vu, {number}",
    }
    for label, count in (("ant", 16), ("bee", 7), ("cow", 4))
    for number in range(count)
]


def write_csv(path: pathlib.Path) -> None:
    lines = [",".join(f'"{value}"' for value in row.values()) for row in ROWS]
    path.write_text("\n".join([",".join(ROWS[0]), *lines]))


def write_jsonl(path: pathlib.Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))


def write_parquet(path: pathlib.Path) -> None:
    pa.parquet.write_table(pa.Table.from_pylist(ROWS), path)


@pytest.fixture(scope="module")
def listings(photos, tmp_path_factory) -> dict[str, Made]:
    folder = tmp_path_factory.mktemp("listings")
    made = {}
    for kind, write in (("csv", write_csv), ("jsonl", write_jsonl), ("parquet", write_parquet)):
        write(folder / f"list.{kind}")
        made[kind] = make(
            folder / kind,
            *("--input", folder / f"list.{kind}", "--input-root", photos),
            *("--group-column", "patient", "--splits", "train=0.5,test=0.5"),
        )
    return made


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_listing_is_the_same_in_any_format(listings, kind):
    assert listings[kind].manifest.digest == listings["csv"].manifest.digest


def test_no_group_is_in_two_splits(listings):
    groups = {
        split: {row["group"] for row in listings["csv"].index(split)} for split in ("train", "test")
    }
    assert groups["train"]
    assert groups["test"]
    assert not groups["train"] & groups["test"]


def test_other_columns_become_features(listings):
    records = [record for split in ("train", "test") for record in parse(listings["csv"], split)]
    found = {
        record["image/filename"].numpy().decode(): tuple(
            tf.sparse.to_dense(record[name]).numpy().tolist() for name in ("age", "dose", "note")
        )
        for record in records
    }
    assert found == {
        row["file_name"]: ([row["age"]], [row["dose"]], [row["note"].encode()]) for row in ROWS
    }


def test_lists_of_a_listing_become_features_of_several_values(photos, tmp_path, capfd):
    names = [row["file_name"] for row in ROWS]
    table = pa.table(
        {
            "file_name": names,
            "box": pa.array([[n, 2.5] for n in range(len(names))], pa.list_(pa.float64(), 2)),
            "tags": [["a", "b"], [], None, *[["c"]] * (len(names) - 3)],
            "when": pa.array([0] * len(names), pa.timestamp("ns")),
        }
    )
    pa.parquet.write_table(table, tmp_path / "list.parquet")
    made = make(
        tmp_path / "out",
        *("--input", tmp_path / "list.parquet", "--input-root", photos),
        *("--splits", "train=1", "--drop-columns", "when"),
    )
    records = {record["image/filename"].numpy().decode(): record for record in parse(made, "train")}
    tags = [records[name]["tags"].values.numpy().tolist() for name in names]
    assert tags == [[b"a", b"b"], [], [], *[[b"c"]] * (len(names) - 3)]
    boxes = [records[name]["box"].numpy().tolist() for name in names]
    assert boxes == [[n, 2.5] for n in range(len(names))]
    assert main(["verify", "--dataset", str(made.folder), "--deep"]) == 0
    capfd.readouterr()
    schema = (made.folder / "schema.pbtxt").read_text()
    assert 'name: "box"\n  type: FLOAT\n  presence { min_fraction: 1.0 min_count: 1 }' in schema
    assert "shape { dim { size: 2 } }" in schema
    by_tfds = tfds.builder_from_directory(made.folder).as_dataset(split="train")
    read = {record["image/filename"]: record for record in tfds.as_numpy(by_tfds)}
    assert [list(read[name.encode()]["tags"]) for name in names] == tags
    assert [read[name.encode()]["box"].tolist() for name in names] == boxes


# --- Folders -----------------------------------------------------------------------------------


def test_folders_named_as_splits_are_respected(tmp_path):
    counts = {"train/ant": 3, "train/bee": 2, "val/ant": 2, "testing/bee": 1}
    made = make(tmp_path / "out", "--input", make_folder(tmp_path / "in", counts))
    assert made.keys("train") == {f"train/ant/00{i}.jpg" for i in range(3)} | {
        f"train/bee/00{i}.jpg" for i in range(2)
    }
    assert made.keys("validation") == {"val/ant/000.jpg", "val/ant/001.jpg"}
    assert made.keys("test") == {"testing/bee/000.jpg"}
    assert made.manifest.labels == ("ant", "bee")


def test_a_flat_folder_has_no_labels(tmp_path):
    made = make(tmp_path / "out", "--input", make_folder(tmp_path / "in", {".": 6}))
    assert made.manifest.labels == ()
    assert not (made.folder / "labels.txt").exists()
    (record, *_) = parse(made, "train")
    assert not [name for name in record if "class" in name]


def test_names_of_any_kind(tmp_path):
    photos = tmp_path / "in"
    usable = [
        "two words.jpg",
        "line\nbreak.jpg",
        "🦋.JPG",
        "ünï.jpeg",
        "no extension",
        "'\";$&.jpg",
    ]
    for number, name in enumerate(usable):
        make_picture(photos / "any" / "a.jpg", number)
        (photos / "any" / "a.jpg").rename(photos / "any" / name)
    (photos / "any" / os.fsdecode(b"caf\xe9.jpg")).write_bytes(
        (photos / "any" / usable[0]).read_bytes()
    )
    (photos / "any" / "loop.jpg").symlink_to("loop.jpg")
    (photos / "any" / "up").symlink_to("..")
    for name in (".hidden.jpg", "Thumbs.db", "notes.txt", "a.jpg~"):
        (photos / "any" / name).write_bytes(b"left out")
    for name in (".git/objects/1", ".git/2", "any/__MACOSX/._a.jpg", ".ipynb_checkpoints/"):
        folder, _, file = name.rpartition("/")
        (photos / folder).mkdir(parents=True, exist_ok=True)
        if file:
            (photos / name).write_bytes(b"in a folder that is left out")
    made = make(
        tmp_path / "out",
        *("--input", photos, "--splits", "train=1", "--max-reject-fraction", 1),
    )
    assert made.keys("train") == {f"any/{name}" for name in usable}
    assert made.rejects == {
        "any/caf\\xe9.jpg": "bad_name",
        "any/loop.jpg": "symlink_loop",
        "any/up": "symlink_loop",
    }
    inputs = made.manifest.ledger.inputs
    assert (inputs.read, inputs.rejected, inputs.filtered) == (len(usable), 3, 4 + 3)
    assert main(["verify", "--dataset", os.fspath(made.folder), "--deep", "--quiet"]) == 0
