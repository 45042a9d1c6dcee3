"""Records with several labels, through the command line."""

import csv
import io
import json
import pathlib
import shutil
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recordmill.format.manifest import class_weights
from recordmill.pipelines.cli import main
from recordmill.transforms.balancing.stratum_division import ALL, divide_strata
from tests.folders import make_picture
from tests.image_runs import Made, make, run
from tests.paths import BOXES, VIDEO

pytestmark = pytest.mark.usefixtures("encoders")

NAMES = ("bird", "cat", "dog")
# By record: of 24, two hold `rare`, and every sixth has no label.
LABELS = [[name for bit, name in enumerate(NAMES) if n >> bit & 1] for n in range(1, 7)] * 4
LABELS[0], LABELS[12] = ["rare", "bird", "dog", "rare"], ["cat", "rare"]
LABELS[5::6] = [[]] * 4


def texts(folder: pathlib.Path, labels: list[list[str]] = LABELS) -> pathlib.Path:
    """A CSV file with the labels of each row separated by |."""
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(["text", "label"])
    writer.writerows([f"text {n}", " | ".join(some)] for n, some in enumerate(labels))
    (folder / "rows.csv").write_text(stream.getvalue())
    return folder / "rows.csv"


def labels_of(dataset: Made, split: str, feature: str = "label") -> list[list[str]]:
    """Names of the labels of each record without copies, by key."""
    names, offset = dataset.manifest.labels, dataset.manifest.label_offset
    return [
        [names[number - offset] for number in example[feature]]
        for (_, copy), example in sorted(dataset.examples(split).items())
        if copy == 0
    ]


