"""Tables whose rows hold images: the datasets are those of folders of the same files."""

import base64
import json
import pathlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recordmill.format.content_hashes import content_hash
from recordmill.format.manifest import load
from recordmill.storage.files import Location
from tests import sounds
from tests.archive_files import files_in
from tests.image_runs import images, make
from tests.media_tables import FORMS, STRUCT, bytes_table, hub_table
from tests.pictures import photo, saved
from tests.s3_server import s3_server
from tests.video_files import make_film

pytestmark = pytest.mark.usefixtures("encoders_with_credentials")

_SMALL = ("--size", "16", "--num-shards", "1")


@pytest.fixture(scope="module")
def files(photos: pathlib.Path) -> dict[str, bytes]:
    return files_in(photos)


@pytest.fixture(scope="module")
def digest(photos: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return _digest(tmp_path_factory.mktemp("folder") / "out", "--input", photos)


def _digest(out: pathlib.Path, *argv: object) -> str:
    return make(out, *_SMALL, *argv).manifest.digest


@pytest.mark.parametrize("form", FORMS)
def test_tables_equal_the_folder(
    form: str, files: dict[str, bytes], digest: str, tmp_path: pathlib.Path
) -> None:
    argv = FORMS[form](files, tmp_path)
    assert _digest(tmp_path / "out", "--input", *argv) == digest
    assert not (tmp_path / "out" / ".recordmill").exists()  # nor the staged files


@pytest.mark.long
def test_keys_are_those_of_the_content(files: dict[str, bytes], tmp_path: pathlib.Path) -> None:
    pq.write_table(hub_table(files), tmp_path / "a.parquet")
    made = make(tmp_path / "out", *_SMALL, "--input", tmp_path / "a.parquet")
    found = [row for split in made.manifest.splits for row in made.index(split)]
    assert {row["key"] for row in found} == {row["content"].hex() for row in found}
    assert {row["source"] for row in found} == {f"a.parquet#{n + 1}" for n in range(8)}
    twice = pa.concat_tables([hub_table(files), hub_table(files)])
    pq.write_table(twice, tmp_path / "b.parquet")
    both = make(tmp_path / "both", *_SMALL, "--input", tmp_path / "b.parquet")
    for split in made.manifest.splits:
        keys = made.keys(split)
        assert both.keys(split) == keys | {f"{key}#2" for key in keys}
    once = make(tmp_path / "once", *_SMALL, "--input", tmp_path / "b.parquet", "--dedup", "drop")
    assert once.manifest.digest == made.manifest.digest


def test_balance_duplicates_and_depth_read_staged_files(
    files: dict[str, bytes], photos: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    options = ("--balance", "oversample", "--near-duplicates", "group", "--image-format", "png")
    argv = FORMS["parquet"](files, tmp_path)
    found = _digest(tmp_path / "a", "--input", *argv, *options)
    assert found == _digest(tmp_path / "b", "--input", photos, *options)


def test_names_of_files_are_splits(files: dict[str, bytes], tmp_path: pathlib.Path) -> None:
    table = hub_table(files)
    (tmp_path / "in" / "data").mkdir(parents=True)
    for number in range(2):
        name = f"train-{number:05d}-of-00002.parquet"
        pq.write_table(table.slice(3 * number, 3), tmp_path / "in" / "data" / name)
    pq.write_table(table.slice(6), tmp_path / "in" / "data" / "test-00000-of-00001.parquet")
    made = make(tmp_path / "out", *_SMALL, "--input", tmp_path / "in")
    splits = made.manifest.splits
    assert {name: one.records for name, one in splits.items() if one.records} == {
        "train": 6,
        "test": 2,
    }
    argv = ("--input", f"train={tmp_path / 'in/data/train-*'}")
    argv = (*argv, "--input", f"test={tmp_path / 'in/data/test-00000-of-00001.parquet'}")
    assert _digest(tmp_path / "named", *argv) == made.manifest.digest


def test_numbers_become_the_names_of_classes(
    files: dict[str, bytes], tmp_path: pathlib.Path
) -> None:
    table = hub_table(files, ["bee", "ant", "cat"])
    labels = [1, 1, 1, -1, 7, 0, 0, 0]
    table = table.set_column(1, "label", pa.array(labels, pa.int64()))
    pq.write_table(table, tmp_path / "a.parquet")
    argv = ("--input", tmp_path / "a.parquet", "--max-reject-fraction", 1)
    made = make(tmp_path / "out", *_SMALL, *argv)
    assert made.manifest.labels == ("bee", "ant", "cat")
    assert made.rejects == {"a.parquet#4": "unlabelled", "a.parquet#5": "bad_value"}
    assert not any(note.code == "class-numbers" for note in made.manifest.notes)
    (tmp_path / "names.txt").write_text("ant\nbee\n")
    numbered = make(tmp_path / "b", *_SMALL, *argv, "--labels-file", tmp_path / "names.txt")
    assert numbered.manifest.labels == ("ant", "bee")
    counted = make(tmp_path / "c", *_SMALL, *argv, "--label-type", "int")
    assert {one["label"][0] for one in counted.examples().values()} <= {*labels}


def test_rows_left_out_are_not_checked(files: dict[str, bytes], tmp_path: pathlib.Path) -> None:
    # rows with a class without a name, without a value, and without bytes are left out
    table = hub_table(files, ["bee", "ant"])
    table = table.set_column(1, "label", pa.array([1, 1, 1, 1, 7, 0, 0, 0], pa.int64()))
    values = table["image"].to_pylist()
    values[5:7] = [None, {"bytes": b"", "path": "x.jpg"}]
    table = table.set_column(0, "image", pa.array(values, STRUCT))
    pq.write_table(table, tmp_path / "a.parquet")
    argv = ("--input", tmp_path / "a.parquet", "--where", "label == 1")
    made = make(tmp_path / "out", *_SMALL, *argv)
    ledger = made.manifest.ledger
    assert (made.manifest.labels, made.rejects) == (("bee", "ant"), {})
    assert (ledger.inputs.read, ledger.records.written, ledger.records.filtered) == (8, 4, 4)


def test_bad_values_are_rejects(files: dict[str, bytes], tmp_path: pathlib.Path) -> None:
    first, second, *_ = files.values()
    (tmp_path / "named.jpg").write_bytes(second)
    (tmp_path / "empty.jpg").write_bytes(b"")
    values = [
        {"bytes": first, "path": None},
        {"bytes": None, "path": "named.jpg"},
        {"bytes": None, "path": "gone.jpg"},
        {"bytes": None, "path": "empty.jpg"},
        {"bytes": b"", "path": "named.jpg"},
        {"bytes": None, "path": None},
        None,
        {"bytes": b"no image", "path": "x.jpg"},
        {"bytes": first[:90], "path": "x.jpg"},
    ]
    pq.write_table(pa.table({"image": pa.array(values, STRUCT)}), tmp_path / "a.parquet")
    argv = ("--input", tmp_path / "a.parquet", "--max-reject-fraction", 1)
    made = make(tmp_path / "out", *_SMALL, *argv, "--probe", "header")
    assert made.rejects == {
        "a.parquet#3": "missing",
        "a.parquet#4": "empty",
        "a.parquet#5": "empty",
        "a.parquet#6": "bad_value",
        "a.parquet#7": "bad_value",
        "a.parquet#8": "not_an_image",
        "a.parquet#9": "corrupt",
    }
    ledger = made.manifest.ledger
    assert (ledger.inputs.read, ledger.inputs.rejected, ledger.records.written) == (4, 5, 2)
    texts = [base64.b64encode(first).decode(), "not base64!", "data:image/jpeg;base64,", None]
    texts.append("DATA:IMAGE/JPEG;BASE64," + base64.encodebytes(second).decode())
    lines = [json.dumps({"image": text}) for text in texts]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, '{"image": {"bytes": 3}}', "{"]))
    argv = ("--input", tmp_path / "a.jsonl", "--max-reject-fraction", 1)
    with (tmp_path / "a.jsonl").open("a") as file:  # as in Parquet, the path is not read
        file.write('\n{"image": {"bytes": "", "path": "named.jpg"}}')
    found = make(tmp_path / "lines", *_SMALL, *argv)
    assert sorted(found.rejects) == [f"a.jsonl#{n}" for n in (2, 3, 4, 6, 7, 8)]
    assert found.rejects["a.jsonl#8"] == "empty"
    assert found.manifest.digest == made.manifest.digest


