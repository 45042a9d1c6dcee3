"""The split and the class that paths give, and errors for ambiguous names."""

import dataclasses
import pathlib
from typing import Any

import pytest

from recordmill.errors import ConfigError
from recordmill.transforms.sources.files.input_paths import InputPath, Inputs
from recordmill.transforms.sources.files.inputs import InputRoot, find_roots
from recordmill.transforms.sources.files.skipped_names import skipped_among_media
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.folders.folders import RULES, list_files
from recordmill.transforms.sources.folders.path_layout import (
    LayoutRules,
    lay_out,
    split_source,
)
from recordmill.transforms.sources.folders.path_names import FileFacts, PathLayout, splits_in


def names_of(root: InputRoot) -> list[str]:
    return [one.key for one in list_files(root, depth=0) if isinstance(one, File)]


TABLES = LayoutRules(skip=skipped_among_media, file_names=names_of, labelled=False)


@pytest.fixture
def fill(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(*names: str) -> None:
        for name in names:
            pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True)
            pathlib.Path(name).write_bytes(b"x")

    return write


def layout(*paths: str, rules: LayoutRules = RULES, **options: Any) -> list[Any]:
    inputs = Inputs(paths=tuple(map(InputPath.parse, paths)), **options)
    return [(one.split, one.layout) for one in lay_out(inputs, rules)]


@pytest.mark.parametrize(
    ("name", "splits"),
    [
        ("train.csv", ["train"]),
        ("imdb_test.jsonl", ["test"]),
        ("val-00001-of-00002.parquet", ["validation"]),
        ("validation.txt", ["validation"]),
        ("DEV.tsv", ["validation"]),
        ("my eval.csv", ["test"]),
        ("train_test.csv", ["test", "train"]),
        ("latest.csv", []),
        ("contest-trained.csv", []),
        ("x.csv", []),
    ],
)
def test_splits_in_names(name, splits):
    assert splits_in(name) == splits


@pytest.mark.parametrize(
    ("key", "layout", "expected"),
    [
        ("1.jpg", PathLayout(), (None, None)),
        ("1.jpg", PathLayout(None, "top"), (None, None)),
        ("roses/red/big/1.jpg", PathLayout(None, "top"), (None, "roses")),
        ("roses/red/big/1.jpg", PathLayout(None, "parent"), (None, "big")),
        ("roses/red/big/1.jpg", PathLayout(None, "/(.*?)/"), (None, "red")),
        ("roses/red/big/1.jpg", PathLayout(None, "blue(x)?"), (None, None)),
        ("train/roses/1.jpg", PathLayout("folders", "top"), ("train", "roses")),
        ("train/roses/red/1.jpg", PathLayout("folders", "parent"), ("train", "red")),
        ("train/cat_1.jpg", PathLayout("folders", r"^(\w+)_"), ("train", "cat")),
        ("Valid/roses/red/1.jpg", PathLayout("folders", "top"), ("validation", "roses")),
        ("dev/roses/1.jpg", PathLayout("folders", "top"), ("validation", "roses")),
        ("holdout/roses/1.jpg", PathLayout("folders", "top"), ("holdout", "roses")),
        ("test/1.jpg", PathLayout("folders", "top"), ("test", None)),
        ("train", PathLayout("folders", "top"), (None, None)),
        ("pos/train.txt", PathLayout("files", "top"), ("train", "pos")),
        ("pos/train_test.txt", PathLayout("files", "top"), (None, "pos")),
    ],
)
def test_split_and_label(key, layout, expected):
    found = layout.facts(key)
    assert (found.split, found.label) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("1.jpg",), PathLayout()),
        (("roses/1.jpg",), PathLayout(None, "top")),
        (("train/roses/1.jpg",), PathLayout("folders", "top")),
        (("Train/1", "VAL/1", "test/1"), PathLayout("folders", "top")),
        (("training/1", "dev/1", "eval/1"), PathLayout("folders", "top")),
        (("pretrain/1.jpg",), PathLayout(None, "top")),
        (("train.jpg", "test.jpg"), PathLayout()),
    ],
)
def test_layout_of_files_of_one_record(fill, names, expected):
    fill(*(f"in/{name}" for name in names))
    assert layout("in") == [(None, expected)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("a.csv",), None),
        (("a/1.csv", "b/2.csv"), None),
        (("train.csv", "test.csv"), "files"),
        (("en/train.tsv", "en/dev.tsv", "de/test.tsv"), "files"),
        (("train/1.csv", "dev/2.csv"), "folders"),
        (("train/test.csv", "dev/2.csv"), "folders"),
    ],
)
def test_layout_of_files_of_many_records(fill, names, expected):
    fill(*(f"in/{name}" for name in names))
    assert layout("in", rules=TABLES) == [(None, PathLayout(expected))]
    assert layout("in", rules=TABLES, split_from="none") == [(None, PathLayout())]


