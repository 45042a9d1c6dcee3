"""Records of equal content: reported by every run, and dropped, grouped or left out if asked."""

import dataclasses
import json
import pathlib

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from recordmill.checking.verify import verify
from recordmill.format.content_hashes import content_hash
from recordmill.format.file_info import file_info
from recordmill.format.shard_index import index_bytes, read_index
from recordmill.storage.files import Location
from recordmill.transforms.near_duplicates.image_hash import hash_pixels
from tests.folders import make_picture
from tests.image_runs import Made, make, run
from tests.paths import DEMO, VIDEO
from tests.video_files import copy_film, make_film

pytestmark = pytest.mark.usefixtures("encoders")

# (split, class, name, content). Content 1 is in train and test, 2 has two classes, 3 is twice in
# train, and 4 is in test and validation.
RECORDS = [
    ("train", "a", "k1", 1),
    ("train", "a", "k2", 2),
    ("train", "a", "k3", 3),
    ("train", "a", "k4", 3),
    ("train", "b", "k5", 5),
    ("train", "b", "k6", 2),
    ("test", "a", "k7", 1),
    ("test", "a", "k8", 4),
    ("validation", "a", "k9", 4),
    ("validation", "b", "k0", 6),
]
KINDS = {
    "images": (".png", lambda path, content: make_picture(path, content), ()),
    "arrays": (".npy", lambda path, content: np.save(path, np.arange(content, content + 3)), ()),
    "text": (".txt", lambda path, content: path.write_text(f"text {content}"), ()),
    "video": (
        ".mp4",
        lambda path, content: make_film(path, 4, offset=content * 9),
        ("--clip-frames", "4", "--size", "16"),
    ),
    "table": (".csv", None, ("--key-column", "id")),
}


def write(kind: str, root: pathlib.Path, *, splits: bool = True) -> pathlib.Path:
    suffix, save, _ = KINDS[kind]
    for split, label, name, content in RECORDS:
        folder = root / split if splits else root
        if save is None:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{split}.csv"
            header = "" if path.exists() else "id,x,y,label\n"
            with path.open("a") as file:
                file.write(f"{header}{name},{content}.5,t{content},{label}\n")
        else:
            (folder / label).mkdir(parents=True, exist_ok=True)
            save((folder / label / name).with_suffix(suffix), content)
    return root


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


def build(kind: str, source: object, folder: pathlib.Path, *argv: object) -> Made:
    return make(folder, "--input", source, *KINDS[kind][2], *argv, command=kind)


def name_of(key: str) -> str:
    """k1 of k1, train/a/k1.png and train/a/k1.mp4#0."""
    return pathlib.PurePath(key.partition("#")[0]).stem


def names(made: Made, split: str) -> set[str]:
    return {name_of(key) for key in made.keys(split)}


def lines(made: Made, file: str) -> list[dict]:
    return [json.loads(line) for line in (made.folder / file).read_text().splitlines()]


def test_leaks_and_conflicts_are_reported(kind, tmp_path) -> None:
    made = build(kind, write(kind, tmp_path / "in"), tmp_path / "out")
    report = made.manifest.content
    assert report is not None
    assert report.records == len(RECORDS)
    assert (report.repeated.contents, report.repeated.records) == (4, 8)
    assert dict(report.splits) == {"test+train": 1, "test+validation": 1}
    assert (report.leaks.contents, report.leaks.records) == (2, 4)
    assert (report.conflicts.contents, report.conflicts.records) == (1, 2)
    found = [
        {name_of(one["key"]) for one in line["records"]} for line in lines(made, "leaks.jsonl")
    ]
    assert sorted(map(sorted, found)) == [["k1", "k7"], ["k2", "k6"], ["k8", "k9"]]
    assert {note.code for note in made.manifest.notes} >= {"leak", "conflict"}


