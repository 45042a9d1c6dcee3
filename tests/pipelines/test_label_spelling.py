"""One spelling of each label in every format, and labels that look alike."""

import json
import pathlib

import fastavro
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from tests.archive_files import tar_of
from tests.folders import make_folder, make_picture
from tests.image_runs import make
from tests.labelled import OPTIONS, write_labelled
from tests.tfrecord_inputs import example, write_records

pytestmark = pytest.mark.usefixtures("encoders")


def test_characters_that_cannot_be_seen_are_named(tmp_path):
    labels = ["cat", "cat\u200b", "dog", "dog\u00a0", "\u202adog\u202c"]
    rows = [f"hello world {n},{labels[n % 5]}" for n in range(20)]
    (tmp_path / "z.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    given = ("--input", tmp_path / "z.csv", "--splits", "train=1")
    made = make(tmp_path / "out", *given, command="text")
    alike, hidden = [str(one) for one in made.manifest.notes if one.code == "labels-alike"]
    assert alike.startswith("5 classes become 2 if case, surrounding spaces, Unicode form and")
    assert hidden == (
        "2 of 5 names hold invisible characters: 'cat\\u200b' (U+200B zero width space);"
        " '\\u202adog\\u202c' (U+202A left-to-right embedding, U+202C pop directional formatting);"
        " --fold-labels removes them"
    )
    folded = make(tmp_path / "folded", *given, "--fold-labels", command="text").manifest
    assert folded.labels == ("cat", "dog")
    assert not [one for one in folded.notes if one.code == "labels-alike"]


NUMBERS = {"whole": [1.0, 2.0, 10.0, 12.0], "decimal": [0.1, 1.0, 2.5, 10.0]}
CLASSES = {
    "whole": ("1", "2", "10", "12"),
    "decimal": ("0.1", "1", "2.5", "10"),
    "bool": ("false", "true"),
}
ROWS = 8


def values_of(kind: str) -> list[float] | list[bool]:
    values = NUMBERS.get(kind, [True, False])
    return [values[-1 - n % len(values)] for n in range(ROWS)]


def write_rows(path: pathlib.Path, kind: str) -> pathlib.Path:
    """A table of rows whose labels have the type of their format, or are texts."""
    labels = values_of(kind)
    form = path.suffix.removeprefix(".")
    arrow = pa.float32() if form == "arrow" and kind != "bool" else None  # others have 64 bits
    table = pa.table({"x": [n + 0.5 for n in range(ROWS)], "label": pa.array(labels, arrow)})
    rows = table.to_pylist()
    if form in ("csv", "tsv"):
        between = "," if form == "csv" else "\t"
        lines = [between.join(("x", "label")), *(f"{r['x']}{between}{r['label']}" for r in rows)]
        path.write_text("\n".join(lines) + "\n")
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif form == "parquet":
        pq.write_table(table, path)
    elif form == "arrow":
        pyarrow.feather.write_feather(table, path)
    elif form == "avro":
        label = {"name": "label", "type": "boolean" if kind == "bool" else "double"}
        fields = [{"name": "x", "type": "double"}, label]
        schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
        with path.open("wb") as sink:
            fastavro.writer(sink, schema, rows)
    else:
        write_records(path, [example({"x": [r["x"]], "label": [r["label"]]}) for r in rows])
    return path


FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "avro", "tfrecord")


@pytest.mark.parametrize(
    ("form", "kind"),
    [(f, k) for f in FORMATS for k in CLASSES if (f, k) != ("tfrecord", "bool")],  # it has no bools
)
def test_labels_of_rows_have_one_spelling_in_every_format(form, kind, tmp_path):
    source = write_rows(tmp_path / f"rows.{form}", kind)
    given = ("--input", source, "--splits", "train=1", "--label-type", "class")
    made = make(tmp_path / "out", *given, command="table").manifest
    assert made.labels == CLASSES[kind]
    assert sum(made.splits["train"].classes.values()) == ROWS
    assert not [one for one in made.notes if one.code == "labels-alike"]


