"""Files whose content does not match their names or options are identified in messages."""

import gzip
import io
import zipfile

import h5py
import numpy as np
import pytest

from tests.folders import make_folder
from tests.image_runs import make, run
from tests.pipelines.test_helpful_errors import details

pytestmark = pytest.mark.usefixtures("encoders")

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 9\n"
HTML = b"<!DOCTYPE html>\n<html><body>404</body></html>\n"
POINTER = "is a Git LFS pointer instead of the file itself: run git lfs pull"
PAGE = "is an HTML page, such as an error page of a server: download the file again"


def workbook() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for name in ("[Content_Types].xml", "xl/workbook.xml"):
            file.writestr(name, "x")
    return data.getvalue()


ROWS = [
    ("a.csv", LFS, POINTER),
    ("a.jsonl", LFS, POINTER),
    ("a.parquet", LFS, POINTER),
    ("a.arrow", LFS, POINTER),
    ("a.avro", LFS, POINTER),
    ("a.tfrecord", LFS, POINTER),
    ("a.csv.gz", LFS, POINTER),
    ("a.csv", HTML, PAGE),
    ("a.jsonl", HTML, PAGE),
    ("a.parquet", HTML, PAGE),
    ("a.csv", gzip.compress(b"x,label\n1,a\n2,b\n"), "is gzip-compressed data: decompress it"),
    ("a.jsonl", gzip.compress(b'{"x": 1}\n' * 9), "is gzip-compressed data: decompress it"),
    ("a.xlsx", workbook(), "is an Excel workbook: export it as CSV or Parquet"),
    ("a.csv", workbook(), "is an Excel workbook: export it as CSV or Parquet"),
    ("a.arff", b"% iris\n@relation iris\n@data\n1,a\n", "is an ARFF file: export it as CSV"),
    ("a.csv", b"@RELATION iris\n@attribute x numeric\n@data\n1\n", "is an ARFF file: export it"),
    ("a.csv.gz", b"x,label\n1,a\n2,b\n", "is not gzip-compressed data: name it without .gz"),
    ("a.jsonl.bz2", b'{"x": 1}\n' * 9, "is not bzip2-compressed data: name it without .bz2"),
    ("a.tsv.zst", b"x\tlabel\n1\ta\n", "is not zstd-compressed data: name it without .zst"),
    ("a.csv.gz", bytes(range(99)), "is not gzip-compressed data\n"),
]
IN_LINES = "write each record into a line of its own, for example by jq -c"
FROM_PANDAS = (
    "one JSON object with all rows, as DataFrame.to_json writes it{}: write it with to_json(FILE,"
    " orient='records', lines=True)"
)
JSON = {
    '[{"text": "x", "label": "a"}]': f"one JSON array{{}}: {IN_LINES} '.[]' FILE > FILE.jsonl",
    '[["x", "a"], ["y", "b"]]': "one JSON array of arrays{}: write it as CSV, for example by jq -r"
    " '.[] | @csv' FILE > FILE.csv",
    '{\n "data": [\n  {"text": "x"}\n ]\n}\n': "one JSON object with all records{}:"
    f" {IN_LINES} '.data[]'",
    '{"data": [\n{"text": "x"},\n{"text": "y"}]}': "one JSON object with all records{}:"
    f" {IN_LINES} '.data[]'",
    '{\n "n": 2, "e": {}, "all": {"my rows": [\n{"text": "x"}]}}': "one JSON object with all"
    f" records{{}}: {IN_LINES} '.all[\"my rows\"][]'",
    '{\n "my rows": [{"text": "' + "x" * 99_999: "one JSON object with all records{}:"
    f" {IN_LINES} '.[\"my rows\"][]'",
    '{\n "text": "x"\n}\n{\n "text": "y"\n}': "a JSON object over several lines{}:"
    f" {IN_LINES} . FILE",
    '{"text": {"0": "x", "1": "y"}, "label": {"0": "a", "1": "b"}}': FROM_PANDAS,
    '{\n  "text": {\n    "0": "x",\n    "1": "y"\n  }\n}': FROM_PANDAS,
}
JSON_ROWS = {
    '{"text": "x", "label": "a"}\n{"text": "y", "label": "b"}\n': "a file of JSON lines: pass"
    " --format jsonl",
    '{"error": "not found"}\n': "one JSON object, such as an error response of a server: pass"
    " --format jsonl if it is a row",
    '{"data": [{"text": "x"}]}\n': f"one JSON object with all records: {IN_LINES} '.data[]'",
    '{"text": "' + "x" * 99_999: "JSON: pass --format jsonl if it has one JSON object per line",
}