def test_a_pattern_has_the_layout_of_its_matches(fill):
    fill("in/en/train.tsv", "in/en/test.tsv", "in/de/test.tsv", "in/README.tsv")
    assert layout("in/*/*.tsv", rules=TABLES) == [(None, PathLayout("files"))]
    assert layout("in/*/train.tsv", rules=TABLES) == [(None, PathLayout("files"))]
    assert layout("in/*/*") == [(None, PathLayout(None, "top"))]
    fill("of/train/a/1", "of/test/a/1")
    assert layout("of/t*/*/*") == [(None, PathLayout("folders", "top"))]


def test_a_single_file_has_no_siblings_that_its_name_tells_apart(fill):
    fill("test.csv")
    assert layout("test.csv", rules=TABLES) == [(None, PathLayout())]
    assert layout("test.csv", rules=TABLES, split_from="files") == [(None, PathLayout("files"))]


@pytest.mark.parametrize(
    ("names", "rules", "message"),
    [
        (
            ("train/a/1", "test/a/1", "val/a/1", "extra/a/1"),
            RULES,
            r"in holds folders named as splits \(test, train, val\) beside others \(extra\):"
            r" --input train=\S+/in/train --input validation=\S+/in/val --input test=\S+/in/test"
            r" reads only the splits, --split-from folders makes each of them a split,"
            r" --split-from none ignores the",
        ),
        (
            ("train.csv", "test.csv", "more.csv", "train_test.csv"),
            TABLES,
            r"in holds files named as splits \(test.csv, train.csv\) beside others \(more.csv,"
            r" train_test.csv\): select files with a pattern, or name the split of each with"
            r" --input train=FILE; --split-from none ignores",
        ),
    ],
)
def test_names_that_are_splits_beside_others(fill, names, rules, message):
    fill(*(f"in/{name}" for name in names))
    with pytest.raises(ConfigError, match=message):
        layout("in", rules=rules)
    layout("in", rules=rules, split_from="none")


@pytest.mark.parametrize(
    ("names", "expected", "form"),
    [
        (("D/images/1", "D/labels/1"), PathLayout(None, "top", inside="D"), "LABEL/FILE"),
        (
            ("D/images/train/1", "D/images/val/1", "D/labels/train/1"),
            PathLayout("folder:2", None, inside="D"),
            "a path in which --split-from folder:2 is a split",
        ),
        (
            ("train/images/1", "train/labels/1", "val/images/1"),
            PathLayout("folders", "top", images="images"),
            "SPLIT/images/FILE",
        ),
        (("D/images/1", "D/photos/1"), PathLayout(None, "top"), "LABEL/FILE"),
    ],
)
def test_folders_of_images_beside_their_annotations(fill, names, expected, form):
    fill(*(f"in/{name}" for name in names))
    usable = dataclasses.replace(RULES, usable=lambda name: True)
    rules = dataclasses.replace(usable, skip=lambda name: "x" if name == "labels" else None)
    ((_, found),) = layout("in", rules=rules)
    assert (found, found.form) == (expected, form)


def test_options_for_paths_see_the_folder_around_images_and_annotations(fill):
    fill("in/D/images/1", "in/D/labels/1")
    ((_, found),) = layout("in", label_from="folder:1")
    assert found == PathLayout(None, "folder:1")
    ((_, found),) = layout("in", group_from="folder:1")
    assert found.facts("D/images/1") == FileFacts(None, "images", "D")


def test_folders_are_splits_where_asked(fill):
    fill("in/train/a/1", "in/holdout/a/1")
    assert layout("in", split_from="folders") == [(None, PathLayout("folders", "top"))]
    fill("in/no split/a/1")
    with pytest.raises(ConfigError, match="the folder 'no split' of in cannot name a split"):
        layout("in", split_from="folders")
    fill("flat/1")
    with pytest.raises(ConfigError, match="--split-from folders: the input flat has no"):
        layout("flat", split_from="folders")


def test_inputs_name_splits(fill):
    fill("x/1.csv", "y/2.csv")
    assert layout("train=x", "dev=y", rules=TABLES) == [
        ("train", PathLayout()),
        ("validation", PathLayout()),
    ]
    assert layout("holdout=x") == [("holdout", PathLayout())]


