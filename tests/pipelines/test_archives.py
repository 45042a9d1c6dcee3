"""Archives as --input of each data type: the datasets are those of the folders that were packed."""

import errno
import json
import pathlib
import shutil
import tarfile
import zipfile
from typing import Any

import pytest

from recordmill.storage import input_files
from recordmill.storage.files import Location
from tests.archive_files import files_in, tar_of, zip_of
from tests.image_runs import Made, images, make, run
from tests.paths import BOXES
from tests.pipelines.test_input_splits import OF_FILES, fill
from tests.s3_server import s3_server

pytestmark = pytest.mark.usefixtures("encoders_with_credentials")

_SMALL = ("--size", "16", "--num-shards", "1")
_EACH_CLASS = (
    "the archives of a folder are read as one folder, and their names are no classes: if each holds"
    " a class, put it into a folder of this class, such as rose/rose.zip"
)


@pytest.fixture(scope="module")
def digest(photos: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return _digest(tmp_path_factory.mktemp("folder") / "out", "--input", photos)


def _digest(out: pathlib.Path, *argv: object) -> str:
    return make(out, *_SMALL, *argv).manifest.digest


@pytest.mark.parametrize("command", OF_FILES)
def test_archives_equal_the_folder(command: str, tmp_path: pathlib.Path) -> None:
    write, options = OF_FILES[command]
    fill(
        tmp_path / "in",
        write,
        *(f"{s}/{c}/{n}" for s in ("train", "test") for c in "ab" for n in (1, 2)),
    )
    members = files_in(tmp_path / "in")
    (tmp_path / "parts").mkdir()
    for number in range(2):
        some = dict(list(members.items())[number::2])
        tar_of(tmp_path / "parts" / f"part-{number}.tar", some)
    inputs = [
        tmp_path / "in",
        tar_of(tmp_path / "x.tar", {f"./{name}": one for name, one in members.items()}),
        zip_of(tmp_path / "stored.zip", members),
        zip_of(tmp_path / "x.zip", members, method=zipfile.ZIP_DEFLATED),
        tmp_path / "parts",
        f"{tmp_path}/parts/*.tar",
    ]
    made = [
        make(tmp_path / f"out{n}", "--input", one, *options, command=command)
        for n, one in enumerate(inputs)
    ]
    assert {*made[0].manifest.splits} == {"train", "test"}
    assert {one.manifest.digest for one in made} == {made[0].manifest.digest}
    assert {one.manifest.labels for one in made} == {("a", "b")}


def test_a_zip_whose_names_have_backslashes(
    photos: pathlib.Path, digest: str, tmp_path: pathlib.Path
) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name, content in files_in(photos).items():
            header = zipfile.ZipInfo("x")
            header.filename, header.create_system = name.replace("/", "\\"), 3
            archive.writestr(header, content)
    assert _digest(tmp_path / "out", "--input", tmp_path / "x.zip") == digest


def test_lines_of_text_files(tmp_path: pathlib.Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("train", "test"):
        (tmp_path / "in" / f"{name}.txt").write_text(f"a {name}\nb {name}\n")
    archive = tar_of(tmp_path / "x.tar", files_in(tmp_path / "in"))
    argv = ("--documents", "line")
    one = make(tmp_path / "one", "--input", tmp_path / "in", *argv, command="text")
    other = make(tmp_path / "other", "--input", archive, *argv, command="text")
    assert one.manifest.digest == other.manifest.digest
    assert one.manifest.splits["test"].records == other.manifest.splits["test"].records == 2


def test_the_index_names_archive_and_offset(photos: pathlib.Path, tmp_path: pathlib.Path) -> None:
    archive = tar_of(tmp_path / "x.tar", files_in(photos))
    dataset = make(tmp_path / "out", *_SMALL, "--input", archive, "--splits", "train=1")
    for row in dataset.index("train"):
        name, _, offset = row["source"].partition("#")
        content = (photos / row["key"]).read_bytes()
        assert name == "x.tar"
        assert archive.read_bytes()[int(offset) :].startswith(content)


def test_an_archive_of_a_single_folder_stands_for_it(
    photos: pathlib.Path, digest: str, tmp_path: pathlib.Path
) -> None:
    """As `tar cf photos.tar photos` packs it."""
    members = {f"photos/{name}": one for name, one in files_in(photos).items()}
    archive = tar_of(tmp_path / "x.tar", {"README.md": b"hello", **members})
    made = make(tmp_path / "out", *_SMALL, "--input", archive)
    assert made.manifest.digest == digest
    (note,) = [one for one in made.manifest.notes if one.code == "archives"]
    assert "are in the folder 'photos', which is neither a class nor part of the keys" in note
    # A single class does not make it so.
    alone = {name: one for name, one in files_in(photos).items() if name.startswith("ant")}
    made = make(tmp_path / "a", *_SMALL, "--input", tar_of(tmp_path / "a.tar", alone))
    assert made.manifest.labels == ("ant",)


def test_names_of_archives_are_splits(photos: pathlib.Path, tmp_path: pathlib.Path) -> None:
    members = files_in(photos)
    for split in ("train", "test"):
        shutil.copytree(photos, tmp_path / "in" / split)
        (tmp_path / "parts").mkdir(exist_ok=True)
        tar_of(tmp_path / "parts" / f"bugs-{split}-000.tar", members)
    folders = _digest(tmp_path / "one", "--input", tmp_path / "in")
    assert _digest(tmp_path / "two", "--input", tmp_path / "parts") == folders
    (tmp_path / "own").mkdir()
    for split, top in (("train", "training/"), ("test", "./test/")):
        own = {top + key: one for key, one in members.items()}
        tar_of(tmp_path / "own" / f"{split}.tar", own | {"notes.txt": b"not a record"})
    assert _digest(tmp_path / "own-out", "--input", tmp_path / "own") == folders
    named = [f"{s}={tmp_path}/parts/bugs-{s}-000.tar" for s in ("train", "test")]
    three = make(tmp_path / "three", *_SMALL, "--input", named[0], "--input", named[1])
    assert three.manifest.splits["test"].records == len(members)


def test_names_of_splits_of_only_some_archives_are_an_error(
    photos: pathlib.Path, digest: str, tmp_path: pathlib.Path, capsys: Any
) -> None:
    members = files_in(photos)
    (tmp_path / "in").mkdir()
    for number, name in enumerate(("train-0.tar", "more.tar")):
        tar_of(tmp_path / "in" / name, dict(list(members.items())[number::2]))
    argv = (*_SMALL, "--input", tmp_path / "in")
    assert images(*argv, "--output", tmp_path / "out") == 2
    said = "holds archives named as splits (train-0.tar) beside others (more.tar): select"
    assert said in capsys.readouterr().err
    assert _digest(tmp_path / "out", *argv, "--split-from", "none") == digest


def test_an_archive_beside_files_is_not_read(
    photos: pathlib.Path, digest: str, tmp_path: pathlib.Path
) -> None:
    """It is often a copy of them."""
    folder = tmp_path / "in"
    shutil.copytree(photos, folder)
    zip_of(folder / "photos.zip", files_in(photos))
    made = make(tmp_path / "out", *_SMALL, "--input", folder)
    assert made.manifest.digest == digest
    assert made.manifest.ledger.inputs.filtered == 1


def test_rejects_and_skipped_files_of_archives(
    photos: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    others = {"ant/000.jpg": b"again", "bee/empty.jpg": b"", "bee/bad.jpg": b"x" * 99}
    others |= {"../out.jpg": b"x", "__MACOSX/._a.jpg": b"x", "bee/notes.txt": b"x"}
    (tmp_path / "in").mkdir()
    tar_of(tmp_path / "in" / "1.tar", files_in(photos))
    tar_of(tmp_path / "in" / "2.tar", others)
    (tmp_path / "in" / "3.zip").write_bytes(b"no zip")
    argv = (*_SMALL, "--input", tmp_path / "in", "--max-reject-fraction", "1")
    made = make(tmp_path / "out", *argv)
    assert made.rejects == {
        "2.tar: ../out.jpg": "bad_name",
        "3.zip": "corrupt",
        "ant/000.jpg": "bad_name",  # both of them
        "bee/bad.jpg": "not_an_image",
        "bee/empty.jpg": "empty",
    }
    assert made.manifest.ledger.inputs.filtered == 2
    ledger = made.manifest.ledger
    assert (ledger.inputs.rejected, ledger.records.rejected) == (5, 1)
    assert len((tmp_path / "out" / "rejects.jsonl").read_text().splitlines()) == 6
    assert not any("2.tar: .." in str(note) for note in made.manifest.notes)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.tar.gz", b"x", "x.tar.gz is a compressed tar, in which finding a file means"),
        ("x.tar.gz", b"x", "decompress it (gunzip x.tar.gz), and pass the .tar"),
        ("x.tgz", b"x", "(gunzip x.tgz)"),
        ("x.tar", b"\x1f\x8b" + bytes(600), "x.tar is compressed, though its name is that of a"),
        (
            "x.tar",
            b"no" * 600,
            "x.tar cannot be read: the archive is damaged: it is not a tar file",
        ),
        ("x.tar", b"PK\3\4" + bytes(600), "x.tar cannot be read: it is a zip file: name it .zip"),
        ("x.zip", bytes(257) + b"ustar", "x.zip cannot be read: it is a tar file: name it .tar"),
        ("x.tar", b"x", "x.tar cannot be read: the archive ends inside a header at byte 0"),
        ("x.tar", b"", "x.tar cannot be read: it is empty (0 bytes): copy it again"),
        ("x.zip", b"", "x.zip cannot be read: it is empty (0 bytes): copy it again"),
        ("x.zip", b"PK\3\4", "x.zip cannot be read: it has no directory, which is at the end of"),
        (
            "x.zip",
            b"x",
            "x.zip cannot be read: it is not a zip file: it neither begins as one, nor has",
        ),
        (
            "x.zip",
            b"\n<!DOCTYPE html>",
            "x.zip cannot be read: it is an HTML page, such as an error page",
        ),
        ("x.7z", b"x", "x.7z is an archive: unpack it, and pass the folder"),
    ],
)
def test_errors_before_work(
    name: str, content: bytes, said: str, tmp_path: pathlib.Path, capsys: Any
) -> None:
    (tmp_path / name).write_bytes(content)
    for command in ("images", "text"):
        argv = ("--input", tmp_path / name, "--output", tmp_path / "out", "--dry-run")
        if command == "images" or not name.endswith("7z"):
            assert run(command, *argv) == 2
            assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_error_of_the_disk_is_no_reject(
    photos: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: Any, capsys: Any
) -> None:
    archive = tar_of(tmp_path / "x.tar", files_in(photos))

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "injected")

    monkeypatch.setattr(input_files, "read_exactly", fail)
    assert images("--input", archive, "--output", tmp_path / "out", *_SMALL) == 1
    assert "x.tar: input/output error; check the disk" in capsys.readouterr().err


