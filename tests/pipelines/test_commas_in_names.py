"""Options that take lists name columns and classes with commas."""

import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.image_runs import Made, make, run

pytestmark = pytest.mark.usefixtures("encoders")

PAR = "max. PAR (a, b)"
ROWS = 40


@pytest.fixture
def table(tmp_path) -> pathlib.Path:
    columns = {
        PAR: [float(row) for row in range(ROWS)],
        "x": list(range(ROWS)),
        "day, hour": [f"2020-01-{1 + row // 24:02} {row % 24:02}:00" for row in range(ROWS)],
        "kind": ["a, b" if row % 2 else "c" for row in range(ROWS)],
    }
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    return tmp_path / "in.parquet"


def features(made: Made) -> set[str]:
    return {*made.manifest.features}


QUOTED = f'"{PAR}"'


@pytest.mark.parametrize(
    ("options", "job"),
    [
        (["--zscore", f"{QUOTED},x"], {"zscore": [PAR, "x"]}),
        (["--bucketize", f"{QUOTED}=4,x=4"], {"bucketize": {PAR: 4, "x": 4}}),
        (["--bucketize", f"{QUOTED}=4,x=4"], {"bucketize": [f"{PAR}=4", "x=4"]}),
        (["--drop-columns", f'{QUOTED},"day, hour"'], {"drop-columns": [PAR, "day, hour"]}),
        (["--types", f"{QUOTED}=string"], {"types": {PAR: "string"}}),
        (["--key-column", '"day, hour",x'], {"key-column": '"day, hour",x'}),
        (["--label-column", "kind", "--exclude-labels", '"a, b"'],
         {"label-column": "kind", "exclude-labels": ["a, b"]}),
        (["--label-column", "kind", "--label-map", '"a, b=d",c=e'],
         {"label-column": "kind", "label-map": ["a, b=d", "c=e"]}),
    ],
)  # fmt: skip
def test_flags_and_job_files_name_columns_with_commas(tmp_path, table, options, job):
    common = ("--input", table, "--splits", "train=1")
    if "--key-column" not in options:
        common += ("--label-type", "none") if "--label-column" not in options else ()
    by_flags = make(tmp_path / "flags", *common, *options, command="table")
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    by_file = make(tmp_path / "file", *common, "--config", tmp_path / "job.yaml", command="table")
    assert by_flags.manifest.digest == by_file.manifest.digest
    assert by_flags.manifest.options == by_file.manifest.options
    if "--drop-columns" in options:
        assert features(by_flags) == {"kind", "x"}
    if "--exclude-labels" in options:
        assert by_flags.manifest.labels == ("c",)
    if "--label-map" in options:
        assert by_flags.manifest.labels == ("d", "e")
    if "--types" in options:
        assert by_flags.manifest.features[PAR].dtype == "string"


def test_printed_job_files_keep_names_with_commas(tmp_path, table, capsys):
    argv = ("--input", table, "--label-column", "kind", "--zscore", QUOTED, "--splits", "train=1")
    argv += ("--label-map", '"a, b"=d')
    made = make(tmp_path / "flags", *argv, command="table")
    capsys.readouterr()
    with pytest.raises(SystemExit):
        run("table", *argv, "--output", tmp_path / "again", "--print-config")
    (tmp_path / "job.yaml").write_text(capsys.readouterr().out)
    assert run("table", "--config", tmp_path / "job.yaml") == 0
    assert Made(tmp_path / "again").manifest.digest == made.manifest.digest


def test_series_have_columns_with_commas(tmp_path, table):
    argv = ("--input", table, "--splits", "train=1", "--window", 4, "--label-type", "none")
    argv += ("--time-column", '"day, hour"', "--zscore", QUOTED, "--horizon", 2)
    made = make(tmp_path / "out", *argv, "--target", f"x,{QUOTED}", command="sensor")
    assert made.manifest.features["target"].shape == (2, 2)


def test_advice_that_names_columns_can_be_pasted(tmp_path, table, capsys):
    assert run("table", "--input", table, "--zscore", PAR, "--output", tmp_path / "out") == 2
    assert f"In a list it needs double quotes: '{QUOTED}'" in capsys.readouterr().err
    columns = {"x": ["1"], PAR: ["2"]}
    folder = tmp_path / "several"
    folder.mkdir()
    pq.write_table(pa.table(columns), folder / "a.parquet")
    pq.write_table(pa.table({"x": ["1"]}), folder / "b.parquet")
    assert run("table", "--input", folder, "--output", tmp_path / "out") == 2
    assert f"or pass --drop-columns '{QUOTED}'" in " ".join(capsys.readouterr().err.split())


def test_numbers_that_may_be_ids_name_the_type(tmp_path):
    rows = [f"{row % 9 + 1}E{70 + row % 20},{row},{'ab'[row % 2]}" for row in range(ROWS)]
    (tmp_path / "in.csv").write_text("\n".join(["sku,price,label", *rows]) + "\n")
    argv = ("--input", tmp_path / "in.csv", "--splits", "train=1", "--max-reject-fraction", 1)
    assert run("table", *argv, "--output", tmp_path / "out") == 1
    made = make(tmp_path / "out", *argv, "--types", "sku=string", "--overwrite", command="table")
    assert len(made.examples()) == ROWS
    (tmp_path / "in.csv").write_text("\n".join(["sku,label", "7E70,a", "1,b"]) + "\n")
    made = make(tmp_path / "few", *argv, command="table")
    rejects = (tmp_path / "few/rejects.jsonl").read_text()
    assert "(if it is an id such as 7E70, --types sku=string keeps the text)" in rejects