def test_inputs_whose_own_names_are_splits(fill):
    fill("in/train/a/1.jpg", "in/test/a/1.jpg", "train.csv", "my_dev.csv", "other.csv")
    assert layout("in/train", "in/test") == [
        ("train", PathLayout(None, "top")),
        ("test", PathLayout(None, "top")),
    ]
    assert [split for split, _ in layout("train.csv", "my_dev.csv", rules=TABLES)] == [
        "train",
        "validation",
    ]
    with pytest.raises(
        ConfigError, match=r"names of splits \(train.csv\) and others do not \(other"
    ):
        layout("train.csv", "other.csv", rules=TABLES)
    assert layout("train.csv", "other.csv", rules=TABLES, split_from="none") == [
        (None, PathLayout()),
        (None, PathLayout()),
    ]


def test_an_input_of_a_split_that_holds_splits(fill):
    fill("in/train/a/1", "in/test/a/1")
    message = r"--input train=in is the split train, but some of its folders have .* \(test\)"
    with pytest.raises(ConfigError, match=message):
        layout("train=in")
    fill("rows/train-1.csv", "rows/test-1.csv")
    with pytest.raises(ConfigError, match=r"but some of its files have names of others \(test\)"):
        layout("train=rows/*.csv", rules=TABLES)


def test_an_input_of_a_split_whose_names_agree(fill):
    fill("in/train/a/1", "in/test/a/1", "rows/train-1.csv", "rows/train-2.csv")
    given = ("train=in/tr*/*/*", "test=in/te*/*/*")
    folders = PathLayout("folders", "top")
    assert layout(*given) == [("train", folders), ("test", folders)]
    assert layout("train=rows/train-*.csv", rules=TABLES) == [("train", PathLayout("files"))]


def test_a_path_with_an_equals_sign(fill):
    fill("year=2026/1.csv")
    assert [InputPath.parse(text) for text in ("year=2026/*", "year=*/1.csv", "a=year=2026")] == [
        InputPath("year=2026/*"),
        InputPath("year=*/1.csv"),
        InputPath("year=2026", "a"),
    ]
    assert InputPath.parse("s3://bucket/a=b") == InputPath("s3://bucket/a=b")
    assert InputPath.parse("test=s3://bucket/a") == InputPath("s3://bucket/a", "test")


@pytest.mark.parametrize(
    ("paths", "prefixes"),
    [
        (("a",), [""]),
        (("a/x", "b"), ["x/", "b/"]),
        (("a/x", "b/x"), ["a/x/", "b/x/"]),
        (("a/1.csv", "a/2.csv"), ["", ""]),
        (("a/1.csv", "b/2.csv"), ["a/", "b/"]),
        (("a/1*", "a/2*"), ["", ""]),
    ],
)
def test_keys_of_several_inputs(fill, paths, prefixes):
    fill("a/x/1", "b/x/1", "a/1.csv", "a/2.csv", "b/2.csv")
    inputs = Inputs(paths=tuple(map(InputPath.parse, paths)))
    assert [root.prefix for root in find_roots(inputs)] == prefixes


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (("a", "./a"), r"--input ./a is given twice"),
        (("a", "a/x"), r"--input a/x lies inside --input a: its files would be read twice"),
        (("a/x/1", "a"), r"--input a/x/1 lies inside --input a"),
        (("gone", "a"), r"the input .*/gone does not exist"),
        (("gone/*", "a"), r"no file matches gone/\*: there is no folder"),
    ],
)
def test_inputs_that_cannot_be_read(fill, paths, message):
    fill("a/x/1")
    with pytest.raises(ConfigError, match=message):
        layout(*paths)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split_from": "names"}, "--split-from names: expected auto, folders"),
        ({"label_from": "("}, r"--label-from \(: not a valid regular expression: missing \)"),
        (
            {"label_from": ".json"},
            r"--label-from .json: name the field .* --label-from .json:label",
        ),
        (
            {"label_from": "a.*"},
            "expected top, parent, folder:N, file, KEY=, or a regular expression",
        ),
    ],
)
def test_invalid_options(options, message):
    with pytest.raises(ConfigError, match=message):
        Inputs(paths=(InputPath("a"),), **options)


def test_messages_name_what_gives_the_splits(fill):
    fill("in/train/a/1", "x/train.csv", "y/test.csv")
    told = [
        split_source(
            lay_out(given := Inputs(paths=tuple(map(InputPath.parse, paths))), rules), given
        )
        for paths, rules in (
            (["in"], RULES),
            (["x"], TABLES),
            (["train=x", "test=y"], RULES),
            (["x/train.csv", "y/test.csv"], TABLES),
            (["x"], RULES),
        )
    ]
    assert told == [
        "the top folders",
        "the names of the files",
        "--input train=x --input test=y",
        "the names of the inputs",
        None,
    ]
