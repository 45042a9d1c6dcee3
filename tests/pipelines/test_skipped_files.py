"""Files that hold no records: what jobs, systems and phones leave beside data, and empty parts."""

import gzip
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recordmill.storage.files import Location
from tests.archive_files import files_in, tar_of
from tests.folders import make_picture
from tests.image_runs import Made, make, run
from tests.s3_server import s3_server
from tests.tfrecord_inputs import write_records

pytestmark = pytest.mark.usefixtures("encoders_with_credentials")

ALL = ("--splits", "train=1")


def write_csv(path: pathlib.Path, first: int, count: int = 4) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{n},{'ab'[n % 2]}\n" for n in range(first, first + count))
    path.write_text("x,label\n" + rows)


def write_parquet(path: pathlib.Path, first: int, count: int = 4) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = range(first, first + count)
    pq.write_table(pa.table({"x": [*numbers], "label": ["ab"[n % 2] for n in numbers]}), path)


def filtered(made: Made) -> dict[str, int]:
    """The number of filtered inputs by reason."""
    ledger = made.manifest.ledger
    assert ledger.filtered is not None
    return dict(ledger.filtered.inputs)


def written(made: Made) -> int:
    return sum(split.records for split in made.manifest.splits.values())


@pytest.fixture
def spark(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder as Spark writes it, with a task that was not committed, and other hidden names."""
    root = tmp_path / "spark"
    write_csv(root / "part-00000-a.csv", 0)
    write_csv(root / "_temporary/0/task_1/part-00000-a.csv", 0)
    write_csv(root / "_temporary/0/task_2/part-00001-a.csv", 4)
    write_csv(root / "_old.csv", 8)
    write_csv(root / ".part-00000-a.csv", 0)
    for name in ("_SUCCESS", "_committed_12", "_started_12", "part-00001-a.csv"):
        (root / name).touch()
    return root


SPARK = {"job": 5, "hidden": 2, "empty": 1}


def test_hidden_files_of_rows_are_skipped_and_counted(spark, tmp_path):
    made = make(tmp_path / "out", "--input", spark, *ALL, command="table")
    assert (written(made), filtered(made)) == (4, SPARK)
    assert made.rejects == {}


def test_a_pattern_skips_and_counts_the_hidden_files_that_it_matches(spark, tmp_path):
    made = make(tmp_path / "1", "--input", spark / "**/*.csv", *ALL, command="table")
    assert (written(made), filtered(made)) == (4, {"job": 2, "hidden": 2, "empty": 1})
    made = make(tmp_path / "2", "--input", spark / "part-*", *ALL, command="table")
    assert (written(made), filtered(made)) == (4, {"empty": 1})


def test_named_files_are_always_read(spark, tmp_path):
    for number, path in enumerate(("_old.csv", "_old*", ".part-00000-*", "_temp*/0/task_2/*")):
        made = make(tmp_path / str(number), "--input", spark / path, *ALL, command="table")
        assert (written(made), filtered(made)) == (4, {})


def test_hidden_files_in_an_object_store(spark, tmp_path):
    with s3_server() as uri:
        for name, content in files_in(spark).items():
            Location.parse(uri(f"in/{name}")).write_bytes(content)
        made = make(tmp_path / "1", "--input", uri("in"), *ALL, command="table")
        assert (written(made), filtered(made)) == (4, SPARK)
        made = make(tmp_path / "2", "--input", uri("in/**/*.csv"), *ALL, command="table")
        assert (written(made), filtered(made)) == (4, {"job": 2, "hidden": 2, "empty": 1})


def test_caches_beside_the_data_of_a_hub_are_skipped(tmp_path):
    (tmp_path / "in").mkdir()
    table = pa.table({"x": [1, 2, 3]})
    for name in ("data-00000-of-00001", "cache-0123456789abcdef", "cache-0123456789abcdef_1_of_2"):
        with pa.ipc.new_stream(str(tmp_path / "in" / f"{name}.arrow"), table.schema) as out:
            out.write_table(table)
    made = make(tmp_path / "out", "--input", tmp_path / "in", *ALL, command="table")
    assert (written(made), filtered(made)) == (3, {"cache": 2})


def test_copies_that_have_not_ended_are_skipped(tmp_path):
    write_csv(tmp_path / "in" / "a.csv", 0)
    write_csv(tmp_path / "in" / "b.csv._COPYING_", 4)
    made = make(tmp_path / "out", "--input", tmp_path / "in", *ALL, command="table")
    assert (written(made), filtered(made)) == (4, {"job": 1})


def test_media_with_an_underscore_are_read(tmp_path):
    root = tmp_path / "in"
    for number, name in enumerate(("cat/_MG_0001.JPG", "_dog/_DSC2.jpg", "cat/_cache_/3.jpg")):
        make_picture(root / name, number)
    make_picture(root / "_temporary/0/cat/1.jpg", 9)
    make_picture(root / "_delta_log/1.jpg", 9)
    for name in ("_SUCCESS", "_committed_1", "cat/_started_1"):
        (root / name).touch()
    made = make(tmp_path / "out", "--input", root, *ALL)
    assert made.keys("train") == {"cat/_MG_0001.JPG", "_dog/_DSC2.jpg", "cat/_cache_/3.jpg"}
    assert made.manifest.labels == ("_dog", "cat")
    assert (filtered(made), made.rejects) == ({"job": 5}, {})
    packed = tar_of(tmp_path / "x.tar", files_in(root))
    archived = make(tmp_path / "archived", "--input", packed, *ALL)
    assert archived.manifest.digest == made.manifest.digest
    assert filtered(archived) == {"job": 5}


SIDECARS = (
    *("0.xmp", "IMG_1.AAE", "IMG_1.THM", "ZbThumbnail.info", "x.url", "x.lnk", "x.crdownload"),
    *("obj.names", "obj.data"),
)


def test_sidecars_of_phones_and_storage_devices_are_skipped(tmp_path):
    root = tmp_path / "in"
    for number, label in enumerate("ab"):
        make_picture(root / label / "0.jpg", number)
        for folder in ("#recycle", "@Recycle", "#snapshot", "$RECYCLE.BIN", "@eaDir"):
            make_picture(root / label / folder / "1.jpg", 9)
        for name in SIDECARS:
            (root / label / name).write_text("x")
    made = make(tmp_path / "out", "--input", root, *ALL)
    assert made.keys("train") == {"a/0.jpg", "b/0.jpg"}
    assert filtered(made) == {"system": 10, "extension": 2 * len(SIDECARS)}
    assert made.rejects == {}


def test_an_export_of_cvat_is_read(tmp_path):
    root = tmp_path / "in"
    for number in range(4):
        make_picture(root / "obj_train_data" / f"frame_{number}.png", number)
        (root / "obj_train_data" / f"frame_{number}.txt").write_text("1 0.5 0.5 0.2 0.2\n")
    (root / "obj.names").write_text("cat\ndog\n")
    (root / "obj.data").write_text("classes = 2\nnames = data/obj.names\n")
    (root / "train.txt").write_text("data/obj_train_data/frame_0.png\n")
    made = make(tmp_path / "out", "--input", root, "--annotations", root, *ALL)
    assert (written(made), made.rejects, made.manifest.labels) == (4, {}, ("cat", "dog"))


def test_a_table_of_media_with_a_job_that_was_not_committed(tmp_path):
    root = tmp_path / "in"
    make_picture(tmp_path / "1.jpg", 1)
    table = pa.table({"image": [(tmp_path / "1.jpg").read_bytes()], "label": ["a"]})
    for name in ("_temporary/part-0.parquet", "part-0.parquet"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, root / name)
    made = make(tmp_path / "out", "--input", root, *ALL)
    assert (written(made), filtered(made)) == (1, {"job": 1})


def test_hidden_and_empty_tfrecord_files_are_skipped(tmp_path):
    root = tmp_path / "in"
    (root / "_temporary").mkdir(parents=True)
    records = [{"x": [number]} for number in range(3)]
    write_records(root / "a.tfrecord", records)
    write_records(root / "_temporary" / "a.tfrecord", records)
    (root / "b.tfrecord").touch()
    made = make(tmp_path / "out", "--input", root, *ALL, command="table")
    assert (written(made), filtered(made)) == (3, {"job": 1, "empty": 1})


@pytest.mark.parametrize(
    ("log", "name", "method"),
    [
        ("_delta_log/00000000000000000000.json", "Delta Lake", "DeltaTable(TABLE).to_pyarrow"),
        (".hoodie/hoodie.properties", "Hudi", "format('hudi')"),
        ("metadata/00001-0a.metadata.json", "Iceberg", "StaticTable.from_metadata(METADATA)"),
    ],
)
def test_tables_whose_files_are_not_all_current(log, name, method, tmp_path, capsys):
    root = tmp_path / "in" / "table"
    write_parquet(root / "data/kind=a/part-0.parquet", 0)
    write_parquet(root / "data/kind=a/part-1.parquet", 4)
    (root / log).parent.mkdir(parents=True)
    (root / log).write_text("{}")
    argv = (*ALL, "--output", tmp_path / "out")
    for place in (root, root / "**/*.parquet", root / "data", root / "data/kind=a", root.parent):
        assert run("table", "--input", place, *argv) == 2
        said = " ".join(capsys.readouterr().err.split())
        what = f"holds {root}, a table" if place == root.parent else "is a table"
        assert f"--input {place} {what} of {name} (its log is " in said
        assert method in said
        assert "rows that were changed or deleted" in said
    made = make(tmp_path / "out", "--input", root / "data/kind=a/part-1.parquet", command="table")
    assert written(made) == 4


def test_a_table_below_the_input_is_named(tmp_path, capsys):
    write_parquet(tmp_path / "in" / "a" / "part-0.parquet", 0)
    write_parquet(tmp_path / "in" / "customers" / "part-0.parquet", 4)
    (tmp_path / "in" / "customers" / "_delta_log").mkdir()
    argv = (*ALL, "--output", tmp_path / "out")
    assert run("table", "--input", tmp_path / "in" / "**", *argv) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"holds {tmp_path}/in/customers, a table of Delta Lake (its log is" in said


def test_a_delta_table_in_an_object_store(tmp_path, capsys):
    write_parquet(tmp_path / "part-0.parquet", 0)
    with s3_server() as uri:
        content = (tmp_path / "part-0.parquet").read_bytes()
        Location.parse(uri("in/part-0.parquet")).write_bytes(content)
        Location.parse(uri("in/_delta_log/0.json")).write_bytes(b"{}")
        assert run("table", "--input", uri("in"), *ALL, "--output", tmp_path / "out") == 2
    assert "is a table of Delta Lake" in " ".join(capsys.readouterr().err.split())


EMPTY = {
    "csv": b"",
    "tsv": b"",
    "jsonl": b"",
    "parquet": b"",
    "csv.gz": gzip.compress(b""),
    "jsonl.gz": gzip.compress(b""),
}


@pytest.mark.parametrize("extension", EMPTY)
def test_empty_parts_of_rows_are_skipped_and_counted(extension, tmp_path, capsys):
    root = tmp_path / "in"
    root.mkdir()
    (root / f"part-0.{extension}").write_bytes(EMPTY[extension])
    argv = ("--input", root, *ALL, "--output", tmp_path / "out")
    assert run("table", *argv) == 2
    assert "found no rows in" in (said := " ".join(capsys.readouterr().err.split()))
    assert "(1 left out as empty)" in said
    full = root / f"part-1.{extension}"
    if extension == "parquet":
        write_parquet(full, 0)
    else:
        delimiter = "\t" if extension == "tsv" else ","
        lines = ["x,label", *(f"{n},{'ab'[n % 2]}" for n in range(4))]
        if extension.startswith("jsonl"):
            lines = [f'{{"x": {n}, "label": "{"ab"[n % 2]}"}}' for n in range(4)]
        text = "\n".join(lines).replace(",", delimiter).replace('"label"\t', '"label",')
        content = text.encode() if extension.startswith("jsonl") is False else "\n".join(lines)
        content = content if isinstance(content, bytes) else content.encode()
        full.write_bytes(gzip.compress(content) if extension.endswith("gz") else content)
    made = make(tmp_path / "out", "--input", root, *ALL, command="table")
    assert (written(made), made.rejects, filtered(made)) == (4, {}, {"empty": 1})


def test_a_file_without_lines_has_no_documents(tmp_path):
    root = tmp_path / "in"
    (root / "a").mkdir(parents=True)
    (root / "a" / "1.txt").write_text("one\ntwo\n")
    (root / "a" / "2.txt").touch()
    argv = ("--input", root, *ALL, "--documents", "line")
    made = make(tmp_path / "out", *argv, command="text")
    assert (written(made), made.rejects, filtered(made)) == (2, {}, {"empty": 1})


@pytest.mark.parametrize("command", ["images", "text"])
def test_an_empty_document_or_image_is_rejected(command, tmp_path):
    root = tmp_path / "in"
    make_picture(root / "a" / "1.png", 1)
    (root / "a" / "1.txt").write_text("one")
    extension = "png" if command == "images" else "txt"
    (root / "a" / f"2.{extension}").touch()
    argv = ("--input", root, *ALL, "--max-reject-fraction", "0.5")
    made = make(tmp_path / "out", *argv, command=command)
    assert made.rejects == {f"a/2.{extension}": "empty"}
