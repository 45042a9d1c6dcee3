"""The shape of an input is recognised by names and contents, for every data type."""

import pathlib
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recordmill.errors import ConfigError
from recordmill.transforms.sources.arrays.array_splitter import NOT_ARRAYS
from recordmill.transforms.sources.files.input_paths import InputPath, Inputs
from recordmill.transforms.sources.folders.folders import NOT_AUDIO, NOT_IMAGES, NOT_VIDEOS
from recordmill.transforms.sources.media.input_shape import shape_of_media, shape_of_texts
from recordmill.transforms.sources.row_formats.reading.row_format import RowFormat
from tests.tfrecord_inputs import write_records

LEAVE_OUT = {"images": NOT_IMAGES, "audio": NOT_AUDIO, "video": NOT_VIDEOS, "arrays": NOT_ARRAYS}
ENDS = {"images": "png", "audio": "wav", "video": "mp4", "arrays": "npy"}

# {content of a folder: payload}; EXT is the extension of the data type.
FOLDERS = {
    "a/1.EXT b/2.EXT": "self",
    "1.EXT": "self",
    "train/a/1.EXT test/a/2.EXT": "self",
    "1.EXT notes.md": "self",
    "notes.md": "self",
    "": "self",
    "x.tfrecord": "placed",
    "x.tfrecord-00000-of-00002 x.tfrecord-00001-of-00002": "placed",
    "train.tfrec test.record": "placed",
    "a/x.tfrecords b/y.tfrecord.gz": "placed",
    "x.tfrecord README.md": "placed",
    "x.tfrecord 1.EXT": "self",
    "train-00000-of-00002": "placed",
    "x.tfrecord old.zip": "placed",
    "held.parquet": "held",
    "a/held.parquet b/held.parquet": "held",
    "held.parquet README.md": "held",
    "held.parquet _SUCCESS.parquet": "held",
    "held.parquet 1.EXT": "self",
    "held.parquet old.zip": "self",
    "1.EXT list.csv": "self",
    "old.zip": "self",
}
FILES = {
    "1.EXT": "self",
    "x.tfrecord": "placed",
    "held.parquet": "held",
    "named.parquet": "named",
    "list.csv": "named",
    "list.tsv": "named",
    "list.jsonl": "named",
    "list.txt": "named",
    "old.zip": "self",
    "old.tar": "self",
    "unknown": "self",
}
TEXTS = {
    "a/1.txt b/2.txt": "document",
    "LICENSE": "document",
    "1.txt 2.md": "document",
    "1.html": "document",
    "x.csv": "values",
    "x.csv.gz": "values",
    "a/x.jsonl": "values",
    "README.txt x.tsv": "values",
    "x.parquet": "values",
    "x.tfrecord": "values",
    "_hidden.csv 1.txt": "document",
    "texts.zip": "document",
}


def fill(folder: pathlib.Path, names: str) -> pathlib.Path:
    """Write files whose content follows from their names."""
    folder.mkdir(exist_ok=True)
    for name in names.split():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.name.startswith("held") or path.name == "_SUCCESS.parquet":
            image = pa.array([b"\x89PNG\r\n\x1a\n" + b"x" * 40], pa.binary())
            pq.write_table(pa.table({"image": image}), path)
        elif path.suffix == ".parquet":
            pq.write_table(pa.table({"path": ["1.png"]}), path)
        elif "." not in name and "-of-" in name:
            write_records(path, [{"image": [b"x"]}])
        else:
            path.write_bytes(b"path\n1.png\n")
    return folder


@pytest.mark.parametrize("kind", LEAVE_OUT)
@pytest.mark.parametrize(
    ("names", "payload", "alone"),
    [*((*one, False) for one in FOLDERS.items()), *((*one, True) for one in FILES.items())],
)
def test_the_shape_of_files(kind, names, payload, alone, tmp_path):
    names = names.replace("EXT", ENDS[kind])
    place = fill(tmp_path / "in", names) / (names if alone else "")
    leave_out = LEAVE_OUT[kind]
    found = shape_of_media(Inputs.of(str(place)), leave_out=leave_out, format=RowFormat())
    assert found.payload == payload
    assert found.rows == {"self": "file", "placed": "record"}.get(payload, "table")
    assert found.column == ("image" if payload == "held" else None)


@pytest.mark.parametrize("pattern", ["", "/*.csv"])
def test_a_folder_of_listings_is_an_error_that_names_one(pattern, tmp_path):
    folder = fill(tmp_path / "in", "list.csv named.parquet")
    inputs = Inputs.of(f"{folder}{pattern}")
    with pytest.raises(ConfigError, match=r"holds tables, such as .*pass each of them, as in"):
        shape_of_media(inputs, leave_out=NOT_IMAGES, format=RowFormat())


