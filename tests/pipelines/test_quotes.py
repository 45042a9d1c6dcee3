"""Quotes of CSV files that are unclosed, escaped or after a space, through the command line."""

import gzip
import json
import pathlib

import pytest

from recordmill.transforms.sources.row_formats.text import text_files
from tests.folders import make_folder
from tests.image_runs import make, run

pytestmark = pytest.mark.usefixtures("encoders")


def dry(command: str, source: pathlib.Path, *argv: object) -> int:
    output = ("--output", source.parent / "out")
    return run(command, "--input", source, *output, "--dry-run", "--json", *argv)


def printed_notes(capsys: pytest.CaptureFixture[str]) -> str:
    return "; ".join(note["text"] for note in json.loads(capsys.readouterr().out)["notes"])


# The quote of line 5 is closed by the one that opens the text of line 8.
UNCLOSED = (
    'text,label\n"a film, good",pos\n"two\nlines",neg\n"Great product,pos\nbad one,neg\n'
    'so so,neg\n"fine I think",pos\nlast,neg\n'
)


@pytest.mark.parametrize("first", [64 << 10, 3])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_an_unclosed_quote_that_swallows_rows_is_an_error(
    name, mark, first, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(text_files, "_FIRST_READ", first)
    content = mark + UNCLOSED.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert dry("text", tmp_path / name) == 2
    error = capsys.readouterr().err
    assert (
        f"unclosed quote in {tmp_path / name}: row 3 extends to line 8, because the quote in line 5"
        " is closed only there, by a quote that seems to open a value: close it, or double the"
        " quotes inside a value; if quotes are data there, pass --quoting off; if the row is"
        " correct, pass --quoting on"
    ) in error


def test_quoting_on_reads_such_a_row_and_says_so(tmp_path, capsys):
    (tmp_path / "a.csv").write_text(UNCLOSED)
    assert dry("text", tmp_path / "a.csv", "--quoting", "on") == 0
    printed = printed_notes(capsys)
    assert (
        "quotes may be data: 1 row with a value that spans lines, the first is a.csv#3; 1 row with"
        " text after a closing quote, the first is a.csv#3: --quoting off reads quotes as data"
        in printed
    )


@pytest.mark.parametrize("row", ['"two\nlines ""so"" here",x', '"a "b" c",x', '"a\n" b,x'])
def test_quotes_that_open_no_value_are_no_unclosed_ones(row, tmp_path):
    (tmp_path / "a.csv").write_text(f'text,label\n{row}\n"b, c",y\n"d\ne",x\n')
    assert dry("text", tmp_path / "a.csv") == 0


@pytest.mark.parametrize(
    ("rows", "noted"),
    [
        ('"two\nlines",x\n', False),
        ('"a film, bad\nvery bad",x\n', True),
        ('"a film, bad\nvery, very bad",x\n', False),
        ('"a ""film"", bad\nvery bad",x\n', False),
        ('"",x\n"a film, bad\nvery bad",x\n', True),
        ('"three\nmore\nlines",x\n', False),
        ("5' 3\" tall,x\n", False),
    ],
)
def test_a_value_of_several_lines_is_noted_if_each_may_be_a_row(rows, noted, tmp_path, capsys):
    (tmp_path / "a.csv").write_text(f"text,label\n{rows}" + "so so,x\n" * 200)
    assert dry("text", tmp_path / "a.csv", "--label-type", "none") == 0
    assert ("1 row with a value that spans lines" in printed_notes(capsys)) == noted


def test_a_quote_that_is_open_to_the_end_has_a_line(tmp_path, capsys):
    (tmp_path / "a.csv").write_text('text,label\n"x\ny",a\n"z,b\nw,b\n')
    assert dry("text", tmp_path / "a.csv") == 2
    assert "row 2 begins in line 4 and extends to the end of the file" in capsys.readouterr().err


def test_a_header_with_an_unclosed_quote_is_an_error(tmp_path, capsys):
    (tmp_path / "a.csv").write_text('"text,label\n"a",b\n"c",d\n')
    assert dry("text", tmp_path / "a.csv") == 2
    assert "seems to have an unclosed quote: it extends over 2 lines" in capsys.readouterr().err


def test_listings_have_the_same_checks(tmp_path, capsys):
    make_folder(tmp_path / "photos", {"ant": 2, "bee": 2})
    names = sorted(str(one.relative_to(tmp_path)) for one in tmp_path.glob("photos/*/*"))
    rows = [f'"{names[0]},ant', f"{names[1]},ant", f'"{names[2]}",bee', f"{names[3]},bee"]
    (tmp_path / "a.csv").write_text("path,label\n" + "".join(f"{row}\n" for row in rows))
    assert dry("images", tmp_path / "a.csv") == 2
    assert "row 1 extends to line 4, because the quote in line 2" in capsys.readouterr().err


ESCAPED = "id,text,label\n" + "".join(
    f'{n},"the \\"best\\"{"," * (n % 2)} film {n}",{"ab"[n % 3 > 0]}\n' for n in range(60)
)


def table_of(folder: pathlib.Path, *argv: object) -> dict[int, dict[str, list[bytes]]]:
    """Make a dataset of a table; return its records by their id."""
    made = make(folder, *argv, "--no-statistics", command="table")
    found = [example for split in made.manifest.splits for example in made.examples(split).values()]
    return {int(example["id"][0]): example for example in found}


def test_rejects_of_escaped_quotes_name_the_option_that_reads_them(tmp_path, capsys):
    (tmp_path / "a.csv").write_text(ESCAPED)
    assert run("table", "--input", tmp_path / "a.csv", "--output", tmp_path / "out") == 1
    error = capsys.readouterr().err
    assert (
        "50% of the rows of a.csv have another number of columns; check --quoting, --escape and"
        " --trim, because values contain quotes" in error
    )
    found = table_of(tmp_path / "out", "--input", tmp_path / "a.csv", "--escape", "\\")
    assert [found[n]["text"] for n in (0, 1)] == [[b'the "best" film 0'], [b'the "best", film 1']]
    assert len(found) == 60


def test_escaped_quotes_without_rejects_are_noted(tmp_path, capsys):
    rows = "".join(f'"the \\"best\\" film {n}",{"ab"[n % 2]}\n' for n in range(9))
    (tmp_path / "a.csv").write_text("text,label\n" + rows)
    assert dry("text", tmp_path / "a.csv") == 0
    assert (
        "quotes may be data: 9 rows with text after a closing quote, the first is a.csv#1"
        in printed_notes(capsys)
    )
    assert dry("text", tmp_path / "a.csv", "--escape", "\\") == 0
    assert "closing quote" not in printed_notes(capsys)


@pytest.mark.parametrize("last", ['"fine",b\n', "fine,b\n"])
def test_an_unclosed_quote_that_is_escaped_names_the_option(last, tmp_path, capsys):
    rows = "".join(f'"film {n}",a\n' for n in range(9))
    (tmp_path / "a.csv").write_text(f'text,label\n{rows}"size 5\\"",a\n{last}')
    assert dry("text", tmp_path / "a.csv") == 2
    error = capsys.readouterr().err
    assert "row 10" in error
    assert "if backslashes escape quotes, --escape '\\'" in error
    assert dry("text", tmp_path / "a.csv", "--escape", "\\") == 0


def test_escapes_apply_to_delimiters_and_line_ends(tmp_path):
    text = 'id;text;label\n0;a\\;b\\\\;x\n1;"c\\"\nd";y\n2;e\\\nf;x\n3;"g""h";y\n'
    (tmp_path / "a.csv").write_text(text)
    given = ("--input", tmp_path / "a.csv", "--delimiter", ";", "--escape", "\\")
    found = table_of(tmp_path / "out", *given)
    texts = [found[n]["text"][0] for n in range(4)]
    assert texts == [b"a;b\\", b'c"\nd', b"e\nf", b'g"h']


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--escape", "ab"], "--escape: expected one ASCII character that is not the delimiter"),
        (["--escape", '"'], "--escape: expected one ASCII character that is not the delimiter"),
        (["--escape", ","], "--escape: expected one ASCII character that is not the delimiter"),
        (["--escape", "\\", "--quoting", "off"], "add --quoting on, or leave it out"),
        (["--escape", "\\", "--format", "jsonl"], "--escape applies to csv, tsv, but the input is"),
    ],
)
def test_impossible_escapes_are_errors(argv, words, tmp_path, capsys):
    (tmp_path / "a.csv").write_text("text,label\nx,y\n")
    assert dry("text", tmp_path / "a.csv", *argv) == 2
    assert words in capsys.readouterr().err


