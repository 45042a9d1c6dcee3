"""TFRecord files as --input: of recordmill, of TFDS, and of other programs."""

import gzip
import pathlib
import shutil
import zlib

import numpy as np
import pytest
import tensorflow as tf

from recordmill.errors import Reason
from recordmill.pipelines.cli import main
from recordmill.storage.files import Location
from recordmill.tfrecord.framing import frame
from tests.folders import make_folder
from tests.image_runs import Made, images, make, run
from tests.paths import DATA
from tests.s3_server import s3_server
from tests.tfrecord_inputs import Values, example, write_records

pytestmark = pytest.mark.usefixtures("encoders_with_credentials")

SMALL = ("--size", "16", "--num-shards", "1")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return make_folder(tmp_path_factory.mktemp("in") / "photos", {"ant": 12, "bee": 4})


@pytest.fixture(scope="module")
def dataset(photos: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A balanced dataset of PNGs, whose pixels do not change when they are written again."""
    out = tmp_path_factory.mktemp("first") / "out"
    return make(out, "--input", photos, "--image-format", "png", "--balance", "oversample")


def records_of(photos: pathlib.Path) -> list[dict[str, Values]]:
    return [
        {
            "key": [str(path.relative_to(photos)).encode()],
            "image_raw": [path.read_bytes()],
            "kind": [path.parent.name.encode()],
        }
        for path in sorted(photos.rglob("*.jpg"))
    ]


ROLES = ("--bytes-column", "image_raw", "--label-column", "kind", "--key-column", "key")


def test_records_with_the_bytes_of_files_equal_the_files(photos, tmp_path) -> None:
    records = records_of(photos)
    write_records(tmp_path / "in" / "a-00000-of-00002.tfrecord", records[::2])
    write_records(tmp_path / "in" / "a-00001-of-00002.tfrecord", records[1::2])
    options = (*SMALL, "--balance", "oversample", "--augment", "flip")
    digest = make(tmp_path / "files", "--input", photos, *options).manifest.digest
    found = make(tmp_path / "1", "--input", tmp_path / "in", *ROLES, *options)
    assert found.manifest.digest == digest
    argv = ("--input", tmp_path / "in" / "*.tfrecord", *ROLES, *options, "--workers", "2")
    assert make(tmp_path / "2", *argv).manifest.digest == digest
    source = {row["source"] for split in ("train", "test") for row in found.index(split)}
    assert "a-00001-of-00002.tfrecord#3" in source


def test_a_dataset_written_again_is_equal(dataset, tmp_path) -> None:
    argv = ("--input", dataset.folder, "--image-format", "png", "--balance", "oversample")
    again = make(tmp_path / "out", *argv)
    assert again.manifest.digest == dataset.manifest.digest
    ledger = again.manifest.ledger
    assert (ledger.inputs.read, ledger.inputs.filtered) == (16, ledger.copies.written)
    assert ledger.copies.written > 0


def test_a_dataset_is_split_and_balanced_anew(dataset, photos, tmp_path) -> None:
    options = ("--image-format", "png", "--splits", "train=0.5,test=0.5", "--seed", "7")
    options += ("--balance", "undersample", "--num-shards", "2")
    argv = ("--input", dataset.folder, "--split-from", "none", *options)
    anew = make(tmp_path / "anew", *argv)
    from_files = make(tmp_path / "files", "--input", photos, *options)
    assert anew.manifest.digest == from_files.manifest.digest  # equal pixels, too
    assert anew.keys("train").isdisjoint(anew.keys("test"))
    assert anew.manifest.content is not None
    assert anew.manifest.content.leaks.records == 0
    assert not anew.manifest.open_items()


def test_splits_of_any_name_are_kept(photos, tmp_path) -> None:
    options = (*SMALL, "--splits", "fold1=0.5,fold2=0.5")
    first = make(tmp_path / "first", "--input", photos, *options)
    again = make(tmp_path / "again", "--input", first.folder, *SMALL)
    for split in ("fold1", "fold2"):
        assert again.keys(split) == first.keys(split)


@pytest.fixture
def table(tmp_path) -> pathlib.Path:
    rows = [f"{n},{n % 7}.5,{'xy'[n % 3 == 0]},p{n % 5}" for n in range(60)]
    rows[3] = "3,,x,p3"
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["id,size,label,patient", *rows]))
    return path


@pytest.mark.parametrize("keys", [(), ("--key-column", "id")])
def test_a_table_written_again_is_equal(table, keys, tmp_path) -> None:
    options = ("--balance", "oversample", "--num-shards", "2", "--compression", "gzip")
    groups = ("--group-column", "patient")
    first = tmp_path / "first"
    assert run("table", "--input", table, "--output", first, *keys, *groups, *options) == 0
    assert run("table", "--input", first, "--output", tmp_path / "again", *options) == 0
    again = Made(tmp_path / "again")
    assert again.manifest.digest == Made(first).manifest.digest
    assert {row["group"] for row in again.index("train")} <= {f"p{n}" for n in range(5)}


def test_series_and_sequences_of_a_dataset(tmp_path, capsys) -> None:
    rows = [f"2026-01-01 00:00:{n:02},{n}.5,{'xy'[n > 20]}" for n in range(40)]
    (tmp_path / "rows.csv").write_text("\n".join(["time,load,label", *rows]))
    first, series = tmp_path / "first", tmp_path / "series"
    argv = ("--input", tmp_path / "rows.csv", "--types", "time=string", "--splits", "train=1")
    assert run("table", *argv, "--output", first) == 0
    options = ("--time-column", "time", "--window", "4", "--sequence-example")
    argv = ("--input", first, "--split-from", "none", "--splits", "train=1")
    assert run("sensor", *argv, *options, "--output", series) == 0
    assert Made(series).manifest.ledger.inputs.read == 40
    assert run("table", "--input", series, "--output", tmp_path / "x") == 2
    assert "holds SequenceExamples, with the feature list" in capsys.readouterr().err


def test_texts_written_again_are_equal(tmp_path, capsys) -> None:
    lines = [f"wörd {n} and {n * n}\t{'xy'[n % 2]}" for n in range(40)]
    (tmp_path / "texts.tsv").write_text("\n".join(["text\tlabel", *lines]))
    first = tmp_path / "first"
    assert run("text", "--input", tmp_path / "texts.tsv", "--output", first) == 0
    assert run("text", "--input", first, "--output", tmp_path / "again") == 0
    assert Made(tmp_path / "again").manifest.digest == Made(first).manifest.digest
    tokens = tmp_path / "tokens"
    assert run("text", "--input", first, "--output", tokens, "--tokenizer", "words") == 0
    assert run("text", "--input", tokens, "--output", tmp_path / "x") == 2
    assert "holds no text: its features are label, tokens" in capsys.readouterr().err


@pytest.mark.parametrize("options", [(), ("--array-format", "values")])
def test_arrays_written_again_are_equal(options, tmp_path) -> None:
    for number in range(6):
        (tmp_path / "in" / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        shape = (3, 2) if options else (3 + number % 2, 2 + number % 3)
        values = np.random.default_rng(number).random(shape).astype("f4")
        np.save(tmp_path / "in" / "ab"[number % 2] / f"{number}.npy", values)
    first = tmp_path / "first"
    assert run("arrays", "--input", tmp_path / "in", "--output", first, *options) == 0
    assert run("arrays", "--input", first, "--output", tmp_path / "again", *options) == 0
    assert Made(tmp_path / "again").manifest.digest == Made(first).manifest.digest


def test_raw_pixels_written_again_are_equal(photos, tmp_path, capsys) -> None:
    options = ("--image-format", "raw", "--mode", "gray")
    first = make(tmp_path / "first", "--input", photos, *options)
    again = make(tmp_path / "again", "--input", first.folder, *options)
    assert again.manifest.digest == first.manifest.digest
    rgba = make(tmp_path / "rgba", "--input", photos, "--image-format", "raw", "--mode", "rgba")
    assert images("--input", rgba.folder, "--output", tmp_path / "x") == 2
    assert "holds raw pixels (uint8 ?x?x4), of which only uint8 with" in capsys.readouterr().err
    argv = ("--input", rgba.folder, "--output", tmp_path / "arrays")
    assert run("arrays", *argv) == 0


def test_a_folder_of_tfds(dataset, tmp_path) -> None:
    """Class numbers get their names; files beside the records are no records."""
    folder = tmp_path / "tfds"
    folder.mkdir()
    (folder / "features.json").write_text("{}")
    (folder / "dataset_info.json").write_text("{}")
    (folder / "kind.labels.txt").write_text("owl\nelk\n")
    pixels = [next(iter(dataset.examples().values()))["image/encoded"][0]] * 4
    for name, numbers in (("train", (0, 1, 1)), ("test", (0, -1))):
        records = [{"image": [pixels[n]], "kind": [n]} for n in numbers]
        write_records(folder / f"pets-{name}.tfrecord-00000-of-00001", records)
    argv = ("--input", folder, "--label-column", "kind", "--unlabelled", "keep")
    found = make(tmp_path / "out", *argv, *SMALL)
    assert found.manifest.labels == ("owl", "elk")
    assert found.manifest.splits["train"].classes == {"elk": 2, "owl": 1}
    assert found.manifest.splits["test"].classes == {"owl": 1}
    assert found.manifest.ledger.inputs.filtered == 0


def test_files_of_other_programs(tmp_path) -> None:
    argv = ("--input", DATA / "tfrecords" / "python-42.tfrecord", "--output", tmp_path / "table")
    assert run("table", *argv) == 0
    made = Made(tmp_path / "table")
    assert {*made.manifest.features} == {"feature0", "feature1", "feature2", "feature3"}
    found = make(
        tmp_path / "images",
        *("--input", DATA / "tfrecords" / "tensorflow-images.tfrecord"),
        *("--drop-columns", "depth", *SMALL),
    )
    assert found.manifest.labels == ("0", "1")
    assert {*found.manifest.features} > {"height", "width"}


def test_compressed_files(photos, tmp_path, capsys) -> None:
    """Images of gzip files are staged; arrays have to be decompressed first."""
    records = [one | {"image/height": [30]} for one in records_of(photos)]
    path = write_records(tmp_path / "a.tfrecord.gz", records, compressed=True)
    plain = write_records(tmp_path / "b.tfrecord", records)
    options = (*ROLES, *SMALL, "--balance", "oversample")
    staged = make(tmp_path / "1", "--input", path, *options)
    assert (
        staged.manifest.digest == make(tmp_path / "2", "--input", plain, *options).manifest.digest
    )
    first = make(tmp_path / "3", "--input", photos, *SMALL, "--compression", "gzip")
    again = make(tmp_path / "4", "--input", first.folder, *SMALL, "--image-format", "png")
    assert again.keys("train") == first.keys("train")
    assert again.manifest.labels == ("ant", "bee")
    assert run("arrays", "--input", path, "--output", tmp_path / "out", *ROLES) == 2
    assert "a.tfrecord.gz is compressed, so its records cannot" in capsys.readouterr().err
    argv = ("--input", path, "--label-column", "kind", "--drop-columns", "image_raw")
    assert run("table", *argv, "--output", tmp_path / "table") == 0
    assert Made(tmp_path / "table").manifest.labels == ("ant", "bee")


def test_records_in_a_store(photos, dataset, tmp_path) -> None:
    records = records_of(photos)
    path = write_records(tmp_path / "a.tfrecord", records)
    digest = make(tmp_path / "local", "--input", path, *ROLES, *SMALL).manifest.digest
    with s3_server() as uri:
        Location.parse(uri("in/a.tfrecord")).write_bytes(path.read_bytes())
        for file in filter(pathlib.Path.is_file, dataset.folder.rglob("*")):
            name = file.relative_to(dataset.folder)
            Location.parse(uri(f"old/{name}")).write_bytes(file.read_bytes())
        stored = make(tmp_path / "1", "--input", uri("in/a.tfrecord"), *ROLES, *SMALL)
        assert stored.manifest.digest == digest
        argv = ("--input", uri("old"), "--image-format", "png", "--balance", "oversample")
        again = make(tmp_path / "2", *argv)
        assert again.manifest.digest == dataset.manifest.digest


def test_damaged_records_are_rejected(photos, tmp_path) -> None:
    """A wrong checksum or length costs one record, a file that ends early its last one."""
    records = records_of(photos)
    frames = [frame(example(one)) for one in records]
    (tmp_path / "in").mkdir()
    wrong = frames[2][:200] + bytes([frames[2][200] ^ 1]) + frames[2][201:]
    (tmp_path / "in" / "a.tfrecord").write_bytes(b"".join([*frames[:2], wrong, *frames[3:8]]))
    length = b"\xff" * 8 + frames[10][8:]
    (tmp_path / "in" / "b.tfrecord").write_bytes(b"".join([*frames[8:10], length, frames[11]]))
    cut = b"".join(frames[12:])[:-1]
    (tmp_path / "in" / "c.tfrecord").write_bytes(cut)
    argv = ("--input", tmp_path / "in", *ROLES, *SMALL, "--max-reject-fraction", "0.5")
    made = make(tmp_path / "out", *argv)
    assert made.rejects == {
        records[2]["key"][0].decode(): Reason.CORRUPT,  # type: ignore[union-attr]
        "b.tfrecord#2": Reason.CORRUPT,
        "c.tfrecord#3": Reason.TRUNCATED,
    }
    assert not made.manifest.open_items()
    reasons = (made.folder / "rejects.jsonl").read_text()
    assert "payload checksum does not match" in reasons
    start = len(frames[8]) + len(frames[9])
    end = start + len(length)
    assert (
        f"the bytes from {start} to {end}, where the next intact record begins, are skipped"
        in reasons
    )
    assert made.manifest.ledger.records.written == len(records) - 3


def test_records_that_damage_may_hold_count_as_rejects(photos, tmp_path, capsys) -> None:
    """A lost part of a file is not one reject."""
    data = bytearray(b"".join(frame(example({"x": [n]})) for n in range(1000, 1600)))
    data[len(data) // 2 :] = bytes(len(data) // 2)
    (tmp_path / "a.tfrecord").write_bytes(data)
    argv = ("--input", tmp_path / "a.tfrecord", "--output", tmp_path / "out")
    assert run("table", *argv, "--max-reject-fraction", "0.4") == 1
    assert "300 of 600 inputs were rejected (50.0%)" in capsys.readouterr().err
    assert run("table", *argv, "--max-reject-fraction", "0.6") == 0
    assert Made(tmp_path / "out").manifest.ledger.inputs.rejected == 300


@pytest.mark.parametrize("damage", ["cut", "bit", "length"])
def test_a_damaged_gzip_file_is_an_error(damage, tmp_path, capsys) -> None:
    """As other compressed files of rows: the number of lost records is unknown."""
    data = b"".join(frame(example({"x": [n]})) for n in range(2000))
    if damage == "length":
        data = b"\xff" + data[1:]
    packed = bytearray(gzip.compress(data))
    if damage == "bit":
        packed[3000] ^= 1
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.tfrecord.gz").write_bytes(packed[: 60 if damage == "cut" else None])
    write_records(tmp_path / "in" / "b.tfrecord.gz", [{"x": [1]}] * 500, compressed=True)
    assert run("table", "--input", tmp_path / "in", "--output", tmp_path / "out") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "a.tfrecord.gz: record " in said
    assert "so this record and those after it cannot be read: repair the file, or name" in said


@pytest.mark.parametrize("conflicts", ["reject", "first"])
def test_a_damaged_record_does_not_replace_an_intact_one(conflicts, photos, tmp_path) -> None:
    records = records_of(photos)
    frames = [frame(example(one)) for one in records]
    damaged = bytearray(frames[2])
    damaged[-1] ^= 1
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.tfrecord").write_bytes(b"".join([*frames[:2], damaged]))
    (tmp_path / "in" / "b.tfrecord").write_bytes(b"".join(frames))
    argv = ("--input", tmp_path / "in", *ROLES, *SMALL, "--max-reject-fraction", "0.5")
    made = make(tmp_path / "out", *argv, "--conflicts", conflicts)
    assert made.rejects == {"a.tfrecord#2": Reason.CORRUPT}
    assert made.manifest.ledger.records.written == len(records)
    assert not made.manifest.open_items()


def test_damaged_rows_are_rejected(tmp_path) -> None:
    """As for images, and records of other types, without a value, or that are no Examples."""
    good = [{"x": [n], "label": [b"ab"[n % 2 : n % 2 + 1]]} for n in range(90)]
    odd = [{"x": [b"text"], "label": [b"a"]}, b"no example"]
    write_records(tmp_path / "in" / "a.tfrecord", [*good, *odd])
    frames = [frame(example(one)) for one in good[:3]]
    damaged = b"".join([frames[0], frames[1][:-1] + b"\0", frames[2], frames[0][:-3]])
    (tmp_path / "in" / "b.tfrecord").write_bytes(damaged)
    argv = ("--input", tmp_path / "in", "--output", tmp_path / "out")
    assert run("table", *argv, "--max-reject-fraction", "0.5") == 0
    assert Made(tmp_path / "out").rejects == {
        "a.tfrecord#90": Reason.BAD_VALUE,
        "a.tfrecord#91": Reason.BAD_VALUE,
        "b.tfrecord#1": Reason.CORRUPT,
        "b.tfrecord#3": Reason.TRUNCATED,
    }


def test_texts_that_are_not_utf8_are_rejected_by_their_feature(tmp_path) -> None:
    rows: list[dict[str, Values]] = [{"x": [n], "label": [b"a"]} for n in range(20)]
    rows[3]["label"] = [b"\xe9t\xe9"]
    write_records(tmp_path / "in" / "a.tfrecord", rows)
    argv = ("--input", tmp_path / "in", "--output", tmp_path / "out")
    assert run("table", *argv, "--max-reject-fraction", "0.1") == 0
    made = Made(tmp_path / "out")
    assert made.rejects == {"a.tfrecord#3": Reason.BAD_VALUE}
    assert "feature 'label': not UTF-8" in (made.folder / "rejects.jsonl").read_text()


def test_a_damaged_dataset_is_not_read(dataset, tmp_path, capsys) -> None:
    def said(*damage: tuple[str, bytes | None]) -> str:
        shutil.rmtree(tmp_path / "in", ignore_errors=True)
        shutil.copytree(dataset.folder, tmp_path / "in")
        for name, content in damage:
            (tmp_path / "in" / name).unlink()
            if content is not None:
                (tmp_path / "in" / name).write_bytes(content)
        assert images("--input", tmp_path / "in", "--output", tmp_path / "out") == 2
        return capsys.readouterr().err

    shard = dataset.manifest.splits["train"].shards[0].file
    index = f"index/{shard.replace('.tfrecord', '')}.parquet"
    whole = (dataset.folder / shard).read_bytes()
    assert f"lacks {shard} of its manifest" in said((shard, None))
    assert "bytes, its manifest says" in said((shard, whole[:-1]))
    assert "the dataset is damaged; recordmill verify finds" in said((index, b"x"))
    assert "dataset.json is invalid: digest: it is missing" in said(
        ("dataset.json", b'{"format": "recordmill/1"}')
    )


LIST_OF_RECORDS = b'[{"file": "train.tfrecord-00000-of-00001", "records": 60}]'
UNREADABLE = {
    "nested": b'{"a":' * 3000,
    "empty": b"",
    "binary": bytes(range(256)),
    "half": b'{\n  "content": {\n    "leaks',
    "list": LIST_OF_RECORDS,
    "other": b'{"name": "okra", "format": "tfrecord"}',
}


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (UNREADABLE["nested"], "dataset.json is damaged: it is nested too deeply"),
        (UNREADABLE["empty"], "dataset.json is damaged: Expecting value"),
        (UNREADABLE["binary"], "dataset.json is damaged: "),
        (UNREADABLE["half"], "dataset.json is damaged: Unterminated string"),
        (UNREADABLE["list"], "dataset.json is damaged: expected the format recordmill/1"),
        (UNREADABLE["other"], "dataset.json is damaged: expected the format recordmill/1"),
        (None, "dataset.json is missing, although index/ holds the indexes of shards"),
    ],
    ids=[*UNREADABLE, "missing"],
)
def test_a_dataset_without_a_readable_manifest(manifest, why, table, tmp_path, capsys) -> None:
    """Read as files of other programs, copies of balanced classes would become records."""
    old = tmp_path / "old"
    options = ("--label-column", "label", "--balance", "oversample")
    assert run("table", "--input", table, "--output", old, *options) == 0
    (old / "dataset.json").unlink()
    if manifest is not None:
        (old / "dataset.json").write_bytes(manifest)
    for given in (old, old / "*.tfrecord*") if manifest is not None else (old,):
        argv = ("--input", given, "--output", tmp_path / "new", "--label-column", "label")
        assert run("table", *argv) == 2
        assert why in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "new" / "dataset.json").exists()


def test_shards_without_indexes_are_files_of_other_programs(dataset, tmp_path, capsys) -> None:
    shutil.copytree(dataset.folder, tmp_path / "in")
    (tmp_path / "in" / "dataset.json").unlink()
    argv = ("--input", tmp_path / "in", "--output", tmp_path / "out", "--overwrite", *SMALL)
    assert images(*argv) == 2
    assert "dataset.json is missing" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "in" / "index")
    assert images(*argv) == 0


@pytest.mark.parametrize(
    ("content", "code"),
    [
        *[(UNREADABLE[name], 2) for name in ("nested", "empty", "binary", "half")],
        *[(UNREADABLE[name], 0) for name in ("list", "other")],
        (b'{"mean": NaN}', 0),
        (b'{"image": "a"}\n{"image": "b"}\n', 0),
        (b'{"info": {"format": "recordmill/1"}}', 0),
        (b'{"format": "recordmill/1", "dig', 2),
    ],
)
def test_a_manifest_of_another_program_beside_tfrecords(content, code, tmp_path, capsys) -> None:
    (tmp_path / "in").mkdir()
    write_records(tmp_path / "in" / "a.tfrecord", [{"x": [n]} for n in range(20)])
    (tmp_path / "in" / "dataset.json").write_bytes(content)
    argv = ("--input", tmp_path / "in", "--output", tmp_path / "out", "--splits", "train=1")
    assert run("table", *argv) == code
    if code:
        said = " ".join(capsys.readouterr().err.split())
        assert f"{tmp_path}/in/dataset.json is damaged: " in said
        assert "move it to another folder" in said


@pytest.mark.parametrize(
    ("at", "why"),
    [
        (8, "record 0: its length does not match its checksum"),
        (20, "record 0: its content does not match its checksum"),
    ],
)
def test_a_damaged_record_of_a_dataset_is_an_error(at, why, table, tmp_path, capsys) -> None:
    """A damaged length would cost all records after it, as a single reject."""
    argv = ("--key-column", "id", "--num-shards", "1")
    assert run("table", "--input", table, "--output", tmp_path / "old", *argv) == 0
    shard = tmp_path / "old" / Made(tmp_path / "old").manifest.splits["train"].shards[0].file
    content = bytearray(shard.read_bytes())
    content[at] ^= 1
    shard.write_bytes(content)
    assert run("table", "--input", tmp_path / "old", "--output", tmp_path / "new") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"{shard.name}: {why}" in said
    assert "the dataset is damaged" in said


def test_a_damaged_length_in_a_dataset_of_images_is_an_error(dataset, tmp_path, capsys) -> None:
    shutil.copytree(dataset.folder, tmp_path / "old")
    shard = tmp_path / "old" / dataset.manifest.splits["train"].shards[0].file
    content = bytearray(shard.read_bytes())
    content[8] ^= 1
    shard.write_bytes(content)
    assert images("--input", tmp_path / "old", "--output", tmp_path / "new") == 2
    assert "its length does not match its checksum" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("records", "options", "why"),
    [
        ([b"x"], (), "no usable record in"),
        ([{"pixels": [b"x"]}], (), "expected one of image/encoded, image, "),
        ([{"image": [b"x"]}], ("--bytes-column", "img"), "no column 'img' in"),
        ([{"image": [b"x"]}], ("--label-column", "y"), "no column 'y' in"),
        ([{"image": [3]}], (), "feature 'image': expected bytes, got int64"),
        ([{"image": [b"x"]}], ("--masks", "m"), "--masks: applies only to files in folders or"),
        ([{"image": [b"x"]}], ("--path-column", "a"), "--path-column: applies only to listings"),
        ([{"image": [b"x"]}], ("--missing", "a"), "--missing: applies only to listings"),
        ([{"image": [b"x"]}], ("--label-from", "parent"), "--label-from parent: applies only"),
    ],
)
def test_unusable_inputs(records, options, why, tmp_path, capsys) -> None:
    path = write_records(tmp_path / "a.tfrecord", records)
    assert images("--input", path, "--output", tmp_path / "out", *options) == 2
    assert why in capsys.readouterr().err


def test_a_file_that_has_the_name_of_a_manifest_only(tmp_path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("x\n1\n2\n")
    for content in ("[1]", "{}", "no JSON"):
        (tmp_path / "in" / "dataset.json").write_text(content)
        argv = ("--input", tmp_path / "in", "--output", tmp_path / "out", "--overwrite")
        assert run("table", *argv, "--splits", "train=1") == 0


EXPECTED = "expected TFRecords of tf.train.Example with at least one feature"
EXAMPLES = b"".join(frame(example({"x": [n]})) for n in range(20))


def sequence_example() -> bytes:
    record = tf.train.SequenceExample()
    record.context.feature["a"].int64_list.value.append(1)
    record.feature_lists.feature_list["b"].feature.add().int64_list.value.append(3)
    return record.SerializeToString()


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.tfrecord", frame(b"\x0a\x00\x12\x00"), f": {EXPECTED}"),
        (
            "a.tfrecord",
            b"no record at all",
            "; the first reject: a.tfrecord#0: its length does not match its checksum: the last 16"
            " of 16 bytes of the file cannot be read (recordmill adopt reports the damage of all",
        ),
        (
            "a.tfrecord.gz",
            gzip.compress(EXAMPLES, mtime=0)[:20],
            "a.tfrecord.gz: record 0, at byte 0 of the inflated file: the file ends inside a gzip",
        ),
        (
            "a.tfrecord",
            EXAMPLES[:25],
            "; the first reject: a.tfrecord#0: the file ends inside it: the last 25 of 25 bytes",
        ),
        (
            "a.tfrecord",
            frame(sequence_example()),
            f": {EXPECTED}; the first reject: a.tfrecord#0: not a tf.train.Example: it is a"
            " SequenceExample",
        ),
        (
            "a.tfrecord",
            frame(b"\x0a\x00") + frame(b"hello world"),
            f": {EXPECTED}; the first reject: a.tfrecord#1: not a tf.train.Example: has a field",
        ),
        ("a.tfrecord", zlib.compress(EXAMPLES), "a.tfrecord is compressed with zlib, which is"),
        (
            "a.jsonl",
            b"{}\n[2]\n",
            " has the name `a.b`); the first reject: a.jsonl#2: expected a JSON object",
        ),
    ],
)
def test_files_without_usable_records(name, data, why, tmp_path, capsys) -> None:
    (tmp_path / name).write_bytes(data)
    argv = ("--input", tmp_path / name, "--output", tmp_path / "out")
    assert run("table", *argv) == 2
    message = capsys.readouterr().err
    assert why in " ".join(message.split())
    assert ("JSON" in message) == (name == "a.jsonl")


def test_a_condition_on_records(photos, dataset, tmp_path, capsys) -> None:
    path = write_records(tmp_path / "a.tfrecord", records_of(photos))
    argv = ("--input", path, *ROLES, *SMALL, "--where", 'kind == "bee"')
    made = make(tmp_path / "1", *argv)
    assert made.manifest.labels == ("bee",)
    assert made.manifest.ledger.inputs.filtered == 12
    argv = ("--input", dataset.folder, *SMALL, "--output", tmp_path / "2", "--where")
    assert images(*argv, "image/height > 100") == 2
    advice = "no column 'image' in {} (names with / need backticks, such as `image/channels`): it"
    assert advice.format(dataset.folder) in capsys.readouterr().err
    assert images(*argv, "`image/height` > 999") == 2
    assert "--where leaves out all 16 records of" in capsys.readouterr().err


def test_a_condition_on_arrays_of_a_dataset(tmp_path) -> None:
    names = [f"{number}.npy" for number in range(4)]
    for number, name in enumerate(names):
        np.save(tmp_path / name, np.full((2, 3), number, np.float32))
    rows = [f"{name},{'ab'[n % 2]},{n}" for n, name in enumerate(names)]
    (tmp_path / "in.csv").write_text("\n".join(["path,label,age", *rows]))
    argv = ("--splits", "train=1", "--array-format", "values")
    first = make(tmp_path / "first", "--input", tmp_path / "in.csv", *argv, command="arrays")
    for number, (where, kept) in enumerate(
        (
            ("age > 1", {"2.npy", "3.npy"}),
            ("__label__ == 'a' and `array/filename` != '0.npy'", {"2.npy"}),
            ("2 in `array/shape` and `array/class/text` == 'b'", {"1.npy", "3.npy"}),
        )
    ):
        out = tmp_path / f"out{number}"
        made = make(out, "--input", first.folder, "--where", where, command="arrays")
        assert made.keys("train") == kept
        assert made.manifest.ledger.inputs.filtered == 4 - len(kept)


def test_records_with_several_labels(photos, tmp_path) -> None:
    """As lists, and from the index of a dataset."""
    labels = [[b"x"], [b"x", b"y"], [b"y", b"x", b"z"]]
    records = [one | {"kind": labels[n % 3], "n": [n]} for n, one in enumerate(records_of(photos))]
    path = write_records(tmp_path / "a.tfrecord", records)
    first = make(tmp_path / "1", "--input", path, *ROLES, "--image-format", "png")
    assert first.manifest.multi_label
    assert first.manifest.labels == ("x", "y", "z")
    again = make(tmp_path / "2", "--input", first.folder, "--image-format", "png")
    assert again.manifest.digest == first.manifest.digest
    argv = ("--input", path, *ROLES[2:], "--drop-columns", "image_raw")
    assert run("table", *argv, "--output", tmp_path / "3", "--num-shards", "1") == 0
    assert run("table", "--input", tmp_path / "3", "--output", tmp_path / "4") == 0
    assert Made(tmp_path / "4").manifest.digest == Made(tmp_path / "3").manifest.digest


def test_shards_without_extension(photos, tmp_path) -> None:
    write_records(tmp_path / "in" / "train-00000-of-00001", records_of(photos))
    made = make(tmp_path / "out", "--input", tmp_path / "in" / "train-*", *ROLES, *SMALL)
    assert made.manifest.ledger.records.written == 16


def test_the_interpretation_names_the_index(dataset, tmp_path, capsys) -> None:
    argv = ("--input", dataset.folder, "--output", tmp_path / "out", "--dry-run", "--workers", "1")
    assert main(["images", *map(str, argv)]) == 0
    text = "".join(capsys.readouterr())
    assert ", 16 records" in text
    assert "the index of the dataset; 2 classes" in text
    assert "the splits of the dataset" in text


def test_missing_values_make_a_feature_optional(tmp_path: pathlib.Path) -> None:
    """NaN and --missing are no values, in records that have the feature."""
    rows: list[dict[str, Values]] = [
        {"a": [1], "b": [1.5], "s": [b"NA"], "label": [b"x"]},
        {"a": [2], "b": [float("nan")], "s": [b"q"], "label": [b"y"]},
    ]
    path = write_records(tmp_path / "a.tfrecord", rows)
    options = ("--missing", "NA", "--missing", "a=1", "--splits", "train=1", "--num-shards", 1)
    made = make(tmp_path / "out", "--input", path, *options, command="table")
    assert main(["verify", "--dataset", str(made.folder), "--deep", "--quiet"]) == 0
    features = made.manifest.features
    assert {name: features[name].shape for name in "abs"} == dict.fromkeys("abs", (None,))
    found = [[*one["a"]] for one in made.examples("train").values() if "a" in one]
    assert found == [[2]]


@pytest.mark.parametrize("command", ["images", "arrays"])
@pytest.mark.parametrize(
    ("names", "remedy"),
    [
        (("height", "width", "depth"), "adopt --raw image_raw=uint8:6x4x1, and pass that"),
        (("rows", "cols"), "adopt --raw image_raw=uint8:6x4x1, and pass that"),
    ],
)
def test_raw_pixels_without_a_manifest(tmp_path, capsys, command, names, remedy) -> None:
    sizes = {name: [size] for name, size in zip(names, (6, 4, 1), strict=False)}
    rng = np.random.default_rng(0)
    records = [{"image_raw": [rng.bytes(24)], "label": [n % 2], **sizes} for n in range(4)]
    write_records(tmp_path / "in" / "train.tfrecord", records)
    given = ("--input", tmp_path / "in", "--output", tmp_path / "out")
    assert run(command, *given) == 2
    said = capsys.readouterr().err
    assert f"'image_raw' holds no files, but raw pixels (as many bytes as {names[0]} x" in said
    assert remedy in said


def test_raw_pixels_are_read_as_the_message_says(tmp_path) -> None:
    sizes = {"height": [6], "width": [4], "depth": [1]}
    pixels = [np.full((6, 4, 1), n, np.uint8).tobytes() for n in range(4)]
    records = [{"image_raw": [one], "label": [n % 2], **sizes} for n, one in enumerate(pixels)]
    write_records(tmp_path / "in" / "train.tfrecord", records)
    raw = ("--raw", "image_raw=uint8:6x4x1")
    assert run("adopt", "--input", tmp_path / "in", "--output", tmp_path / "adopted", *raw) == 0
    made = make(tmp_path / "out", "--input", tmp_path / "adopted", "--num-shards", "1")
    assert made.manifest.ledger.records.written == 4
