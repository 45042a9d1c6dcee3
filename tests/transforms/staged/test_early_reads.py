"""Parts that are read before the pipeline runs are read once, and reading ends with the run."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from recordmill.job.staging import StagedPart, Staging
from recordmill.processes.task_watch import NO_LIMITS
from recordmill.storage.files import Location
from recordmill.transforms.staged import early_reads

PARTS = [StagedPart(name=f"listing/{n}", rows=1, bytes=1, reads=n) for n in (1, 3, 2)]


class Reader:
    """Reads a part as itself. read: names of the parts, in order."""

    def __init__(self, job):
        self.staging = Staging.of(Location.parse("out"), job)
        self.read = []


class Pool(ThreadPoolExecutor):
    def submit_rows(self, task):
        return self.submit(task)


@pytest.fixture
def reader(monkeypatch):
    def task(reader, part, task_limits):
        def read():
            reader.read.append(part.name)
            if part.reads == 3:
                raise OSError("cannot be read")
            return [part]

        return read

    monkeypatch.setattr(early_reads, "read_rows_task", task)
    return Reader("a")


@pytest.fixture
def pool(monkeypatch):
    with Pool(1) as pool:
        monkeypatch.setattr(early_reads, "running_pool", lambda: pool)
        monkeypatch.setattr(early_reads, "shared_pool", lambda workers: pool)
        yield pool


def test_each_part_is_read_once_the_largest_first(reader, pool):
    with early_reads.early_reads(reader, PARTS, 0):
        for part in (PARTS[0], PARTS[2]):
            assert early_reads.read_rows(reader, part, workers=1, task_limits=NO_LIMITS) == [part]
        with pytest.raises(OSError, match="cannot be read"):
            early_reads.read_rows(reader, PARTS[1], workers=1, task_limits=NO_LIMITS)
    assert reader.read == ["listing/3", "listing/2", "listing/1"]
    assert early_reads.read_rows(reader, PARTS[0], workers=1, task_limits=NO_LIMITS) == [PARTS[0]]
    assert reader.read[3:] == ["listing/1"]


def test_jobs_at_the_same_time_read_their_own_parts(reader, pool):
    other = Reader("b")
    with early_reads.early_reads(reader, PARTS, 0):
        early_reads.read_rows(other, PARTS[0], workers=1, task_limits=NO_LIMITS)
        with early_reads.early_reads(other, (), 0):
            pass
        early_reads.read_rows(reader, PARTS[0], workers=1, task_limits=NO_LIMITS)
    assert (reader.read, other.read) == (["listing/3", "listing/2", "listing/1"], ["listing/1"])


def test_a_run_that_fails_leaves_no_task(reader, pool):
    waiting = pool.submit(lambda: None)
    with pytest.raises(KeyError), early_reads.early_reads(reader, PARTS, 0):
        raise KeyError
    assert waiting.done()
    read = [*reader.read]
    pool.submit(lambda: None).result()
    assert reader.read == read


def test_without_running_processes_nothing_is_read_early(reader, pool, monkeypatch):
    monkeypatch.setattr(early_reads, "running_pool", lambda: None)
    with early_reads.early_reads(reader, PARTS, 0):
        pool.submit(lambda: None).result()
        assert not reader.read
        early_reads.read_rows(reader, PARTS[0], workers=1, task_limits=NO_LIMITS)
    assert reader.read == ["listing/1"]
