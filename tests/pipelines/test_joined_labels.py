"""Notes on classes that join other classes with a separator, such as `dog|ball`."""

import pytest

from tests.image_runs import make


def _label_notes(tmp_path, labels, *options):
    """Return the notes `label-lists` on a table with these labels, each in quotes."""
    rows = [f'text {n},"{label}"' for n, label in enumerate(labels)]
    (tmp_path / "a.csv").write_text("\n".join(["text,label", *rows]))
    argv = ("--input", tmp_path / "a.csv", "--splits", "train=1", "--num-shards", 1, *options)
    made = make(tmp_path / "out", *argv, command="text")
    return [str(note) for note in made.manifest.notes if note.code == "label-lists"]


@pytest.mark.parametrize(
    ("joined", "separator"),
    [
        ("dog|ball", "|"),
        ("dog, ball", ","),
        ("dog; ball", ";"),
        ("dog/ball", "/"),
        ("dog+ball", "+"),
    ],
)
def test_a_note_reports_classes_that_join_others(joined, separator, tmp_path):
    assert _label_notes(tmp_path, ["dog", "ball", joined, joined]) == [
        f"1 of 3 classes joins other classes with '{separator}' (2 records): {joined!r};"
        f" --label-separator '{separator}' gives their records several classes, --label-type class"
        " keeps these classes"
    ]


def test_several_joined_classes_are_noted_even_if_they_are_rare(tmp_path):
    labels = ["a", "b", "c"] * 60
    (note,) = _label_notes(tmp_path, [*labels, "a|b", "a|b|c"])
    assert note.startswith("2 of 5 classes join other classes with '|' (2 records): 'a|b', 'a|b|c'")


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        (["A/B", "C/D", "A"], ()),  # B is no class
        (["a", "b", "a|", "|"], ()),
        ([*["a", "b"] * 60, "a|b"], ()),  # one record
        (["dog", "ball", "dog|ball"], ("--label-type", "class")),
        (["dog", "ball", "dog|ball"] * 9, ("--label-separator", "|")),
    ],
)
def test_other_classes_with_separators_are_not_noted(labels, options, tmp_path):
    assert not _label_notes(tmp_path, labels, *options)