@pytest.mark.parametrize(
    ("columns", "argv", "said"),
    [
        ({"image": STRUCT, "mask": STRUCT}, (), "several columns of"),
        (
            {"a": pa.binary(), "b": pa.binary()},
            (),
            "leave the others out, such as --drop-columns b",
        ),
        ({"image": STRUCT}, ("--bytes-column", "img"), "no column 'img' in"),
        (
            {"image": pa.list_(STRUCT)},
            ("--bytes-column", "image"),
            "but a list of files per row is not supported: write one row for each file",
        ),
        ({"image": pa.int64()}, ("--bytes-column", "image"), "has type int64: expected bytes,"),
        (
            {"image": STRUCT},
            ("--path-column", "x", "--bytes-column", "image"),
            "cannot be combined",
        ),
        ({"image": STRUCT}, ("--key-column", "image.name"), "no column 'image.name'"),
        (
            {"image": STRUCT},
            ("--annotations", "x.json"),
            "--annotations: applies only to files in folders",
        ),
        ({"image": STRUCT}, ("--masks", "masks"), "--masks: applies only to files in folders"),
        ({"image": STRUCT}, ("--label-from", "parent"), "has no folders"),
        ({"image": STRUCT, "box": STRUCT}, ("--bytes-column", "image"), "drop it with --drop-col"),
    ],
)
def test_errors_before_work(
    columns: dict[str, pa.DataType],
    argv: tuple[str, ...],
    said: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.json").write_text('{"images": [], "annotations": [], "categories": []}')
    schema = pa.schema([*columns.items()])
    table = pa.Table.from_pylist([{}], schema=schema)
    pq.write_table(table, tmp_path / "a.parquet")
    given = ("--input", tmp_path / "a.parquet", "--output", tmp_path / "out")
    assert images(*given, *argv) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out" / "dataset.json").exists()


@pytest.mark.parametrize("inner", ["text", "object"])
def test_a_column_inside_of_an_object_is_found(
    inner: str, files: dict[str, bytes], digest: str, tmp_path: pathlib.Path
) -> None:
    rows = []
    for key, content in files.items():
        text = base64.b64encode(content).decode()
        image = {"bytes": text, "path": key} if inner == "object" else text
        row = {"n": [{"x": "}"}], "a": {"b": {"x": 1}, "image": image}, "key": key}
        rows.append(json.dumps({**row, "label": key.partition("/")[0]}))
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    argv = ("--input", tmp_path / "a.jsonl", "--key-column", "key", "--drop-columns", "a.b.x,n")
    assert _digest(tmp_path / "out", *argv) == digest


@pytest.mark.parametrize("inner", ["bytes", "struct"])
def test_a_column_inside_of_a_struct_is_found(
    inner: str, files: dict[str, bytes], digest: str, tmp_path: pathlib.Path
) -> None:
    images_of = {key: {"bytes": one, "path": key} for key, one in files.items()}
    rows = [
        {"rec": {"img": files[key] if inner == "bytes" else images_of[key], "n": 1}, "key": key}
        for key in files
    ]
    table = pa.Table.from_pylist([{**row, "label": row["key"].split("/")[0]} for row in rows])
    pq.write_table(table, tmp_path / "a.parquet")
    argv = ("--input", tmp_path / "a.parquet", "--key-column", "key", "--drop-columns")
    assert _digest(tmp_path / "out", *argv, "rec.n") == digest


def test_several_columns_inside_of_structs(tmp_path: pathlib.Path, capsys: Any) -> None:
    table = pa.table({"rec": [{"a": b"x", "b": b"x"}], "label": ["x"]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert images("--input", tmp_path / "a.parquet", "--output", tmp_path / "out") == 2
    said = "hold files: 'rec.a', 'rec.b'; name one of them with --bytes-column"
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            '{"chat": [{"image": "%s"}], "label": 1}',
            "a.jsonl holds files in lists, in 'chat', but a list of files per row is not supported",
        ),
        (
            '{"x": {"image": "%s"}, "y": {"image": "%s"}}',
            "hold files: 'x.image', 'y.image'; name one of them with --bytes-column",
        ),
    ],
)
def test_files_inside_of_objects_that_are_not_one_column(
    row: str, said: str, tmp_path: pathlib.Path, capsys: Any
) -> None:
    (tmp_path / "a.jsonl").write_text(row.replace("%s", "A" * 80) + "\n")
    assert images("--input", tmp_path / "a.jsonl", "--output", tmp_path / "out") == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("command", "options", "stage", "why"),
    [
        ("images", ("--size", 16), "encode", "starts with b'junkjunkjunk'"),
        ("audio", (), "encode", "not audio"),
        ("video", ("--clip-frames", 8, "--size", 16), "read", "not a video"),
        ("arrays", (), "read", "its content is neither .npy"),
    ],
)
def test_rejects_with_keys_by_content_name_their_rows(
    command: str, options: tuple[object, ...], stage: str, why: str, tmp_path: pathlib.Path
) -> None:
    good = {"images": _image, "audio": _sound, "video": _film, "arrays": _array}[command]
    files = [good(tmp_path), b"junk" * 30, b"junk" * 30]
    rows = [{"data": base64.b64encode(file).decode()} for file in files]
    (tmp_path / "hub.jsonl").write_text("\n".join(map(json.dumps, rows)))
    argv = ("--input", tmp_path / "hub.jsonl", "--max-reject-fraction", 1, "--num-shards", 1)
    out = make(tmp_path / "out", *argv, *options, command=command).folder
    lines = [json.loads(line) for line in (out / "rejects.jsonl").read_bytes().splitlines()]
    assert [line["stage"] for line in lines] == [stage, stage]
    assert {line["detail"].partition(": ")[0] for line in lines} == {"hub.jsonl#2", "hub.jsonl#3"}
    assert all(line["detail"].partition(": ")[2].startswith(why) for line in lines)
    assert {line["key"].partition("#")[0] for line in lines} == {content_hash(files[1]).hex()}


