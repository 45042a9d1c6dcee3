"""Advice in errors: it reads more rows and names lost data; the most frequent reason is first."""

import pytest

from recordmill.checking.inspection import inspect
from recordmill.storage.files import Location
from tests.folders import make_folder
from tests.image_runs import make, run

pytestmark = pytest.mark.usefixtures("encoders")


def printed(capsys):
    """Return the printed text with single spaces."""
    captured = capsys.readouterr()
    return " ".join((captured.err + captured.out).split())


@pytest.mark.parametrize(
    "bad", [b"x,label\n", b"\0,b\n", b"x,label\n\0,b\n"], ids=["header", "zero", "both"]
)
def test_faults_that_no_encoding_mends_get_no_advice_on_encodings(bad, tmp_path, capsys):
    # Few enough for advice on a reading that leaves them as they are.
    rows = b"".join(b"%d,%c\n" % (n, b"ab"[n % 2]) + bad * (n == 500) for n in range(999))
    (tmp_path / "a.csv").write_bytes(b"x,label\n" + rows)
    given = ("--input", tmp_path / "a.csv", "--output", tmp_path / "out")
    assert run("table", *given, "--max-reject-fraction", 0) == 1
    said = printed(capsys)
    assert "were rejected" in said
    assert "--encoding" not in said
    assert "can be read" not in said


def test_undecodable_rows_get_advice_although_others_have_other_faults(tmp_path, capsys):
    rows = [f"{n},caf\xe9 {n},{'ab'[n % 2]}".encode("cp1252") for n in range(300)]
    (tmp_path / "a.csv").write_bytes(b"\n".join([b"id,text,label", *rows, b"id,text,label", b""]))
    given = ("--input", tmp_path / "a.csv", "--output", tmp_path / "out")
    assert run("table", *given) == 1
    assert "are not UTF-8; with --encoding cp1252 300 of 301 rows can be read" in printed(capsys)


def test_dropping_the_column_of_classes_is_said_to_lose_them(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("x,label\n1,a\n2,b\n")
    (tmp_path / "in" / "b.csv").write_text("x\n3\n4\n")
    assert run("table", "--input", tmp_path / "in", "--output", tmp_path / "out") == 2
    assert (
        "or pass --drop-columns label, which leaves it out of all records; if 'label' holds the"
        " classes, they are lost"
    ) in printed(capsys)


def test_dropping_the_classes_of_listings_is_said_to_lose_them(tmp_path, capsys):
    make_folder(tmp_path / "in", {"x": 2})
    first, second = sorted((tmp_path / "in" / "x").iterdir())
    (tmp_path / "a.csv").write_text(f"path,target\nin/x/{first.name},1\n")
    (tmp_path / "b.csv").write_text(f"path\nin/x/{second.name}\n")
    given = ("--input", tmp_path / "a.csv", "--input", tmp_path / "b.csv")
    assert run("images", *given, "--output", tmp_path / "out", "--unlabelled", "keep") == 2
    said = printed(capsys)
    assert "or pass --drop-columns target, which leaves it out of all records" in said
    assert "; if 'target' holds the classes, they are lost" in said


def test_a_file_of_classes_of_boxes_is_not_blamed_for_bad_boxes(tmp_path, capsys):
    folder = make_folder(tmp_path / "in", {"x": 3}) / "x"
    for image in list(folder.iterdir()):
        image.with_suffix(".txt").write_text("0 1 2\n")
    (tmp_path / "names.txt").write_text("ant\nbee\n")
    given = ("--input", folder, "--annotations", folder, "--labels-file", tmp_path / "names.txt")
    assert run("images", *given, "--output", tmp_path / "out") == 1
    said = printed(capsys)
    assert "expected a class and four numbers, got 3 words" in said
    assert "no record has a class" not in said


def test_the_most_frequent_reason_of_a_listing_comes_first(tmp_path, capsys):
    (tmp_path / "empty.png").write_bytes(b"")
    names = ["empty.png", "", "", "none1.png", "none2.png", "none3.png"]
    (tmp_path / "a.csv").write_text("path,label\n" + "".join(f"{name},x\n" for name in names))
    given = ("--input", tmp_path / "a.csv", "--output", tmp_path / "out")
    assert run("images", *given) == 2
    assert (
        "can be used (3 missing, 2 bad_value, 1 empty); the first of each cause: none1.png: no"
        " such file"
    ) in printed(capsys)


def test_inspect_shows_the_most_frequent_reason_first_and_ties_by_name(tmp_path):
    make_folder(tmp_path / "in", {"x": 20})
    folder = tmp_path / "in" / "x"
    (folder / "a.png").write_bytes(b"text")
    (folder / "b.png").write_bytes(b"")
    for number in range(2):
        (folder / f"c{number}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    given = ("--input", tmp_path / "in", "--output", tmp_path / "out")
    assert run("images", *given, "--max-reject-fraction", 1, "--size", 16) == 0
    found = inspect(Location.parse(str(tmp_path / "out"))).rejects
    assert list(found) == ["corrupt", "empty", "not_an_image"]


R_TABLE = '"x","label"\n' + "".join(f'"{n}",{n / 2},"{"ab"[n % 2]}"\n' for n in range(1, 41))
TOA5 = """"TOA5","CR1000","CR1000","12345","CR1000.Std.32"
"TIMESTAMP","RECORD","Air, max"
"TS","RN","Deg C"
"","","Avg"
""" + "".join(f'"2019-03-01 {n:02}:00:00",{n},{n / 4}\n' for n in range(24))


@pytest.mark.parametrize(
    ("content", "said", "options", "columns"),
    [
        (
            R_TABLE,
            "each row has one value more than the header, as R writes tables with row names: pass"
            " --skip-rows 1 --columns row,x,label",
            ("--skip-rows", 1, "--columns", "row,x,label"),
            {"row", "x"},
        ),
        (
            TOA5,
            "whose second line names the columns, and whose third and fourth describe them: pass"
            " --skip-rows 1 --units-rows 2",
            ("--skip-rows", 1, "--units-rows", 2),
            {"TIMESTAMP", "RECORD", "Air, max"},
        ),
    ],
    ids=["R", "TOA5"],
)
def test_headers_of_other_programs_name_the_options(
    content, said, options, columns, tmp_path, capsys
):
    (tmp_path / "a.csv").write_text(content)
    given = ("--input", tmp_path / "a.csv")
    assert run("table", *given, "--output", tmp_path / "out") == 2
    assert said in printed(capsys)
    dataset = make(tmp_path / "out", *given, *options, command="table").manifest
    assert dataset.ledger.records.rejected == 0
    assert columns <= {*dataset.features}


@pytest.mark.parametrize(
    "text",
    [
        '{"text": {"0": "a", "1": "b"}, "label": {"0": "x", "1": "y"}}',
        '{"0": {"text": "a"}, "1": {"text": "b"}}\n',
        '{"columns": ["text"], "index": [0, 1], "data": [["a"], ["b"]]}',
    ],
    ids=["columns", "index", "split"],
)
def test_documents_of_pandas_are_an_error(text, tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text(text)
    assert run("table", "--input", tmp_path / "a.jsonl", "--output", tmp_path / "out") == 2
    assert (
        "a.jsonl holds one JSON object with all rows, as DataFrame.to_json writes it, not one JSON"
        " object per line: write it with to_json(FILE, orient='records', lines=True)"
    ) in printed(capsys)