@pytest.mark.parametrize("command", ["text", "table", "sensor", "images"])
@pytest.mark.parametrize("kind", ["whole", "bool"])
def test_columns_of_text_have_the_labels_of_their_values(command, kind, tmp_path):
    """Documents, rows, windows, and the files of a listing."""
    labels = [str(one) for one in values_of(kind)]
    if command == "images":
        make_folder(tmp_path / "photos", {"any": ROWS})
        rows = [f"photos/any/{n:03}.jpg,{label}" for n, label in enumerate(labels)]
        (tmp_path / "rows.csv").write_text("\n".join(["path,label", *rows]))
        source = tmp_path / "rows.csv"
    else:
        source = write_labelled(tmp_path / "in", command, labels)
    given = ("--input", source, "--splits", "train=1", *OPTIONS[command])
    made = make(tmp_path / "out", *given, command=command).manifest
    assert made.labels == CLASSES[kind], "without --label-type, because these are whole numbers"


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
@pytest.mark.parametrize("kind", CLASSES)
def test_labels_of_arrays_have_the_same_spelling(suffix, kind, tmp_path):
    arrays = {"x": np.arange(ROWS * 3).reshape(ROWS, 3), "y": np.array(values_of(kind))}
    path = tmp_path / f"a{suffix}"
    if suffix == ".npz":
        np.savez(path, **arrays)
    else:
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
    given = ("--input", path, "--array", "x", "--label-array", "y", "--per-item", "--splits")
    options = ("train=1", "--label-type", "class")
    assert (
        make(tmp_path / "out", *given, *options, command="arrays").manifest.labels
        == (CLASSES[kind])
    )


@pytest.mark.parametrize("kind", ["whole", "bool"])
def test_fields_of_json_in_archives_have_the_same_spelling(kind, tmp_path):
    files = {}
    for n, label in enumerate(values_of(kind)):
        make_picture(tmp_path / "one.png", n)
        files[f"{n}.png"] = (tmp_path / "one.png").read_bytes()
        files[f"{n}.json"] = json.dumps({"label": label}).encode()
    tar_of(tmp_path / "a.tar", files)
    given = ("--input", tmp_path / "a.tar", "--label-from", ".json:label", "--splits", "train=1")
    assert make(tmp_path / "out", *given).manifest.labels == CLASSES[kind]


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("kind", ["whole", "bool"])
def test_intervals_have_the_same_spelling(form, kind, tmp_path):
    times = [f"2026-01-01T00:00:{n:02}" for n in range(ROWS)]
    (tmp_path / "rows.csv").write_text(
        "\n".join(["time,x", *(f"{time},{n}.5" for n, time in enumerate(times))])
    )
    found = [
        {"series": "rows.csv", "start": time, "end": time, "label": label}
        for time, label in zip(times, values_of(kind), strict=True)
    ]
    path = tmp_path / f"intervals.{form}"
    if form == "json":
        path.write_text(json.dumps(found))
    else:
        lines = [",".join(found[0]), *(",".join(map(str, one.values())) for one in found)]
        path.write_text("\n".join(lines))
    given = ("--input", tmp_path / "rows.csv", "--time-column", "time", "--window", 1)
    options = ("--intervals", path, "--splits", "train=1")
    assert (
        make(tmp_path / "out", *given, *options, command="sensor").manifest.labels
        == (CLASSES[kind])
    )


def test_classes_of_boxes_in_tables_have_the_same_spelling(tmp_path):
    make_folder(tmp_path / "photos", {"a": 4})
    rows = [f"a/{n:03}.jpg,{label},1,1,9,9" for n, label in enumerate(NUMBERS["whole"])]
    boxes = tmp_path / "boxes.csv"
    boxes.write_text("\n".join(["filename,class,xmin,ymin,xmax,ymax", *rows]))
    given = ("--input", tmp_path / "photos", "--annotations", boxes, "--splits", "train=1")
    assert make(tmp_path / "out", *given).manifest.labels == CLASSES["whole"]