def _image(folder: pathlib.Path) -> bytes:
    del folder
    return saved(photo())


def _sound(folder: pathlib.Path) -> bytes:
    return sounds.write(folder / "a.wav", sounds.chirp(8000, 4000), 8000).read_bytes()


def _film(folder: pathlib.Path) -> bytes:
    make_film(folder / "a.mp4", 8)
    return (folder / "a.mp4").read_bytes()


def _array(folder: pathlib.Path) -> bytes:
    np.save(folder / "a.npy", np.arange(3))
    return (folder / "a.npy").read_bytes()


def test_paths_that_are_not_utf8(files: dict[str, bytes], tmp_path: pathlib.Path) -> None:
    image = next(iter(files.values()))
    kind = pa.struct({"bytes": pa.binary(), "path": pa.binary()})
    values = [{"bytes": image, "path": b"\xff"}, {"bytes": None, "path": b"\xff"}]
    pq.write_table(pa.table({"image": pa.array(values, kind)}), tmp_path / "a.parquet")
    argv = ("--input", tmp_path / "a.parquet", "--max-reject-fraction", 1)
    made = make(tmp_path / "out", *_SMALL, *argv)
    assert made.rejects == {"a.parquet#2": "bad_name"}
    assert made.manifest.ledger.records.written == 1


