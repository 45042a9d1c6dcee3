"""Notes of a run: printed once, kept in the manifest, and errors with --fail-on."""

import pytest

from recordmill.pipelines.cli import main
from tests.folders import make_picture
from tests.image_runs import Made


@pytest.fixture
def argv(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text(",x,label\n" + "".join(f"{n},{n}.5,a\n" for n in range(40)))
    return ["table", "--input", str(rows), "--output", str(tmp_path / "out")]


def test_a_note_is_printed_once_and_kept(argv, tmp_path, capsys):
    assert main(argv) == 0
    said = capsys.readouterr()
    assert (said.out + said.err).count("a column without a name is ignored") == 1
    notes = [one.code for one in Made(tmp_path / "out").manifest.notes if one.code != "tfds"]
    assert notes == ["unnamed-column", "one-class"]


def test_a_dry_run_has_the_same_notes(argv, tmp_path, capsys):
    assert main([*argv, "--dry-run"]) == 0
    said = capsys.readouterr()
    assert (said.out + said.err).count("a column without a name is ignored") == 1
    assert not (tmp_path / "out" / "dataset.json").exists()


@pytest.mark.parametrize("codes", ["unnamed-column", "all", "quotes,unnamed-column"])
def test_a_note_can_be_an_error(argv, tmp_path, capsys, codes):
    assert main([*argv, "--fail-on", codes]) == 1
    assert "(an error because of --fail-on unnamed-column)" in capsys.readouterr().err
    assert not (tmp_path / "out" / "dataset.json").exists()
    assert main(argv) == 0, "the same job goes on without the option"


def test_other_codes_are_no_error(argv, capsys):
    assert main([*argv, "--fail-on", "quotes"]) == 0
    assert main([*argv, "--fail-on", "tfds"]) == 2, "it is known only once all is written"
    assert "--fail-on: expected some of all, annotations" in capsys.readouterr().err


@pytest.fixture
def rejected(tmp_path):
    """5 of 40 rows without a class, and one that has too few cells."""
    rows = tmp_path / "rows.csv"
    labels = ["" if n % 8 == 0 else "a" for n in range(40)]
    cells = [f"{n},{label}\n" for n, label in enumerate(labels)]
    rows.write_text("x,label\n" + "".join(cells) + "41\n")
    return ["table", "--input", str(rows), "--output", str(tmp_path / "out")]


@pytest.mark.parametrize("fraction", [1, 0.01])
def test_a_dry_run_shows_rejects_by_reason_with_three_examples(rejected, capsys, fraction):
    code = main([*rejected, "--dry-run", "--max-reject-fraction", str(fraction)])
    said = capsys.readouterr()
    shown = said.out if fraction == 1 else said.err
    assert code == (0 if fraction == 1 else 1)
    (row,) = [line for line in shown.splitlines() if line.startswith("unlabelled")]
    assert row.split()[1] == "5"
    assert sum("rows.csv#" in line for line in shown.splitlines()) == 3 + 1
    assert "bad_value" in shown


def test_a_dry_run_has_the_notes_that_follow_from_writing(argv, tmp_path, capsys):
    assert main([*argv, "--compression", "gzip", "--dry-run"]) == 0
    assert "no TFDS files: TFDS cannot read gzip TFRecords" in capsys.readouterr().err
    assert main([*argv, "--compression", "gzip"]) == 0
    notes = [str(note) for note in Made(tmp_path / "out").manifest.notes]
    assert notes[-1] == "no TFDS files: TFDS cannot read gzip TFRecords"


def test_a_class_whose_files_are_all_rejected_is_noted(tmp_path, capsys):
    for number in range(8):
        make_picture(tmp_path / "in" / "good" / f"{number}.png", number)
        (tmp_path / "in" / "bad").mkdir(exist_ok=True)
        (tmp_path / "in" / "bad" / f"{number}.png").write_bytes(b"no image")
    given = ["images", "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out"),
             "--splits", "train=1", "--max-reject-fraction", "0.9"]  # fmt: skip
    assert main([*given, "--fail-on", "empty-class"]) == 1
    note = "train has no record of 'bad': all that were planned were rejected or dropped"
    assert f"error: {note}" in capsys.readouterr().err
    assert main(given) == 0
    (found,) = [one for one in Made(tmp_path / "out").manifest.notes if one.code == "empty-class"]
    assert found.startswith(note)


