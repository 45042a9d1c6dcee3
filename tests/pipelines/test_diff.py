"""`recordmill diff` from end to end."""

import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recordmill.checking.dataset_diff import Changed
from recordmill.format.shard_index import index_bytes
from recordmill.pipelines.cli import main
from recordmill.pipelines.terminal.differences import _differing_parts
from tests.image_runs import encoders_kept, make

LINES = [f"k{n},{n},{'ab'[n % 2]}" for n in range(40)]


@pytest.fixture(scope="module", autouse=True)
def encoders() -> Iterator[None]:
    with encoders_kept():
        yield


def table(folder: pathlib.Path, lines: list[str], *argv: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "rows.csv"
    source.write_text("\n".join(["id,x\x1b[31m,class", *lines]) + "\n")
    out = folder / "out"
    make(out, "--input", source, "--key-column", "id", *argv, command="table")
    return str(out)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> str:
    return table(tmp_path_factory.mktemp("before"), LINES)


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> str:
    lines = ["k0,0,b", "k1,100,b", *LINES[3:], "k41,41,a", "k42,42,a"]
    return table(tmp_path_factory.mktemp("after"), lines, "--balance", "oversample")


def json_of(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert main(["diff", *argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_records_and_options_are_compared(
    before: str, after: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json_of(capsys, before, after)
    records = found["records"]
    counts = {kind: records[kind]["count"] for kind in ("added", "removed", "moved", "changed")}
    assert counts == {"added": 2, "removed": 1, "moved": 0, "changed": 1}
    assert records["relabelled"]["pairs"] == [{"before": "a", "after": "b", "count": 1}]
    assert [one["key"] for one in records["removed"]["examples"]] == ["k2"]
    assert records["compared_by"] == "content"
    assert records["changed"]["examples"][0]["key"] == "k1"
    assert found["options"] == {"balance": {"before": "none", "after": "oversample"}}
    assert found["features"] == found["versions"] == found["labels"] == {}
    assert {one["column"] for one in found["statistics"]["distances"]} >= {"label"}
    assert found["splits"]["train"]["after"] > 0


def test_another_seed_moves_records(
    tmp_path: pathlib.Path, before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = table(tmp_path, LINES, "--seed", "1", "--label-offset", "1")
    found = json_of(capsys, "--before", before, "--after", other)
    assert found["options"]["seed"] == {"before": 0, "after": 1}
    assert found["labels"]["a"] == {"before": 0, "after": 1}
    moved = found["records"]["moved"]
    assert moved["count"] == sum(one["count"] for one in moved["pairs"]) > 0
    assert found["records"]["changed"]["count"] == 0  # a content has no label, as its hash shows
    assert main(["diff", before, other, "--fail-on", "moved", "--quiet"]) == 1
    error = capsys.readouterr().err
    assert error == f"recordmill diff: error: --fail-on: moved {moved['count']}\n"
    assert main(["diff", before, other, "--fail-on", "added,removed", "--quiet"]) == 0


def test_the_tables_name_records_and_hide_control_characters(
    before: str, after: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", before, after, "--fail-on", "all"]) == 1
    captured = capsys.readouterr()
    for part in ("added", "k2 (rows.csv#3): ", "oversample", "the digests differ", "drift"):
        assert part in captured.out
    assert "\x1b[31m" not in captured.out.replace("\x1b[0m", "")
    assert "added 2, removed 1" in captured.err


def test_a_changed_feature_shows_the_part_that_differs() -> None:
    before = {"dtype": "string", "kind": "image", "raw_dtype": "uint8", "raw_shape": [32, 32, 3]}
    one = Changed(before=before, after={**before, "raw_shape": [16, 16, 3]})
    shown = _differing_parts(one)
    assert shown == ({"raw_shape": [32, 32, 3]}, {"raw_shape": [16, 16, 3]})
    gone = Changed(before={"size": None, **before}, after=before)
    assert _differing_parts(gone) == ({"size": None}, {})
    assert _differing_parts(Changed(before=None, after=before)) == (None, before)


def test_a_dataset_is_equal_to_itself(before: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(capsys, before, before, "--fail-on", "all")
    assert found["records"]["same"] == 40


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["{before}"], 2, "BEFORE AFTER; got 1 folder"),
        (["{before}", "{before}", "{before}"], 2, "BEFORE AFTER; got 3"),
        (["{before}", "/nowhere"], 1, "no dataset"),
        (["{before}", "{before}", "--fail-on", "moved,gone"], 2, "gone"),
        (["{before}", "{before}", "--json", "--quiet"], 2, "contradicts --json"),
        (["--before", "{before}"], 2, "--after"),
        (["{before}", "{before}", "--after={before}"], 2, "--after: the two folders are given"),
        (["{before}", "{before}", "--fail-on", ""], 2, "--fail-on: expected a value, got nothing"),
    ],
)
def test_wrong_usage(
    before: str, capsys: pytest.CaptureFixture[str], argv: list[str], code: int, message: str
) -> None:
    assert main(["diff", *(one.format(before=before) for one in argv)]) == code
    assert message in capsys.readouterr().err


def test_a_damaged_index_is_named(
    tmp_path: pathlib.Path, before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = table(tmp_path, LINES[1:])
    (index,) = pathlib.Path(other).glob("index/train-*.parquet")
    index.write_bytes(index.read_bytes()[:-9])
    assert main(["diff", before, other]) == 1
    assert index.name in capsys.readouterr().err


def test_a_changed_index_is_damage(
    before: str, after: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its rows are valid, and so were compared without a word."""
    changed = tmp_path / "changed"
    shutil.copytree(after, changed)
    index = sorted((changed / "index").glob("train-*"))[0]
    rows = pq.read_table(index)
    others = pa.array([f"other-{n}" for n in range(len(rows))])
    index.write_bytes(index_bytes(rows.set_column(0, "key", others)))
    for pair in ((before, str(changed)), (str(changed), before)):
        assert main(["diff", *pair]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"recordmill diff: error: index/{index.name}: ")
        assert said.endswith("it changed after it was written\n")