def test_lists_and_separated_texts_give_the_same_dataset(tmp_path):
    for n in range(len(LABELS)):
        make_picture(tmp_path / f"{n}.png", n)
    paths = [f"{n}.png" for n in range(len(LABELS))]
    rows = [{"path": path, "label": some} for path, some in zip(paths, LABELS, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pq.write_table(pa.table({"path": paths, "label": LABELS}), tmp_path / "a.parquet")
    separated = [[row["path"], ";".join(reversed(row["label"]))] for row in rows]
    lines = [",".join(one) for one in [["path", "label"], *separated]]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    argv = ["--size", "8", "--unlabelled", "keep", "--one-hot-label", "--label-offset", "1"]
    argv += ["--balance", "oversample", "--stratify", "--splits", "train=0.8,test=0.2"]
    made = {
        name: make(tmp_path / name, "--input", tmp_path / f"a.{name}", *argv, *more)
        for name, more in (("jsonl", []), ("parquet", []), ("csv", ["--label-separator", ";"]))
    }
    assert len({one.manifest.digest for one in made.values()}) == 1
    dataset = made["csv"]
    assert main(["verify", "--deep", "--dataset", str(dataset.folder)]) == 0
    manifest = dataset.manifest
    assert manifest.labels == ("bird", "cat", "dog", "rare")
    assert manifest.features["image/class/label"].shape == (None,)
    assert manifest.features["image/class/one_hot"].shape == (4,)
    seen = 0
    for split in ("train", "test"):
        classes: Counter[str] = Counter()
        rows_of = {(row["key"], row["copy"]): row for row in dataset.index(split)}
        for key, example in dataset.examples(split).items():
            want = sorted({*LABELS[int(key[0].removesuffix(".png"))]})
            assert [name.decode() for name in example["image/class/text"]] == want
            numbers = [manifest.labels.index(name) for name in want]
            assert example["image/class/label"] == [number + 1 for number in numbers]
            assert np.flatnonzero(example["image/class/one_hot"]).tolist() == numbers
            assert rows_of[key]["labels"] == want
            # It is balanced by the label that the fewest records hold.
            held = Counter(name for some in LABELS for name in {*some})
            rarest = min(want, key=lambda name: (held[name], name), default=None)
            assert rows_of[key]["label"] == rarest
            classes.update(want)
            seen += key[1] == 0
        assert dict(manifest.splits[split].classes) == dict(classes)
    assert seen == len(LABELS)
    balanced = Counter(row["label"] for row in dataset.index("train") if row["label"])
    assert len({*balanced.values()}) == 1


@pytest.mark.parametrize(
    ("options", "kept", "classes"),
    [
        (["--exclude-labels", "rare"], lambda some: "rare" not in some, NAMES),
        # Other labels of these records are removed, too.
        (["--include-labels", "cat,dog"], lambda some: {"cat", "dog"} & {*some}, ("cat", "dog")),
        (
            ["--include-labels", "cat,dog", "--exclude-labels", "rare"],
            lambda some: {"cat", "dog"} & {*some} and "rare" not in some,
            ("cat", "dog"),
        ),
        (["--label-map", "rare=,dog=,bird="], lambda some: "cat" in some or not some, ("cat",)),
        (["--label-map", "rare=cat,dog=cat"], lambda some: True, ("bird", "cat")),
    ],
    ids=lambda value: value[0].lstrip("-") if isinstance(value, list) else "",
)
def test_options_that_select_labels(options, kept, classes, tmp_path):
    argv = ["--label-separator", "|", "--unlabelled", "keep", "--splits", "train=1"]
    made = make(tmp_path / "out", "--input", texts(tmp_path), *argv, *options, command="text")
    assert made.manifest.labels == classes
    left = [some for some in LABELS if kept(some)]
    assert made.manifest.splits["train"].records == len(left)
    counts = Counter(map(len, labels_of(made, "train")))
    if "rare=cat" in options[1]:
        news = [{"cat" if name in ("rare", "dog") else name for name in some} for some in left]
    else:
        news = [{*some} & {*classes} for some in left]
    assert counts == Counter(map(len, news))
    assert not [note for note in made.manifest.notes if note.code == "unknown-class"]


def test_a_misspelt_class_is_still_reported(tmp_path, capsys):
    argv = ["--input", texts(tmp_path), "--output", tmp_path / "out", "--label-separator", "|"]
    assert run("text", *argv, "--unlabelled", "keep", "--exclude-labels", "rar") == 1
    assert "--exclude-labels rar: no record has this class" in capsys.readouterr().err


def test_records_without_labels_and_with_unknown_ones_are_rejected(tmp_path):
    (tmp_path / "labels.txt").write_text("dog\ncat\nbird\n")
    argv = ["--input", texts(tmp_path), "--label-separator", "|", "--max-reject-fraction", "1"]
    argv += ["--labels-file", tmp_path / "labels.txt", "--key-column", "text"]
    argv += ["--splits", "train=1", "--text-column", "text"]
    made = make(tmp_path / "out", *argv, command="text")
    unknown = {f"text {n}": "bad_value" for n in (0, 12)}
    assert made.rejects == unknown | {f"text {n}": "unlabelled" for n in range(5, 24, 6)}
    assert made.manifest.labels == ("dog", "cat", "bird")
    assert all(some == sorted(some, reverse=True) for some in labels_of(made, "train"))


def test_undersampling_and_the_weights_of_the_source(tmp_path):
    argv = ["--input", texts(tmp_path), "--label-separator", "|", "--unlabelled", "keep"]
    made = make(
        tmp_path / "out", *argv, "--splits", "train=1", "--balance", "undersample", command="text"
    )
    assert main(["verify", "--dataset", str(made.folder)]) == 0
    held = Counter(name for some in LABELS for name in {*some})
    manifest = made.manifest
    assert manifest.source_weights == class_weights({name: held[name] for name in manifest.labels})
    assert {row["label"] for row in made.index("train")} == {None, *manifest.labels}
    per_class = Counter(row["label"] for row in made.index("train") if row["label"])
    assert {*per_class.values()} == {2}


@pytest.mark.parametrize("command", ["table", "arrays", "video"])
def test_other_data_types(command, tmp_path):
    labels = LABELS[:3] if command == "video" else LABELS
    rows = [{"x": n, "path": f"{n}.npy", "label": some} for n, some in enumerate(labels)]
    for n, row in enumerate(rows):
        if command == "table":
            del row["path"]
        elif command == "arrays":
            np.save(tmp_path / row["path"], np.arange(n, n + 2))
        else:
            row["path"] = f"{n}.mp4"
            shutil.copy(VIDEO / "qcif.mp4", tmp_path / f"{n}.mp4")
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    more = ["--clip-frames", 100, "--size", 16] if command == "video" else []
    argv = ["--input", tmp_path / "a.jsonl", "--splits", "train=1", "--unlabelled", "keep"]
    made = make(tmp_path / "out", *argv, *more, command=command)
    assert main(["verify", "--dataset", str(made.folder)]) == 0
    feature = {"table": "label", "arrays": "array/class/label", "video": "clip/label/index"}[
        command
    ]
    names = made.manifest.labels
    for example in made.examples().values():
        want = sorted({*labels[example["x"][0]]})
        assert [names[number] for number in example[feature]] == want


def test_classes_that_are_integers_are_sorted_as_numbers(tmp_path):
    pq.write_table(
        pa.table({"x": [1, 2, 3], "label": [[10, 9], [9], [100]]}), tmp_path / "a.parquet"
    )
    made = make(
        tmp_path / "out", "--input", tmp_path / "a.parquet", "--splits", "train=1", command="table"
    )
    assert made.manifest.labels == ("9", "10", "100")
    numbers = {example["x"][0]: example["label"] for example in made.examples().values()}
    assert numbers == {1: [0, 1], 2: [0], 3: [2]}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--label-separator", " "], "--label-separator: expected a text such as '|' or ','"),
        (["--label-separator", "|", "--label-type", "int"], "--label-type int, which gives no"),
        (["--label-separator", "|", "--drop-columns", "label"], "no column of classes was found"),
    ],
)
def test_options_that_cannot_be(argv, message, tmp_path, capsys):
    source = ["--input", texts(tmp_path), "--output", tmp_path / "out"]
    assert run("text", *source, *argv) == 2
    assert message in capsys.readouterr().err