def test_drop_keeps_one_and_none_of_contradicting_ones(kind, tmp_path) -> None:
    made = build(kind, write(kind, tmp_path / "in"), tmp_path / "out", "--dedup", "drop")
    assert names(made, "train") == {"k3", "k5"}  # its copy of content 1 goes
    assert names(made, "test") == {"k7", "k8"}
    assert names(made, "validation") == {"k0"}
    assert made.manifest.ledger.records.filtered == 5
    left_out = {
        name_of(line["key"]): (line["reason"], line["same_as"] and name_of(line["same_as"]))
        for line in lines(made, "duplicates.jsonl")
    }
    assert left_out == {
        "k1": ("duplicate", "k7"),
        "k2": ("conflicting labels", None),
        "k4": ("duplicate", "k3"),
        "k6": ("conflicting labels", None),
        "k9": ("duplicate", "k8"),
    }
    assert made.manifest.content is not None
    assert made.manifest.content.repeated.contents == 0


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"video"}))
def test_group_keeps_equal_records_together(kind, tmp_path) -> None:
    source = write(kind, tmp_path / "in", splits=False)
    argv = ("--split-from", "none", "--splits", "train=0.5,test=0.5", "--dedup", "group")
    made = build(kind, source, tmp_path / "out", *argv, "--seed", "3")
    assert made.manifest.ledger.records.written == len(RECORDS)
    splits = {name: split for split in ("train", "test") for name in names(made, split)}
    together = [("k1", "k7"), ("k2", "k6"), ("k3", "k4"), ("k8", "k9")]
    assert all(splits[one] == splits[other] for one, other in together)
    assert len(set(splits.values())) == 2
    assert made.manifest.content is not None
    assert made.manifest.content.leaks.contents == 0


def test_records_of_another_dataset_are_left_out(kind, tmp_path) -> None:
    source = write(kind, tmp_path / "in")
    options = ("--split-from", "none") if kind != "table" else ()
    known = build(kind, source / "test", tmp_path / "known", *options)
    made = build(kind, source, tmp_path / "out", "--exclude-like", known.folder)
    assert names(made, "train") == {"k2", "k3", "k4", "k5", "k6"}
    assert names(made, "validation") == {"k0"}
    assert {name_of(line["key"]) for line in lines(made, "duplicates.jsonl")} == {
        *("k1", "k7", "k8", "k9")
    }
    assert made.manifest.ledger.records.filtered == 4


def test_a_dataset_of_another_data_type_cannot_be_compared(tmp_path, capsys) -> None:
    known = build("images", write("images", tmp_path / "known"), tmp_path / "other").folder
    source, out = write("text", tmp_path / "in"), tmp_path / "out"
    assert run("text", "--input", source, "--output", out, "--exclude-like", known) == 2
    assert (
        "expected a dataset that recordmill text wrote, got one of images"
        in capsys.readouterr().err
    )


def test_the_first_of_contradicting_images_stays_if_asked(tmp_path) -> None:
    source = write("images", tmp_path / "in")
    argv = ("--dedup", "drop", "--conflicts", "first")
    made = build("images", source, tmp_path / "out", *argv)
    assert names(made, "train") == {"k2", "k3", "k5"}


