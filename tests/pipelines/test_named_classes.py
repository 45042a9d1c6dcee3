"""Classes that options name: matched by value if they are numbers, and checked."""

import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.format.class_names import name_key, value_name
from recordmill.transforms.model.named_classes import check_names
from tests.folders import make_folder
from tests.image_runs import Made, make, run

pytestmark = pytest.mark.usefixtures("encoders")


def rows_of(path: pathlib.Path, labels: list[str], count: int = 12) -> pathlib.Path:
    rows = [f"{n}.5,{labels[n % len(labels)]}" for n in range(count)]
    path.write_text("\n".join(["x,label", *rows]))
    return path


def refused(capsys, tmp_path: pathlib.Path, *argv: object, command: str = "table") -> str:
    out = tmp_path / "out"
    assert run(command, *argv, "--output", out, "--splits", "train=1") == 1
    assert not (out / "dataset.json").exists()
    return capsys.readouterr().err


def unknown(made: Made) -> list[str]:
    return [str(one) for one in made.manifest.notes if one.code == "unknown-class"]


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        (("--label-map", "0=normal"), ("normal", "1")),
        (("--label-map", "0.0=normal,1.00=bad"), ("normal", "bad")),
        (("--label-map", "00="), ("1",)),
        (("--exclude-labels", "1"), ("0",)),
        (("--exclude-labels", "1.0"), ("0",)),
        (("--include-labels", "1e0"), ("1",)),
    ],
)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_numbers_match_in_any_notation(form, options, labels, tmp_path):
    if form == "csv":
        source = rows_of(tmp_path / "rows.csv", ["0.0", "1.0"])
    else:
        source = tmp_path / "rows.parquet"
        values = np.tile([0.0, 1.0], 6)
        pq.write_table(pa.table({"x": np.arange(12) + 0.5, "label": values}), source)
    argv = ("--input", source, "--splits", "train=1", *options)
    made = make(tmp_path / "out", *argv, command="table")
    assert made.manifest.labels == labels
    assert not unknown(made)


@pytest.mark.parametrize("rule", ["any:1", "any:1.0", "all:01"])
def test_the_class_of_windows_matches_in_any_notation(rule, tmp_path, capsys):
    rows = [f"2026-01-01 00:00:{n:02},{n}.5,{float(n % 10 == 0)}" for n in range(40)]
    (tmp_path / "s.csv").write_text("\n".join(["time,x,label", *rows]))
    argv = ("--input", tmp_path / "s.csv", "--time-column", "time", "--window", 4)
    argv = (*argv, "--splits", "train=1", "--window-label")
    made = make(tmp_path / "out", *argv, rule, command="sensor")
    any_row = {"0": 6, "1": 4}
    last_row = {"0": 10}  # no window has rows of class 1 alone, nor one at its end
    assert made.manifest.splits["train"].classes == (
        any_row if rule.startswith("any") else last_row
    )
    said = refused(capsys, tmp_path / "b", *argv[:-3], "--window-label", "any:7", command="sensor")
    assert "--window-label 7: no record has this class; the classes are '0', '1'\n" in said


def test_arrays_and_listings_match_numbers_in_any_notation(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(12).reshape(4, 3), y=np.array([0.0, 1.0, 0.0, 1.0]))
    argv = ("--input", tmp_path / "a.npz", "--array", "x", "--label-array", "y", "--per-item")
    argv = (*argv, "--label-type", "class", "--splits", "train=1", "--exclude-labels", "0.0")
    assert make(tmp_path / "arrays", *argv, command="arrays").manifest.labels == ("1",)
    make_folder(tmp_path / "photos", {"a": 4})
    rows = [f"photos/a/{n:03}.jpg,{float(n % 2)}" for n in range(4)]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows]))
    argv = ("--input", tmp_path / "list.csv", "--splits", "train=1", "--label-map", "0.0=no,1=yes")
    assert make(tmp_path / "images", *argv).manifest.labels == ("no", "yes")


def test_a_labels_file_matches_numbers_in_any_notation(tmp_path):
    source = rows_of(tmp_path / "rows.csv", ["0.0", "1.0"])
    (tmp_path / "labels.txt").write_text("1.0\n0.0\n")
    argv = ("--input", source, "--splits", "train=1", "--labels-file", tmp_path / "labels.txt")
    made = make(tmp_path / "out", *argv, command="table")
    assert made.manifest.labels == ("1.0", "0.0")
    assert made.manifest.splits["train"].classes == {"1.0": 6, "0.0": 6}


