"""recordmill.run on Flink: what the script that is run defines, errors, and a cluster."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.flink_cluster import JOB_SERVER
from tests.all_kinds import KINDS
from tests.flink.jobs import Ended, ended, start, vertices_of_last
from tests.folders import make_folder
from tests.paths import ROOT
from tests.soak.command import content
from tests.tutorial import DATASETS, scripts

SCRIPT = str(ROOT / "tests" / "pipelines" / "script_pipeline.py")
TYPES = str(ROOT / "tests" / "pipelines" / "kinds_pipeline.py")
VALUES = str(ROOT / "tests" / "pipelines" / "values_pipeline.py")


def run_script(output, **options) -> Ended:
    return ended(start(str(output), json.dumps(options), program=(SCRIPT,)))


ON_FLINK = {"runner": "flink", "flink_job_server_jar": str(JOB_SERVER)}


def on_flink(output, **options) -> Ended:
    return run_script(output, **ON_FLINK, **options)


def test_what_a_script_defines_reaches_an_embedded_flink(tmp_path):
    direct = run_script(tmp_path / "direct")
    flink = on_flink(tmp_path / "flink")
    assert (direct.code, flink.code) == (0, 0), direct.err + flink.err
    assert content(tmp_path / "flink") == content(tmp_path / "direct")


def test_errors_have_the_exit_codes_of_commands(tmp_path):
    result = on_flink(tmp_path / "out", max_reject_fraction=0)
    assert result.code == 1
    assert "1 of 20" in result.last


def test_a_script_on_a_cluster(flink, tmp_path):
    result = on_flink(tmp_path / "out", flink_master=flink.master, environment="process")
    assert result.code == 0, result.err
    assert (tmp_path / "out" / "dataset.json").exists()


STEPS = {
    *("Read", "Check", "AssignSplits", "Analyze"),
    *("Rebalance", "Reshuffle", "WriteToTFRecord", "Publish"),
}


def test_every_vertex_that_runs_steps_names_them_on_flinks_page(flink, tmp_path):
    """Others are Flink's own: impulses, the outputs of a stage, and exchanges between stages."""
    result = on_flink(tmp_path / "out", flink_master=flink.master, environment="process")
    assert result.code == 0, result.err
    names = [vertex["name"] for vertex in vertices_of_last(flink)]
    stages = [name for name in names if "MapPartition at" in name]
    found = [{step for step in STEPS if re.search(rf"\b{step}\b", name)} for name in stages]
    assert all(found), names
    assert set().union(*found) == STEPS, names


def test_values_become_the_same_dataset_on_flink(flink, tmp_path):
    photos = make_folder(tmp_path / "photos", {"cat": 9, "dog": 4})
    (photos / "cat" / "broken.jpg").write_bytes(b"no image")
    options = {**ON_FLINK, "flink_master": flink.master, "environment": "process"}
    for name, given in (("direct", {}), ("flink", options)):
        argv = (str(photos), str(tmp_path / name), json.dumps(given))
        result = ended(start(*argv, program=(VALUES,)))
        assert result.code == 0, result.err
    assert content(tmp_path / "flink") == content(tmp_path / "direct")


def test_data_types_in_memory_become_the_same_datasets_on_flink(flink, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for kind in ("text", "table", "windows"):
        KINDS[kind](data)
    photos = sorted(make_folder(tmp_path / "photos", {"cat": 9, "dog": 4}).rglob("*.jpg"))
    images = {"image": [photo.read_bytes() for photo in photos]}
    images["label"] = [photo.parent.name for photo in photos]
    pq.write_table(pa.table(images), data / "images.parquet")
    options = {**ON_FLINK, "flink_master": flink.master, "environment": "process"}
    for name, given in (("direct", {}), ("flink", options)):
        argv = (str(data), str(tmp_path / name), json.dumps(given))
        result = ended(start(*argv, program=(TYPES,)))
        assert result.code == 0, result.err
    for kind in ("text", "table", "series", "images"):
        assert content(tmp_path / "flink" / kind) == content(tmp_path / "direct" / kind)


@pytest.mark.parametrize("script", DATASETS)
def test_the_tutorial_makes_the_same_datasets_on_flink(script, flink, tmp_path):
    options = {**ON_FLINK, "flink_master": flink.master, "environment": "process"}
    made = []
    for name, given in (("direct", {}), ("flink", options)):
        (tmp_path / name).mkdir()
        scripts(tmp_path / name, **given)
        result = ended(start(program=(script,), cwd=tmp_path / name))
        assert result.code == 0, result.err
        made.append(content(tmp_path / name / DATASETS[script]))
    assert made[0] == made[1]
