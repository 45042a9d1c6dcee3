"""A real Airflow loads the DAG and runs it: `make test-airflow` gives it a venv of its own."""

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys

import pytest

from tests.paths import ROOT

AIRFLOW = ROOT / "build" / "airflow" / "bin" / "airflow"


@pytest.fixture
def airflow(tmp_path):
    """Runs a command of Airflow; gives what it printed."""
    assert AIRFLOW.exists(), "make test-airflow builds it"
    dags = tmp_path / "dags"
    dags.mkdir()
    shutil.copy(ROOT / "deploy" / "airflow" / "recordmill_nightly.py", dags)
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_VAR_RECORDMILL_CONFIG": str(tmp_path / "job.yaml"),
        "AIRFLOW_VAR_RECORDMILL_OUTPUT": str(tmp_path / "sets"),
        "RECORDMILL_PYTHON": sys.executable,
        # It asks what runs it for its Beam; ours must be found without the folder we stand in.
        "PYTHONPATH": str(ROOT),
        "PATH": f"{AIRFLOW.parent}:{os.environ['PATH']}",
    }

    def run(*arguments):
        result = subprocess.run(
            [AIRFLOW, *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=280,
        )  # fmt: skip
        assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]
        return result.stdout + result.stderr

    run("db", "migrate")
    run("dags", "reserialize")
    return run


def test_a_night(airflow, tmp_path):
    options = {"size": 224, "splits": {"train": 0.8, "validation": 0.1, "test": 0.1}}
    options |= {"balance": "oversample", "seed": 7}
    job = {"command": "images", "input": str(ROOT / "examples" / "clothing"), **options}
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    said = airflow("dags", "test", "recordmill_nightly", "2026-11-21")
    assert "--labels=airflow-version=" in said
    manifest = json.loads((tmp_path / "sets" / "2026-11-21" / "dataset.json").read_text())
    assert manifest["ledger"]["records"]["written"] == 62
    # The event of the asset, for DAGs that start with it.
    with contextlib.closing(sqlite3.connect(tmp_path / "airflow.db")) as database:
        events = database.execute(
            "SELECT name, asset_event.extra FROM asset_event"
            " JOIN asset ON asset.id = asset_event.asset_id"
        ).fetchall()
    assert [(name, json.loads(extra)) for name, extra in events] == [
        ("recordmill_nightly", {"dataset": str(tmp_path / "sets" / "2026-11-21")})
    ]
    # The next night copies all records from it.
    airflow("dags", "test", "recordmill_nightly", "2026-11-22")
    written = manifest["ledger"]["records"]["written"] + manifest["ledger"]["copies"]["written"]
    assert json.loads((tmp_path / "sets/2026-11-22/job.json").read_text())["reused"] == written
    # The same night again: it lists the input, and leaves what is there.
    airflow("dags", "test", "recordmill_nightly", "2026-11-21")
    assert json.loads((tmp_path / "sets" / "2026-11-21" / "dataset.json").read_text()) == manifest


def test_the_dag_runs_the_command_of_its_job_file(airflow, tmp_path):
    (tmp_path / "texts.csv").write_text("text,label\none,a\ntwo,b\n")
    job = {"command": "text", "input": str(tmp_path / "texts.csv"), "splits": {"train": 1}}
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    airflow("dags", "test", "recordmill_nightly", "2026-11-21")
    manifest = json.loads((tmp_path / "sets" / "2026-11-21" / "dataset.json").read_text())
    assert manifest["ledger"]["records"]["written"] == 2