def test_a_listing_stays_a_listing(photos: pathlib.Path, tmp_path: pathlib.Path) -> None:
    paths = [str(path) for path in sorted(photos.rglob("*.jpg"))]
    inside = [{"image": b"x"}] * 8
    for name, column in (("a", pa.array([b"x"] * 8, pa.binary())), ("c", pa.array(inside))):
        table = pa.table({"path": paths, "embedding": column})
        pq.write_table(table, tmp_path / f"{name}.parquet")
        made = make(tmp_path / f"out-{name}", *_SMALL, "--input", tmp_path / f"{name}.parquet")
        assert made.keys("train") <= {*paths}
    (tmp_path / "b.jsonl").write_text(
        "".join(json.dumps({"image": path.ljust(99, "x")}) + "\n" for path in paths)
    )
    assert images("--input", tmp_path / "b.jsonl", "--output", tmp_path / "b") == 2


def test_repeated_keys(files: dict[str, bytes], tmp_path: pathlib.Path, capsys: Any) -> None:
    table = bytes_table(files)
    key = next(iter(files))
    other = table.slice(1, 1).set_column(0, "key", pa.array([key]))
    pq.write_table(pa.concat_tables([table, table.slice(0, 1), other]), tmp_path / "a.parquet")
    argv = ("--input", tmp_path / "a.parquet", "--key-column", "key")
    made = make(tmp_path / "out", *_SMALL, *argv, "--max-reject-fraction", 1)
    assert made.rejects == {key: "bad_value"}
    first = make(tmp_path / "first", *_SMALL, *argv, "--conflicts", "first")
    assert first.manifest.ledger.records.written == 8
    capsys.readouterr()
    argv = (*argv, "--output", tmp_path / "error", "--conflicts", "error")
    assert images(*argv) == 1
    assert "but the content differs" in " ".join(capsys.readouterr().err.split())


