"""Listings whose rows name members of archives: the dataset is that of the unpacked files."""

import json
import pathlib
import zipfile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recordmill.storage.files import Location
from tests.archive_files import files_in, tar_of, zip_of
from tests.image_runs import images, make
from tests.pipelines.test_input_splits import OF_FILES, fill
from tests.s3_server import s3_server

pytestmark = pytest.mark.usefixtures("encoders_with_credentials")

SMALL = ("--size", "16", "--num-shards", "1")


def listed(path: pathlib.Path, names: list[str]) -> pathlib.Path:
    """A listing of files with their top folders as labels, by its extension."""
    rows = [{"path": name, "label": name.rpartition("/")[0][-1:]} for name in names]
    if path.suffix == ".csv":
        lines = [f"{row['path']},{row['label']}" for row in rows]
        path.write_text("\n".join(["path,label", *lines]))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("command", [one for one in OF_FILES if one != "text"])
def test_members_equal_files(command: str, tmp_path: pathlib.Path) -> None:
    write, options = OF_FILES[command]
    fill(tmp_path / "in", write, *(f"{c}/{n}" for c in "ab" for n in (1, 2, 3)))
    members = files_in(tmp_path / "in")
    names = [*members]
    (tmp_path / "apart").mkdir()
    roots = {
        "csv": tmp_path / "in",
        "jsonl": tar_of(tmp_path / "x.tar", members),
        # All members are in a folder that names may leave out.
        "parquet": zip_of(
            tmp_path / "apart" / "x.zip",
            {f"x/{name}": one for name, one in members.items()},
            method=zipfile.ZIP_DEFLATED,
        ),
    }
    made = [
        make(
            tmp_path / f"out-{ending}",
            *("--input", listed(tmp_path / f"x.{ending}", names), "--input-root", root, *options),
            command=command,
        )
        for ending, root in roots.items()
    ]
    assert {one.manifest.digest for one in made} == {made[0].manifest.digest}
    assert made[0].manifest.labels == ("a", "b")


@pytest.mark.long
def test_paths_through_archives(photos: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Files of several archives and files beside them, or of an archive in an object store."""
    members = files_in(photos)
    names = [*members]
    listing = listed(tmp_path / "files.csv", names)
    digest = make(
        tmp_path / "files", *("--input", listing, "--input-root", photos, *SMALL)
    ).manifest.digest
    with s3_server() as uri:
        listing = listed(tmp_path / "x.csv", names)
        for write, name in ((tar_of, "photos.tar"), (zip_of, "photos.zip")):
            Location.parse(uri(name)).write_bytes(write(tmp_path / "x", members).read_bytes())
            argv = ("--input", listing, "--input-root", uri(name))
            assert make(tmp_path / f"store-{name}", *argv, *SMALL).manifest.digest == digest
    tar_of(tmp_path / "a.tar", dict(list(members.items())[:3]))
    zip_of(tmp_path / "b.ZIP", dict(list(members.items())[3:]))
    parts = [f"{'a.tar' if number < 3 else 'b.ZIP'}/{name}" for number, name in enumerate(names)]
    found = make(tmp_path / "parts", "--input", listed(tmp_path / "parts.csv", parts), *SMALL)
    assert found.manifest.ledger.records.written == 8
    assert found.keys("train") | found.keys("test") | found.keys("validation") == {*parts}


def test_the_folder_of_all_members_may_be_left_out(
    photos: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    members = {f"rec/{path.name}": path.read_bytes() for path in (photos / "ant").iterdir()}
    argv = ("--splits", "train=1", "--unlabelled", "keep", *SMALL, "--input-root")
    names = [name.removeprefix("rec/") for name in members]
    archive = tar_of(tmp_path / "x.tar", members)
    short = make(tmp_path / "out", *argv, archive, "--input", listed(tmp_path / "a.csv", names))
    assert short.keys("train") == {*names}
    full = make(
        tmp_path / "full", *argv, archive, "--input", listed(tmp_path / "b.csv", [*members])
    )
    assert full.keys("train") == {*members}


def test_a_folder_of_only_some_members_may_not_be_left_out(
    tmp_path: pathlib.Path, capsys: Any
) -> None:
    archive = tar_of(tmp_path / "x.tar", {"rec/1.jpg": b"x", "top.jpg": b"x"})
    listing = listed(tmp_path / "x.csv", ["1.jpg"])
    argv = ("--input", listing, "--output", tmp_path / "out", "--unlabelled", "keep")
    assert images(*argv, "--input-root", archive) == 2
    error = capsys.readouterr().err
    assert f"1.jpg: no such file in {archive}, which has files such as 'rec/1.jpg'" in error
    assert f"relative paths were resolved in --input-root {archive}: name the folder" in error


def test_rejected_and_unlisted_members(photos: pathlib.Path, tmp_path: pathlib.Path) -> None:
    members = files_in(photos)
    twice = [*members][-1]
    archive = zip_of(tmp_path / "photos.zip", {**members, "ant/empty.jpg": b"", "ant/x.txt": b"x"})
    with zipfile.ZipFile(archive, "a") as more, pytest.warns(UserWarning, match="Duplicate"):
        more.writestr(twice, b"other")
    names = [*members][2:-1]
    bad = {
        "ant/absent.jpg": "no such file in ",
        "../photos.zip": "a path outside of --input-root",
        "ant/empty.jpg": "a file of 0 bytes",
        twice: "2 files in the archive have this path",
    }
    listing = listed(tmp_path / "photos.csv", [*names, *bad])
    argv = ("--input", listing, "--input-root", archive, "--max-reject-fraction", "0.9", *SMALL)
    made = make(tmp_path / "out", *argv)
    lines = map(json.loads, (made.folder / "rejects.jsonl").read_bytes().splitlines())
    details = {reject["key"]: reject["detail"] for reject in lines}
    assert {*details} == {*bad}
    for key, why in bad.items():
        assert why in details[key]
    (note,) = (str(one) for one in made.manifest.notes if one.code == "unlisted")
    first = ", ".join([*members][:2])
    assert note == f"2 files are in photos.zip, but not in photos.csv: {first}"


@pytest.mark.parametrize(
    ("root", "why"),
    [
        ("x.tar", "x.tar is neither a folder nor an archive (.tar, .zip): check the path"),
        ("x.csv", "x.csv is neither a folder nor an archive"),
        ("x.tar.gz", "x.tar.gz is a compressed tar, in which finding a file means"),
        ("bad.zip", "bad.zip, which is damaged: "),
    ],
)
def test_unusable_roots(root: str, why: str, tmp_path: pathlib.Path, capsys: Any) -> None:
    (tmp_path / "x.tar.gz").write_bytes(b"x")
    (tmp_path / "bad.zip").write_bytes(b"PK")
    listing = listed(tmp_path / "x.csv", ["a/1.jpg"])
    argv = ("--input", listing, "--input-root", tmp_path / root, "--output", tmp_path / "out")
    assert images(*argv) == 2
    assert why in capsys.readouterr().err
