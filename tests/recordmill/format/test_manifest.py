import dataclasses
import json
import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.format.file_info import FileInfo, file_info
from recordmill.format.file_names import index_name, shard_name
from recordmill.format.ledger import CopyCounts, InputCounts, Ledger, RecordCounts
from recordmill.format.manifest import (
    Manifest,
    ManifestError,
    Shard,
    SplitInfo,
    class_weights,
    digest_of,
    load,
)
from recordmill.format.typed_json import read_as
from recordmill.notes import notes_of
from recordmill.storage.files import Location
from recordmill.tfrecord.features import Feature
from tests.make_dataset import FEATURES, make_dataset

COUNTS = st.integers(0, 2**48)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
SHA256 = st.binary(min_size=32, max_size=32).map(bytes.hex)
CLASSES = st.dictionaries(NAMES, COUNTS, max_size=3)
FILES = st.from_regex(r"[a-z]{1,5}(/[a-z]{1,5})?", fullmatch=True)
SPLIT_NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,5}", fullmatch=True)
SHARD_FILES = st.builds(shard_name, SPLIT_NAMES, COUNTS, COUNTS, st.sampled_from(["none", "gzip"]))
INFOS = st.builds(FileInfo, bytes=COUNTS, sha256=SHA256)
SHARDS = st.builds(
    lambda records, more, **rest: Shard(records=records, bytes=16 * records + more, **rest),
    file=SHARD_FILES,
    records=COUNTS.map(lambda count: count // 32),
    more=COUNTS.map(lambda count: count // 32),
    sha256=SHA256,
    classes=CLASSES,
    index=INFOS,
)
SPLITS = st.dictionaries(SPLIT_NAMES, st.lists(SHARDS, max_size=3).map(SplitInfo.of), max_size=3)
LEDGERS = st.builds(
    Ledger,
    inputs=st.builds(InputCounts, read=COUNTS, rejected=COUNTS, filtered=COUNTS),
    records=st.builds(RecordCounts, made=COUNTS, written=COUNTS, dropped=COUNTS),
    copies=st.builds(CopyCounts, planned=COUNTS, written=COUNTS, rejected=COUNTS),
)
MANIFESTS = st.builds(
    Manifest,
    digest=SHA256,
    seed=st.integers(),
    options=st.dictionaries(NAMES, st.none() | st.booleans() | st.integers() | NAMES, max_size=3),
    features=st.dictionaries(NAMES, st.sampled_from(list(FEATURES.values())), max_size=3),
    labels=st.lists(NAMES, max_size=3).map(tuple),
    class_weights=st.dictionaries(NAMES, st.floats(0, 1e9), max_size=3),
    source_weights=st.dictionaries(NAMES, st.floats(0, 1e9), max_size=3),
    splits=SPLITS,
    ledger=LEDGERS,
    encoders=st.dictionaries(NAMES, NAMES, max_size=2),
    files=st.dictionaries(FILES, INFOS, max_size=2),
    notes=st.lists(NAMES, max_size=2).map(lambda texts: notes_of("tfds", texts)),
)


@given(MANIFESTS)
def test_reading_is_the_inverse_of_writing(manifest: Manifest) -> None:
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest


@given(MANIFESTS)
def test_equal_manifests_have_equal_bytes_whatever_the_order_they_were_made_in(
    manifest: Manifest,
) -> None:
    turned = {
        field.name: dict(reversed(value.items()))
        for field in dataclasses.fields(manifest)
        if isinstance(value := getattr(manifest, field.name), dict)
    }
    assert dataclasses.replace(manifest, **turned).to_bytes() == manifest.to_bytes()


def test_the_bytes_are_canonical_json(tmp_path: pathlib.Path) -> None:
    content = make_dataset(tmp_path / "out").to_bytes()
    data = json.loads(content)
    text = json.dumps(data, sort_keys=True, ensure_ascii=False, indent=2) + "\n"
    assert content == text.encode()
    assert data["format"] == "recordmill/1"
    assert data["features"]["size"] == {"dtype": "float32", "shape": [3], "kind": "value"}
    assert data["splits"]["test"] == {"records": 0, "bytes": 0, "classes": {}, "shards": []}
    assert str(tmp_path) not in content.decode()


def test_json_has_no_nan(tmp_path: pathlib.Path) -> None:
    manifest = make_dataset(tmp_path / "out")
    with pytest.raises(ValueError, match="JSON"):
        dataclasses.replace(manifest, class_weights={"rose": float("nan")}).to_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.pop("digest"), "is invalid: digest: it is missing"),
        (lambda data: data.update(format="recordmill/2"), "of format 'recordmill/1', got 'rec"),
        (lambda data: data.update(seed="7"), 'seed: expected an integer, got "7"'),
        (lambda data: data.update(seed=True), "seed: expected an integer, got True"),
        (lambda data: data.update(labels=["rose", 1]), "labels[1]: expected a text, got 1"),
        (lambda data: data.update(splits={"train": 3}), "splits.train: expected an object, got 3"),
        (
            lambda data: data["splits"]["train"]["shards"][0].update(file="../train"),
            "splits.train.shards[0].file: expected the name of a shard, got '../train'",
        ),
        (
            lambda data: data["files"].update({"/etc/passwd": {"bytes": 1, "sha256": ""}}),
            "expected a path inside the dataset, got '/etc/passwd'",
        ),
        (
            lambda data: data["splits"].update({"../../tmp/x": data["splits"]["train"]}),
            "expected the name of a split, got '../../tmp/x'",
        ),
        (
            lambda data: data["splits"]["train"]["shards"][0].update(file="a\0b"),
            "expected the name of a shard, got 'a\\x00b'",
        ),
        (lambda data: data["labels"].append("\ud800"), "a text has an unpaired surrogate"),
        (
            lambda data: data["features"]["size"].update(shape=True),
            "features.size.shape: expected a list, got True",
        ),
        (
            lambda data: data["features"]["size"].update(shape=[[3]]),
            "features.size.shape[0]: expected an integer, got [3]",
        ),
        (
            lambda data: data["features"]["size"].update(kind=[]),
            "features.size.kind: expected one of value,",
        ),
        (
            lambda data: data["splits"]["train"].update(records=-1),
            "splits.train.records: expected a number >= 0, got -1",
        ),
        (
            lambda data: data["splits"]["train"]["shards"][0].update(sha256="abc"),
            "splits.train.shards[0].sha256: expected 64 hexadecimal digits, got 'abc'",
        ),
        (
            lambda data: data["options"].update(label_offset="1"),
            "options.label_offset: expected an integer",
        ),
        (
            lambda data: data["files"].update({"train.tfrecord-00000-of-00001": {}}),
            "expected a file beside the shards",
        ),
        (
            lambda data: data["class_weights"].update(a=[]),
            "class_weights.a: expected a number, got []",
        ),
        (lambda data: data["ledger"].pop("copies"), "ledger.copies: it is missing"),
        (
            lambda data: data["ledger"]["copies"].pop("planned"),
            "ledger.copies.planned: it is missing",
        ),
        (
            lambda data: data["features"]["size"].update(dtype="float64"),
            'features.size.dtype: expected one of int64, float32, string, got "float64"',
        ),
        (
            lambda data: data["splits"]["train"]["classes"].update(rose=1.5),
            "splits.train.classes.rose: expected an integer, got 1.5",
        ),
    ],
)
def test_a_manifest_that_cannot_be_understood(change, message, tmp_path) -> None:
    data = json.loads(make_dataset(tmp_path / "out").to_bytes())
    change(data)
    with pytest.raises(ManifestError, match=re.escape(message)):
        Manifest.from_bytes(json.dumps(data).encode())


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"\xff", b'{"seed": NaN}'),
        b"[" * 100_000,
        b'{"seed": ' + b"9" * 5000 + b"}",
    ],
    ids=lambda content: repr(content[:8]),
)
def test_a_manifest_that_is_no_json_object(content: bytes) -> None:
    with pytest.raises(ManifestError, match=r"^(expected a )?dataset\.json"):
        Manifest.from_bytes(content)