def test_the_first_of_contradicting_texts_without_keys_stays_if_asked(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("text,label\none text,a\none text,b\nanother,a\n")
    argv = ("--splits", "train=1", "--dedup", "drop", "--conflicts", "first")
    made = make(tmp_path / "out", "--input", tmp_path / "a.csv", *argv, command="text")
    assert len(made.keys("train")) == 2
    assert [one["reason"] for one in lines(made, "duplicates.jsonl")] == ["duplicate"]


def test_a_label_is_kept_rather_than_the_smallest_key(tmp_path) -> None:
    rows = "id,text,label\nk1,one text,\nk2,one text,b\nk3,one text,b\nk4,another,\n"
    (tmp_path / "a.csv").write_text(rows)
    argv = ("--key-column", "id", "--splits", "train=1", "--unlabelled", "keep", "--dedup", "drop")
    made = make(tmp_path / "out", "--input", tmp_path / "a.csv", *argv, command="text")
    assert set(made.keys("train")) == {"k2", "k4"}
    assert {one["same_as"] for one in lines(made, "duplicates.jsonl")} == {"k2"}


def test_one_duplicate_is_noted_in_the_singular(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("id,text,label\nk1,one text,a\nk2,one text,a\n")
    argv = ("--key-column", "id", "--splits", "train=1", "--dedup", "drop")
    made = make(tmp_path / "out", "--input", tmp_path / "a.csv", *argv, command="text")
    [note] = [note for note in made.manifest.notes if note.code == "duplicates"]
    assert note == (
        "1 record was left out: duplicate 1; of the duplicates, 'k1' stays; by class: a 1;"
        " duplicates.jsonl lists them"
    )


@pytest.mark.parametrize("option", ["--dedup", "--near-duplicates"])
def test_groups_cannot_cross_given_splits(option, tmp_path, capsys) -> None:
    source = write("images", tmp_path / "in")
    assert run("images", "--input", source, "--output", tmp_path / "out", option, "group") == 1
    assert f"name one split for each group, or take {option} drop" in capsys.readouterr().err


def test_oversampled_copies_are_no_duplicates(tmp_path) -> None:
    root = tmp_path / "in"
    for number, label in enumerate("aab"):
        (root / label).mkdir(parents=True, exist_ok=True)
        make_picture(root / label / f"{number}.png", number)
    argv = ("--splits", "train=1", "--balance", "oversample")
    made = build("images", root, tmp_path / "out", *argv)
    assert made.manifest.ledger.copies.written == 1
    assert made.manifest.content is not None
    assert (made.manifest.content.records, made.manifest.content.repeated.contents) == (3, 0)


def test_equal_records_of_one_split_and_class_are_counted_alone(tmp_path) -> None:
    (tmp_path / "in" / "a").mkdir(parents=True)
    for number in range(3):
        make_picture(tmp_path / "in" / "a" / f"{number}.png", number // 2)
    made = make(tmp_path / "out", "--input", tmp_path / "in", "--splits", "train=1")
    report = made.manifest.content
    assert report is not None
    assert (report.repeated.contents, report.repeated.records) == (1, 2)
    assert (report.leaks.contents, report.conflicts.contents) == (0, 0)
    assert not (made.folder / "leaks.jsonl").exists()


def test_a_leak_can_be_an_error(tmp_path, capsys) -> None:
    source = write("images", tmp_path / "in")
    assert run("images", "--input", source, "--output", tmp_path / "out", "--fail-on", "leak") == 1
    assert "(an error because of --fail-on leak)" in capsys.readouterr().err
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_equal_rows_under_any_key_and_in_any_format(tmp_path) -> None:
    """Without a key column the content is the key; both give the same hashes."""
    (tmp_path / "a.csv").write_text("id,x,label\nk1,1.0,a\nk2,2.5,b\n")
    (tmp_path / "b.jsonl").write_text('{"x": 1, "label": "b"}\n{"x": 3, "label": "b"}\n')
    argv = ("--splits", "train=1")
    one = make(tmp_path / "one", "--input", tmp_path / "a.csv", *argv, "--key-column", "id",
               command="table")  # fmt: skip
    two = make(tmp_path / "two", "--input", tmp_path / "b.jsonl", *argv, "--exclude-like",
               one.folder, command="table")  # fmt: skip
    assert [row["source"] for row in two.index("train")] == ["b.jsonl#2"]


def test_a_dataset_to_exclude_that_does_not_exist(tmp_path, capsys) -> None:
    (tmp_path / "a.csv").write_text("x,g,label\n1.0,g,a\n")
    given = ("--input", tmp_path / "a.csv", "--output", tmp_path / "out")
    assert run("table", *given, "--exclude-like", "nothing") == 2
    assert "--exclude-like nothing: no dataset" in capsys.readouterr().err


def test_windows_overlap_and_are_not_compared(tmp_path, capsys) -> None:
    (tmp_path / "a.csv").write_text("time,x\n2026-01-01,1\n2026-01-02,2\n")
    argv = ("--time-column", "time", "--window", "1", "--dedup", "drop")
    assert run("sensor", "--input", tmp_path / "a.csv", "--output", tmp_path / "out", *argv) == 2
    assert "--dedup drop compares records by their content" in capsys.readouterr().err


def photos(root: pathlib.Path) -> pathlib.Path:
    """Four photos of two classes, each with a smaller copy; one copy has the other class."""
    found = sorted(DEMO.glob("*/*.jpg"))[:40:10]
    for number, path in enumerate(found):
        label = "ab"[number % 2]
        for name, kind in (
            (f"{number}", label),
            (f"{number}small", "b" if number == 0 else label),
        ):
            (root / kind).mkdir(parents=True, exist_ok=True)
            image = Image.open(path).convert("RGB")
            half = image.resize((image.width // 2, image.height // 2))
            (half if "small" in name else image).save(root / kind / f"{name}.jpg", quality=85)
    return root


def test_similar_images_are_dropped(tmp_path, caplog) -> None:
    argv = ("--splits", "train=1", "--size", "32", "--near-duplicates", "drop")
    made = make(tmp_path / "out", "--input", photos(tmp_path / "in"), *argv)
    assert "type hint" not in caplog.text
    assert names(made, "train") == {"1", "2", "3"}
    for row in made.index("train"):  # hashed when it was compared
        assert row["content"] == content_hash((tmp_path / "in" / row["key"]).read_bytes())
    pairs = {
        tuple(sorted(map(name_of, one["keys"]))): one["distance"]
        for one in lines(made, "near_duplicates.jsonl")
    }
    [note] = [note for note in made.manifest.notes if note.code == "near-duplicates"]
    assert note.startswith("8 records make 4 groups of near duplicates, the largest of 2 records;")
    assert sorted(pairs) == [(f"{number}", f"{number}small") for number in range(4)]
    left_out = {
        name_of(one["key"]): (one["reason"], one.get("distance"))
        for one in lines(made, "duplicates.jsonl")
    }
    assert left_out == {
        "0": ("conflicting labels", None),
        "0small": ("conflicting labels", None),
        **{f"{n}small": ("near duplicate", pairs[f"{n}", f"{n}small"]) for n in range(1, 4)},
    }


def test_equal_and_similar_images_are_dropped_and_named_as_what_they_are(tmp_path) -> None:
    """The third image is an equal copy of the first; the second is a smaller copy."""
    root = tmp_path / "in" / "a"
    root.mkdir(parents=True)
    image = Image.open(sorted(DEMO.glob("*/*.jpg"))[0]).convert("RGB")
    image.save(root / "1.png")
    image.resize((image.width // 2, image.height // 2)).save(root / "2.png")
    (root / "3.png").write_bytes((root / "1.png").read_bytes())
    argv = ("--splits", "train=1", "--dedup", "drop", "--near-duplicates", "drop")
    made = make(tmp_path / "out", "--input", tmp_path / "in", *argv)
    found = {name_of(one["key"]): one["reason"] for one in lines(made, "duplicates.jsonl")}
    assert found == {"2": "near duplicate", "3": "duplicate"}
    assert made.manifest.ledger.records.filtered == 2


def test_lines_on_rows_with_keys_by_content_name_file_and_row(tmp_path) -> None:
    header = "text,label\n"
    source = tmp_path / "in"
    source.mkdir()
    (source / "train.csv").write_text(f"{header}one text,a\nanother,a\n")
    (source / "test.csv").write_text(f"{header}more,a\none text,b\n")
    made = make(tmp_path / "out", "--input", source, command="table")
    [line] = lines(made, "leaks.jsonl")
    assert {one["source"] for one in line["records"]} == {"train.csv#1", "test.csv#2"}
    notes = {note.code: note for note in made.manifest.notes}
    assert "such as test.csv#2 (test) and train.csv#1 (train)" in notes["leak"]
    assert verify(Location.parse(str(made.folder))).ok
    argv = ("--dedup", "drop", "--conflicts", "first", "--overwrite")
    made = make(tmp_path / "out", "--input", source, *argv, command="table")
    [line] = lines(made, "duplicates.jsonl")
    assert (line["source"], line["reason"]) == ("train.csv#1", "duplicate")


def test_similar_images_stay_together(tmp_path) -> None:
    argv = ("--splits", "train=0.5,test=0.5", "--size", "32", "--near-duplicates", "group")
    made = make(tmp_path / "out", "--input", photos(tmp_path / "in"), *argv, "--seed", "1")
    splits = {name: split for split in ("train", "test") for name in names(made, split)}
    assert len(splits) == 8
    assert all(splits[f"{number}"] == splits[f"{number}small"] for number in range(4))
    assert len(set(splits.values())) == 2


def test_records_that_resemble_another_dataset_are_left_out(tmp_path) -> None:
    """The other dataset holds the photos at 64 pixels; one of them is in it with the same bytes."""
    source = photos(tmp_path / "in")
    (tmp_path / "one").mkdir()
    for name in ("a/2.jpg", "b/1.jpg"):
        (tmp_path / "one" / name.replace("/", "")).write_bytes((source / name).read_bytes())
    Image.open(source / "b/3small.jpg").save(tmp_path / "one" / "third.png")
    argv = ("--splits", "train=1", "--size", "64", "--resize-mode", "stretch")
    known = make(tmp_path / "known", "--input", tmp_path / "one", *argv)
    more = ("--near-duplicates", "drop", "--near-distance", "6", "--exclude-like", known.folder)
    made = make(tmp_path / "out", "--input", source, *argv, *more, "--conflicts", "first")
    assert names(made, "train") == {"0"}
    left_out = {name_of(one["key"]): one for one in lines(made, "duplicates.jsonl")}
    assert {key: one["reason"] for key, one in left_out.items()} == {
        "0small": "near duplicate",
        **dict.fromkeys(("1", "2"), "exclude-like"),
        **dict.fromkeys(("1small", "2small", "3", "3small"), "similar to exclude-like"),
    }
    others = {key: one.get("like") for key, one in left_out.items()}
    assert (others["1"], others["1small"], others["3"]) == (None, "b1.jpg", "third.png")
    assert all(0 <= left_out[key]["distance"] <= 6 for key in ("1small", "2small", "3", "3small"))
    [note] = [note for note in made.manifest.notes if note.code == "duplicates"]
    assert "similar to exclude-like 4, exclude-like 2, near duplicate 1" in note
    assert made.manifest.ledger.records.filtered == 7


def test_texts_that_resemble_another_dataset_are_left_out(tmp_path) -> None:
    words = [f"w{place}" for place in range(60)]
    texts = {"k1": words, "k2": [*words[:30], "other", *words[31:]], "k3": words[::-1]}
    for name, keys in (("a", ("k1",)), ("b", ("k2", "k3"))):
        rows = [f"{key},{' '.join(texts[key])}" for key in keys]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,text", *rows]))
    argv = ("--key-column", "id", "--splits", "train=1")
    known, tokens = (
        make(tmp_path / name, "--input", tmp_path / "a.csv", *argv, "--features", name,
             command="text")
        for name in ("text", "tokens")
    )  # fmt: skip
    argv = ("--input", tmp_path / "b.csv", *argv, "--near-duplicates", "drop")
    made = make(tmp_path / "out", *argv, "--exclude-like", known.folder, command="text")
    assert set(made.keys("train")) == {"k3"}
    [line] = lines(made, "duplicates.jsonl")
    assert (line["key"], line["like"]) == ("k2", "k1")
    assert 0.8 <= line["similarity"] < 1
    out = ("--output", tmp_path / "no", "--exclude-like", tokens.folder)
    assert run("text", *argv, *out) == 2


def test_similar_texts_stay_together(tmp_path) -> None:
    """Each copy changes one of 60 words, and so 5 of 56 shingles."""
    rows = ["id,text,label"]
    for number in range(6):
        words = [f"w{number * 100 + place}" for place in range(60)]
        rows.append(f"k{number},{' '.join(words)},a")
        words[30] = "other"
        rows.append(f"c{number},{' '.join(words)},a")
    (tmp_path / "a.csv").write_text("\n".join(rows))
    argv = ("--key-column", "id", "--splits", "train=0.5,test=0.5", "--near-duplicates", "group")
    made = make(tmp_path / "out", "--input", tmp_path / "a.csv", *argv, command="text")
    splits = {key: split for split in ("train", "test") for key in made.keys(split)}
    assert all(splits[f"k{number}"] == splits[f"c{number}"] for number in range(6))
    assert len(set(splits.values())) == 2


def of_one_colour(number: int, *, height: int, width: int) -> np.ndarray:
    return np.full((height, width, 3), number, np.uint8)


@pytest.mark.parametrize("kind", ["images", "video"])
def test_equal_records_of_one_colour_are_similar(kind, tmp_path, monkeypatch) -> None:
    """Each of three colours is there twice; no hash of pixels tells one from another."""
    monkeypatch.setattr("tests.video_files.picture", of_one_colour)
    root = tmp_path / "in" / "a"
    root.mkdir(parents=True)
    suffix = KINDS[kind][0]
    for number in range(0, 6, 2):
        one, other = (root / f"{name}{suffix}" for name in (number, number + 1))
        if kind == "images":
            Image.fromarray(of_one_colour(number * 40, height=8, width=8)).save(one)
        else:
            make_film(one, 4, size=(16, 16), offset=number * 40)
        other.write_bytes(one.read_bytes())
    argv = ("--splits", "train=0.5,test=0.5", "--near-duplicates", "group", "--seed", "4")
    made = build(kind, root.parent, tmp_path / "out", *argv)
    splits = {name: split for split in ("train", "test") for name in names(made, split)}
    assert all(splits[one] == splits[other] for one, other in ("01", "23", "45"))
    assert len(set(splits.values())) == 2
    pairs = [sorted(map(name_of, one["keys"])) for one in lines(made, "near_duplicates.jsonl")]
    assert sorted(pairs) == [["0", "1"], ["2", "3"], ["4", "5"]]
    argv = ("--splits", "train=1", "--near-duplicates", "drop")
    made = build(kind, root.parent, tmp_path / "drop", *argv)
    assert names(made, "train") == {"0", "2", "4"}
    left_out = [
        (name_of(one["key"]), name_of(one["same_as"]), one["distance"])
        for one in lines(made, "duplicates.jsonl")
    ]
    assert sorted(left_out) == [("1", "0", 0), ("3", "2", 0), ("5", "4", 0)]


def test_texts_of_equal_value_are_similar(tmp_path) -> None:
    rows = ["id,text", "k1,7", "k2,7.0", "k3,007", "k4, 7", "k5,8"]
    (tmp_path / "a.csv").write_text("\n".join(rows))
    argv = ("--key-column", "id", "--splits", "train=1", "--near-duplicates", "drop")
    made = make(tmp_path / "out", "--input", tmp_path / "a.csv", *argv, command="text")
    assert set(made.keys("train")) == {"k1", "k5"}
    found = {
        one["key"]: (one["same_as"], one["similarity"]) for one in lines(made, "duplicates.jsonl")
    }
    assert found == dict.fromkeys(("k2", "k3", "k4"), ("k1", 1))


def test_each_distance_is_that_to_the_image_that_stays(tmp_path) -> None:
    """near_duplicates.jsonl lists only some pairs of several copies of a photo."""
    path = sorted(DEMO.glob("*/*.jpg"))[0]
    image = Image.open(path).convert("RGB")
    hashes = {}
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
        for number in range(4):
            place = tmp_path / split / f"{split}{number}.jpg"
            if number < 2:
                place.write_bytes(path.read_bytes())
            else:
                image.save(place, quality=100 - 45 * (number - 2))
            hashes[place.stem] = hash_pixels(np.asarray(Image.open(place).convert("RGB")))
    argv = ("--input", f"test={tmp_path / 'test'}", "--label-type", "none")
    argv = ("--input", f"train={tmp_path / 'train'}", *argv)
    made = make(tmp_path / "out", *argv, "--near-duplicates", "drop")
    left_out = lines(made, "duplicates.jsonl")
    assert len(left_out) == 7
    assert len(lines(made, "near_duplicates.jsonl")) < 28
    for one in left_out:
        pair = hashes[name_of(one["key"])] ^ hashes[name_of(one["same_as"])]
        assert one["distance"] == np.bitwise_count(pair)


def test_the_similarity_to_a_text_that_stays_is_null_beyond_the_limit(tmp_path) -> None:
    """Each text has five more changed words than the one before: first and last differ most."""
    words = [f"w{place}" for place in range(120)]
    rows = ["id,text"]
    for number in range(5):
        changed = ["other" if place < 5 * number else word for place, word in enumerate(words)]
        rows += [f"k{number}{copy},{' '.join(changed)}" for copy in "ab"]
    (tmp_path / "a.csv").write_text("\n".join(rows))
    argv = ("--key-column", "id", "--splits", "train=1", "--near-duplicates", "drop")
    made = make(tmp_path / "out", "--input", tmp_path / "a.csv", *argv, command="text")
    assert made.keys("train") == {"k0a"}
    found = {one["key"]: one["similarity"] for one in lines(made, "duplicates.jsonl")}
    assert found["k0b"] == 1
    assert 0.8 <= found["k1a"] == found["k1b"] < 1
    assert found["k4a"] is found["k4b"] is None


def films(root: pathlib.Path) -> pathlib.Path:
    """Parts of two films; of one also a copy in half its size, and a copy of its end."""
    qcif, wide = (VIDEO / f"{name}.mp4" for name in ("qcif", "wide"))
    copy_film(qcif, root / "a" / "one.mp4", size=(144, 176), frames=range(16))
    copy_film(qcif, root / "a" / "small.mp4", size=(72, 88), crf=28, frames=range(16))
    copy_film(qcif, root / "b" / "part.mp4", size=(144, 176), frames=range(8, 16))
    copy_film(wide, root / "b" / "two.mp4", size=(136, 320), frames=range(16))
    return root


def test_clips_of_films_cut_from_one_source_stay_together(tmp_path) -> None:
    """One clip of each film matches, and all of its clips follow it."""
    argv = ("--clip-frames", "8", "--size", "64", "--near-distance", "4")
    more = ("--near-duplicates", "group", "--splits", "train=1")
    made = make(tmp_path / "out", "--input", films(tmp_path / "in"), *argv, *more, command="video")
    groups = {row["key"]: row["group"] for row in made.index("train")}
    by_film = {name: {groups[key] for key in groups if name_of(key) == name} for name in
               ("one", "small", "part", "two")}  # fmt: skip
    assert by_film["one"] == by_film["small"] == by_film["part"] != by_film["two"]
    assert all(len(found) == 1 for found in by_film.values())
    pairs = [sorted(map(name_of, one["keys"])) for one in lines(made, "near_duplicates.jsonl")]
    assert {"one", "small"} in map(set, pairs)
    assert not any("two" in pair for pair in pairs)
    [note] = [note for note in made.manifest.notes if note.code == "near-duplicates"]
    assert note == (
        "5 records make 1 group of near duplicates, the largest of 5 records;"
        " near_duplicates.jsonl lists the pairs"
    )


def test_clips_that_resemble_another_dataset_are_left_out(tmp_path) -> None:
    source = films(tmp_path / "in")
    argv = ("--clip-frames", "8", "--splits", "train=1", "--image-format", "raw")
    known = make(tmp_path / "known", "--input", source / "a" / "small.mp4", *argv, command="video")
    more = ("--near-duplicates", "drop", "--near-distance", "6", "--exclude-like", known.folder)
    made = make(tmp_path / "out", "--input", source / "b", *argv, *more, command="video")
    assert names(made, "train") == {"two"}
    [line] = lines(made, "duplicates.jsonl")
    assert (name_of(line["key"]), line["like"]) == ("part", "small.mp4#8")


def test_groups_of_a_column_that_match_are_joined(tmp_path) -> None:
    """Texts 1 and 2 match, and so their groups stay together; the third group is another one."""
    words = [f"w{place}" for place in range(60)]
    texts = {"k1": ("g1", words), "k2": ("g2", [*words[:30], "other", *words[31:]])}
    texts |= {f"k{n}": (f"g{n % 3 + 1}", [f"{n}x{word}" for word in words]) for n in range(3, 9)}
    rows = [f"{key},{group},{' '.join(text)}" for key, (group, text) in texts.items()]
    (tmp_path / "a.csv").write_text("\n".join(["id,g,text", *rows]))
    argv = ("--key-column", "id", "--group-column", "g", "--splits", "train=0.5,test=0.5")
    more = ("--near-duplicates", "group", "--seed", "4")
    made = make(tmp_path / "out", "--input", tmp_path / "a.csv", *argv, *more, command="text")
    found = {key: split for split in ("train", "test") for key in made.keys(split)}
    by_group = {group: {found[k] for k, (g, _) in texts.items() if g == group} for group in
                ("g1", "g2", "g3")}  # fmt: skip
    assert all(len(splits) == 1 for splits in by_group.values())
    assert by_group["g1"] == by_group["g2"] != by_group["g3"]


@pytest.mark.parametrize(
    ("command", "argv", "message"),
    [
        ("images", ("--near-distance", "13"), "--near-distance: expected 0 to 12 bits, got 13"),
        ("text", ("--near-similarity", "0.4"), "--near-similarity: expected 0.5 to 1, got 0.4"),
        ("text", ("--near-distance", "4"), "--near-distance is for images"),
        ("table", (), "--near-duplicates drop compares images, clips or texts: use --dedup"),
    ],
)
def test_options_of_near_duplicates(command, argv, message, tmp_path, capsys) -> None:
    (tmp_path / "a.csv").write_text("text,label\nx,a\n")
    given = ("--near-duplicates", "drop", *argv)
    assert run(command, "--input", tmp_path, "--output", tmp_path / "out", *given) == 2
    assert message in capsys.readouterr().err


def test_verify_finds_forged_contents(tmp_path) -> None:
    made = build("arrays", write("arrays", tmp_path / "in"), tmp_path / "out")
    place = Location.parse(str(made.folder))
    assert verify(place, deep=True).ok
    name = "index/test-00000-of-00001.parquet"
    index = read_index(place / name)
    other = read_index(place / "index/train-00000-of-00001.parquet")["content"][0]
    forged = index.set_column(
        index.column_names.index("content"),
        "content",
        pa.array([other.as_py()] * index.num_rows, pa.binary(16)),
    )
    content = index_bytes(forged)
    (made.folder / name).write_bytes(content)
    assert [
        "it changed after it was written" in damage.what for damage in verify(place).damages
    ] == [True]
    manifest = json.loads((made.folder / "dataset.json").read_bytes())
    info = file_info(content)
    manifest["splits"]["test"]["shards"][0]["index"] = dataclasses.asdict(info)
    (made.folder / "dataset.json").write_bytes(json.dumps(manifest).encode())
    [damage] = verify(place).damages
    assert "contents in several splits" in damage.what
    deep = verify(place, deep=True).damages
    assert deep[0].what == "its array is not the content that the index names"


@pytest.mark.parametrize("options", [(), ("--types", "id=string")])
@pytest.mark.parametrize("base", [1_790_000_000_000_000_000, 10**20])
def test_rows_that_differ_in_the_last_digits_of_an_id_are_not_equal(base, options, tmp_path):
    rows = [f"{base + n},{'ab'[n % 2]}\n" for n in range(300)]
    (tmp_path / "in.csv").write_text("id,label\n" + "".join(rows))
    argv = ("--input", tmp_path / "in.csv", "--dedup", "drop", *options)
    made = make(tmp_path / "out", *argv, command="table")
    assert made.manifest.ledger.records.written == 300
    assert "leak" not in {note["code"] for note in json.loads(made.manifest.to_bytes())["notes"]}