def test_the_interpretation_names_the_column(
    files: dict[str, bytes], tmp_path: pathlib.Path
) -> None:
    argv = FORMS["objects"](files, tmp_path)
    assert images("--input", *argv, "--output", tmp_path / "out", *_SMALL) == 0
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    assert job["interpretation"]["data"].endswith("the files are in the column 'image'")
    assert job["interpretation"]["keys"] == "the column 'image.path'"


def test_unchanged_rows_are_reused(files: dict[str, bytes], tmp_path: pathlib.Path) -> None:
    argv = ("--input", *FORMS["parquet"](files, tmp_path), "--fingerprint", "content")
    first = make(tmp_path / "first", *_SMALL, *argv)
    again = make(tmp_path / "again", *_SMALL, *argv, "--reuse", first.folder)
    assert json.loads((again.folder / "job.json").read_text())["reused"] == 8
    assert again.manifest.digest == first.manifest.digest


def test_tables_in_an_object_store(
    files: dict[str, bytes], digest: str, tmp_path: pathlib.Path
) -> None:
    FORMS["hub"](files, tmp_path)
    options = ("--key-column", "image.path")
    with s3_server() as uri:
        for path in sorted((tmp_path / "hub").rglob("*.parquet")):
            Location.parse(uri(f"in/{path.name}")).write_bytes(path.read_bytes())
        for given in (uri("in"), uri("in/*.parquet")):
            assert _digest(tmp_path / given[-3:], "--input", given, *options) == digest
        # Staged files are in the store, too.
        out = uri("out")
        assert images("--input", uri("in"), "--output", out, *_SMALL, *options) == 0
        assert load(Location.parse(out)).digest == digest


def test_videos_in_a_table(tmp_path: pathlib.Path) -> None:
    for number, label in enumerate(("ant", "ant", "bee", "bee")):
        path = tmp_path / "films" / label / f"{number}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        make_film(path, 20 + number)
    films = files_in(tmp_path / "films")
    table = hub_table(films)
    bad = hub_table({"bee/4.mp4": b"no film"}, ["ant", "bee"])
    pq.write_table(pa.concat_tables([table, table, bad]), tmp_path / "a.parquet", row_group_size=3)
    options = ("--clip-frames", 8, "--size", 16, "--num-shards", 1, "--max-reject-fraction", 1)
    folder = make(tmp_path / "out", "--input", tmp_path / "films", *options, command="video")
    argv = ("--input", tmp_path / "a.parquet", *options)
    found = make(tmp_path / "b", *argv, "--key-column", "image.path", command="video")
    assert found.manifest.digest == folder.manifest.digest  # equal videos count once
    assert found.rejects == {"bee/4.mp4": "unsupported"}
    assert found.manifest.ledger.inputs.read == 8
    by_content = make(tmp_path / "c", *argv, command="video")
    keys = {row["key"] for split in by_content.manifest.splits for row in by_content.index(split)}
    assert {key.partition("#")[0] for key in keys} == {
        content_hash(film).hex() for film in films.values()
    }


def test_clips_of_videos_in_a_table_have_all_labels_of_the_video(tmp_path: pathlib.Path) -> None:
    rows = {"key": ["x.mp4", "y.mp4"], "label": [["a", "b"], ["b"]]}
    films = [make_film(tmp_path / name, 20).read_bytes() for name in rows["key"]]
    pq.write_table(pa.table(rows | {"film": films}), tmp_path / "held.parquet")
    pq.write_table(pa.table(rows).rename_columns(["path", "label"]), tmp_path / "named.parquet")
    options = ("--clip-frames", 8, "--size", 16, "--num-shards", 1, "--splits", "train=1")
    argv = (*options, "--input", tmp_path / "held.parquet", "--key-column", "key")
    held = make(tmp_path / "held", *argv, command="video")
    named = make(
        tmp_path / "named", *options, "--input", tmp_path / "named.parquet", command="video"
    )
    assert held.manifest.labels == ("a", "b")
    assert held.manifest.digest == named.manifest.digest