@pytest.mark.parametrize(
    ("texts", "labels", "alike"),
    [
        (["1.1", "1.10", "2.0"], ("1.1", "1.10", "2.0"), "'1.1' and '1.10'"),
        (["007", "7", "8"], ("007", "7", "8"), "'7' and '007'"),
        (["007", "010"], ("007", "010"), None),
        (["1", "1.0"], ("1", "1.0"), "'1' and '1.0'"),
        (["1.0", "2.0", "x"], ("1.0", "2.0", "x"), None),
        (["True", "true", "False"], ("False", "True", "true"), "'True' and 'true'"),
        (["1.000e+00", "2.000e+00", "1.0e+01"], ("1", "2", "10"), None),
        (["1.0", "2.0", "nan"], ("1", "2", "nan"), None),
        (["+1", "2"], ("1", "2"), None),
        (["9007199254740993.0", "1.0"], ("1", "9007199254740993.0"), None),
    ],
)
@pytest.mark.parametrize("command", ["text", "table"])
def test_texts_that_would_become_one_label_stay(command, texts, labels, alike, tmp_path):
    source = write_labelled(tmp_path / "in", command, [texts[n % len(texts)] for n in range(12)])
    given = ("--input", source, "--splits", "train=1", "--label-type", "class", *OPTIONS[command])
    made = make(tmp_path / "out", *given, command=command).manifest
    assert made.labels == labels
    notes = [str(one) for one in made.notes if one.code == "labels-alike"]
    assert len(notes) == (alike is not None)
    assert (alike or "") in "".join(notes)


def test_texts_of_several_files_and_listings_are_one_column(tmp_path):
    for name, label in (("a.csv", "1.1"), ("b.csv", "1.10")):
        (tmp_path / name).write_text(f"x,label,path\n0.5,{label},{name[0]}.png\n")
        make_picture(tmp_path / f"{name[0]}.png", ord(name[0]))
    given = ("--splits", "train=1", "--label-type", "class")
    rows = ("--input", tmp_path / "*.csv", "--drop-columns", "path")
    assert make(tmp_path / "rows", *rows, *given, command="table").manifest.labels == (
        ("1.1", "1.10")
    )
    listings = ("--input", tmp_path / "a.csv", "--input", tmp_path / "b.csv")
    assert make(tmp_path / "files", *listings, *given).manifest.labels == ("1.1", "1.10")


def test_several_labels_of_a_text_have_the_same_spelling(tmp_path):
    (tmp_path / "rows.csv").write_text("x,label\n0.5,1.0|10.0\n1.5,2.0\n2.5,10.0|1.0\n")
    given = ("--input", tmp_path / "rows.csv", "--label-separator", "|", "--splits", "train=1")
    made = make(tmp_path / "out", *given, command="table")
    assert made.manifest.labels == ("1", "2", "10")
    assert sorted(row["labels"] for row in made.index("train")) == [["1", "10"]] * 2 + [["2"]]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_missing_labels_match_by_their_value(form, tmp_path):
    write_rows(tmp_path / f"rows.{form}", "whole")
    given = ("--input", tmp_path / f"rows.{form}", "--splits", "train=1", "--unlabelled", "keep")
    made = make(tmp_path / "out", *given, "--missing", "label=12.00", command="table").manifest
    assert made.labels == ("1", "2", "10")


def test_declared_text_stays(tmp_path):
    texts = pa.table({"x": [0.5, 1.5, 2.5], "label": ["10.0", "2.0", "1.0"]})
    pq.write_table(texts, tmp_path / "rows.parquet")
    given = ("--input", tmp_path / "rows.parquet", "--splits", "train=1")
    made = make(tmp_path / "out", *given, "--label-type", "class", command="table").manifest
    assert made.labels == ("1.0", "2.0", "10.0")
    rows = write_rows(tmp_path / "rows.csv", "whole")
    given = ("--input", rows, "--splits", "train=1", "--types", "label=string")
    made = make(tmp_path / "csv", *given, "--label-type", "class", command="table").manifest
    assert made.labels == ("1.0", "2.0", "10.0", "12.0")


@pytest.mark.parametrize(
    ("names", "advice"),
    [
        (("fir", "fir.", "oak"), "'fir' and 'fir.'; --label-map fir.=fir joins two of them"),
        (("<=50K", "<=50K.", ">50K", ">50K."), "lines such as <=50K.,<=50K in the file"),
        (("1", "1.", "2"), None),
        (("fir.", "oak."), None),
    ],
)
def test_a_note_on_classes_with_a_full_stop_at_the_end(names, advice, tmp_path):
    rows = [f"{n},{names[n % len(names)]}" for n in range(12)]
    (tmp_path / "a.csv").write_text("\n".join(["x,label", *rows]))
    given = ("--input", tmp_path / "a.csv", "--splits", "train=1", "--label-type", "class")
    made = make(tmp_path / "out", *given, command="table")
    notes = [str(one) for one in made.manifest.notes if "full stop" in str(one)]
    assert len(notes) == (advice is not None)
    assert advice is None or advice in notes[0]