@pytest.mark.parametrize(("names", "payload"), TEXTS.items())
def test_the_shape_of_texts(names, payload, tmp_path):
    inputs = Inputs.of(str(fill(tmp_path / "in", names)))
    assert shape_of_texts(inputs, RowFormat()).payload == payload
    assert shape_of_texts(inputs, RowFormat(format="csv")).payload == "values"


@pytest.mark.parametrize(
    ("header", "row", "options", "column"),
    [
        ("path,label", "1.txt,a", {}, "path"),
        ("File,label,more", "./1.txt,a,b", {}, "File"),
        ("image,file", "1.txt,1.txt", {}, "file"),
        ("image,file", "1.txt,1.txt", {"others": ("file",)}, "image"),
        ("path,label", "1.txt,a", {"others": ("pa*",)}, None),
        ("path,label", "1.txt,a", {"of_texts": True}, None),
        ("path,text", "1.txt,a", {}, None),
        ("path,label", "1.png,a", {}, None),
        ("path,label", "gone.txt,a", {}, None),
        ("path,label", "gone.txt,a\n1.txt,b\n1.txt,c", {}, "path"),
        ("path,label", "1.txt,a\ngone.txt,b", {}, None),
        ("path,label,more", "https://example.com/1.txt,a,b\n1.txt,b,c\n1.txt,c,d", {}, "path"),
        ("doc,label", "1.txt,a", {}, None),
        ("path,label", "", {}, None),
    ],
)
def test_tables_that_list_text_files(header, row, options, column, tmp_path):
    for name in ("1.txt", "1.png"):
        (tmp_path / name).write_text("a")
    (tmp_path / "list.csv").write_text(f"{header}\n{row}\n")
    inputs = Inputs.of(str(tmp_path / "list.csv"))
    found = shape_of_texts(inputs, RowFormat(), **options)
    assert (found.payload, found.column) == ("values" if column is None else "named", column)
    assert shape_of_texts(inputs, RowFormat(), by_path=True) == ("table", "named", None)
    with pytest.raises(ConfigError, match="expected a listing, which is one table"):
        shape_of_texts(Inputs.of(f"{tmp_path}/*.csv"), RowFormat(), by_path=True)


@pytest.mark.parametrize(
    ("folder", "header", "advice"),
    [
        ("docs/", "file,label", "--input {0}/list.csv --input-root {0}/docs reads the files that"),
        ("", "file,label", "--input {0}/list.csv reads the files that it lists"),
        ("", "doc,label", None),
    ],
)
def test_listings_beside_their_text_files(folder, header, advice, tmp_path):
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "1.txt").write_text("a")
    (tmp_path / "list.csv").write_text(f"{header}\n1.txt,a\n")
    inputs = Inputs.of(str(tmp_path))
    if advice is None:
        assert shape_of_texts(inputs, RowFormat()).payload == "values"
        return
    with pytest.raises(ConfigError, match=re.escape(advice.format(tmp_path))):
        shape_of_texts(inputs, RowFormat())
    (tmp_path / folder / "1.txt").rename(tmp_path / folder / "README.txt")
    assert shape_of_texts(inputs, RowFormat()).payload == "values"
    assert shape_of_texts(inputs, RowFormat(format="csv")).payload == "values"


def test_text_files_hold_documents_by_line(tmp_path):
    folder = fill(tmp_path / "in", "a.txt b.txt c.txt.gz d.csv")
    for names, payload in (
        ("a.txt b.txt", "document"),
        ("c.txt.gz", "values"),
        ("d.csv", "values"),
    ):
        paths = tuple(InputPath(str(folder / name)) for name in names.split())
        assert shape_of_texts(Inputs(paths=paths), RowFormat(), by_line=True).payload == payload
        assert shape_of_texts(Inputs(paths=paths), RowFormat()).payload == "values"


def test_options_that_name_a_column_decide(tmp_path):
    inputs = Inputs.of(str(fill(tmp_path / "in", "held.parquet") / "held.parquet"))
    given = {"leave_out": NOT_IMAGES, "format": RowFormat()}
    assert shape_of_media(inputs, path_column="image", **given).payload == "named"
    assert shape_of_media(inputs, dropped=["image"], **given).payload == "named"
    assert shape_of_media(inputs, bytes_column="x", **given) == ("table", "held", "x")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("list.csv", "1.png"), "got listings of files ({}/list.csv) and files"),
        (("x.tfrecord", "1.png"), "got TFRecord files ({}/x.tfrecord) and files in folders"),
        (("held.parquet", "list.csv"), "got tables that hold files in column 'image'"),
    ],
)
def test_inputs_of_several_shapes_are_an_error(names, said, tmp_path):
    folder = fill(tmp_path / "in", " ".join(names))
    inputs = Inputs(paths=tuple(InputPath.parse(str(folder / name)) for name in names))
    with pytest.raises(ConfigError) as error:
        shape_of_media(inputs, leave_out=NOT_IMAGES, format=RowFormat())
    assert said.format(folder) in str(error.value)