def test_a_directory_without_a_manifest_is_not_a_dataset(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ManifestError, match=r"no dataset: .* run the same command again"):
        load(Location.parse(str(tmp_path)))


def test_load(tmp_path: pathlib.Path) -> None:
    manifest = make_dataset(tmp_path / "out")
    assert load(Location.parse(str(tmp_path / "out"))) == manifest


def test_names() -> None:
    assert shard_name("train", 0, 16, "none") == "train.tfrecord-00000-of-00016"
    assert shard_name("train", 15, 16, "gzip") == "train.tfrecord-00015-of-00016.gz"
    assert index_name("train", 0, 16) == "index/train-00000-of-00016.parquet"


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_paths_are_what_stands_in_the_directory(compression, tmp_path) -> None:
    manifest = make_dataset(tmp_path / "out", compression=compression)
    found = [
        str(path.relative_to(tmp_path / "out"))
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    ]
    assert sorted(manifest.paths()) == sorted(found)
    assert manifest.paths()[-1] == "dataset.json"


def shard(file: str, **classes: int) -> Shard:
    sha256 = f"{len(file):064x}"
    return Shard(
        file=file, records=3, bytes=10, sha256=sha256, classes=classes, index=file_info(b"")
    )


def test_a_split_sums_its_shards_in_the_order_of_their_numbers() -> None:
    names = [shard_name("train", number, 100_001, "none") for number in (100_000, 99_999, 2)]
    split = SplitInfo.of([shard(names[0], rose=1), shard(names[1], rose=2, oak=1), shard(names[2])])
    assert [one.file for one in split.shards] == names[::-1]
    assert (split.records, split.bytes) == (9, 30)
    assert split.classes == {"rose": 3, "oak": 1}


