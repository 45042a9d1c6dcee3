import dataclasses
import json
import pathlib
import re
import shlex

import pytest

from recordmill.errors import ConfigError, RunError
from recordmill.format.file_info import file_info
from recordmill.pipelines import images, sensor, table
from recordmill.pipelines.cli import main
from recordmill.pipelines.commands.report_command import report_main
from recordmill.pipelines.options import declaration
from recordmill.pipelines.report_file import command_of
from tests.make_dataset import make_dataset, rewrite


def test_the_report_is_written_beside_the_dataset(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_dataset(tmp_path / "out")
    before = sorted(tmp_path.joinpath("out").rglob("*"))
    assert report_main(["--dataset", f"{tmp_path / 'out'}/"]) == 0
    path = tmp_path / "out.report.html"
    assert capsys.readouterr().out == f"The report is in {path}\n"
    assert path.read_text().startswith("<!doctype html>")
    assert sorted(tmp_path.joinpath("out").rglob("*")) == before


def test_output_names_the_file(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    assert (
        report_main(["--dataset", f"{tmp_path / 'out'}", "--output", f"{tmp_path / 'a.html'}"]) == 0
    )
    assert (tmp_path / "a.html").exists()
    assert not (tmp_path / "out.report.html").exists()


def test_a_damaged_dataset_has_no_report(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "out"
    make_dataset(folder)
    shard = folder / "train.tfrecord-00000-of-00002"
    shard.write_bytes(shard.read_bytes()[:40])
    with pytest.raises(RunError, match=r"no report was written: .*recordmill verify"):
        report_main(["--dataset", str(folder)])
    (folder / "dataset.json").unlink()
    with pytest.raises(RunError, match="no report was written: no dataset"):
        report_main(["--dataset", str(folder)])
    assert not (tmp_path / "out.report.html").exists()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("job.json", b'{"inp'),
        ("job.json", b"[1, 2]"),
        ("near_duplicates.jsonl", b'{"keys": 3}\n'),
        ("near_duplicates.jsonl", b'{"keys": ["a", "b"], "dist'),
        ("near_duplicates.jsonl", b"\xff\xfe"),
    ],
)
def test_a_damaged_side_file_is_named(tmp_path: pathlib.Path, file: str, content: bytes) -> None:
    folder = tmp_path / "out"
    manifest = make_dataset(folder)
    (folder / file).write_bytes(content)
    options = {**manifest.options, "kind": "images"}
    files = {**manifest.files, "near_duplicates.jsonl": file_info(content)}
    if file == "job.json":
        files = manifest.files
    rewrite(folder, dataclasses.replace(manifest, options=options, files=files))
    with pytest.raises(RunError, match=f"no report was written: {re.escape(file)}.* is damaged"):
        report_main(["--dataset", str(folder)])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("out/dataset.json", "expected a name that ends in .html"),
        ("out/report.html", "is inside the dataset"),
        ("folder.html", "exists and is no file"),
    ],
)
def test_nothing_but_a_page_is_replaced(tmp_path: pathlib.Path, target: str, message: str) -> None:
    make_dataset(tmp_path / "out")
    (tmp_path / "folder.html").mkdir()
    before = (tmp_path / "out/dataset.json").read_bytes()
    with pytest.raises(ConfigError, match=re.escape(message)):
        report_main(["--dataset", f"{tmp_path / 'out'}", "--output", f"{tmp_path / target}"])
    assert (tmp_path / "out/dataset.json").read_bytes() == before


def test_drift_needs_statistics(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"has no statistics\.pb"):
        report_main(["--dataset", f"{tmp_path / 'out'}", "--compare-with", f"{tmp_path / 'out'}"])


def test_a_run_writes_the_report_of_its_dataset(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["table", "--input", f"{tmp_path}/a.csv", "--output", f"{tmp_path}/out", "--report"]
    (tmp_path / "a.csv").write_text("x,label\n1,a\n2,b\n3,a\n4,b\n")
    assert main([*argv, "--splits", "train=1"]) == 0
    path = tmp_path / "out.report.html"
    assert capsys.readouterr().out.endswith(f"The report is in {path}\n")
    assert "recordmill table --input" in path.read_text()
    assert not list((tmp_path / "out").glob("*.html"))
    path.unlink()
    path.mkdir()  # the dataset stays complete if its report cannot be written
    assert main([*argv, "--splits", "train=1"]) == 0
    assert "the dataset is complete, but no report was written" in capsys.readouterr().err


def test_a_report_needs_a_dataset_of_this_run() -> None:
    given = ["--input", "in", "--output", "OUT", "--label-column", "a", "--report", "--dry-run"]
    with pytest.raises(ConfigError, match="--report: cannot be combined with --dry-run"):
        declaration.parse(table.TableConfig, given, prog="x")


@pytest.mark.parametrize(
    ("module", "config", "given"),
    [
        (images, "ImagesConfig", "--size 64x32 --splits train=1 --augment flip --augment-all"),
        (images, "ImagesConfig", "--rename image/encoded=x --balance oversample --seed 3"),
        (table, "TableConfig", "--label-column 'the class' --zscore a,b --no-statistics"),
        (sensor, "SensorConfig", "--window 24 --time-column 'a b' --split-by time --purge 1d"),
    ],
)
def test_the_command_makes_the_dataset_again(module: object, config: str, given: str) -> None:
    data_type = config.removesuffix("Config").lower()
    base = ["--input", "in put", "--output", "OUT"]
    one = declaration.parse(getattr(module, config), [*base, *shlex.split(given)], prog="x").config
    job = json.loads(json.dumps({"options": declaration.shaping(one), "input": ["in put"]}))
    made = shlex.split(command_of(data_type, job))
    assert made[:6] == ["recordmill", data_type, *base]
    again = declaration.parse(getattr(module, config), made[2:], prog="x").config
    assert declaration.shaping(again) == declaration.shaping(one)
    assert len(made) - 6 <= 2 * len(shlex.split(given))
