import dataclasses
import io
import json
import pathlib
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordmill.checking.shard_check import Damage
from recordmill.checking.verify import VerificationReport, verify
from recordmill.format import shard_index
from recordmill.format.file_info import file_info
from recordmill.format.manifest import Manifest, ManifestError, digest_of
from recordmill.storage.files import Location
from recordmill.tfrecord.framing import frame
from tests.make_dataset import FEATURES, Row, flowers, make_dataset, rewrite

TRAIN = "train.tfrecord-00000-of-00002"
TRAIN_1 = "train.tfrecord-00001-of-00002"
VALIDATION = "validation.tfrecord-00000-of-00001"
CHANGED = "it changed after it was written"


def check(folder: pathlib.Path, *, deep: bool = False) -> VerificationReport:
    return verify(Location.parse(str(folder)), deep=deep)


def seen(report: VerificationReport) -> list[tuple[str, int | None, str | None, str]]:
    return [(one.file, one.record, one.key, one.what) for one in report.damages]


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("label_offset", [0, 5])
def test_a_sound_dataset(compression, label_offset, tmp_path) -> None:
    make_dataset(tmp_path / "out", compression=compression, label_offset=label_offset)
    report = check(tmp_path / "out", deep=True)
    assert report.damages == ()
    assert report.ok
    assert (report.shards, report.records) == (3, 8)
    size = sum(path.stat().st_size for path in (tmp_path / "out").glob("*.tfrecord-*"))
    assert report.bytes == size


# ---- damage done to the files of a sound dataset


def flip(name: str, at: int) -> Callable[[pathlib.Path, Manifest], None]:
    def damage(folder: pathlib.Path, manifest: Manifest) -> None:
        content = bytearray((folder / name).read_bytes())
        content[at] ^= 0x10
        (folder / name).write_bytes(content)

    return damage


def cut(name: str, size: int) -> Callable[[pathlib.Path, Manifest], None]:
    def damage(folder: pathlib.Path, manifest: Manifest) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:-size])

    return damage


def remove(name: str) -> Callable[[pathlib.Path, Manifest], None]:
    return lambda folder, manifest: (folder / name).unlink()


def copy(name: str, target: str) -> Callable[[pathlib.Path, Manifest], None]:
    return lambda folder, manifest: (folder / target).write_bytes((folder / name).read_bytes())


def append(name: str, content: bytes) -> Callable[[pathlib.Path, Manifest], None]:
    def damage(folder: pathlib.Path, manifest: Manifest) -> None:
        (folder / name).write_bytes((folder / name).read_bytes() + content)

    return damage


def swap_indexes(folder: pathlib.Path, manifest: Manifest) -> None:
    one, two = (folder / "index" / f"train-0000{number}-of-00002.parquet" for number in (0, 1))
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)


def shorten_index(folder: pathlib.Path, manifest: Manifest) -> None:
    place = folder / "index" / "train-00000-of-00002.parquet"
    place.write_bytes(shard_index.index_bytes(pq.read_table(place).slice(1)))


def without_copy_column(folder: pathlib.Path, manifest: Manifest) -> None:
    place = folder / "index" / "train-00000-of-00002.parquet"
    place.write_bytes(shard_index.index_bytes(pq.read_table(place).drop_columns("copy")))


def with_null_key(folder: pathlib.Path, manifest: Manifest) -> None:
    place = folder / "index" / "train-00000-of-00002.parquet"
    keys = pa.array(["a", None, "b"])
    table = pq.read_table(place).set_column(0, "key", keys)
    place.write_bytes(shard_index.index_bytes(table))


def with_its_hash(
    change: Callable[[pathlib.Path, Manifest], None],
) -> Callable[[pathlib.Path, Manifest], None]:
    """Changes the first index of train, and makes its size and hash those of the manifest."""

    def damage(folder: pathlib.Path, manifest: Manifest) -> None:
        change(folder, manifest)
        data = json.loads((folder / "dataset.json").read_bytes())
        found = file_info((folder / "index" / "train-00000-of-00002.parquet").read_bytes())
        data["splits"]["train"]["shards"][0]["index"] = dataclasses.asdict(found)
        rewrite(folder, Manifest.from_bytes(json.dumps(data).encode()))

    return damage


def without_index(folder: pathlib.Path, manifest: Manifest) -> None:
    shutil.rmtree(folder / "index")