@pytest.mark.parametrize(
    ("labels", "options", "said"),
    [
        (["cat", "dog"], ("--exclude-labels", "Cat,dog"),
         "--exclude-labels Cat: no record has this class, but 'cat' differs from it only by case,"
         " spaces or Unicode form; the classes are 'cat', 'dog'\n"),
        (["cat", "dog"], ("--include-labels", "fish,bird"),
         "--include-labels bird,fish: no record has any of these classes; the classes are 'cat',"),
        (["cat", "dog"], ("--label-map", "fish=dog"),
         "--label-map fish=dog: no record has this class; the classes are 'cat', 'dog'\n"),
        (["cat", "dog\u200b"], ("--label-map", "cat=dog,dog=hund"),
         "only by invisible characters (U+200B zero width space)"),
        (["True", "False"], ("--exclude-labels", "yes"), "the classes are 'false', 'true'\n"),
        (["1.1", "1.10", "x"], ("--exclude-labels", "1.100,x"),
         "'1.10' differs from it only by the notation of a number"),
        ([f"c{n}" for n in range(60)], ("--exclude-labels", "x"), "'c25', 'c26', ... (60)\n"),
    ],
)  # fmt: skip
def test_names_without_a_class_are_an_error_that_lists_the_classes(
    labels, options, said, tmp_path, capsys
):
    source = rows_of(tmp_path / "rows.csv", labels, len(labels) * 2)
    argv = ("--input", source, "--label-type", "class", *options)
    assert said in refused(capsys, tmp_path, *argv)


def test_declared_text_matches_exactly(tmp_path, capsys):
    table = pa.table({"x": np.arange(12) + 0.5, "label": ["0.0", "1.0"] * 6})
    pq.write_table(table, tmp_path / "rows.parquet")
    argv = ("--input", tmp_path / "rows.parquet", "--label-type", "class", "--label-map")
    said = refused(capsys, tmp_path, *argv, "0=normal")
    assert "but '0.0' differs from it only by the notation of a number" in said
    made = make(tmp_path / "b", *argv, "0.0=normal", "--splits", "train=1", command="table")
    assert made.manifest.labels == ("1.0", "normal")


def test_one_of_several_codes_that_are_equal_as_numbers_is_chosen(tmp_path, capsys):
    source = rows_of(tmp_path / "rows.csv", ["250.0", "250.00", "250", "V70"])
    argv = ("--input", source, "--splits", "train=1", "--include-labels", "250.00,V70")
    assert "'250.0' differs from it only by the notation" in refused(capsys, tmp_path, *argv)
    argv = (*argv, "--exclude-labels", "250.0,250")
    made = make(tmp_path / "out", *argv, command="table")
    assert made.manifest.labels == ("250.00", "V70")


@pytest.mark.parametrize(
    ("labels", "options", "said"),
    [
        (["spam", "Spam", "ham"], ("--include-labels", "spam,ham"),
         "--include-labels spam: the class 'Spam' differs from it only by case, spaces or Unicode"
         " form: name both, or else --fold-labels joins them, --label-map 'Spam=Spam' keeps them"
         " apart; the classes are 'Spam', 'ham', 'spam'\n"),
        (["neutral", "Neutral ", "x"], ("--exclude-labels", "neutral"),
         "--exclude-labels neutral: the class 'Neutral ' differs from it only by case, spaces or"
         " Unicode form: --fold-labels joins them"),
        (["1", "1.0", "1.00", "x"], ("--include-labels", "1.0"),
         "--include-labels 1.0: the class '1.00' differs from it only by the notation of a number:"
         " name both, or else --label-map '1.00=1.0' joins them"),
        (["spam", "Spam", "ham"], ("--label-map", "spam=junk"),
         "--label-map spam=junk: the class 'Spam' differs"),
    ],
)  # fmt: skip
def test_other_spellings_of_a_class_that_an_option_names_are_an_error(
    labels, options, said, tmp_path, capsys
):
    argv = ("--input", rows_of(tmp_path / "rows.csv", labels), "--label-type", "class", *options)
    assert said in refused(capsys, tmp_path, *argv)


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        (("--include-labels", "spam,Spam"), ("Spam", "spam")),
        (("--include-labels", "spam", "--exclude-labels", "Spam"), ("spam",)),
        (("--include-labels", "spam", "--label-map", "Spam=Spam"), ("spam",)),
        (("--exclude-labels", "spam", "--label-map", "Spam=Spam"), ("Spam", "ham")),
        (("--label-map", "Spam=spam"), ("ham", "spam")),
        (("--label-map", "Spam=spam", "--include-labels", "spam,missing"), ("spam",)),
        (("--exclude-labels", "ham"), ("Spam", "spam")),
        (("--fold-labels", "--exclude-labels", "SPAM"), ("ham",)),
        (("--fold-labels", "--include-labels", "Spam"), ("spam",)),
        (("--fold-labels", "--label-map", "SPAM=Junk", "--include-labels", "Junk"), ("Junk",)),
    ],
)
def test_options_decide_on_all_spellings_of_a_class(options, labels, tmp_path):
    source = rows_of(tmp_path / "rows.csv", ["spam", "Spam", "ham"])
    argv = ("--input", source, "--splits", "train=1", *options)
    assert make(tmp_path / "out", *argv, command="table").manifest.labels == labels