def test_records_of_an_archive_are_reused(photos: pathlib.Path, tmp_path: pathlib.Path) -> None:
    archive = zip_of(tmp_path / "x.zip", files_in(photos))
    first = make(tmp_path / "one", *_SMALL, "--input", archive)
    again = make(tmp_path / "two", *_SMALL, "--input", archive, "--reuse", tmp_path / "one")
    assert again.manifest.digest == first.manifest.digest
    assert json.loads((tmp_path / "two" / "job.json").read_text())["reused"] == 8


def test_annotations_of_images_in_an_archive(tmp_path: pathlib.Path) -> None:
    archive = zip_of(tmp_path / "images.zip", files_in(BOXES / "images"))
    argv = (*_SMALL, "--annotations", BOXES / "annotations.json", "--splits", "train=1")
    folder = _digest(tmp_path / "one", "--input", BOXES / "images", *argv)
    assert _digest(tmp_path / "two", "--input", archive, *argv) == folder


def test_archives_in_an_object_store(
    photos: pathlib.Path, digest: str, tmp_path: pathlib.Path
) -> None:
    members = files_in(photos)
    paths = [
        tar_of(tmp_path / "a.tar", members),
        zip_of(tmp_path / "b.zip", members, method=zipfile.ZIP_DEFLATED),
    ]
    with s3_server() as uri:
        for path in paths:
            Location.parse(uri(f"in/{path.name[0]}/{path.name}")).write_bytes(path.read_bytes())
        assert _digest(tmp_path / "one", "--input", uri("in/a/a.tar")) == digest
        assert _digest(tmp_path / "two", "--input", uri("in/b")) == digest


