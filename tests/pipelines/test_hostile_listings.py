"""Listings that name what they must not: other stores, other servers, files outside of the root."""

import json
import os
import pathlib

import numpy as np
import pytest

from recordmill.storage.files import Location
from tests.folders import make_picture
from tests.http_server import server
from tests.image_runs import Made, encoders_kept, make, run
from tests.s3_server import CREDENTIALS, s3_server
from tests.video_files import make_film

OPTIONS = ("--splits", "train=1", "--unlabelled", "keep", "--max-reject-fraction", 1)


@pytest.fixture(scope="module", autouse=True)
def encoders():
    with encoders_kept(CREDENTIALS | {"AWS_SESSION_TOKEN": "the-token"}):
        yield


def listed(folder: pathlib.Path, *paths: object) -> pathlib.Path:
    """A listing with these paths."""
    listing = folder / "list.jsonl"
    listing.write_text("".join(json.dumps({"path": str(path)}) + "\n" for path in paths))
    return listing


def details(made: Made) -> dict[str, str]:
    """{key: detail} of the rejects."""
    lines = (made.folder / "rejects.jsonl").read_bytes().splitlines()
    return {one["key"]: one["detail"] for one in map(json.loads, lines)}


def save_inputs(folder: pathlib.Path, command: str) -> str:
    """Makes a sound file for a command, and returns its name."""
    folder.mkdir(exist_ok=True)
    match command:
        case "images":
            make_picture(folder / "a.png", 1)
            return "a.png"
        case "video":
            make_film(folder / "a.mp4", 16)
            return "a.mp4"
    np.save(folder / "a.npy", np.zeros(3, np.float32))
    return "a.npy"


@pytest.mark.parametrize("command", ["arrays", "images", "video"])
def test_a_uri_of_a_listing_sends_no_credentials(command, tmp_path):
    name = save_inputs(tmp_path, command)
    with server() as (host, seen):
        rows = [
            f"s3://any/x?endpoint_override={host}&scheme=http&region=us-east-1",
            f"gs://any/x?endpoint_override={host}&scheme=http",
            f"s3://ID:hunter2@any/y?endpoint_override={host}&scheme=http",
            "s3://ID:hun/ter2@any/z",
            "s3://any/x?no_such_option=1",
            "s3://other/x",
            "hdfs://nowhere:1/x",
            "abfs://box@account.dfs.core.windows.net/x?sig=hunter2",
        ]
        listing = listed(tmp_path, name, *rows)
        made = make(tmp_path / "out", "--input", listing, *OPTIONS, command=command)
    assert seen == []
    assert {key.partition("#")[0] for key in made.keys("train")} == {name}
    found = details(made)
    assert len(found) == len(rows)
    assert "hunter2" not in str(found)
    assert "ter2" not in str(found)
    assert "must not have options" in found["s3://any/x?no_such_option=***"]
    assert "pass --allow-store s3://other" in found["s3://other/x"]
    assert "pass --allow-store hdfs://nowhere:1" in found["hdfs://nowhere:1/x"]


def test_a_listing_may_name_its_own_store_and_those_of_the_command(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3, np.float32))
    content = (tmp_path / "a.npy").read_bytes()
    with s3_server() as uri:
        for key in ("data/a.npy", "data/b.npy"):
            Location.parse(uri(key)).write_bytes(content)
        rows = ["data/a.npy", uri("data/b.npy").partition("?")[0]]
        Location.parse(uri("list.csv")).write_bytes("\n".join(["path", *rows]).encode())
        own = make(tmp_path / "own", "--input", uri("list.csv"), *OPTIONS, command="arrays")
        store = uri("").replace("/?", "?")
        here = listed(tmp_path, "a.npy", rows[1])
        argv = ("--input", here, *OPTIONS)
        allowed = make(tmp_path / "x", *argv, "--allow-store", store, command="arrays")
        rooted = make(
            tmp_path / "y", "--input", here, *OPTIONS, "--input-root", uri("data"), command="arrays"
        )
    assert own.keys("train") == set(rows)
    assert own.rejects == {}
    assert allowed.keys("train") == {"a.npy", rows[1]}
    assert rooted.keys("train") == {"a.npy", rows[1]}


@pytest.mark.parametrize("text", ["photos/", "s3://bucket/photos"])
def test_a_store_has_no_path(text, tmp_path, capsys):
    listing = listed(tmp_path, "a")
    argv = ("--input", listing, "--output", tmp_path / "out", "--allow-store", text)
    assert run("arrays", *argv) == 2
    assert "expected a store without a path" in capsys.readouterr().err


def test_a_listing_with_a_root_stays_inside_of_it(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    save_inputs(root, "arrays")
    outside.mkdir()
    (outside / "secret.npy").write_bytes(b"root:x:0:0:the secret")
    (root / "link.npy").symlink_to(outside / "secret.npy")
    (root / "folder").symlink_to(outside)
    (root / "inner.npy").symlink_to("a.npy")
    out = ["link.npy", "folder/secret.npy", "../outside/secret.npy", f"{outside}/secret.npy"]
    out.append(f"file://{outside}/secret.npy")
    listing = listed(tmp_path, "a.npy", "inner.npy", root / "a.npy", *out)
    argv = ("--input", listing, "--input-root", root, *OPTIONS)
    made = make(tmp_path / "out", *argv, command="arrays")
    assert made.keys("train") == {"a.npy", "inner.npy", str(root / "a.npy")}
    found = details(made)
    assert set(found) == set(out)
    assert all("outside of --input-root" in detail for detail in found.values())
    assert "secret" not in "".join(found.values())
    free = make(tmp_path / "free", *argv, "--no-confine", command="arrays")
    assert "outside of" not in str(details(free))


def test_a_missing_root_is_named(tmp_path, capsys):
    argv = ("--input", listed(tmp_path, "a.npy"), "--output", tmp_path / "out")
    assert run("arrays", *argv, "--input-root", tmp_path / "nowhere") == 2
    message = f"--input-root {tmp_path}/nowhere is neither a folder nor an archive"
    assert message in capsys.readouterr().err


def test_a_listing_in_a_store_with_a_root_names_no_local_file(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3, np.float32))
    with s3_server() as uri:
        Location.parse(uri("data/a.npy")).write_bytes((tmp_path / "a.npy").read_bytes())
        listing = listed(tmp_path, "a.npy", os.fspath(tmp_path / "a.npy"))
        argv = ("--input", listing, "--input-root", uri("data"), *OPTIONS)
        made = make(tmp_path / "out", *argv, command="arrays")
    assert made.keys("train") == {"a.npy"}
    assert "outside of" in details(made)[os.fspath(tmp_path / "a.npy")]