def test_a_class_of_bad_files_that_are_rejected_before_balancing_is_noted(tmp_path, capsys):
    for number in range(4):
        make_picture(tmp_path / "in" / "good" / f"{number}.png", number)
        for label in ("bad", "worse"):
            (tmp_path / "in" / label).mkdir(exist_ok=True)
            (tmp_path / "in" / label / f"{number}.png").write_bytes(b"no image")
    given = ["images", "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out"),
             "--splits", "train=1", "--max-reject-fraction", "0.9", "--balance", "oversample",
             "--dry-run", "--fail-on", "empty-class"]  # fmt: skip
    (tmp_path / "in" / "empty").mkdir()
    (tmp_path / "in" / "empty" / "1.png").write_bytes(b"")
    note = "no record is left of {}: all files of {} were rejected or left out"
    assert main(given) == 1
    expected = note.format("'bad' (4), 'empty' (1), 'worse' (4)", "these classes")
    assert f"error: {expected}" in capsys.readouterr().err
    assert main([*given, "--label-map", "worse=good"]) == 1
    expected = note.format("'bad' (4), 'empty' (1)", "these classes")
    assert f"error: {expected}" in capsys.readouterr().err
    (tmp_path / "in" / "empty" / "1.png").unlink()
    assert main([*given, "--exclude-labels", "bad,worse"]) == 0, "left out by an option"


@pytest.mark.parametrize(
    ("renaming", "unused"),
    [
        ("A=a", "'A=a'"),  # its records have the new name already
        ("a=b,z=", "'z='"),
        ("a=b,c=d", "'c=d'"),
        ("a=b", None),
        ("a=", None),
        ("a=b,A=b", "'A=b'"),
    ],
)
def test_a_renaming_of_a_class_that_no_record_has_is_noted(renaming, unused, tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("x,label\n" + "".join(f"{n},{'ae'[n % 2]}\n" for n in range(8)))
    argv = ["table", "--input", str(rows), "--output", str(tmp_path / "out"), "--splits", "train=1"]
    assert main([*argv, "--label-map", renaming]) == 0
    notes = [one for one in Made(tmp_path / "out").manifest.notes if one.code == "unknown-class"]
    assert [str(one) for one in notes] == (
        [f"no record has an old class of --label-map: {unused}"] if unused else []
    )


@pytest.mark.parametrize("command", ["table", "images"])
def test_columns_that_pandas_named_are_noted(command, tmp_path):
    for n in range(2):
        make_picture(tmp_path / f"{n}.png", n)
    rows = "Unnamed: 0,path,label,Unnamed: 3\n" + "".join(f"{n},{n}.png,a,\n" for n in range(2))
    (tmp_path / "rows.csv").write_text(rows)
    argv = [command, "--input", str(tmp_path / "rows.csv"), "--output", str(tmp_path / "out")]
    argv += ["--splits", "train=1", "--drop-columns"]
    assert main([*argv, "Unnamed: 0,Unnamed: 3", "--fail-on", "unnamed-column"]) == 0
    assert main([*argv, "Unnamed: 3", "--overwrite"]) == 0
    (note,) = [one for one in Made(tmp_path / "out").manifest.notes if one.code == "unnamed-column"]
    assert "'Unnamed: 0': pandas gives such names to columns without one" in str(note)
    assert "--drop-columns 'Unnamed: 0' leaves them out" in str(note)


def test_records_that_repeat_others_are_counted(tmp_path, capsys):
    rows = [f"{n},a" for n in (1, 2, 2, 2, 3, 3)]
    (tmp_path / "rows.csv").write_text("\n".join(["x,label", *rows]))
    argv = ["table", "--input", str(tmp_path / "rows.csv"), "--output", str(tmp_path / "out")]
    assert main([*argv, "--splits", "train=1"]) == 0
    line = "6 records compared by x: 3 repeat another, no leak, no conflict"
    assert line in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "first"),
    [
        (['"in quotes"'] * 9, 1),
        (["plain", "plain", '"with ""two"" quotes, as of Excel"'], 3),
        (['"a title"', "plain", '"Great" product', 'so "great"'], None),
        (["plain"] * 9, None),
    ],
)
def test_values_in_quotes_in_tsv_are_noted(values, first, tmp_path):
    rows = [f"{value}\t{n}" for n, value in enumerate(values)]
    (tmp_path / "rows.tsv").write_text("\n".join(["x\tn", *rows]) + "\n")
    argv = ["table", "--input", str(tmp_path / "rows.tsv"), "--output", str(tmp_path / "out")]
    argv += ["--splits", "train=1"]
    assert main([*argv, "--quoting", "off"]) == 0
    assert not [one for one in Made(tmp_path / "out").manifest.notes if one.code == "quotes"]
    assert main([*argv, "--overwrite"]) == 0
    found = [str(one) for one in Made(tmp_path / "out").manifest.notes if one.code == "quotes"]
    assert len(found) == (first is not None)
    assert all(f"the first is rows.tsv#{first}; the quotes are part" in one for one in found)