def test_the_digest_depends_on_every_shard_and_their_order() -> None:
    one, two, three = (SplitInfo.of([shard("x" * size)]) for size in (1, 2, 3))
    digests = [
        digest_of({"train": one, "test": two}),
        digest_of({"train": two, "test": one}),
        digest_of({"train": one, "test": three}),
        digest_of({"train": one}),
    ]
    assert len(set(digests)) == len(digests)
    assert digests[0] == digest_of({"test": two, "train": one})


def test_the_digest_depends_on_where_a_split_ends() -> None:
    one, two, three = (shard("x" * size) for size in (1, 2, 3))
    splits = [([one], [two, three]), ([one, two], [three]), ([], [one, two, three])]
    digests = {
        digest_of({"test": SplitInfo.of(test), "train": SplitInfo.of(train)})
        for test, train in splits
    }
    assert len(digests) == 3


def test_an_empty_dataset_has_the_digest_of_nothing() -> None:
    assert digest_of({}).startswith("e3b0c442")


@given(st.dictionaries(NAMES, st.integers(1, 10**6), min_size=1, max_size=5))
def test_weights_give_every_class_the_same_total(counts: dict[str, int]) -> None:
    weights = class_weights(counts)
    totals = [weights[label] * count for label, count in counts.items()]
    assert totals == pytest.approx([sum(counts.values()) / len(counts)] * len(counts))


def test_a_class_without_records_weighs_nothing() -> None:
    assert class_weights({"a": 3, "b": 1, "c": 0}) == {"a": 4 / 6, "b": 2.0, "c": 0.0}
    assert class_weights({"a": 0}) == {"a": 0.0}


CLOSED = Ledger(
    inputs=InputCounts(read=11, rejected=1),
    records=RecordCounts(made=11, written=5, rejected=1, filtered=2, dropped=3),
    copies=CopyCounts(planned=4, written=3, rejected=1),
)


def test_a_ledger_that_closes() -> None:
    assert CLOSED.open_items() == []


@pytest.mark.parametrize(
    ("part", "field", "message"),
    [
        *[
            ("records", field, "records were made, but")
            for field in ("made", "written", "rejected", "filtered", "dropped")
        ],
        *[
            ("copies", field, "copies were planned, but")
            for field in ("planned", "written", "rejected")
        ],
    ],
)
def test_one_record_more_or_less_opens_the_ledger(part: str, field: str, message: str) -> None:
    counts = getattr(CLOSED, part)
    changed = dataclasses.replace(counts, **{field: getattr(counts, field) + 1})
    *others, item = dataclasses.replace(CLOSED, **{part: changed}).open_items()
    assert message in item
    # What is made is stated twice: as inputs that were read, too.
    assert bool(others) is (field == "made")


def test_every_input_that_is_read_makes_a_record() -> None:
    changed = dataclasses.replace(CLOSED, inputs=InputCounts(read=12, rejected=1))
    assert changed.open_items() == ["12 inputs were read, but 11 records were made of them"]


def test_the_manifest_holds_the_ledger_against_the_splits(tmp_path: pathlib.Path) -> None:
    manifest = make_dataset(tmp_path / "out")
    assert manifest.open_items() == []
    fewer = dataclasses.replace(manifest, splits={"train": manifest.splits["train"]})
    assert fewer.open_items() == ["8 records and copies were written, but the splits hold 6"]


def test_features_survive(tmp_path: pathlib.Path) -> None:
    raw = Feature(dtype="string", kind="raw", raw_dtype="uint8", raw_shape=(None, 3))
    index = Feature(dtype="int64", kind="index", shape=(None,), size=3)
    assert read_as(Feature, index.to_json()) == index
    manifest = dataclasses.replace(make_dataset(tmp_path / "out"), features={"raw": raw})
    assert Manifest.from_bytes(manifest.to_bytes()).features == {"raw": raw}