def test_several_tables_are_not_read_from_an_archive(tmp_path: pathlib.Path, capsys: Any) -> None:
    zip_of(tmp_path / "x.zip", {"a.csv": b"a,b\n1,2\n", "b.csv": b"a,b\n1,2\n"})
    assert run("table", "--input", tmp_path / "x.zip", "--output", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert "x.zip holds 2 files (a.csv, b.csv), expected one with rows: unpack it" in error


@pytest.mark.parametrize("documents", ["file", "line"])
@pytest.mark.parametrize("name", ["rows.csv", "a/rows.jsonl.gz", "rows.parquet"])
def test_files_of_rows_in_an_archive_are_no_documents(
    name: str, documents: str, tmp_path: pathlib.Path, capsys: Any
) -> None:
    """In a folder they are rows, so a document of all rows would be a silent surprise."""
    zip_of(tmp_path / "x.zip", {"a/1.txt": b"a text", name: b"text,label\nhi,1\n"})
    argv = ("--output", tmp_path / "out", "--documents", documents)
    assert run("text", "--input", tmp_path / "x.zip", *argv) == 2
    assert f"x.zip holds a file of rows, {name}, which is not" in capsys.readouterr().err


def test_the_error_on_an_archive_without_usable_files_names_the_first_reject(
    photos: pathlib.Path, tmp_path: pathlib.Path, capsys: Any
) -> None:
    shard = _shard(tmp_path / "x.tar", photos)
    argv = ("--label-from", ".json:kind", "--output", tmp_path / "out")
    assert images("--input", shard, *argv) == 2
    said = (
        "; the first reject: 0000.jpg: no label: expected a class in the field 'kind' of its .json,"
        " which has 'species', 'width'; --unlabelled"
    )
    assert said in " ".join(capsys.readouterr().err.split())


def test_notes_name_records_of_archives_by_their_keys(tmp_path: pathlib.Path) -> None:
    image = next((BOXES / "images").rglob("*.jpg")).read_bytes()
    archive = tar_of(tmp_path / "x.tar", {"a/1.jpg": image, "b/2.jpg": image})
    made = make(tmp_path / "out", *_SMALL, "--input", archive, "--splits", "train=1")
    (note,) = (one for one in made.manifest.notes if one.code == "conflict")
    assert "a/1.jpg (a)" in note
    assert "b/2.jpg (b)" in note


@pytest.mark.parametrize(
    ("names", "options", "noted"),
    [
        (("rose", "tulip"), (), True),
        (("part-1", "part-2"), (), False),
        (("rose", "tulip"), ("--label-type", "none"), False),
        (("rose", "tulip"), ("--label-from", "^(.)"), False),
    ],
)
def test_names_of_archives_that_may_be_classes(
    names: tuple[str, ...], options: tuple[str, ...], noted: bool, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "in").mkdir()
    found = sorted((BOXES / "images").rglob("*.jpg"))
    for name, image in zip(names, found, strict=False):
        zip_of(tmp_path / "in" / f"{name}.zip", {f"{name}.jpg": image.read_bytes()})
    argv = ("--input", tmp_path / "in", "--splits", "train=1", *options)
    made = make(tmp_path / "out", *_SMALL, *argv)
    notes = [str(one) for one in made.manifest.notes if one.code == "no-classes"]
    assert [_EACH_CLASS in one for one in notes] == [True] * noted


def test_repeated_paths_in_archives_that_may_be_classes(
    tmp_path: pathlib.Path, capsys: Any
) -> None:
    (tmp_path / "in").mkdir()
    for name, image in zip(("rose", "tulip"), sorted(BOXES.rglob("*.jpg")), strict=False):
        zip_of(tmp_path / "in" / f"{name}.zip", {"1.jpg": image.read_bytes()})
    assert images("--input", tmp_path / "in", "--output", tmp_path / "out") == 2
    assert f"keep one of them; {_EACH_CLASS}" in " ".join(capsys.readouterr().err.split())


def _shard(path: pathlib.Path, photos: pathlib.Path, *, first: int = 0) -> pathlib.Path:
    """A WebDataset shard of photos of two classes."""
    members = {}
    for number, photo in enumerate(sorted(photos.rglob("*.jpg")), first):
        members[f"{number:04}.jpg"] = photo.read_bytes()
        members[f"{number:04}.cls"] = f"{int(photo.parent.name == 'bee')}\n".encode()
        fields = {"species": photo.parent.name, "width": 40}
        members[f"{number:04}.json"] = json.dumps(fields).encode()
    return tar_of(path, members)


def test_webdataset_shards(photos: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        _shard(tmp_path / "in" / f"{number:05}.tar", photos, first=8 * number)
    argv = (*_SMALL, "--splits", "train=1", "--input", tmp_path / "in")
    made = make(tmp_path / "cls", *argv, "--label-from", ".cls", "--label-map", "0=ant,1=bee")
    assert made.manifest.labels == ("ant", "bee")
    labels = {row["key"]: row["label"] for row in made.index("train")}
    assert labels == {f"{n:04}.jpg": "bee" if n % 8 > 3 else "ant" for n in range(16)}
    assert made.manifest.ledger.inputs.filtered == 32
    assert (
        _digest(tmp_path / "json", *argv, "--label-from", ".json:species") == made.manifest.digest
    )
    none = make(tmp_path / "none", *argv, "--label-type", "none")
    assert (none.manifest.labels, none.manifest.ledger.records.written) == ((), 16)


def test_webdataset_records_that_are_incomplete(
    photos: pathlib.Path, tmp_path: pathlib.Path, capsys: Any
) -> None:
    image = (photos / "ant" / "000.jpg").read_bytes()
    members = {
        **{"a.jpg": image, "a.json": b'{"label": "x"}', "b.jpg": image},
        **{"c.json": b'{"label": 1}', "d.jpg": image, "d.json": b"{", "e.jpg": image},
        **{"e.json": b'{"label": ["x"]}', "f.json": b'{"label": 7}', "f.jpg": image},
    }
    argv = ("--input", tar_of(tmp_path / "x.tar", members), "--label-from", ".json:label")
    argv = (*argv, *_SMALL, "--splits", "train=1", "--max-reject-fraction", "1")
    made = make(tmp_path / "out", *argv)
    assert made.rejects == {
        "b.jpg": "unlabelled",
        "c.json": "missing",
        "d.jpg": "bad_value",
        "e.jpg": "bad_value",
    }
    assert made.manifest.labels == ("7", "x")
    kept = make(tmp_path / "kept", *argv, "--unlabelled", "keep")
    assert "b.jpg" in kept.keys("train")
    assert images("--input", photos, "--label-from", ".cls", "--output", tmp_path / "no") == 2
    assert "--label-from .cls: reads classes from files in archives" in capsys.readouterr().err
    shard = _shard(tmp_path / "y.tar", photos)
    assert images("--input", shard, "--output", tmp_path / "no") == 2
    assert "--label-from .cls takes the classes from them" in capsys.readouterr().err


def test_the_index_names_the_place_of_arrays(tmp_path: pathlib.Path) -> None:
    write, _ = OF_FILES["arrays"]
    fill(tmp_path / "in", write, "a/1", "b/2")
    archive = tar_of(tmp_path / "x.tar", files_in(tmp_path / "in"))
    made = make(tmp_path / "out", "--input", archive, "--splits", "train=1", command="arrays")
    assert {row["key"]: row["source"] for row in made.index("train")} == {
        "a/1.npy": "x.tar#512",
        "b/2.npy": "x.tar#1536",
    }


@pytest.mark.parametrize("damage", ["joined", "overwritten"])
def test_files_that_a_damaged_tar_may_hold_count_as_rejects(
    damage: str, photos: pathlib.Path, tmp_path: pathlib.Path, capsys: Any
) -> None:
    """Half of an archive is not one reject."""
    data = tar_of(tmp_path / "whole.tar", files_in(photos)).read_bytes()
    with tarfile.open(tmp_path / "whole.tar") as archive:
        headers = [member.offset for member in archive if member.isfile()]
    data = data.rstrip(b"\0")
    data += bytes(-len(data) % 512 + 1024)  # the end of a tar, without further padding
    count = len(headers)
    lost = count if damage == "joined" else count // 2
    middle = headers[-lost]
    damaged = data + data if damage == "joined" else data[:middle] + b"?" + data[middle + 1 :]
    (tmp_path / "x.tar").write_bytes(damaged)
    argv = ("--input", tmp_path / "x.tar", "--output", tmp_path / "out", *_SMALL)
    assert run("images", *argv, "--max-reject-fraction", "0.4") == 1
    assert "were rejected" in capsys.readouterr().err
    assert run("images", *argv, "--max-reject-fraction", "0.6") == 0
    inputs = Made(tmp_path / "out").manifest.ledger.inputs
    assert abs(inputs.rejected - lost) <= 1
    assert (
        f"about {inputs.rejected} files, are not listed"
        in (tmp_path / "out" / "rejects.jsonl").read_text()
    )
