"""`--stratify` with `--group-column`: records by the fractions, in whole groups."""

import pytest

from recordmill.pipelines.cli import main
from tests.image_runs import Made


def table(path, groups, *, rotate=0):
    """A CSV with a row per (group, label) in `groups`."""
    rows = [f"k{n},{group},{label},{n % 7}\n" for n, (group, label) in enumerate(groups)]
    rows = rows[rotate:] + rows[:rotate]
    path.write_text("id,patient,label,x\n" + "".join(rows))
    return path


def run(rows, folder, *options, workers=1):
    argv = ["table", "--input", rows, "--output", folder, "--key-column", "id", "--stratify"]
    argv += ["--group-column", "patient", "--workers", workers, *options]
    assert main([*map(str, argv)]) == 0
    return Made(folder)


def test_records_meet_the_fractions_where_single_ones_can_fill_in(tmp_path):
    rows = table(tmp_path / "rows.csv", [("big", "a")] * 20 + [(f"s{n}", "a") for n in range(20)])
    made = run(rows, tmp_path / "out")
    records = {name: split.records for name, split in made.manifest.splits.items()}
    assert records == {"train": 32, "validation": 4, "test": 4}
    assert not [note for note in made.manifest.notes if note.code == "stratify"]


def test_the_division_is_the_same_with_other_workers_and_order(tmp_path):
    groups = [(f"g{n % 23}", "ab"[n % 5 < 2]) for n in range(300)]
    groups += [(f"s{n}", "ab"[n % 3 == 0]) for n in range(200)]
    made = run(table(tmp_path / "rows.csv", groups), tmp_path / "out")
    rows = table(tmp_path / "turned.csv", groups, rotate=171)
    again = run(rows, tmp_path / "again", workers=2)
    splits = made.manifest.splits
    assert again.manifest.digest == made.manifest.digest
    for label in "ab":
        total = sum(split.classes[label] for split in splits.values())
        for name, fraction in {"train": 0.8, "validation": 0.1, "test": 0.1}.items():
            assert abs(splits[name].classes[label] - fraction * total) <= 1
    patients = [{row["group"] for row in made.index(name)} for name in splits]
    assert not set.intersection(*patients)
    assert sum(map(len, patients)) == len(set.union(*patients)) == 223


def test_a_record_without_class_stays_in_its_group(tmp_path):
    groups = [(f"g{n // 2}", "a" if n % 2 else "") for n in range(60)]
    made = run(table(tmp_path / "rows.csv", groups), tmp_path / "out", "--unlabelled", "keep")
    splits = {name: {row["group"] for row in made.index(name)} for name in made.manifest.splits}
    assert {name: len(found) for name, found in splits.items()} == {
        "train": 24,
        "validation": 3,
        "test": 3,
    }
    assert {name: split.records for name, split in made.manifest.splits.items()} == {
        "train": 48,
        "validation": 6,
        "test": 6,
    }


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_note_names_the_class_and_the_group_that_keeps_it_from_a_fraction(
    tmp_path, capsys, dry_run
):
    groups = [("big", "a")] * 30 + [(f"s{n}", "a") for n in range(4)]
    groups += [(f"t{n}", "b") for n in range(50)]
    rows = table(tmp_path / "rows.csv", groups)
    run(rows, tmp_path / "out", *(["--dry-run"] if dry_run else []))
    said = capsys.readouterr()
    text = " ".join((said.out + said.err).split())
    assert text.count(
        "1 class is more than 1 record from the fractions of --splits, because groups stay whole:"
        " 'a' has 30 records in train instead of 27.2 (30 are of the group 'big')"
    ) == 1  # fmt: skip


def test_a_split_is_not_empty_if_the_fractions_are_as_near_with_a_group_in_it(tmp_path):
    groups = [(f"P{n % 9}", f"c{n % 8}") for n in range(40) for _ in range(2)]
    made = run(table(tmp_path / "rows.csv", groups), tmp_path / "out")
    records = {name: split.records for name, split in made.manifest.splits.items()}
    assert records == {"train": 64, "validation": 8, "test": 8}
    assert not [note for note in made.manifest.notes if note.code in ("stratify", "empty-split")]


EVEN = ("table", "--key-column", "id", "--group-column", "patient", "--stratify")


@pytest.mark.parametrize(
    ("options", "groups", "why"),
    [
        (
            (*EVEN, "--splits", "train=0.94,validation=0.03,test=0.03"),
            [(f"P{n % 9}", "a") for n in range(90)],
            "groups are kept whole, and there are too few groups (9 for a fraction of 0.03)",
        ),
        (
            ("table", "--key-column", "id", "--splits", "train=0.999,test=0.001"),
            [("P", "a")] * 9,
            "there are too few records (9 for a fraction of 0.001)",
        ),
        (
            ("table", "--splits", "train=0.9,test=0.1", "--drop-columns", "id,patient"),
            [("P", "a")] * 140,  # of seven contents, x
            "records of equal content or key share a split",
        ),
    ],
)
def test_the_note_on_an_empty_split_names_its_cause(tmp_path, options, groups, why):
    argv = ["--input", table(tmp_path / "rows.csv", groups), "--output", tmp_path / "out"]
    assert main([options[0], *map(str, argv), *options[1:]]) == 0
    notes = [note for note in Made(tmp_path / "out").manifest.notes if note.code == "empty-split"]
    assert f"no record is in the split 'test', because {why}" in notes