@pytest.mark.parametrize(("name", "content", "said"), ROWS, ids=range(len(ROWS)))
def test_files_of_rows_with_other_content_are_an_error(name, content, said, tmp_path, capsys):
    (tmp_path / name).write_bytes(content)
    given = ("--input", tmp_path / name, "--output", tmp_path / "out")
    assert run("table", *given) == 2
    assert f"{name} {said}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", JSON, ids=range(len(JSON)))
def test_json_that_is_not_in_lines_is_an_error_with_the_command_that_writes_lines(
    text, tmp_path, capsys
):
    for name in ("a.jsonl", "a.json", "a.csv"):
        (tmp_path / name).write_text(text)
        assert run("text", "--input", tmp_path / name, "--output", tmp_path / "out") == 2
        in_lines = name == "a.jsonl"
        said = JSON[text].format(", not one JSON object per line" if in_lines else "")
        assert f"{name} {'holds' if in_lines else 'is'} {said}" in capsys.readouterr().err


@pytest.mark.parametrize("text", JSON_ROWS, ids=range(len(JSON_ROWS)))
@pytest.mark.parametrize("name", ["a.json", "a.csv", "a.rows"])
def test_rows_of_json_with_another_name_are_an_error_that_names_the_format(
    text, name, tmp_path, capsys
):
    (tmp_path / name).write_text(text)
    assert run("text", "--input", tmp_path / name, "--output", tmp_path / "out") == 2
    assert f"{name} is {JSON_ROWS[text]}" in capsys.readouterr().err


def test_a_listing_that_is_a_pointer_is_an_error(tmp_path, capsys):
    (tmp_path / "list.csv").write_bytes(LFS)
    assert run("images", "--input", tmp_path / "list.csv", "--output", tmp_path / "out") == 2
    assert f"list.csv {POINTER}" in capsys.readouterr().err


def test_lines_of_a_file_that_is_not_text_are_an_error(tmp_path, capsys):
    (tmp_path / "a.txt").write_bytes(LFS)
    assert run("text", "--input", tmp_path / "a.txt", "--output", tmp_path / "out") == 2
    assert f"a.txt {POINTER}" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"BM,label\n1,a\n2,b\n", b"PAR1,label\n1,a\n2,b\n"])
def test_names_of_columns_like_signatures_are_read(content, tmp_path):
    (tmp_path / "a.csv").write_bytes(content)
    made = make(tmp_path / "out", "--input", tmp_path / "a.csv", command="table")
    assert made.manifest.ledger.records.written == 2


def test_arff_is_read_if_its_header_is_skipped(tmp_path):
    (tmp_path / "a.arff").write_text("@relation r\n@attribute x numeric\n@data\n1,a\n2,b\n")
    given = ("--format", "csv", "--skip-rows", 3, "--columns", "x,label")
    made = make(tmp_path / "out", "--input", tmp_path / "a.arff", *given, command="table")
    assert made.manifest.ledger.records.written == 2


@pytest.mark.parametrize("documents", ["file", "line"])
def test_texts_that_are_pointers_are_rejected(documents, tmp_path):
    for label in "ab":
        (tmp_path / "in" / label).mkdir(parents=True)
        for number in range(3):
            (tmp_path / "in" / label / f"{number}.txt").write_text(f"words {label}{number}")
    (tmp_path / "in" / "a" / "9.txt").write_bytes(LFS)
    given = ("--input", tmp_path / "in", "--documents", documents, "--max-reject-fraction", 1)
    make(tmp_path / "out", *given, command="text")
    assert details(tmp_path / "out") == {"a/9.txt": ("bad_value", POINTER.removeprefix("is "))}


def test_images_with_other_content_are_named(tmp_path):
    make_folder(tmp_path / "in", {"ant": 2})
    contents = {
        "1.png": LFS,
        "2.png": b"\xff\x0a\xfa\x1f\x01\x90\0",
        "3.png": gzip.compress(b"x"),
        "4.png": b"%PDF-1.7\n%\xe2\xe3\n",
        "5.png": bytes(999),
    }
    for name, content in contents.items():
        (tmp_path / "in" / "ant" / name).write_bytes(content)
    given = ("--input", tmp_path / "in", "--max-reject-fraction", 1, "--size", 16)
    make(tmp_path / "out", *given)
    found = details(tmp_path / "out")
    assert found["ant/1.png"] == ("not_an_image", POINTER.removeprefix("is "))
    assert found["ant/2.png"] == (
        "unsupported",
        "a JPEG XL image: convert it to JPEG or PNG, for example with djxl",
    )
    assert found["ant/3.png"] == ("not_an_image", "gzip-compressed data: decompress it")
    assert found["ant/4.png"][1].startswith("a PDF: expected one of JPEG, PNG")
    assert found["ant/5.png"][1].startswith("nothing but zero bytes, as after an interrupted copy")


