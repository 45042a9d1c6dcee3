"""Layouts of text files that other programs write: without header, units, spaces, zip and xz."""

import bz2
import gzip
import io
import lzma
import pathlib
import shlex
import zipfile

import pytest

from recordmill.transforms.sources.row_formats.text.row_boundaries import single_spaces
from tests.image_runs import Made, make, run

pytestmark = pytest.mark.usefixtures("encoders")

ROWS = [[n, n / 8, ("ab", "c d", "e")[n % 3]] for n in range(40)]


def table(delimiter: str = ",", header: str = "x,y,label") -> str:
    lines = [header.replace(",", delimiter), *(delimiter.join(map(str, one)) for one in ROWS)]
    return "\n".join(filter(None, lines)) + "\n"


def zipped(*members: tuple[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members:
            archive.writestr(name, text)
    return stream.getvalue()


def made(folder: pathlib.Path, name: str, content: bytes | str, *argv: object) -> Made:
    data = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(data)
    return make(folder / f"{name} out", "--input", folder / name, *argv, command="table")


@pytest.fixture
def digest(tmp_path) -> str:
    return made(tmp_path, "plain.csv", table()).manifest.digest


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("a.csv.xz", lzma.compress(table().encode()), ""),
        ("a.csv.zip", zipped(("folder/a.csv", table())), ""),
        ("b.zip", zipped(("a.csv", table()), ("__MACOSX/._a.csv", "x"), (".DS_Store", "")), ""),
        ("a.tsv.zip", zipped(("a.tsv", table("\t"))), ""),
        ("units.csv", table(header="x,y,label\n#,m/s,-"), "--units-rows 1"),
        ("units.csv.bz2", bz2.compress(table(header="x,y,label\n\n#,m,-").encode()),
         "--units-rows 1"),
        ("logger.dat", table(header='"TOA5","CR1"\nx,y,label\nTS,m,-\n"","Avg","Smp"'),
         "--format csv --skip-rows 1 --units-rows 2"),
        ("packed.csv.gz", gzip.compress(table(header="seen\nx,y,label\nTS,m,-").encode()),
         "--skip-rows 1 --units-rows 1"),
    ],
)  # fmt: skip
def test_a_layout_is_read_as_the_plain_file(tmp_path, digest, name, content, options):
    assert made(tmp_path, name, content, *shlex.split(options)).manifest.digest == digest


def test_without_header_the_columns_are_numbered(tmp_path):
    text = table(header="")
    named = made(tmp_path, "named.csv", text, "--columns", "c1,c2,c3", "--label-column", "c3")
    argv = ("--header", "no", "--label-column", "c3")
    for name, content in (("a.csv", text), ("a.csv.gz", gzip.compress(text.encode()))):
        dataset = made(tmp_path, name, content, *argv)
        assert dataset.manifest.digest == named.manifest.digest
        assert sum(split.records for split in dataset.manifest.splits.values()) == len(ROWS)


def test_an_error_names_the_option_for_files_without_header(tmp_path, capsys):
    (tmp_path / "a.csv").write_text(table(header=""))
    assert run("table", "--input", tmp_path / "a.csv", "--output", tmp_path / "out") == 2
    assert "or pass --header no, which gives them such names" in capsys.readouterr().err


def test_small_files_are_joined_by_their_headers_not_by_their_units(tmp_path, capsys):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.csv").write_text(table(header="x,y,label\n#,m/s,-"))
    argv = ("--input", folder, "--units-rows", 1)
    dataset = make(tmp_path / "out", *argv, command="table")
    assert not dataset.rejects
    assert set(dataset.manifest.features) == {"x", "y", "label"}
    (folder / "b.csv").write_text(table(header="z,y,label\n#,m/s,-"))
    assert run("table", *argv, "--output", tmp_path / "other") == 2
    assert "b.csv has no column 'x', but a.csv has it" in capsys.readouterr().err


