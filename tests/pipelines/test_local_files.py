"""Local files that data of another person names: they are neither read nor shown unless asked."""

import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from recordmill.pipelines.cli import main
from tests.image_runs import Made, make

STRUCT = pa.struct({"bytes": pa.binary(), "path": pa.string()})
SMALL = ("--splits", "train=1", "--max-reject-fraction", 1)


@pytest.fixture
def places(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder `data` with an image, and an image outside of it."""
    for name in ("data/inside.png", "secret.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), "red").save(tmp_path / name)
    (tmp_path / "data/x").mkdir()
    (tmp_path / "data/link.png").symlink_to(tmp_path / "secret.png")
    return tmp_path


def outside(places: pathlib.Path) -> list[str]:
    """Paths that lead out of the folder `data`."""
    secret = places / "secret.png"
    return [str(secret), "../secret.png", f"file://{secret}", "link.png", "x/../../secret.png"]


def save_table(places: pathlib.Path, *paths: str, kind: str = "parquet") -> pathlib.Path:
    """A table in the folder `data` whose rows have no bytes."""
    table = places / f"data/table.{kind}"
    values = [{"bytes": None, "path": path} for path in paths]
    if kind == "parquet":
        pq.write_table(pa.table({"image": pa.array(values, STRUCT)}), table)
    else:
        table.write_text("".join(json.dumps({"image": value}) + "\n" for value in values))
    return table


def details(made: Made) -> set[str]:
    lines = (made.folder / "rejects.jsonl").read_text().splitlines()
    return {json.loads(line)["detail"].partition(": ")[2] for line in lines}


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_rows_of_a_table_read_no_file_outside_of_its_folder(
    kind: str, places: pathlib.Path
) -> None:
    # A first row with bytes shows that the table holds files.
    table = save_table(places, "inside.png", *outside(places), kind=kind)
    argv = ("--input", table, "--bytes-column", "image", *SMALL)
    made = make(places / "out", *argv)
    assert made.manifest.ledger.records.written == 1
    assert made.rejects == {f"table.{kind}#{row}": "bad_value" for row in range(2, 7)}
    assert details(made) == {
        "a path outside of the folder of the table, which --no-confine allows for a table that you"
        " trust"
    }
    free = make(places / "free", *argv, "--no-confine")
    assert free.manifest.ledger.records.written == 6
    rooted = make(places / "rooted", *argv, "--input-root", places)
    # Paths are relative to that folder.
    assert {key.rpartition("#")[2] for key in rooted.rejects} == {"1", "3", "5", "6"}
    assert rooted.manifest.ledger.records.written == 2


def test_a_report_shows_local_files_only_on_request(
    places: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page of a dataset whose author names files on the machine of the reader."""
    table = places / "data/list.csv"
    (places / "names.txt").write_text("a\n")
    table.write_text(f"path,label\ninside.png,a\n{places}/secret.png,b\n{places}/gone.png,a\n")
    options = ("--labels-file", places / "names.txt", *SMALL)
    made = make(places / "out", "--input", table, *options)
    assert len(made.rejects) == 2
    secret = {"key": "secret.png", "stage": "read", "reason": "unlabelled", "detail": "none"}
    rejects = made.folder / "rejects.jsonl"
    rejects.write_text(rejects.read_text() + json.dumps(secret) + "\n")
    job = json.loads((made.folder / "job.json").read_text())
    job["input"] = [str(table), f"train={places}", "s3://box/photos"]
    (made.folder / "job.json").write_text(json.dumps(job))
    argv = ["report", "--dataset", str(made.folder)]
    page = places / "page.html"
    assert main([*argv, "--output", str(page)]) == 0
    text = page.read_text()
    body = text.replace(f"--dataset {made.folder}", "").replace(str(made.folder), "")
    assert str(places) not in body
    assert "--input train=WHERE" in text
    assert "--input s3://box/photos" in text
    assert "--labels-file FILE" in text
    assert text.count("--local-files") == 2
    shown = text[text.index("rejects-title") :]
    assert "<bdi>.../gone.png</bdi>" in shown
    assert "<image " not in shown
    assert main([*argv, "--output", str(page), "--local-files"]) == 0
    text = page.read_text()
    assert f"--labels-file {places}/names.txt" in text
    assert f"<code>{places}/secret.png</code>" in text
    assert "--local-files" not in text
