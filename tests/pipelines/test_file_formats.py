"""Headers, delimiters, quotes and encodings of input files, through the command line."""

import itertools
import json
import pathlib
import random
import shlex

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recordmill.pipelines.cli import main
from tests.folders import make_folder
from tests.image_runs import Made, run

pytestmark = pytest.mark.usefixtures("encoders")

RANDOM = random.Random(5)
DECIMALS = [[f"{RANDOM.random():.2f}" for _ in range(3)] for _ in range(40)]
CLASSES = ("cp", "im", "pp")


def table(path: pathlib.Path, rows) -> pathlib.Path:
    path.write_text("".join(f"{','.join(map(str, row))}\n" for row in rows))
    return path


def rows_of(folder: pathlib.Path, *argv: object) -> dict[str, int]:
    """{reason: rows} of the ledger of a table, with the written ones as 'written'."""
    assert run("table", "--output", folder, *argv) == 0
    inputs = Made(folder).manifest.ledger.inputs
    return {"written": sum(1 for _ in records(folder)), "rejected": inputs.rejected}


def records(folder: pathlib.Path) -> list[str]:
    made = Made(folder)
    return [key for split in made.manifest.splits for key, _ in made.examples(split)]


def ecoli():
    return [(f"ID{n}", *row, CLASSES[n % 3]) for n, row in enumerate(DECIMALS)]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (ecoli(), ["would name columns of numbers", "--columns c1,c2,c3,c4,c5 (5 names)"]),
        (
            [("0.5", "0.5", "cp"), *((*row[:2], "im") for row in DECIMALS)],
            ["would name columns of numbers"],
        ),
        (
            [("pe"[n % 2], "xb"[n % 2], "sy"[n // 2 % 2]) for n in range(20)],
            ["'p', 'x', 's' occur again in the rows below", "--columns c1,c2,c3 (3 names)"],
        ),
        (
            [(f"2020-01-{n:02}", "abc"[n % 3] * n) for n in range(1, 20)],
            ["'2020-01-01' would name a column of dates"],
        ),
        ([(f"{n}", *range(n, n + 7)) for n in range(5, 30)], ["--columns c1,c2,...,c8 (8 names)"]),
    ],
)
def test_data_in_the_first_row_is_an_error_that_names_columns(rows, words, tmp_path, capsys):
    source = table(tmp_path / "t.csv", rows)
    assert run("table", "--input", source, "--output", tmp_path / "out") == 2
    error = capsys.readouterr().err
    for word in ["looks like data, not like column names", "--header yes", *words]:
        assert word in error


def test_columns_keep_the_first_row_and_header_yes_takes_it_as_names(tmp_path):
    source = table(tmp_path / "t.csv", ecoli())
    names = ("--columns", "id,a,b,c,label")
    assert rows_of(tmp_path / "a", "--input", source, *names) == {"written": 40, "rejected": 0}
    yes = rows_of(tmp_path / "b", "--input", source, "--header", "yes")
    assert yes == {"written": 39, "rejected": 0}


@pytest.mark.parametrize(
    "header",
    [
        ("country", 1990, 1991, 1992),
        ("", 0, 1, 2),
        ("place", "2020-01-01", "2020-01-02", "2020-01-03"),
        ("place", "7.5", "b", "c"),
        ("1", "x", "y", "z"),
    ],
)
def test_real_headers_are_no_error(header, tmp_path):
    rows = [header, *((f"c{n}", n, 2 * n, 3 * n) for n in range(20))]
    found = rows_of(tmp_path / "out", "--input", table(tmp_path / "t.csv", rows))
    assert found == {"written": 20, "rejected": 0}


def test_a_header_repeated_inside_a_file_is_no_data(tmp_path):
    rows = [("name", "kind"), *((f"c{n}", f"k{n}") for n in range(20))]
    source = table(tmp_path / "t.csv", [*rows, *rows, *rows])
    given = ("--input", source, "--max-reject-fraction", "0.1")
    assert rows_of(tmp_path / "out", *given) == {"written": 60, "rejected": 2}


def test_names_of_columns_are_trimmed(tmp_path):
    rows = [(" x ", " label"), *((n, "ab"[n % 2]) for n in range(20))]
    source = table(tmp_path / "t.csv", rows)
    given = ("--input", source, "--zscore", "x", "--label-column", "label")
    assert rows_of(tmp_path / "out", *given)["written"] == 20


@pytest.mark.parametrize(
    ("text", "words", "option"),
    [
        ("a b c\n" + "1 2 3\n" * 9, "each row has 2 spaces", ("--delimiter", " ")),
        ("# by x\na,b,c\n" + "1,2,3\n" * 9, "if that line is a comment, pass --comment '#'",
         ("--comment", "#")),
    ],
)  # fmt: skip
def test_first_lines_that_do_not_fit_the_rows_get_a_hint(text, words, option, tmp_path, capsys):
    (tmp_path / "t.csv").write_text(text)
    given = ("--input", tmp_path / "t.csv")
    assert run("table", *given, "--output", tmp_path / "out") == 2
    assert words in capsys.readouterr().err
    assert rows_of(tmp_path / "out", *given, *option) == {"written": 9, "rejected": 0}


def test_texts_with_spaces_and_headers_with_a_number_sign_are_no_error(tmp_path):
    counted = itertools.cycle(["one", "one two", "one two three"])
    texts = [("the text",), *((next(counted),) for _ in range(20))]
    assert rows_of(tmp_path / "a", "--input", table(tmp_path / "a.csv", texts))["written"] == 20
    rows = [("#chrom", "pos"), *((f"c{n}", n) for n in range(20))]
    assert rows_of(tmp_path / "b", "--input", table(tmp_path / "b.csv", rows))["written"] == 20


def test_header_yes_with_columns_is_an_error(tmp_path, capsys):
    source = table(tmp_path / "t.csv", ecoli())
    given = ("--input", source, "--output", tmp_path / "out")
    argv = ["table", *map(str, given), "--header", "yes", "--columns", "a"]
    assert main(argv) == 2
    assert "--header yes: --columns names the columns" in capsys.readouterr().err


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> pathlib.Path:
    return make_folder(tmp_path_factory.mktemp("input") / "photos", {"ant": 6, "bee": 6})


def listing(photos: pathlib.Path, name: str, text: str, encoding: str = "utf-8") -> pathlib.Path:
    """A listing beside the images; {path} and {label} stand in `text` for a row's cells."""
    files = sorted(photos.glob("*/*.*"))
    head, row = text.split("\n")
    paths = [(file.relative_to(photos.parent), file.parent.name) for file in files]
    rows = [row.format(path=path, label=label) for path, label in paths]
    place = photos.parent / name
    place.write_bytes("".join(f"{one}\n" for one in [head, *rows] if one).encode(encoding))
    return place


@pytest.mark.parametrize(
    ("name", "text", "encoding", "options"),
    [
        ("none.csv", "\n{path},{label}", "utf-8", "--columns path,label"),
        ("tab.txt", "path\tlabel\n{path}\t{label}", "utf-8", "--delimiter tab"),
        ("space.txt", "\n{path} {label}", "utf-8", "--delimiter= --columns path,label"),
        ("semi.csv", "path;label\n{path};{label}", "utf-8", "--delimiter ;"),
        ("wide.csv", "path,label\n{path},{label}", "utf-16", "--encoding utf-16"),
        ("quoted.tsv", 'path\tlabel\n"{path}"\t"{label}"', "utf-8", "--quoting on"),
        ("loose.csv", "path,label\n {path} , {label} ", "utf-8", "--trim"),
        ("noted.csv", "path,label\n{path},{label}", "utf-8", "--comment #"),
        ("2020.csv", "path,label,7\n{path},{label},8", "utf-8", "--header yes"),
    ],
)
def test_listings_are_read_with_the_options_of_rows(
    name, text, encoding, options, photos, tmp_path
):
    argv = ["--delimiter= " if one == "--delimiter=" else one for one in options.split()]
    place = listing(photos, name, text, encoding)
    if "--comment" in options:
        place.write_text("# by x\n" + place.read_text())
    argv = ["images", "--input", place, *argv]
    assert run(*argv, "--output", tmp_path / "out", "--size", 16) == 0
    made = Made(tmp_path / "out")
    assert len(records(made.folder)) == 12
    assert sorted(made.manifest.labels or ()) == ["ant", "bee"]


@pytest.mark.parametrize(
    ("name", "text", "argv", "words"),
    [
        ("a.csv", "\n{path},of {path}", [], "with --columns if it has no header line"),
        ("b.csv", "path;label\n{path};{label}", [], "pass --delimiter ';'"),
        ("c.txt", "path\tlabel\n{path}\t{label}", [], "or in .txt with --delimiter, got"),
        ("d.csv", "path,7\n{path},8", [], "'7' would name a column of numbers"),
        ("e.jsonl", "\nx", ["--columns", "path"], "is read as jsonl: leave it out\n"),
    ],
)
def test_listings_get_hints(name, text, argv, words, photos, tmp_path, capsys):
    place = listing(photos, name, text)
    assert run("images", "--input", place, "--output", tmp_path / "out", *argv) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("command", ["images", "video", "arrays"])
def test_options_of_listings_are_refused_for_a_folder(command, photos, tmp_path, capsys):
    output = ("--output", tmp_path / "out")
    assert run(command, "--input", photos, *output, "--skip-rows", "2") == 2
    assert "--skip-rows: applies only to listings" in capsys.readouterr().err


def words(count: int) -> str:
    return " ".join(RANDOM.choice(["great", "film", "bad", "plot"]) for _ in range(count))


QUOTED = "id\ttext\tlabel\n" + "".join(
    f'{n}\t"{words(3)}{chr(9) + words(2) if n % 4 else ""}"\t{"ab"[n % 2]}\n' for n in range(200)
)
ACCENTS = "id,text,label\n" + "".join(
    f"{n},{words(2)} {'é' if n % 4 else 'e'},{'ab'[n % 2]}\n" for n in range(200)
)
MULTILINE = "id\ttext\tlabel\n" + "".join(
    f'{n}\t"{words(2)}\n{words(2)}"\t{"ab"[n % 2]}\n' for n in range(200)
)
COMMAS = "id;text,x;label\n" + "".join(
    f"{n};{words(2)}, {words(2)}, {n};{'ab'[n % 2]}\n" for n in range(200)
)


@pytest.mark.parametrize(
    ("name", "content", "advice", "option"),
    [
        (
            "q.tsv",
            QUOTED.encode(),
            "75% of the rows of q.tsv have another number of columns; check --quoting, --escape",
            ("--quoting", "on"),
        ),
        (
            "m.tsv",
            MULTILINE.encode(),
            "have another number of columns; check --quoting, --escape and --trim, because values",
            ("--quoting", "on"),
        ),
        (
            "l.csv",
            ACCENTS.encode("cp1252"),
            "75% of the rows of l.csv are not UTF-8; with --encoding cp1252 all 200 rows can be"
            " read",
            ("--encoding", "cp1252"),
        ),
        (
            "l.csv",
            ACCENTS.replace("é", "\x81").encode("latin-1"),
            "are not UTF-8; with --encoding latin-1 all 200 rows can be read",
            ("--encoding", "latin-1"),
        ),
        (
            "s.csv",
            COMMAS.encode(),
            "100% of the rows of s.csv have another number of columns; with --delimiter ';' all"
            " 200 rows can be read",
            ("--delimiter", ";"),
        ),
    ],
)
def test_a_run_with_too_many_rejects_names_the_option_that_reads_them(
    name, content, advice, option, tmp_path, capsys
):
    (tmp_path / name).write_bytes(content)
    given = ("--input", tmp_path / name)
    assert run("table", *given, "--output", tmp_path / "out") == 1
    assert advice in capsys.readouterr().err
    found = rows_of(tmp_path / "good", *given, *option)
    assert found == {"written": 200, "rejected": 0}


def test_no_encoding_is_advised_for_rows_in_several_encodings(tmp_path, capsys):
    rows = [row.encode("cp1252" if n % 5 else "utf-8") for n, row in enumerate(ACCENTS.split("\n"))]
    (tmp_path / "t.csv").write_bytes(b"\n".join(rows))
    assert run("table", "--input", tmp_path / "t.csv", "--output", tmp_path / "out") == 1
    assert "convert these rows to UTF-8\n" in capsys.readouterr().err


def test_few_rows_that_are_not_utf_8_are_to_be_converted(tmp_path):
    lines = enumerate(ACCENTS.split("\n"))
    rows = [row.encode("cp1252" if n in (6, 7) else "utf-8") for n, row in lines]
    (tmp_path / "t.csv").write_bytes(b"\n".join(rows))
    given = ("--input", tmp_path / "t.csv", "--max-reject-fraction", "0.1")
    assert rows_of(tmp_path / "out", *given) == {"written": 198, "rejected": 2}
    text = (tmp_path / "out" / "rejects.jsonl").read_text()
    assert text.count("not UTF-8, but other rows of the file are: convert this row to UTF-8") == 2


@pytest.mark.parametrize("lines", [ACCENTS, "text,label\nno accent,a\n" * 3 + "größer als,b\n" * 3])
def test_utf_8_that_is_read_as_an_encoding_of_one_byte_is_an_error(lines, tmp_path, capsys):
    (tmp_path / "t.csv").write_text(lines)
    given = ("--input", tmp_path / "t.csv", "--output", tmp_path / "out")
    assert run("text", *given, "--encoding", "cp1252") == 2
    assert (
        "t.csv are UTF-8, and would be read as other characters: leave the"
        in capsys.readouterr().err
    )


def test_rejects_that_no_option_reads_get_no_advice(tmp_path, capsys):
    text = "a,b\n" + "1,2\n" * 50 + "1,2,3\n" * 50
    (tmp_path / "t.csv").write_text(text)
    assert run("table", "--input", tmp_path / "t.csv", "--output", tmp_path / "out") == 1
    assert "or raise --max-reject-fraction\n" in capsys.readouterr().err


def test_a_listing_with_too_many_rejects_names_the_option_that_reads_them(photos, tmp_path, capsys):
    place = listing(photos, "accents.csv", "path,label\n{path},{label}é", "cp1252")
    place.write_bytes(place.read_bytes().replace(b"bee\xe9", b"bee"))
    assert run("images", "--input", place, "--output", tmp_path / "out") == 1
    assert "with --encoding cp1252 all 12 rows can be read" in capsys.readouterr().err


def test_names_in_quotes_are_an_error_that_names_quoting(tmp_path, capsys):
    (tmp_path / "t.tsv").write_text('"id"\t"label"\n' + '"1"\t"a"\n' * 9)
    given = ("--input", tmp_path / "t.tsv")
    assert run("table", *given, "--output", tmp_path / "out") == 2
    assert 'all names are in quotes, such as "id": if quotes enclose' in capsys.readouterr().err
    assert rows_of(tmp_path / "out", *given, "--quoting", "on")["written"] == 9


@pytest.mark.parametrize(
    ("column", "kind", "value", "row"),
    [
        ([*range(16), "hello"], "float", "hello", 17),
        ([*range(20), 2**63, 2**63 - 1], "int", str(2**63), 21),
        ([*range(990, 999), '"1,234"', *range(9)], "float", "1,234", 10),
        ([*range(12), "Ja", "nein"], "float", "Ja", 13),
        ([*range(96), *"----"], "float", "-", 97),
        ([*range(95), "NA", "N/A", "--", "-", "?"], "float", "NA", 96),
        ([*range(19), "19\t"], "float", "19\\t", 20),
        ([*range(10, 19), "\u22125.5"], "float", "\u22125.5", 10),
        ([*range(10, 20), "(20)", "7-"], "float", "(20)", 11),
        (["2020-01-01"] * 9 + ["01/02/2020"], "date", "01/02/2020", 10),
        (["2024-10-10", *["2024-1-1 10:00"] * 9], "timestamp", "2024-1-1 10:00", 2),
        (["2026-01-31 00:00:00"] * 9 + ["2026-01-31 00:00Z"], "timestamp", "2026-01-31 00:00Z", 10),
    ],
)
def test_a_note_names_the_value_that_makes_a_column_text(column, kind, value, row, tmp_path):
    rows = [("x", "name"), *((value, f"n{n}") for n, value in enumerate(column))]
    source = table(tmp_path / "t.csv", rows)
    assert rows_of(tmp_path / "out", "--input", source)["written"] == len(column)
    between = "=" if value.startswith("-") else " "
    first = f"--missing{between}{shlex.quote(value)} takes this value as a missing one, "
    if any(map(str.isdigit, value)):
        first = "--trim removes the spaces around values, " if value.endswith("\\t") else ""
    assert text_notes(tmp_path) == [
        f"column 'x' is text because of '{value}' in t.csv#{row};"
        f" {first}--types x={kind} rejects rows"
        " that do not fit, --types x=string keeps the text"
    ]
    rejecting = rows_of(
        tmp_path / "typed",
        *("--input", source, "--types", f"x={kind}", "--max-reject-fraction", "1"),
    )
    assert 0 < rejecting["rejected"] < len(column)
    if first.startswith("--missing"):
        option = shlex.split(first.partition(" takes")[0])
        given = rows_of(tmp_path / "missing", "--input", source, *option)
        assert given["written"] == len(column)


def text_notes(folder):
    manifest = Made(folder / "out").manifest
    return [str(one) for one in manifest.notes if one.code == "text-column"]


@pytest.mark.parametrize(
    "column",
    [
        [f"{n}%" for n in range(20)],
        [f'"{n},5"' for n in range(20)],
        ["hPa", *(f'"1,0{n}.5"' for n in range(10, 30))],
        [f"1\u202f{n}.5" for n in range(100, 120)],
        [f'"€{n},000"' for n in range(9)],
        [f"{n}.5 °C" for n in range(20)],
        [*(f"{n}V" for n in range(19)), "off"],
        [f" {n}" for n in range(20)],
        [f"{n}.12.2025" for n in range(10, 20)],
        [f"{n + 1} {['Jan', 'May'][n % 2]} 2024" for n in range(28)],
        ["2026-01-31T00:00+01:00"] * 9,
    ],
)
def test_a_note_names_the_first_of_numbers_and_dates_in_another_notation(column, tmp_path):
    source = table(tmp_path / "t.csv", [("x",), *((value,) for value in column)])
    assert rows_of(tmp_path / "out", "--input", source)["written"] == len(column)
    (note,) = text_notes(tmp_path)
    first = next(one for one in column if any(map(str.isdigit, str(one)))).strip('"')
    advice = "correct the input if the column holds numbers, dates or lists"
    if first.endswith(".12.2025"):
        advice = "--time-format x=%d.%m.%Y reads its values"
    if first == " 0":
        advice = "--trim removes the spaces around values"
    assert note == (
        f"column 'x' is text because of {first!r} in t.csv#{1 + ('hPa' in column)}; {advice};"
        " --types x=string keeps the text, without this note"
    )


@pytest.mark.parametrize(
    "column",
    [
        [f"{n}{'ABCDE'[n % 5]}" for n in range(20)],
        [f"10.0.10.{n}" for n in range(20)],
        [f"555-{n:04}" for n in range(20)],
        ["007"] * 20,
        ["2020-01-01"] * 20,
        [*range(5), *"abcdefghi"],
    ],
)
def test_codes_words_and_dates_get_no_note(column, tmp_path):
    source = table(tmp_path / "t.csv", [("x",), *((value,) for value in column)])
    assert rows_of(tmp_path / "out", "--input", source)["written"] == len(column)
    assert text_notes(tmp_path) == []


def test_a_note_names_the_texts_among_numbers_of_json_lines(tmp_path):
    values = [*range(12), '"ERR"', '"ERR"', '"no data"']
    (tmp_path / "t.jsonl").write_text("".join(f'{{"v":{value}}}\n' for value in values))
    assert rows_of(tmp_path / "out", "--input", tmp_path / "t.jsonl")["written"] == 15
    (note,) = text_notes(tmp_path)
    assert note.startswith(
        "column 'v' is text because of 'ERR' in t.jsonl#13; --missing ERR takes this value as a"
        " missing one, --types v=float"
    )


def test_numbers_that_json_lines_quote_in_some_rows_are_noted(tmp_path):
    lines = [f'{{"v":{n if n % 3 else chr(34) + str(n) + chr(34)}}}' for n in range(1, 20)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    given = ("--input", tmp_path / "t.jsonl")
    assert rows_of(tmp_path / "out", *given)["written"] == 19
    (note,) = text_notes(tmp_path)
    assert note.startswith("column 'v' is text because of '3' in t.jsonl#3; --types v=float")
    assert rows_of(tmp_path / "typed", *given, "--types", "v=int") == {"written": 19, "rejected": 0}
    assert not Made(tmp_path / "typed").manifest.notes


def test_missing_values_of_json_lines_do_not_make_a_column_text(tmp_path):
    lines = [f'{{"id":{n},"v":{n}.5,"w":{n},"label":"a"}}' for n in range(20)]
    lines[1] = '{"id":1,"v":"n/a","w":"?","label":"a"}'
    lines[2] = '{"id":2,"v":2.5,"w":"n/a","label":"n/a"}'
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "b.jsonl").write_text('{"id":20,"v":"n/a","w":"?","label":"b"}\n')
    given = ("--input", tmp_path / "*.jsonl", "--missing", "n/a", "--missing", "w=?")
    given = (*given, "--max-reject-fraction", 1)
    assert rows_of(tmp_path / "out", *given) == {"written": 20, "rejected": 1}
    made = Made(tmp_path / "out")
    assert made.rejects == {"a.jsonl#3": "unlabelled"}
    assert not [note for note in made.manifest.notes if note.code == "text-column"]
    features = json.loads((made.folder / "dataset.json").read_text())["features"]
    assert {name: features[name]["dtype"] for name in "vw"} == {"v": "float32", "w": "int64"}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_rows_that_repeat_the_header_are_rejected(encoding, tmp_path):
    part = "höhe,label\r\n" + "".join(f"{n},{'ab'[n % 2]}\r\n" for n in range(50))
    source = tmp_path / "t.csv"
    source.write_text(part * 2, encoding=encoding, newline="")
    given = ("--input", source, "--encoding", encoding, "--splits", "train=1")
    assert rows_of(tmp_path / "out", *given) == {"written": 100, "rejected": 1}
    made = Made(tmp_path / "out")
    assert made.rejects == {"t.csv#51": "bad_value"}
    assert "row 51: equal to the header" in (made.folder / "rejects.jsonl").read_text()
    assert made.manifest.labels == ("a", "b")
    assert not [note for note in made.manifest.notes if note.code == "text-column"]


@pytest.mark.parametrize(
    "header", ["\ufeffsize,label", "Size,LABEL", " size , label", '"size","label"', "size,label,,"]
)
def test_headers_of_joined_files_may_be_spelt_differently(header, tmp_path):
    rows = "".join(f"{n},{'ab'[n % 2]}\n" for n in range(20))
    text = f"size,label\n{rows}{header}\n{rows}size,label of b\n"
    (tmp_path / "t.csv").write_text(text.replace("\n0,a", "\n\ufeff0,a"))
    given = ("--input", tmp_path / "t.csv", "--splits", "train=1", "--types", "size=string")
    given = (*given, "--max-reject-fraction", "1")
    assert rows_of(tmp_path / "out", *given) == {"written": 41, "rejected": 1}
    made = Made(tmp_path / "out")
    assert made.rejects == {"t.csv#21": "bad_value"}
    assert made.manifest.labels == ("a", "b", "label of b")
    found = [example["size"][0].decode() for example in made.examples("train").values()]
    assert {*found} == {"size", *map(str, range(20))}


def test_a_row_that_is_equal_to_names_that_are_numbers_is_data(tmp_path):
    source = table(tmp_path / "t.csv", [(0, 1, 2), *((n, 1, 2) for n in range(9))])
    given = ("--input", source, "--header", "yes", "--splits", "train=1")
    assert rows_of(tmp_path / "out", *given) == {"written": 9, "rejected": 0}


def test_a_note_names_the_json_values_that_make_a_column_text(tmp_path):
    rows = [{"i": n, "n": n, "v": [n, 1], "s": n if n % 2 else "a"} for n in range(40)]
    rows[6] |= {"i": "n/a"}
    rows[8] |= {"n": -(2**63) - 1}
    rows[9] |= {"v": "none"}
    source = tmp_path / "t.jsonl"
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert rows_of(tmp_path / "out", "--input", source)["written"] == 40
    assert [note.partition(" rejects")[0].partition(" if")[0] for note in text_notes(tmp_path)] == [
        "column 'i' is text because of 'n/a' in t.jsonl#7; --missing n/a takes this value as a"
        " missing one, --types i=float",
        "column 'n' is text because of '-9223372036854775809' in t.jsonl#9; --types n=int",
        "column 'v' is text because of 'none' in t.jsonl#10; correct the input",
    ]


def test_a_line_for_excel_is_an_error_that_names_the_delimiter(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("sep=;\r\nx;label\r\n" + "1;a\r\n" * 9, newline="")
    assert run("table", "--input", tmp_path / "t.csv", "--output", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert (
        "begins with a line for Excel, 'sep=;': remove this line, and pass --delimiter ';'" in error
    )


def test_types_reject_the_value_that_makes_a_column_text_or_keep_it_without_a_note(tmp_path):
    rows = [("x", "y"), *((n, n) for n in range(200)), ("hello", 1)]
    given = ("--input", table(tmp_path / "t.csv", rows))
    rejecting = rows_of(tmp_path / "a", *given, "--types", "x=float")
    assert rejecting == {"written": 200, "rejected": 1}
    keeping = rows_of(tmp_path / "b", *given, "--types", "x=string")
    assert keeping == {"written": 201, "rejected": 0}
    for folder in ("a", "b"):
        notes = Made(tmp_path / folder).manifest.notes
        assert not [one for one in notes if one.code == "text-column"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[{"text": "a", "path": "b"}, {"text": "c", "path": "d"}]', "one JSON array, not one"),
        ('\n[\n {"text": "a", "path": "b"},\n {"text": "c", "path": "d"}\n]', "one JSON array"),
        ('{\n "text": "a",\n "path": "b"\n}', "a JSON object over several lines, not one"),
    ],
)
def test_a_json_document_is_no_json_lines(text, found, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.jsonl").write_text('{"text": "a", "path": "b"}\n')
    (tmp_path / "in" / "2.jsonl").write_text(text)
    (tmp_path / "in.json").write_text(text)
    for command in ("table", "text", "images"):
        for given in (
            ("--input", tmp_path / "in" / "2.jsonl"),
            ("--input", tmp_path / "in" / "*.jsonl"),
            ("--input", tmp_path / "in.json", "--format", "jsonl"),
        ):
            if command != "images" or (given[1].suffix == ".jsonl" and given[1].stem == "2"):
                assert run(command, *given, "--output", tmp_path / "out") == 2
                assert f" holds {found}" in capsys.readouterr().err
    assert run("table", "--input", tmp_path / "in.json", "--output", tmp_path / "out") == 2
    assert f"in.json is {found.partition(',')[0]}" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["table", "text", "images"])
def test_all_columns_of_unsupported_types_are_named_at_once(command, tmp_path, capsys):
    columns = {
        "path": ["a", "b"],
        "x": [1, 2],
        "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
        "struct": [[{"q": 1}], []],
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    given = ("--input", tmp_path / "a.parquet", "--output", tmp_path / "out")
    more = ("--text-column", "path") if command == "text" else ()
    assert run(command, *given, *more) == 2
    said = capsys.readouterr().err
    # Arrow shows the name of a map's entries, which it does not send to other processes.
    assert "the types of 2 columns are not supported: 'map' (map<string, int64" in said
    assert "'struct' (list<" in said
    assert said.rstrip().endswith("or drop them with --drop-columns map,struct")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "text,label\rone,a\rtwo,b\r"),
        ("a.tsv", "text\tlabel\rone\ta\rtwo\tb"),
        ("a.jsonl", '{"text": "one"}\r{"text": "two"}\r'),
        ("a.txt", "one\rtwo\r"),
    ],
)
def test_lines_may_end_with_carriage_returns(name, text, tmp_path):
    (tmp_path / name).write_bytes(text.encode())
    argv = ("--input", tmp_path / name, "--output", tmp_path / "out", "--splits", "train=1")
    assert run("text", *argv) == 0
    assert Made(tmp_path / "out").manifest.ledger.records.written == 2


