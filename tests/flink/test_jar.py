"""The jar of a job: which classes of Beam's job server it has."""

import pathlib
import shutil
import zipfile

from apache_beam.portability.api import beam_runner_api_pb2

from benchmarks.flink_cluster import HOME, JOB_SERVER
from recordmill.runners.flink import resource_detector
from recordmill.runners.flink.jar import library_name, write_job_jar
from recordmill.runners.flink.job import FlinkJob
from recordmill.runners.flink.options import FlinkOptions


def write_jar(path: pathlib.Path, *, whole: bool) -> list[str]:
    pipeline = beam_runner_api_pb2.Pipeline()
    write_job_jar(str(path), job_server=str(JOB_SERVER), pipeline=pipeline, options={}, whole=whole)
    with zipfile.ZipFile(path) as jar:
        return jar.namelist()


def test_each_provider_of_a_service_remains(tmp_path):
    server = zipfile.ZipFile(JOB_SERVER)
    remaining = set(write_jar(tmp_path / "job.jar", whole=False))
    services = [name for name in remaining if name.startswith("META-INF/services/")]
    providers = {
        line.partition("#")[0].strip()
        for name in services
        for line in server.read(name).decode().splitlines()
    }
    classes = {f"{name.replace('.', '/')}.class" for name in providers}
    lost = (classes & set(server.namelist())) - remaining
    assert {name for name in lost if not name.startswith("org/apache/flink/")} == set()
    assert "org/apache/beam/runners/flink/FlinkPipelineRunner.class" in remaining


def test_it_is_a_quarter_of_the_job_server(tmp_path):
    write_jar(tmp_path / "job.jar", whole=False)
    write_jar(tmp_path / "whole.jar", whole=True)
    sizes = [
        path.stat().st_size for path in (tmp_path / "job.jar", tmp_path / "whole.jar", JOB_SERVER)
    ]
    assert sizes[0] < 0.3 * sizes[2] < sizes[1] < sizes[2]


def test_job_servers_have_the_interfaces_of_the_resource_detector():
    """Otherwise the JobManager reads the directories of all jars of its class path for each job."""
    options, entries = resource_detector.for_job_server(str(JOB_SERVER))
    (name,) = options.values()
    assert list(entries) == [f"{name.replace('.', '/')}.class"]


def test_other_job_servers_get_no_resource_detector(tmp_path):
    with zipfile.ZipFile(tmp_path / "other.jar", "w") as jar:
        jar.writestr("org/apache/beam/runners/flink/FlinkPipelineRunner.class", b"")
    assert resource_detector.for_job_server(str(tmp_path / "other.jar")) == ({}, {})


def test_a_cluster_with_the_library_reports_its_own_version_and_needs_no_note(flink, tmp_path):
    (dist,) = (HOME / "lib").glob("flink-dist-*.jar")
    reported = flink.cluster._call("GET", "/v1/config")["flink-version"]
    assert dist.name == f"flink-dist-{reported}.jar"
    options = FlinkOptions(master=flink.master, job_server_jar=str(JOB_SERVER))
    assert FlinkJob(options, workers=1).note() is None
    other = tmp_path / "other.jar"
    shutil.copy(JOB_SERVER, other)
    with zipfile.ZipFile(other, "a") as jar:
        jar.writestr("another", b"")
    options = FlinkOptions(master=flink.master, job_server_jar=str(other))
    note = FlinkJob(options, workers=1).note()
    assert note is not None
    assert f", but {library_name(str(JOB_SERVER))}, of another job server" in note
