"""One cluster for all tests that do not break theirs."""

from collections.abc import Iterator

import pytest

from benchmarks.flink_cluster import FlinkCluster
from tests.flink.jobs import LARGE, LONG, Job
from tests.paths import SMALL_CLOTHING

GZIP = (*LARGE, "--compression", "gzip")
# Sort buffers of about 3 MiB: Flink fails on larger elements.
SMALL_BUFFERS = {"taskmanager.memory.managed.fraction": 0.1}


@pytest.fixture(scope="session")
def flink(tmp_path_factory) -> Iterator[FlinkCluster]:
    with FlinkCluster(tmp_path_factory.mktemp("flink"), settings=SMALL_BUFFERS) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory) -> Job:
    """The job that most tests run, by the local runner."""
    job = Job(tmp_path_factory.mktemp("direct") / "out")
    job.finish_here()
    return job


@pytest.fixture(scope="session")
def large(tmp_path_factory) -> Job:
    """Balanced, augmented, gzipped, of 852 photos, by the local runner."""
    job = Job(tmp_path_factory.mktemp("large") / "out", *GZIP, source=SMALL_CLOTHING)
    job.finish_here()
    return job


@pytest.fixture(scope="session")
def long(tmp_path_factory) -> Job:
    """A job that takes a while, by the local runner."""
    job = Job(tmp_path_factory.mktemp("long") / "out", *LONG)
    job.finish_here()
    return job