@pytest.mark.parametrize(
    ("command", "name", "content", "said"),
    [
        ("audio", "a.wav", LFS, f"not audio, but {POINTER[3:]}"),
        ("audio", "a.wav", HTML, f"not audio, but {PAGE[3:]}"),
        ("video", "a.mp4", LFS, f"not a video, but {POINTER[3:]}"),
        ("arrays", "a.npy", LFS, f"neither .npy, .npz nor HDF5, but {POINTER[3:]}"),
        (
            "arrays",
            "a.npy",
            gzip.compress(b"x", mtime=0),
            "nor HDF5, but gzip-compressed data: decompress",
        ),
    ],
)
def test_media_with_other_content_are_named(command, name, content, said, tmp_path, capsys):
    (tmp_path / name).write_bytes(content)
    own = {
        "audio": ("--sample-rate", 16000),
        "video": ("--clip-frames", 2, "--size", 16),
        "arrays": (),
    }
    given = ("--input", tmp_path / name, "--output", tmp_path / "out", *own[command])
    assert run(command, *given) != 0
    printed = capsys.readouterr()
    assert said in " ".join((printed.err + printed.out).split())


@pytest.mark.parametrize("name", ["a.json", "boxes/0.txt", "boxes/0.xml"])
def test_annotations_with_other_content_are_named(name, tmp_path, capsys):
    make_folder(tmp_path / "in", {"ant": 1})
    (image,) = (tmp_path / "in" / "ant").iterdir()
    place = tmp_path / name.replace("0.", f"{image.stem}.")
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(LFS)
    (tmp_path / "classes.txt").write_text("ant\n")
    annotations = place if name.endswith("json") else place.parent
    given = ("--input", tmp_path / "in", "--annotations", annotations, "--output", tmp_path / "out")
    assert run("images", *given) != 0
    printed = capsys.readouterr()
    assert f"{place.name} {POINTER}" in " ".join((printed.err + printed.out).split())


def bfloat16_npy(values: np.ndarray, order: str = "<") -> bytes:
    """A file as ml_dtypes makes numpy write it: https://github.com/jax-ml/ml_dtypes."""
    data = io.BytesIO()
    np.save(data, (values.astype("<f4").view("<u4") >> 16).astype(f"{order}u2"))
    return data.getvalue().replace(f"'{order}u2'".encode(), f"'{order}V2'".encode())


@pytest.mark.parametrize("order", "<>")
def test_arrays_of_bfloat16_are_read_as_float32(order, tmp_path):
    values = np.array([[1, -2.5, 0.15625], [np.inf, -0.0, 3e38]], "f4")
    exact = (values.view("u4") & 0xFFFF0000).view("f4")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.npy").write_bytes(bfloat16_npy(values, order))
    given = ("--input", tmp_path / "in", "--splits", "train=1", "--nan", "keep")
    made = make(tmp_path / "out", *given, "--array-format", "raw", command="arrays")
    example = made.examples("train")["a.npy", 0]
    assert made.manifest.features["array/encoded"].raw_dtype == "float32"
    np.testing.assert_array_equal(np.frombuffer(example["array/encoded"][0], "<f4"), exact.ravel())


@pytest.mark.parametrize("descr", ["<V1", "<f1"])
def test_arrays_of_float8_are_named(descr, tmp_path, capsys):
    data = io.BytesIO()
    np.save(data, np.zeros((2, 3), "u1"))
    (tmp_path / "a.npy").write_bytes(data.getvalue().replace(b"|u1", descr.encode()))
    assert run("arrays", "--input", tmp_path / "a.npy", "--output", tmp_path / "out") == 2
    assert (
        "an array of float8, int4 or another one-byte type of ml_dtypes, and the file does not say"
        " which: save it with astype('float32')"
    ) in capsys.readouterr().err


def test_references_of_hdf5_are_named(tmp_path, capsys):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        numbers = file.create_dataset("x", data=np.zeros(3))
        cells = file.create_dataset("cells", (1,), dtype=h5py.ref_dtype)
        cells[0] = numbers.ref
    given = ("--input", tmp_path / "a.h5", "--output", tmp_path / "out", "--array", "cells")
    assert run("arrays", *given) == 2
    assert (
        "its array 'cells' holds references to other arrays, as MATLAB writes cells and structs"
    ) in capsys.readouterr().err
