import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

from recordmill.errors import ConfigError, RunError
from recordmill.pipelines.commands.dataset_commands import _file_for, inspect_main, verify_main
from recordmill.reading.reader import RecordPlace
from tests.make_dataset import make_dataset


@pytest.fixture
def dataset(tmp_path: pathlib.Path) -> str:
    folder = tmp_path / "out"
    make_dataset(folder)
    return os.fspath(folder)


def spoil(dataset: str) -> None:
    """Changes one byte of a shard."""
    path = pathlib.Path(dataset) / "train.tfrecord-00001-of-00002"
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)


def test_verify_a_clean_dataset(dataset: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert verify_main(["--dataset", dataset, "--deep", "--workers=2"]) == 0
    out, err = capfd.readouterr()
    assert out == f"{dataset}: 8 records, 3 shards, 2.5 kB, every image decoded: no damage\n"
    assert err == ""


def test_verify_names_the_damage(dataset: str, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(dataset)
    assert verify_main([f"--dataset={dataset}", "--workers=1", "--quiet"]) == 1
    assert "train.tfrecord-00001-of-00002, record 0" in capsys.readouterr().out


def test_verify_as_json(dataset: str, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(dataset)
    assert verify_main([f"--dataset={dataset}", "--workers=1", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert {one["file"] for one in found["damages"]} == {"train.tfrecord-00001-of-00002"}


def test_verify_quietly(dataset: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify_main([f"--dataset={dataset}", "--workers=1", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_inspect(dataset: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect_main(["--dataset", dataset]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^tulip +3 +1 +0 +\S+", said, re.MULTILINE)


def test_inspect_as_json(dataset: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect_main(["--dataset", dataset, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["splits"]["train"]["copies"] == 1


def test_inspect_a_record(
    dataset: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = os.fspath(tmp_path / "picture.jpg")
    argv = ["--dataset", dataset, "--split=validation", "--record=1"]
    assert inspect_main([*argv, "--save", picture]) == 0
    out = capsys.readouterr().out
    assert "stored in  validation.tfrecord-00000-of-00001, record 1 (validation)" in out
    assert f"The image was written to {tmp_path / 'picture.png'}" in out
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert inspect_main([*argv, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (found["key"], found["label"], found["copy"]) == ("g", "tulip", 0)
    assert found["features"]["image/class/label"] == "1 (tulip)"


def test_a_picture_saved_into_a_folder_is_named_after_its_key(
    dataset: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for record in (1, 2):
        assert inspect_main(["--dataset", dataset, f"--record={record}", f"--save={folder}"]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["b-copy1.png", "b.png"]
    assert f"The image was written to {folder / 'b.png'}" in capsys.readouterr().out
    assert not list(tmp_path.glob("pictures.*"))


@pytest.mark.parametrize(
    ("key", "copy", "expected"),
    [
        ("roses/1.jpg", 0, "1.jpg"),
        ("roses/1.jpg", 2, "1-copy2.jpg"),
        ("row 5", 0, "row 5"),
        ("a/..", 0, "record"),
        ("/", 1, "record-copy1"),
    ],
)
def test_the_name_of_a_picture_in_a_folder(
    tmp_path: pathlib.Path, key: str, copy: int, expected: str
) -> None:
    found = RecordPlace(split="train", key=key, label=None, copy=copy, file="f", number=0)
    assert _file_for(os.fspath(tmp_path), found) == tmp_path / expected
    assert _file_for("elsewhere.jpg", found) == pathlib.Path("elsewhere.jpg")


@pytest.mark.parametrize(
    ("argv", "error", "message"),
    [
        (["--record=0", "--save=no/"], RunError, "cannot write no/"),
        (["--record=8"], ConfigError, "expected a record of train from 0 to 5, got 8"),
        (["--record=0", "--split=best"], ConfigError, "got 'best'"),
        (["--save=a.jpg"], ConfigError, "--save: requires --record N"),
        (["--sheet=a.png", "--tile-size=1"], ConfigError, "--tile-size: expected 16 to 1,000, got"),
        (["--recrd=1"], ConfigError, "unknown option --recrd; did you mean --record"),
        (["--record=0", "--save=no/where/a.jpg"], RunError, "cannot write no/where/a.jpg: No such"),
        (["--dataset=elsewhere"], RunError, "no dataset"),
    ],
)
def test_what_inspect_cannot_do(
    dataset: str, argv: list[str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        inspect_main(["--dataset", dataset, *argv])


def test_inspect_with_a_broken_index(dataset: str) -> None:
    index = pathlib.Path(dataset) / "index" / "train-00000-of-00002.parquet"
    index.write_bytes(b"no index")
    for argv in ([], ["--record=0"]):
        with pytest.raises(
            RunError,
            match=r"an index is damaged; `recordmill verify` lists all damage: index/train-00000-of"
            r"-00002\.parquet: it cannot be read as Parquet",
        ):
            inspect_main(["--dataset", dataset, *argv])


@pytest.mark.parametrize("content", [None, b"{", b"{}"])
def test_json_says_that_there_is_nothing_to_read(
    dataset: str, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    stated = pathlib.Path(dataset) / "dataset.json"
    stated.unlink()
    if content is not None:
        stated.write_bytes(content)
    with pytest.raises(RunError) as raised:
        verify_main(["--dataset", dataset, "--json", "--deep"])
    (damage,) = (found := json.loads(capsys.readouterr().out)).pop("damages")
    counts = {"shards": 0, "records": 0, "bytes": 0}
    checks = {"deep": True, "content": None, "damaged_images": {"count": 0, "first": None}}
    assert found == {"ok": False, **counts, **checks, "replaced": False}
    assert (damage["file"], damage["what"]) == ("dataset.json", str(raised.value))
    for argv in ([], ["--record=0"]):
        with pytest.raises(RunError) as raised:
            inspect_main(["--dataset", dataset, "--json", *argv])
        assert json.loads(capsys.readouterr().out) == {"error": str(raised.value)}


def test_json_says_what_went_wrong_halfway(
    dataset: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And says one thing only: no record before the error."""
    argv = ["--dataset", dataset, "--json", "--record=0", f"--save={tmp_path / 'no' / 'where'}"]
    with pytest.raises(RunError) as raised:
        inspect_main(argv)
    assert json.loads(capsys.readouterr().out) == {"error": str(raised.value)}
    (pathlib.Path(dataset) / "index" / "train-00000-of-00002.parquet").write_bytes(b"no index")
    with pytest.raises(RunError, match="an index is damaged; `recordmill verify` lists"):
        inspect_main(["--dataset", dataset, "--json"])
    assert "an index is damaged" in json.loads(capsys.readouterr().out)["error"]


def test_without_json_an_error_prints_nothing_else(
    dataset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (pathlib.Path(dataset) / "dataset.json").unlink()
    for command in (verify_main, inspect_main):
        with pytest.raises(RunError):
            command(["--dataset", dataset])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("argv", "error", "message"),
    [
        (["--dataset=nowhere"], RunError, "no dataset"),
        ([], ConfigError, "missing --dataset; see recordmill verify --help"),
        (["--dataset=x", "--workers=-1"], ConfigError, "--workers: expected 0 or more, got -1"),
    ],
)
def test_what_verify_cannot_do(argv: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        verify_main(argv)


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for command, example in [
        (verify_main, "recordmill verify --dataset out"),
        (inspect_main, "recordmill inspect --dataset out"),
    ]:
        with pytest.raises(SystemExit):
            command(["--help"])
        assert example in capsys.readouterr().out


def test_a_reader_that_leaves_early_is_no_error(dataset: str) -> None:
    command = [
        sys.executable,
        "-m",
        "recordmill.pipelines.cli",
        "inspect",
        "--json",
        "--dataset",
        dataset,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