def test_a_row_that_holds_carriage_returns_is_named(tmp_path, capsys):
    (tmp_path / "a.csv").write_bytes(b"x,y\n1,2\r2,3\n4,5\n")
    argv = ("--input", tmp_path / "a.csv", "--output", tmp_path / "out", "--dry-run")
    assert main(["table", *map(str, argv)]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "row 1: expected 2 columns, got 3; it holds carriage returns, which" in said


def test_files_that_lack_a_dropped_column(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "2023.csv").write_text("id,x\n1,1.5\n2,2.5\n")
    (tmp_path / "in" / "2024.csv").write_text("note,x,id\nn,3.5,3\n")
    argv = ("--input", tmp_path / "in", "--splits", "train=1")
    assert run("table", *argv, "--output", tmp_path / "out") == 2
    assert (
        "2023.csv has no column 'note', but 2024.csv has it: 2023.csv has 'id', 'x'; give all files"
        " the same columns, or pass --drop-columns note, which leaves it out of all records\n"
    ) in capsys.readouterr().err
    made = rows_of(tmp_path / "out", *argv, "--drop-columns", "note")
    assert made == {"written": 3, "rejected": 0}
    examples = Made(tmp_path / "out").examples().values()
    assert sorted(one["x"][0] for one in examples) == [1.5, 2.5, 3.5]


def test_a_delimiter_of_several_files_is_named(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "2023.csv").write_text("id;x\n1;1,5\n2;2,5\n")
    (tmp_path / "in" / "2024.csv").write_text("x;id\n3,5;3\n")
    assert run("table", "--input", tmp_path / "in", "--output", tmp_path / "out") == 2
    assert "2023.csv has one column, 'id;x': if it holds several, pass --delimiter ';'" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("line", ["7,8", "7,8,9\n", "good,morning\n"])
def test_a_table_of_one_line_is_not_lost(line, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,x\n1,2\n2,3\n")
    (tmp_path / "in" / "b.csv").write_text(line)
    argv = ["table", "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
    assert main(argv) == 2
    assert "b.csv" in capsys.readouterr().err
    (tmp_path / "in" / "b.csv").write_text("id,x\n")
    assert main([*argv, "--splits", "train=1"]) == 0


def test_tables_of_one_line_each_may_have_no_header(tmp_path, capsys):
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text(f"{number},8\n")
    argv = ["table", "--input", f"{tmp_path}/*.csv", "--output", str(tmp_path / "out")]
    assert main(argv) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "the only row of 0.csv was read as its header" in error
    assert "--columns" in error
    assert main([*argv, "--columns", "id,x", "--splits", "train=1"]) == 0