def test_arrays_in_a_table(tmp_path: pathlib.Path) -> None:
    for number, label in enumerate(("ant", "ant", "bee", "bee")):
        path = tmp_path / "in" / label / f"{number}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.arange(12.0 + 3 * number, dtype=np.float32).reshape(-1, 3))
    files = files_in(tmp_path / "in")
    table, bad = hub_table(files), hub_table({"bee/4.npy": b"no array"}, ["ant", "bee"])
    pq.write_table(pa.concat_tables([table, table, bad]), tmp_path / "a.parquet", row_group_size=3)
    options = ("--num-shards", 1, "--chunk", 2, "--chunk-rest", "drop", "--dedup", "drop")
    options = (*options, "--max-reject-fraction", 1)
    folder = make(tmp_path / "out", "--input", tmp_path / "in", *options, command="arrays")
    argv = ("--input", tmp_path / "a.parquet", *options, "--key-column", "image.path")
    found = make(tmp_path / "b", *argv, command="arrays")
    assert found.manifest.digest == folder.manifest.digest  # equal files count once
    assert found.rejects == {"bee/4.npy": "unsupported"}
    assert [note.code for note in found.manifest.notes].count("steps") == 1


def test_arrays_and_videos_that_are_left_out(tmp_path: pathlib.Path) -> None:
    made_of = {"arrays": (".npy", ()), "video": (".mp4", ("--clip-frames", 8, "--size", 16))}
    for command, (suffix, options) in made_of.items():
        rows = []
        for number in range(3):
            path = tmp_path / f"{number}{suffix}"
            if command == "video":
                make_film(path, 8 + number)
            else:
                np.save(path, np.full(3, number, np.float32))
            rows.append({"data": base64.b64encode(path.read_bytes()).decode(), "n": number})
        (tmp_path / f"{command}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        argv = ("--input", tmp_path / f"{command}.jsonl", "--where", "n > 0", "--num-shards", 1)
        ledger = make(tmp_path / command, *argv, *options, command=command).manifest.ledger
        assert (ledger.inputs.read, ledger.records.filtered, ledger.records.written) == (3, 1, 2)


@pytest.mark.parametrize("kind", ["List", "Sequence", "bare"])
def test_lists_of_class_numbers_have_names(
    kind: str, files: dict[str, bytes], tmp_path: pathlib.Path
) -> None:
    item = {"_type": "ClassLabel", "names": ["wasp", "bee"]}
    label = [item] if kind == "bare" else {"_type": kind, "feature": item}
    features = {"image": {"_type": "Image"}, "label": label}
    images = [{"bytes": content, "path": None} for content in [*files.values()][:5]]
    numbers = pa.array([[0, 1], [1], [-1], None, [1, 2]], pa.list_(pa.int64()))
    table = pa.table({"image": pa.array(images, STRUCT), "label": numbers})
    table = table.replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    options = ("--unlabelled", "keep", "--max-reject-fraction", 1, "--splits", "train=1")
    made = make(tmp_path / "out", "--input", tmp_path / "a.parquet", *_SMALL, *options)
    assert made.manifest.labels == ("wasp", "bee")
    assert made.rejects == {"a.parquet#5": "bad_value"}
    found = [row["labels"] for row in made.index("train")]
    assert sorted(found) == [[], [], ["bee"], ["bee", "wasp"]]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["bee"], "the metadata of a.parquet and b.parquet name different classes for the column"),
        (None, "the metadata of a.parquet, but not that of b.parquet, name classes for the column"),
    ],
)
def test_files_of_other_classes_are_an_error(names, said, files, tmp_path, capsys) -> None:
    (tmp_path / "in").mkdir()
    structs = [{"bytes": content, "path": None} for content in [*files.values()][:2]]
    table = pa.table({"image": pa.array(structs, STRUCT), "label": [0, 0]})
    for name, given in (("a", ["wasp", "bee"]), ("b", names)):
        features = {"label": {"_type": "ClassLabel", "names": given}}
        metadata = {"huggingface": json.dumps({"info": {"features": features}})} if given else None
        pq.write_table(table.replace_schema_metadata(metadata), tmp_path / f"in/{name}.parquet")
    assert images("--input", tmp_path / "in", "--output", tmp_path / "out", *_SMALL) == 2
    assert said in " ".join(capsys.readouterr().err.split())
