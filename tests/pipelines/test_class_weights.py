"""Class weights of the manifest: of what was written, beside those of the source."""

import pytest

from recordmill.checking.inspection import inspect
from recordmill.checking.verify import verify
from recordmill.format.manifest import class_weights
from recordmill.pipelines.cli import main
from recordmill.report.counts import class_rows
from recordmill.storage.files import Location
from tests.image_runs import make

COUNTS = {"a": 30, "b": 12, "c": 6}


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.csv"
    labels = [label for label, n in COUNTS.items() for _ in range(n)]
    path.write_text("label,x\n" + "".join(f"{label},{n}\n" for n, label in enumerate(labels)))
    return path


@pytest.mark.parametrize(
    ("balance", "target", "written"),
    [
        ("none", (), {"a": 30, "b": 12, "c": 6}),
        ("weights", (), {"a": 30, "b": 12, "c": 6}),
        ("oversample", (), {"a": 30, "b": 30, "c": 30}),
        ("undersample", (), {"a": 6, "b": 6, "c": 6}),
        ("oversample", ("--balance-target", "15"), {"a": 30, "b": 15, "c": 15}),
    ],
)
def test_weights_are_those_of_what_was_written(rows, tmp_path, balance, target, written):
    options = ("--splits", "train=1", "--balance", balance, *target)
    made = make(tmp_path / "out", "--input", rows, *options, command="table")
    manifest = made.manifest
    assert manifest.splits["train"].classes == written
    assert manifest.class_weights == class_weights(written)
    assert manifest.source_weights == class_weights(COUNTS)
    dataset = Location.parse(str(tmp_path / "out"))
    assert verify(dataset).ok
    shares = {row.name: row.before for row in class_rows(inspect(dataset))}
    if written == COUNTS:
        assert {*shares.values()} == {None}
    else:
        assert shares == pytest.approx({label: n / 48 for label, n in COUNTS.items()})


@pytest.mark.parametrize("balance", ["oversample", "weights"])
def test_inspect_shows_the_weights_of_the_source_where_they_differ(rows, tmp_path, capsys, balance):
    options = ("--splits", "train=1", "--balance", balance)
    make(tmp_path / "out", "--input", rows, *options, command="table")
    capsys.readouterr()
    assert main(["inspect", "--dataset", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    (row,) = [line.split() for line in shown.splitlines() if line.startswith("c   ")]
    expected = ["c", "30", "1", "2.67"] if balance == "oversample" else ["c", "6", "2.67"]
    assert row == expected
    assert ("the source" in shown) == (balance == "oversample")
    assert main(["report", "--dataset", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out.report.html").read_text()
    assert ("train before balancing</th>" in page) == (balance == "oversample")
    shares = [cell.split("</td>")[0] for cell in page.split('<td class="before">')[1:]]
    assert [share for share in shares if "12.5&nbsp;%" in share] == shares[2:]
    assert len(shares) == (3 if balance == "oversample" else 0)
