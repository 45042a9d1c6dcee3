"""Notes of a run: printed once, kept in the manifest, and errors where asked."""

import pytest

from recordmill.pipelines.cli import main
from tests.image_runs import Made


@pytest.fixture
def argv(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text(",x,label\n" + "".join(f"{n},{n}.5,a\n" for n in range(40)))
    return ["table", "--input", str(rows), "--output", str(tmp_path / "out")]


def test_a_note_is_printed_once_and_kept(argv, tmp_path, capsys):
    assert main(argv) == 0
    said = capsys.readouterr()
    assert (said.out + said.err).count("a column without name is ignored") == 1
    (note,) = [one for one in Made(tmp_path / "out").manifest.notes if one.code != "tfds"]
    assert note.code == "unnamed-column"


def test_a_dry_run_has_the_same_notes(argv, tmp_path, capsys):
    assert main([*argv, "--dry-run"]) == 0
    said = capsys.readouterr()
    assert (said.out + said.err).count("a column without name is ignored") == 1
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