def test_names_of_a_labels_file_are_folded_with_the_labels(tmp_path):
    source = rows_of(tmp_path / "rows.csv", ["spam", "SPAM", "ham"])
    (tmp_path / "names").write_text("Spam\nHam\n")
    argv = ("--input", source, "--splits", "train=1", "--fold-labels")
    argv = (*argv, "--labels-file", tmp_path / "names")
    made = make(tmp_path / "out", *argv, command="table")
    assert made.manifest.labels == ("Spam", "Ham")
    assert made.manifest.splits["train"].classes == {"Spam": 8, "Ham": 4}


@pytest.mark.parametrize("options", [(), ("--exclude-labels", "IDLE")])
def test_names_of_options_for_windows_are_folded_with_the_labels(options, tmp_path):
    rows = [
        f"2026-01-01 00:00:{n:02},{n}.5,{'Fault' if n % 10 == 0 else 'idle'}" for n in range(40)
    ]
    (tmp_path / "s.csv").write_text("\n".join(["time,x,label", *rows]))
    argv = ("--input", tmp_path / "s.csv", "--time-column", "time", "--window", 4)
    argv = (*argv, "--splits", "train=1", "--fold-labels", "--window-label", "any:FAULT", *options)
    made = make(tmp_path / "out", *argv, command="sensor")
    classes = {"fault": 4, "idle": 6}
    if options:
        del classes["idle"]
    assert made.manifest.splits["train"].classes == classes


@pytest.mark.parametrize(
    ("options", "note"),
    [
        (("--exclude-labels", "fish,dog"), "no record has a class of --exclude-labels: 'fish'"),
        (("--label-map", "dog=hund,fish=fisch"),
         "no record has an old class of --label-map: 'fish=fisch'"),
        (("--label-map", "dog=dog,Dog=dog"),
         "no record has an old class of --label-map: 'Dog=dog'"),
        (("--label-map", "CAT=cat"), "no record has an old class of --label-map: 'CAT=cat'"),
    ],
)  # fmt: skip
def test_some_names_without_records_are_a_note(options, note, tmp_path):
    argv = ("--input", rows_of(tmp_path / "rows.csv", ["cat", "dog"]), "--splits", "train=1")
    assert unknown(make(tmp_path / "out", *argv, *options, command="table")) == [note]


@pytest.mark.parametrize("command", ["images", "text"])
def test_names_of_folders_are_checked(command, tmp_path, capsys):
    make_folder(tmp_path / "in", {"cat": 3, "dog": 3})
    for n, path in enumerate(sorted((tmp_path / "in").rglob("*.jpg")) if command == "text" else ()):
        path.unlink()
        path.with_suffix(".txt").write_text(f"a text {n}")
    argv = ("--input", tmp_path / "in", "--exclude-labels", "Dog")
    said = refused(capsys, tmp_path, *argv, command=command)
    assert "'dog' differs from it only by case" in said
    argv = ("--input", tmp_path / "in", "--include-labels", "fish")
    said = refused(capsys, tmp_path, *argv, command=command)
    assert "--include-labels fish: no record has this class; the classes are 'cat', 'dog'\n" in said


names = st.lists(st.sampled_from(["a", "A", " a", "b", "1", "1.0", "2"]), min_size=1, unique=True)


@given(names, names)
def test_names_are_accepted_only_if_one_matches(given_names, classes):
    check = check_names("--exclude-labels", {name: name for name in given_names}, classes)
    if not {*given_names} & {*classes}:
        assert check.problem is not None
        assert all(repr(name) in check.problem for name in classes)
    assert check.problem is None or check.note is None
    if {*classes} <= {*given_names}:
        assert check.problem is None
    alike = {name_key(one) for one in classes if one not in given_names}
    if {*given_names} <= {*classes}:
        assert check.note is None
        assert (check.problem is None) == alike.isdisjoint(map(name_key, given_names))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_has_one_value_name(value):
    name = value_name(repr(value))
    assert value_name(name) == name
    assert float(name) == value
    assert value_name(f"00{abs(value)!r}") == value_name(repr(abs(value)))