def restate(
    change: Callable[[dict], object],
) -> Callable[[pathlib.Path, Manifest], None]:
    """Changes dataset.json, and makes the digest that of its shards."""

    def damage(folder: pathlib.Path, manifest: Manifest) -> None:
        data = json.loads(manifest.to_bytes())
        change(data)
        changed = Manifest.from_bytes(json.dumps(data).encode())
        rewrite(folder, dataclasses.replace(changed, digest=digest_of(changed.splits)))

    return damage


def one_record_more(data: dict) -> None:
    split = data["splits"]["validation"]
    split["records"] += 1
    split["shards"][0]["records"] += 1
    data["ledger"]["records"]["written"] += 1
    data["ledger"]["records"]["made"] += 1
    data["ledger"]["inputs"]["read"] += 1


def one_rose_more(data: dict) -> None:
    split = data["splits"]["validation"]
    split["classes"]["rose"] += 1
    split["shards"][0]["classes"]["rose"] += 1


def other_digest(folder: pathlib.Path, manifest: Manifest) -> None:
    rewrite(folder, dataclasses.replace(manifest, digest="0" * 64))


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        pytest.param(
            flip(TRAIN, 40),
            [
                (TRAIN, 0, "a", "payload checksum does not match"),
                (TRAIN, None, None, CHANGED),
            ],
            id="a byte of a payload",
        ),
        pytest.param(
            flip(TRAIN, 9),
            [(TRAIN, 0, "a", "length checksum does not match"), (TRAIN, None, None, CHANGED)],
            id="a byte of a length's checksum",
        ),
        pytest.param(
            cut(TRAIN, 1),
            [
                (TRAIN, 2, "b", "the file ends inside a record"),
                (TRAIN, None, None, "bytes, the manifest says"),
            ],
            id="a truncated shard",
        ),
        pytest.param(
            remove(TRAIN), [(TRAIN, None, None, "the file is missing")], id="a missing shard"
        ),
        pytest.param(
            copy(TRAIN, "train.tfrecord-00002-of-00003"),
            [("train.tfrecord-00002-of-00003", None, None, "is not in the manifest")],
            id="a shard too many",
        ),
        pytest.param(
            remove("index/train-00001-of-00002.parquet"),
            [("index/train-00001-of-00002.parquet", None, None, "the file is missing")],
            id="a missing index",
        ),
        pytest.param(
            copy("index/train-00001-of-00002.parquet", "index/dev-00000-of-00001.parquet"),
            [("index/dev-00000-of-00001.parquet", None, None, "is not in the manifest")],
            id="an index too many",
        ),
        pytest.param(
            swap_indexes,
            [
                ("index/train-00000-of-00002.parquet", None, None, CHANGED),
                ("index/train-00001-of-00002.parquet", None, None, CHANGED),
            ],
            id="swapped indexes",
        ),
        pytest.param(
            with_its_hash(shorten_index),
            [
                (
                    "index/train-00000-of-00002.parquet",
                    None,
                    None,
                    "has 2 rows, the manifest says 3 records",
                )
            ],
            id="an index with a row too few",
        ),
        pytest.param(
            with_its_hash(without_copy_column),
            [("index/train-00000-of-00002.parquet", None, None, "expected the columns key string")],
            id="an index without a column",
        ),
        pytest.param(
            with_its_hash(flip("index/train-00000-of-00002.parquet", 30)),
            [("index/train-00000-of-00002.parquet", None, None, "cannot be read as Parquet")],
            id="a byte of an index",
        ),
        pytest.param(
            with_its_hash(with_null_key),
            [("index/train-00000-of-00002.parquet", None, None, "its column key has nulls")],
            id="an index without a key",
        ),
        pytest.param(
            without_index,
            [
                ("index/train-00000-of-00002.parquet", None, None, "the file is missing"),
                ("index/train-00001-of-00002.parquet", None, None, "the file is missing"),
                ("index/validation-00000-of-00001.parquet", None, None, "the file is missing"),
            ],
            id="no index at all",
        ),
        pytest.param(
            restate(
                lambda data: data["splits"]["validation"]["shards"][0].update(
                    file="v.tfrecord-00000-of-00001"
                )
            ),
            [
                ("dataset.json", None, None, f"expected shard 0 of validation to be {VALIDATION}"),
                ("v.tfrecord-00000-of-00001", None, None, "the file is missing"),
                (VALIDATION, None, None, "is not in the manifest"),
            ],
            id="another name in the manifest",
        ),
        pytest.param(
            restate(one_record_more),
            [
                (
                    "index/validation-00000-of-00001.parquet",
                    None,
                    None,
                    "has 2 rows, the manifest says 3 records",
                ),
                (VALIDATION, None, None, "holds 2 records, the manifest says 3"),
            ],
            id="a wrong count in the manifest",
        ),
        pytest.param(
            restate(one_rose_more),
            [(VALIDATION, None, None, "1 records of class 'rose', the manifest says 2")],
            id="a wrong count of a class",
        ),
        pytest.param(
            restate(lambda data: data["splits"]["train"].update(records=7)),
            [
                ("dataset.json", None, None, "the splits hold 9"),
                ("dataset.json", None, None, "the counts of train are not the sums"),
            ],
            id="a wrong sum",
        ),
        pytest.param(
            restate(lambda data: data["ledger"]["records"].update(made=9)),
            [
                ("dataset.json", None, None, "8 inputs were read, but 9 records were made of them"),
                ("dataset.json", None, None, "9 records were made, but 8 are accounted for"),
            ],
            id="an open ledger",
        ),
        pytest.param(
            restate(lambda data: data["ledger"]["inputs"].update(rejected=2)),
            [
                (
                    "dataset.json",
                    None,
                    None,
                    "the ledger counts 3 rejected inputs and records, but rejects.jsonl has 1 line",
                )
            ],
            id="rejects that are not listed",
        ),
        pytest.param(
            restate(lambda data: data["ledger"]["inputs"].update(read=7)),
            [("dataset.json", None, None, "7 inputs were read, but 8 records were made of them")],
            id="another number of inputs",
        ),
        pytest.param(
            restate(lambda data: data["class_weights"].update(rose=7.0)),
            [("dataset.json", None, None, "the class weights are not those of the records of")],
            id="another class weight",
        ),
        pytest.param(
            restate(lambda data: data["source_weights"].update(rose=7.0)),
            [("dataset.json", None, None, "the source weights are not those of the records of")],
            id="another source weight",
        ),
        pytest.param(
            other_digest,
            [("dataset.json", None, None, "the digest is not that of the shards")],
            id="another digest",
        ),
        pytest.param(
            append("labels.txt", b"oak\n"),
            [("labels.txt", None, None, "is 15 bytes, the manifest says 11")],
            id="a longer sidecar",
        ),
        pytest.param(
            flip("rejects.jsonl", 3),
            [("rejects.jsonl", None, None, CHANGED)],
            id="a changed sidecar",
        ),
        pytest.param(
            remove("schema.pbtxt"),
            [("schema.pbtxt", None, None, "the file is missing")],
            id="a missing sidecar",
        ),
    ],
)
def test_damaged_files(damage, expected, tmp_path) -> None:
    damage(tmp_path / "out", make_dataset(tmp_path / "out"))
    found = seen(check(tmp_path / "out"))
    assert [one[:3] for one in found] == [one[:3] for one in expected]
    for one, wanted in zip(found, expected, strict=True):
        assert wanted[3] in one[3]