def test_lists_need_no_separator(tmp_path, capsys):
    pq.write_table(pa.table({"x": [1], "label": [["a"]]}), tmp_path / "a.parquet")
    argv = ["--input", tmp_path / "a.parquet", "--output", tmp_path / "out"]
    assert run("table", *argv, "--label-separator", "|") == 2
    assert "the column 'label' of" in capsys.readouterr().err
    argv += ["--label-type", "int"]
    assert run("table", *argv) == 2
    assert "has the type list" in capsys.readouterr().err


def test_a_text_among_lists_is_an_error(tmp_path, capsys):
    """It was read as the type of the column, and the lists were rejected."""
    rows = [{"text": f"text {n}", "labels": ["a", "b"][: 1 + n % 2]} for n in range(30)]
    rows[7]["labels"] = "a"
    (tmp_path / "l.jsonl").write_text("\n".join(map(json.dumps, rows)))
    argv = ["--input", tmp_path / "l.jsonl", "--output", tmp_path / "out"]
    code = run("text", *argv, "--text-column", "text", "--label-column", "labels")
    assert code == 2
    assert "are lists, but not 'a' in l.jsonl#8" in capsys.readouterr().err


def test_equal_rows_with_other_labels_conflict(tmp_path):
    rows = [{"text": "same", "label": ["a", "b"]}, {"text": "same", "label": ["b"]}]
    rows += [{"text": "x", "label": ["a|b"]}, {"text": "x", "label": ["b", "a"]}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = make(
        tmp_path / "out", "--input", tmp_path / "a.jsonl", "--splits", "train=1", command="text"
    )
    content = made.manifest.content
    assert content is not None
    assert content.conflicts.contents == 2
    assert {row["label"] for one in content.examples for row in one["records"]} == {
        *("a|b", "b", r"a\|b")
    }


def test_strata_are_divided_as_near_to_the_fractions_as_whole_records_allow():
    rng = np.random.default_rng(4)
    chances = rng.uniform(0.01, 0.4, 12)
    held = [tuple(np.flatnonzero(rng.random(12) < chances).tolist()) for _ in range(2000)]
    counts = {str(some): n for some, n in Counter(held).items()}
    shares = {
        str(some): {ALL: n, **{f"c{one}": n for one in some}} for some, n in Counter(held).items()
    }
    fractions = {"train": 0.7, "validation": 0.2, "test": 0.1}
    sizes = divide_strata(counts, shares, fractions, seed=0)
    assert {name: sum(one) for name, one in sizes.items()} == counts
    for name in (ALL, *(f"c{one}" for one in range(12))):
        parts = np.sum([sizes[one] for one in sizes if name in shares[one]], axis=0)
        wanted = parts.sum() * np.array([*fractions.values()])
        assert np.abs(parts - wanted).max() <= 2, name
    assert divide_strata(counts, shares, fractions, seed=1) != sizes


@pytest.mark.long
def test_strata_are_those_of_the_records_that_are_kept(tmp_path):
    """A limited run divides the kept records as a run of these alone does."""
    rng = np.random.default_rng(3)
    chances = [0.9, 0.6, 0.3]
    labels = [[n for n, p in zip("abc", chances, strict=True) if rng.random() < p] or ["a"]
              for _ in range(400)]  # fmt: skip
    argv = ("--label-separator", "|", "--stratify", "--splits", "train=0.6,test=0.4")
    limited = make(
        tmp_path / "limited",
        "--input",
        texts(tmp_path, labels),
        *argv,
        "--limit-per-class",
        40,
        command="text",
    )
    kept = limited.keys("train") | limited.keys("test")
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    rows = Made(
        make(tmp_path / "all", "--input", tmp_path / "rows.csv", *argv, command="text").folder
    )
    texts_of = {
        key: example["text"][0].decode()
        for split in ("train", "test")
        for (key, _), example in rows.examples(split).items()
    }
    wanted = {texts_of[key] for key in kept}
    assert 40 <= len(wanted) < 150
    left = [lines[0], *(line for line in lines[1:] if line.partition(",")[0] in wanted)]
    (tmp_path / "left.csv").write_text("\n".join(left))
    alone = make(tmp_path / "alone", "--input", tmp_path / "left.csv", *argv, command="text")
    for split in ("train", "test"):
        assert limited.keys(split) == alone.keys(split)


def test_sets_of_classes_of_boxes_are_joined_after_a_limit(tmp_path):
    """Before it was an error that sets of classes had too few of the kept records."""
    argv = ("--annotations", BOXES / "annotations.json", "--stratify", "--size", 16)
    argv += ("--splits", "train=0.5,test=0.5", "--limit", 6)
    made = make(tmp_path / "out", "--input", BOXES / "images", *argv)
    counts = [split.records for split in made.manifest.splits.values()]
    assert sum(counts) == 6
    assert min(counts) >= 2


def test_a_class_of_too_few_kept_records_is_an_error(tmp_path, capsys):
    labels = [["a", "rare"] if n < 40 else ["a"] for n in range(400)]
    argv = ("--input", texts(tmp_path, labels), "--label-separator", "|", "--stratify")
    assert run("text", *argv, "--output", tmp_path / "all") == 0
    assert run("text", *argv, "--output", tmp_path / "out", "--limit", "20") == 1
    assert "too few in 'rare' (1)" in " ".join(capsys.readouterr().err.split())


def test_datasets_of_records_with_several_labels_are_read_again(tmp_path):
    argv = ["--label-separator", "|", "--unlabelled", "keep"]
    first = make(tmp_path / "first", "--input", texts(tmp_path), *argv, command="text")
    more = ["--unlabelled", "keep", "--split-from", "none", "--splits", "train=1"]
    again = make(tmp_path / "again", "--input", first.folder, *more, command="text")

    def sets(made: Made) -> dict[str, list[str]]:
        return {
            row["key"]: row["labels"] for split in made.manifest.splits for row in made.index(split)
        }

    assert sets(again) == sets(first)
    assert again.manifest.multi_label


def test_tables_of_images(tmp_path):
    images = []
    for n in range(len(LABELS)):
        make_picture(tmp_path / f"{n}.png", n)
        images.append({"bytes": (tmp_path / f"{n}.png").read_bytes(), "path": f"{n}.png"})
    table = pa.table({"image": images, "label": LABELS, "n": [*range(len(LABELS))]})
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    argv = ["--input", tmp_path / "in", "--size", 8, "--where", "n > 2 and 'cat' in label"]
    made = make(tmp_path / "out", *argv, "--splits", "train=1", "--key-column", "n")
    wanted = {str(n): sorted({*some}) for n, some in enumerate(LABELS) if n > 2 and "cat" in some}
    assert {row["key"]: row["labels"] for row in made.index("train")} == wanted


def test_many_integers_in_lists_are_classes(tmp_path):
    rows = [{"text": f"text {n}", "label": [n, n + 1]} for n in range(60)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = make(
        tmp_path / "out", "--input", tmp_path / "a.jsonl", "--splits", "train=1", command="text"
    )
    assert made.manifest.labels == tuple(map(str, range(61)))


def test_a_set_of_labels_in_one_group_is_no_error(tmp_path):
    # each class is in many groups, but the set of `a` alone is in one
    lines = [f"text {n},{('a|b', 'b|c')[n % 2]},g{n % 20}" for n in range(40)]
    lines += [f"more {n},a,only" for n in range(5)]
    (tmp_path / "a.csv").write_text("\n".join(["text,label,group", *lines]))
    argv = ["--label-separator", "|", "--stratify", "--group-column", "group"]
    made = make(tmp_path / "out", "--input", tmp_path / "a.csv", *argv, command="text")
    assert made.manifest.ledger.records.written == 45
    groups = {s: {row["group"] for row in made.index(s)} for s in made.manifest.splits}
    assert sum(map(len, groups.values())) == 21  # and none spans two splits


@pytest.mark.parametrize(
    ("name", "rows", "text"),
    [
        (
            "a.jsonl",
            '{"text": "x", "label": [0, 1, 1]}\n{"text": "y", "label": [1, 0, 0]}\n',
            "vectors with a 1 for each class",
        ),
        ("a.csv", "text,label\nx,\"['dog', 'ball']\"\ny,cat\n", "look like lists"),
        (
            "a.jsonl",
            '{"text": "x", "label": ["a", "b"]}\n' + '{"text": "y", "label": ["a"]}\n' * 49,
            "50 records have 51 classes in all: each gets a list",
        ),
    ],
)
def test_a_note_reports_lists_that_may_be_misread(name, rows, text, tmp_path):
    (tmp_path / name).write_text(rows)
    options = ("--splits", "train=1", "--num-shards", 1)
    made = make(tmp_path / "out", "--input", tmp_path / name, *options, command="text")
    [note] = [note for note in made.manifest.notes if note.code == "label-lists"]
    assert text in note
