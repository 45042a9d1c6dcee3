"""Notes on names of splits that seem misspelt, or missing values."""

import pytest

from recordmill.format.split_names import canonical_split, misspelt_split
from tests.image_runs import make


@pytest.mark.parametrize(
    ("name", "meant"),
    [("tain", "train"), ("Trian", "train"), ("tset", "test"), ("valdation", "validation")]
    + [
        (name, None) for name in ("train", "DEV", "test2", "test-b", "holdout", "trainval", "A", "")
    ],
)
def test_misspelt_splits(name, meant):
    assert misspelt_split(name) == meant


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("trainset", "train"),
        ("Test_Set", "test"),
        ("validation-set", "validation"),
        ("dev set", "validation"),
    ]
    + [(name, None) for name in ("set", "offset", "dataset", "trainsets", "subset", "", "trainA")],
)
def test_names_of_sets(name, split):
    assert canonical_split(name) == split


def test_odd_names_of_splits_are_noted(tmp_path):
    splits = ("train", "tain", "test", "nan", "holdout")
    rows = [f"text {n},{split}" for n, split in enumerate(splits * 2)]
    (tmp_path / "t.csv").write_text("\n".join(["text,split", *rows]))
    made = make(tmp_path / "out", "--input", tmp_path / "t.csv", command="text")
    assert [str(note) for note in made.manifest.notes if note.code == "splits"] == [
        "a split 'nan' has 2 records: is it a missing value?",
        "the input names a split 'tain' (2 records): is it 'train'?",
    ]