# ---- datasets whose bytes are sound, and whose records are not


def with_row(shard: tuple[str, int], number: int, change: Callable[[Row], Row]) -> dict:
    splits = flowers()
    name, place = shard
    splits[name][place][number] = change(splits[name][place][number])
    return splits


def having(**values: object) -> dict:
    """The second record of the second shard of train, key 'd', with other values."""
    return with_row(("train", 1), 1, lambda row: row.having(**values))


def replacing(shard: tuple[str, int], number: int, **fields: object) -> dict:
    return with_row(shard, number, lambda row: dataclasses.replace(row, **fields))


@pytest.mark.parametrize(
    ("splits", "deep", "expected"),
    [
        pytest.param(
            having(image__class__label=[0]),
            False,
            (TRAIN_1, 1, "d", "its label is 'rose', the index says 'tulip'"),
            id="a wrong label",
        ),
        pytest.param(
            having(image__class__label=[2]),
            False,
            (TRAIN_1, 1, "d", "expected the number of a class (0 to 1), got 2"),
            id="a label that is no class",
        ),
        pytest.param(
            replacing(("train", 1), 1, label="oak"),
            False,
            (TRAIN_1, 1, "d", "its label is 'tulip', the index says 'oak'"),
            id="a label in the index that is no class",
        ),
        pytest.param(
            replacing(("train", 1), 1, label=None),
            False,
            (TRAIN_1, 1, "d", "its label is 'tulip', the index says it has none"),
            id="a label that the index does not know of",
        ),
        pytest.param(
            having(grid=None),
            False,
            (TRAIN_1, 1, "d", "lacks the feature 'grid'"),
            id="a missing feature",
        ),
        pytest.param(
            having(weight=[1]),
            False,
            (TRAIN_1, 1, "d", "has the feature 'weight', which is not declared"),
            id="a feature too many",
        ),
        pytest.param(
            having(size=[1, 2, 3]),
            False,
            (TRAIN_1, 1, "d", "feature 'size': expected float32, got int64"),
            id="a wrong dtype",
        ),
        pytest.param(
            having(caption=[1]),
            False,
            (TRAIN_1, 1, "d", "feature 'caption': expected string, got int64"),
            id="a wrong dtype of a feature that may be absent",
        ),
        pytest.param(
            having(size=[1.0, 2.0]),
            False,
            (TRAIN_1, 1, "d", "feature 'size': expected 3 values, got 2"),
            id="a wrong shape",
        ),
        pytest.param(
            having(size=[]),
            False,
            (TRAIN_1, 1, "d", "feature 'size': expected 3 values, got 0"),
            id="no values",
        ),
        pytest.param(
            having(image__class__text=[b"tulip\xff"]),
            False,
            (TRAIN_1, 1, "d", "feature 'image/class/text': not UTF-8 from byte 5 on"),
            id="a text that is none",
        ),
        pytest.param(
            having(grid=[bytes(15)]),
            False,
            (TRAIN_1, 1, "d", "feature 'grid': expected 16 bytes (float32, 2x2), got 15"),
            id="a short array",
        ),
        pytest.param(
            having(image__encoded=[flowers()["train"][0][0].values["image/encoded"][0][:-30]]),
            True,
            (
                TRAIN_1,
                1,
                "d",
                "feature 'image/encoded': the image cannot be decoded"
                " (the PNG ends before the image is complete)",
            ),
            id="a truncated picture",
        ),
        pytest.param(
            having(image__encoded=[b"GIF"]),
            True,
            (TRAIN_1, 1, "d", "the image cannot be decoded (UnidentifiedImageError)"),
            id="not an image",
        ),
        pytest.param(
            replacing(("validation", 0), 1, key="d"),
            False,
            (VALIDATION, 1, "d", f"the same record is in another split: {TRAIN_1}, record 1"),
            id="a key in two splits",
        ),
        pytest.param(
            replacing(("validation", 0), 1, group="bed d"),
            False,
            (VALIDATION, 1, "g", f"its group 'bed d' is in another split: {TRAIN_1}, record 1"),
            id="a group in two splits",
        ),
        pytest.param(
            replacing(("validation", 0), 1, copy=1),
            False,
            (VALIDATION, 1, "g", "copy 1 of a record, but only train may hold copies"),
            id="a copy in validation",
        ),
        pytest.param(
            replacing(("train", 0), 2, key="g"),
            False,
            (VALIDATION, 1, "g", f"the same record is in another split: {TRAIN}, record 2"),
            id="a copy in train of a record in validation",
        ),
        pytest.param(
            replacing(("train", 1), 1, key="a"),
            False,
            (TRAIN_1, 1, "a", f"the same record is in the split twice: {TRAIN}, record 0"),
            id="a record twice",
        ),
    ],
)
def test_bad_records(splits, deep, expected, tmp_path) -> None:
    make_dataset(tmp_path / "out", splits)
    (found,) = seen(check(tmp_path / "out", deep=deep))
    assert found[:3] == expected[:3]
    assert expected[3] in found[3]