def test_runs_of_spaces_separate_columns(tmp_path, digest):
    rows = [
        f" {x} \t  {y}   {label if ' ' not in label else repr(label)}  " for x, y, label in ROWS
    ]
    text = "\n".join(["  x   y  label", *rows, "   ", ""]).replace("'", '"')
    argv = ("--delimiter", "whitespace")
    dataset = made(tmp_path, "a.csv", text, *argv)
    assert dataset.manifest.digest == digest
    zipped_rows = made(tmp_path, "a.csv.gz", gzip.compress(text.encode()), *argv)
    assert zipped_rows.manifest.digest == digest


def test_a_file_of_columns_in_spaces_is_refused_with_the_option(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("id    x  y\n1   2    3\n10  20  30\n")
    assert run("table", "--input", tmp_path / "a.csv", "--output", tmp_path / "out") == 2
    assert "pass --delimiter whitespace" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("data", "quotes", "expected"),
    [
        (b" a  b\t c \n", True, b"a b c\n"),
        (b'a "b  c" d\n', True, b'a "b  c" d\n'),
        (b'a "b  c" d\n', False, b'a "b c" d\n'),
        (b'"a  ""b"  c\r\n  d  \r\n', True, b'"a  ""b" c\r\nd\r\n'),
        (b"a   b", True, b"a b"),
        (b'x"y  z"\n', True, b'x"y z"\n'),
        (b"", True, b""),
    ],
)
def test_single_spaces(data, quotes, expected):
    assert single_spaces(data, quotes=quotes) == expected


def _encrypted() -> bytes:
    data = bytearray(zipped(("a.csv", table())))
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # flags in both headers
        data[data.index(signature) + at] |= 1
    return bytes(data)


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("two.zip", zipped(("a.csv", table()), ("b.csv", table())), "",
         "holds 2 files (a.csv, b.csv), expected one with rows: unpack it"),
        ("empty.zip", zipped(), "", "holds 0 files, expected one with rows"),
        ("a.zip", zipped(("a.pdf", "")), "", "has no extension of a known format"),
        ("a.zip", zipped(("a.parquet", "PAR1")), "", "compressed as a whole (.zip)"),
        ("a.zip", zipped(("a.csv.gz", "")), "", "holds a.csv.gz, which is itself compressed"),
        ("a.zip", b"no zip", "", "cannot parse the file"),
        ("a.zip", zipped(("a.csv", table()))[:200], "", "cannot parse the file"),
        ("a.zip", _encrypted(), "", "is encrypted: unpack it"),
        ("a.csv.xz", lzma.compress(table().encode())[:90], "", "cannot parse the file"),
        ("a.csv", table(), "--units-rows -1", "--units-rows: expected 0 lines or more, got -1"),
        ("a.csv", table(), "--units-rows 1 --header no", "expected a header line above these"),
        ("a.csv", table(), "--units-rows 1 --columns a,b,c", "--skip-rows skips lines at the"),
        ("a.jsonl", '{"x": 1}\n', "--units-rows 1", "--units-rows applies to csv, tsv, but"),
        ("a.csv", table(), "--header maybe", "--header: expected one of auto, yes, no"),
        ("a.csv", "x,y\nm,s\n", "--units-rows 1", "found no rows in"),
    ],
)  # fmt: skip
def test_inputs_that_cannot_be_read_are_refused(tmp_path, capsys, name, content, options, message):
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    argv = ("--input", tmp_path / name, "--output", tmp_path / "out", *shlex.split(options))
    assert run("table", *argv) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_small_files_in_utf8_are_not_read_in_another_encoding(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    for n in range(60):
        text = f"name,n\ncaf\u00e9,{n}\n"
        (tmp_path / f"in/{n:02}.csv").write_bytes(text.encode())
    given = ("--input", tmp_path / "in", "--output", tmp_path / "out", "--encoding", "cp1252")
    assert run("table", *given) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "are UTF-8, and would be read as other characters: leave the option out" in error


def test_files_without_a_column_in_common_are_an_error(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("x,y\n1,a\n2,b\n")
    (tmp_path / "in/b.csv").write_text("p,q\n3,c\n4,d\n")
    assert run("table", "--input", tmp_path / "in", "--output", tmp_path / "out") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "a.csv and b.csv have no column in common: a.csv has 'x', 'y', and b.csv has" in error