def test_listings_may_have_escapes(tmp_path):
    make_folder(tmp_path / "photos", {"ant": 2, "bee": 2})
    names = sorted(str(one.relative_to(tmp_path)) for one in tmp_path.glob("photos/*/*"))
    rows = "".join(f'"{name}","the \\"{name[7:10]}\\""\n' for name in names)
    (tmp_path / "a.csv").write_text("path,label\n" + rows)
    made = make(tmp_path / "out", "--input", tmp_path / "a.csv", "--escape", "\\", "--size", 16)
    assert made.manifest.labels == ('the "ant"', 'the "bee"')


SPACED = 'id, text, label\n0, "a, b" , x\n1, c "d" ,"x"\n2,"e ""f"" ", y\n3, "g\nh",y\n'


def test_trim_reads_quotes_after_spaces(tmp_path):
    (tmp_path / "a.csv").write_text(SPACED)
    found = table_of(tmp_path / "out", "--input", tmp_path / "a.csv", "--trim")
    texts = [found[n]["text"][0] for n in range(4)]
    assert texts == [b"a, b", b'c "d"', b'e "f"', b"g\nh"]


def test_quotes_after_spaces_without_rejects_are_noted(tmp_path, capsys):
    make_folder(tmp_path / "photos", {"ant": 2, "bee": 2})
    names = sorted(str(one.relative_to(tmp_path)) for one in tmp_path.glob("photos/*/*"))
    rows = "".join(f'{name}, "{name[7:10]}"\n' for name in names)
    (tmp_path / "a.csv").write_text("path, label\n" + rows)
    assert dry("images", tmp_path / "a.csv", "--size", 16) == 0
    assert (
        "4 rows with a quote after a space at the beginning of a value, the first is a.csv#1:"
        " --quoting off reads quotes as data; --trim strips spaces before quotes"
        in printed_notes(capsys)
    )
    argv = ("--input", tmp_path / "a.csv", "--trim", "--size", 16)
    assert make(tmp_path / "out", *argv).manifest.labels == ("ant", "bee")


def test_names_of_columns_in_quotes_after_spaces_are_an_error(tmp_path, capsys):
    (tmp_path / "a.csv").write_text('"text", "label"\nx,y\nz,y\n')
    assert dry("text", tmp_path / "a.csv") == 2
    assert 'the quotes are part of the name "label", because spaces precede them: pass' in (
        capsys.readouterr().err
    )
    assert dry("text", tmp_path / "a.csv", "--trim") == 0


def test_quotes_inside_of_quoted_values_are_not_noted(tmp_path, capsys):
    rows = "".join(f'"said ""x"", ""{n}"", ""z""",{"ab"[n % 2]}\n' for n in range(9))
    (tmp_path / "a.csv").write_text("text,label\n" + rows)
    assert dry("text", tmp_path / "a.csv") == 0
    assert "quote" not in printed_notes(capsys)