def test_pictures_are_decoded_only_when_asked(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out", having(image__encoded=[b"GIF"]))
    assert check(tmp_path / "out").ok
    assert not check(tmp_path / "out", deep=True).ok


def test_damage_to_a_gzip_stream(tmp_path: pathlib.Path) -> None:
    manifest = make_dataset(tmp_path / "out", compression="gzip")
    cut(f"{TRAIN}.gz", 20)(tmp_path / "out", manifest)
    record, whole = seen(check(tmp_path / "out"))
    assert record[1] in (1, 2)  # how much can be inflated is zlib's affair
    assert (record[0], record[2]) == (f"{TRAIN}.gz", "b")
    assert record[3] == "the file ends inside a gzip member"
    assert CHANGED in whole[3]


def test_the_first_bad_record_of_each_file_is_named(tmp_path: pathlib.Path) -> None:
    splits = {
        name: [[row.having(grid=None) for row in shard] for shard in shards]
        for name, shards in flowers().items()
    }
    make_dataset(tmp_path / "out", splits)
    found = seen(check(tmp_path / "out"))
    assert [one[:3] for one in found] == [(TRAIN, 0, "a"), (TRAIN_1, 0, "c"), (VALIDATION, 0, "f")]


def test_many_leaks_of_a_file_are_counted(tmp_path: pathlib.Path) -> None:
    splits = flowers()
    splits["validation"] = [splits["train"][1]]
    make_dataset(tmp_path / "out", splits)
    (found,) = seen(check(tmp_path / "out"))
    assert found[:3] == (VALIDATION, 0, "c")
    assert found[3].endswith(f"{TRAIN_1}, record 0 (2 more like this)")


def test_records_may_hold_the_classes_of_their_objects(tmp_path: pathlib.Path) -> None:
    objects = dataclasses.replace(FEATURES["image/class/label"], shape=(None,))
    features = {**FEATURES, "image/object/class/label": objects}
    splits = {
        name: [
            [row.having(image__object__class__label=[1, 0, 1]) for row in shard] for shard in shards
        ]
        for name, shards in flowers().items()
    }
    make_dataset(tmp_path / "out", splits, features=features)
    assert check(tmp_path / "out").ok


def test_records_need_no_label(tmp_path: pathlib.Path) -> None:
    features = {"x": FEATURES["size"]}
    row = Row(key="a", label=None, values={"x": [1.0, 2.0, 3.0]})
    make_dataset(tmp_path / "out", {"train": [[row]]}, features=features, labels=())
    assert check(tmp_path / "out").ok


def test_a_payload_that_is_no_example(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    (tmp_path / "out" / VALIDATION).write_bytes(frame(b"\x0a\xff") + frame(b""))
    first, *_ = seen(check(tmp_path / "out"))
    assert first[:3] == (VALIDATION, 0, "f")


# ---- the rest


def test_there_must_be_a_dataset(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ManifestError, match="no dataset"):
        check(tmp_path)


def test_shards_may_be_checked_in_other_processes(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out", having(grid=None))
    seen_files = []
    with ProcessPoolExecutor(1) as pool:
        report = verify(
            Location.parse(str(tmp_path / "out")),
            run=pool.map,
            on_progress=lambda shard: seen_files.append(shard.file),
        )
    assert report == check(tmp_path / "out")
    assert sorted(seen_files) == [TRAIN, TRAIN_1, VALIDATION]


def test_the_report_is_the_same_in_whatever_order_shards_are_checked(tmp_path) -> None:
    make_dataset(tmp_path / "out", replacing(("validation", 0), 1, key="d"))
    place = Location.parse(str(tmp_path / "out"))
    backwards = verify(place, run=lambda check, tasks: map(check, reversed(list(tasks))))
    assert backwards == verify(place)


def test_the_report_as_json(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out", having(grid=None))
    data = json.loads(json.dumps(check(tmp_path / "out").to_json()))
    assert not data["ok"]
    (damage,) = data["damages"]
    assert damage["file"] == TRAIN_1
    assert damage["what"] == "lacks the feature 'grid'"


def test_a_damage_in_words() -> None:
    damage = Damage(file="f", record=3, offset=99, key="cat/7.jpg", what="is broken")
    assert str(damage) == "f, record 3, byte 99, key 'cat/7.jpg': is broken"
    assert str(Damage(file="f", what="is missing")) == "f: is missing"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("sound") / "out"
    make_dataset(folder)
    return folder


@settings(max_examples=60)
@given(data=st.data())
def test_no_single_changed_byte_goes_unnoticed(sound: pathlib.Path, data: st.DataObject) -> None:
    names = [name for name in sorted(_files(sound)) if name not in ("job.json", "dataset.json")]
    name = data.draw(st.sampled_from(names))
    before = (sound / name).read_bytes()
    at = data.draw(st.integers(0, len(before) - 1))
    after = bytearray(before)
    after[at] ^= data.draw(st.integers(1, 255))
    try:
        (sound / name).write_bytes(after)
        if check(sound).ok:  # what parquet says about its pages may change, not what is in them
            assert name.startswith("index/")
            assert same_index(sound / name, before)
    finally:
        (sound / name).write_bytes(before)


def same_index(place: pathlib.Path, before: bytes) -> bool:
    return shard_index.read_index(Location.parse(str(place))) == pq.read_table(io.BytesIO(before))


def _files(folder: pathlib.Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
