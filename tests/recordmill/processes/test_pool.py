"""Encoder processes: results, errors, and the death of a child or of the parent."""

import contextlib
import dataclasses
import functools
import importlib
import math
import os
import pathlib
import signal
import subprocess
import sys
import threading
from multiprocessing.connection import wait

import numpy as np
import pytest

from recordmill.errors import Reason, RecordError, RunError
from recordmill.option_names import as_flags, option_name
from recordmill.processes.pool import ProcessPool, close_shared_pool, shared_pool
from recordmill.processes.row_tasks import (
    RowTask,
    WorkerCrashedError,
    WorkerDiedError,
    run_isolated,
)
from recordmill.processes.shared_memory import SLOT_BYTES
from recordmill.processes.task_watch import TaskLimits, pause_before
from tests import pool_tasks
from tests.encoder_reuse import fresh_encoders
from tests.paths import ROOT
from tests.pool_tasks import (
    act,
    double,
    fail,
    fail_not_picklable,
    fail_not_unpicklable,
    kill,
    leave,
    len_of,
    lend,
    overflow,
    process_id,
    read,
    try_some,
    unpicklable,
    wait_for,
)


@pytest.fixture(autouse=True, scope="module")
def _fresh():
    with fresh_encoders():
        yield


def test_runtime_warnings_are_errors_in_the_processes_of_tests():
    """So that no test passes although NumPy warns of an overflow, or of NaN."""
    pool = ProcessPool(1)
    with contextlib.closing(pool), pytest.raises(RuntimeWarning, match="overflow"):
        pool.submit(overflow, np.array([1e300])).result()


def process_ids(pool, folder, tasks=2):
    """Return the ids of the processes that run several tasks at the same time."""
    pipes = [folder / f"pipe-{i}" for i in range(tasks)]
    for pipe in pipes:
        os.mkfifo(pipe)
    futures = [pool.submit(wait_for, pipe) for pipe in pipes]
    with contextlib.ExitStack() as stack:
        for pipe in pipes:  # opens once its task reads
            stack.enter_context(pipe.open("wb"))
            pipe.unlink()
    return {future.result(timeout=60) for future in futures}


def end(number):
    """Kill a process and return when it has ended, without reaping it."""
    handle = os.pidfd_open(number)
    os.kill(number, signal.SIGKILL)
    wait([handle])
    os.close(handle)


def parent(number):
    """Return the id of the parent of a process."""
    return int(pathlib.Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture(scope="module")
def pool():
    made = ProcessPool(2)
    yield made
    made.close()


def test_tasks_run_in_child_processes(pool, tmp_path):
    futures = [pool.submit(double, np.arange(1000) + i, plus=i) for i in range(40)]
    for i, future in enumerate(futures):
        assert (future.result() == (np.arange(1000) + i) * 2 + i).all()
    ids = process_ids(pool, tmp_path)
    assert len(ids) == 2
    assert os.getpid() not in ids


@pytest.mark.parametrize("size", [10, SLOT_BYTES - 100, SLOT_BYTES + 1])
def test_tasks_over_rows_larger_than_the_shared_memory(pool, size):
    call = functools.partial(len_of, b"x" * size)
    task = RowTask(count=1, call=lambda faults: call, trial=process_id)
    assert pool.submit_rows(task).result() == (bytes, size)


def test_a_closed_pool_leaves_no_thread_that_watches_it():
    before = {*threading.enumerate()}
    pool = ProcessPool(1)
    task = RowTask(count=1, call=lambda faults: process_id, trial=process_id)
    pool.submit_rows(task).result()
    (watch,) = (one for one in {*threading.enumerate()} - before if one.name == "watch")
    pool.close()
    watch.join(10)
    assert not watch.is_alive()


def test_processes_far_below_their_limits_are_checked_less_often():
    pauses = [pause_before(left, math.inf) for left in (-1, 0, 100 << 20, 1 << 29, 8 << 30)]
    assert pauses == [0.05, 0.05, 0.05, 0.25, 0.5]
    cores = os.cpu_count()
    assert [pause_before(8 << 30, left * cores) for left in (-1, 0.1, 60)] == [0.05, 0.1, 0.5]


@pytest.mark.parametrize("size", [8 << 20, SLOT_BYTES - 100, SLOT_BYTES, SLOT_BYTES + 1])
def test_messages_larger_than_the_buffer_of_the_socket_or_the_shared_memory(pool, size):
    """In both directions, between small messages."""
    value = np.random.default_rng(0).bytes(size)
    for given in (b"before", value, b"after"):
        assert pool.submit(bytes, given).result() == given


def test_a_result_is_not_overwritten_by_later_ones():
    pool = ProcessPool(1)
    futures = [pool.submit(np.full, 1 << 16, i) for i in range(8)]
    assert [set(future.result().tolist()) for future in futures] == [{i} for i in range(8)]
    pool.close()


_MIB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "beside", "lent"),
    [
        ([0], 0, [False]),
        ([100], 0, [False]),
        ([_MIB], 0, [True]),
        ([_MIB], 3 * _MIB, [True]),
        ([3 * _MIB, 100, 5 * _MIB], 0, [True, False, True]),
        ([8 * _MIB, 8 * _MIB - 1000], 0, [True, False]),
        ([15 * _MIB], 2 * _MIB, [False]),  # with what is beside it, too large for the slot
        ([SLOT_BYTES + 1], 0, [False]),
    ],
)
def test_large_data_of_a_result_are_not_copied(pool, sizes, beside, lent):
    parts, others = pool.submit(lend, sizes, beside=beside).result()
    assert [*map(len, parts)] == sizes
    assert all(part == b"\1" * len(part) for part in parts)
    assert others == bytes(beside)
    assert [isinstance(part, memoryview) for part in parts] == lent
    assert all(part.readonly for part in parts if isinstance(part, memoryview))


def test_a_slice_of_lent_data_is_copied(pool):
    (part,), _ = pool.submit(lend, [_MIB], sliced=True).result()
    assert isinstance(part, bytes)
    assert part == b"\1" * (_MIB - 1)


def test_lent_data_stay_as_they_are_while_they_are_in_use():
    """A process does not overwrite them in later tasks, and they outlast its end."""
    pool = ProcessPool(1)
    kept = []
    for number in range(6):
        (part,), _ = pool.submit(lend, [_MIB], fill=number).result()
        kept.append(part[1:])  # a slice keeps the slot, too
        pool.submit(bytes, b"x" * (4 * _MIB)).result()
    assert [isinstance(part, memoryview) for part in kept] == [True] * 3 + [False] * 3
    pool.close()
    assert [set(part) for part in kept] == [{number} for number in range(6)]


def test_memory_that_was_lent_is_used_again():
    pool = ProcessPool(1)
    for number in range(10):
        parts, _ = pool.submit(lend, [_MIB, _MIB], fill=number).result()
        assert [set(part) for part in parts] == [{number}] * 2
        assert isinstance(parts[0], memoryview)
        del parts
    pool.close()


@pytest.mark.parametrize(
    "error", [KeyError("k"), RecordError(Reason.CORRUPT, "half a file"), RunError("disk")]
)
def test_errors_keep_their_type(pool, error):
    with pytest.raises(type(error)) as caught:
        pool.submit(fail, error).result()
    assert str(caught.value) == str(error)
    assert f'File "{pool_tasks.__file__}", line' in caught.value.__notes__[-1]
    assert ", in fail\n    raise error" in caught.value.__notes__[-1]
    assert (
        vars(caught.value).items()
        >= {k: v for k, v in vars(error).items() if not k.startswith("__")}.items()
    )


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (fail_not_unpicklable, "NotUnpicklableError: salt and pepper (not picklable"),
        (fail_not_picklable, "NotPicklableError: no way out (not picklable"),
    ],
)
def test_errors_that_cannot_be_pickled_are_described(pool, function, message):
    with pytest.raises(RuntimeError) as caught:
        pool.submit(function).result()
    assert str(caught.value).startswith(message)
    assert f", in {function.__name__}\n" in caught.value.__notes__[-1]


def test_a_result_that_cannot_be_pickled_is_an_error(pool):
    with pytest.raises(TypeError, match="cannot pickle"):
        pool.submit(unpicklable).result()


def test_a_task_that_cannot_be_pickled_is_an_error_at_once(pool):
    with pytest.raises(TypeError, match="cannot pickle"):
        pool.submit(double, threading.Lock())


@pytest.mark.parametrize(
    ("function", "argument", "how"),
    [
        (leave, 3, "exit code 3"),
        (leave, 0, "exit code 0"),
        (kill, signal.SIGKILL, "signal 9, Killed"),
        (kill, signal.SIGSEGV, "signal 11, Segmentation fault"),
    ],
)
def test_a_process_that_dies_fails_its_task_and_is_replaced(
    pool, function, argument, how, tmp_path
):
    future = pool.submit(function, argument)
    with pytest.raises(WorkerDiedError, match=how):
        future.result(timeout=60)
    assert len(process_ids(pool, tmp_path)) == 2


def rows_of(rows):
    return RowTask(
        count=len(rows),
        call=lambda faults: functools.partial(act, rows, dict(faults)),
        trial=functools.partial(try_some, rows),
    )


def test_rows_that_crash_their_process_are_found(pool):
    rows = [1, -1, 2, 3, -1, -3, 4, -1]
    assert pool.submit_rows(rows_of(rows)).result(timeout=60) == [0, 2, 3, 5, 6]
    assert pool.submit_rows(rows_of([-1])).result(timeout=60) == []


SLOW = TaskLimits(seconds=0.2)


@pytest.mark.long
def test_rows_that_take_too_much_processor_time_are_found(pool):
    rows = [1, -4, 2, -4, 3]
    task = dataclasses.replace(rows_of(rows), limits=SLOW)
    assert pool.submit_rows(task).result(timeout=60) == [0, 2, 4]
    assert pool.submit_rows(dataclasses.replace(rows_of([-4]), limits=SLOW)).result() == []


def test_rows_that_take_long_together_are_kept(pool):
    task = dataclasses.replace(rows_of([-5] * 8), limits=SLOW)
    assert pool.submit_rows(task).result(timeout=60) == [*range(8)]


def test_a_process_that_waits_exceeds_no_limit(pool, tmp_path):
    """A suspended process, or a slow storage, is no fault of a row."""
    os.mkfifo(tmp_path / "pipe")
    call = functools.partial(wait_for, str(tmp_path / "pipe"))
    limits = TaskLimits(seconds=0.01)
    task = RowTask(count=1, call=lambda faults: call, trial=process_id, limits=limits)
    waiting = pool.submit_rows(task)
    assert pool.submit_rows(dataclasses.replace(rows_of([-4]), limits=SLOW)).result() == []
    with open(tmp_path / "pipe", "wb"):
        assert not waiting.done()
    assert waiting.result(timeout=60)


@pytest.mark.long
@pytest.mark.parametrize("value", [-1, -4])
def test_a_task_whose_rows_all_fail_is_no_fault_of_its_rows(pool, value):
    with pytest.raises(WorkerCrashedError, match="16 records of 100, all that were tried alone"):
        pool.submit_rows(dataclasses.replace(rows_of([value] * 100), limits=SLOW)).result()


def test_a_panic_of_a_library_is_a_crash(pool):
    """Libraries in Rust raise exceptions that are no `Exception`."""
    assert pool.submit_rows(rows_of([1, -6, 2])).result(timeout=60) == [0, 2]


def test_a_killed_process_is_no_fault_of_its_rows(pool):
    with pytest.raises(WorkerDiedError, match="signal 9, Killed"):
        pool.submit_rows(rows_of([1, -2, 2])).result(timeout=60)


def test_a_crash_that_no_row_causes_alone_fails_the_task(pool):
    with pytest.raises(WorkerCrashedError, match="signal 7, Bus error"):
        pool.submit_rows(rows_of([-3, 1, 2, -3])).result(timeout=60)


def test_a_process_killed_between_tasks_is_replaced(pool, tmp_path):
    before = process_ids(pool, tmp_path)
    for number in before:
        end(number)
    after = process_ids(pool, tmp_path)
    assert len(after) == 2
    assert not after & before


def test_no_more_processes_than_tasks_are_used(tmp_path):
    cores = len(os.sched_getaffinity(0))
    pool = ProcessPool(1000)
    assert len({pool.submit(process_id).result() for _ in range(8)}) == 1
    assert len(process_ids(pool, tmp_path, tasks=cores + 2)) == cores + 2
    pool.close()


def test_closing_kills_processes_during_a_task(tmp_path):
    pool = ProcessPool(1)
    number = pool.submit(process_id).result()
    os.mkfifo(tmp_path / "pipe")
    future = pool.submit(read, str(tmp_path / "pipe"))
    queued = pool.submit(process_id)
    with open(tmp_path / "pipe", "wb"):  # opens once the task reads
        pool.close()
    with pytest.raises(WorkerDiedError):
        future.result(timeout=60)
    assert queued.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_the_shared_pool_is_created_once():
    close_shared_pool()
    first = shared_pool(1)
    assert shared_pool(5) is first
    assert first.workers == 1
    close_shared_pool()
    close_shared_pool()
    assert shared_pool(1) is not first
    close_shared_pool()


_PARENT = """
import sys, threading
from recordmill.processes.pool import ProcessPool
from tests.pool_tasks import process_id, read

if sys.argv[2] == "new interpreters":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
pool = ProcessPool(2)
pool.submit(process_id).result()
pool.submit(read, sys.argv[1]).result()
"""


def test_a_thread_that_ends_while_threads_are_counted(monkeypatch):
    threads = [pathlib.Path("/proc/self/comm"), pathlib.Path("/proc/self/task/0/comm")]
    monkeypatch.setattr(pathlib.Path, "glob", lambda *_: iter(threads))
    pool = ProcessPool(1)
    assert pool.submit(abs, -1).result() == 1
    pool.close()


def test_processes_import_modules_before_the_first_task():
    """The task itself does not import numpy."""
    for imports in ([], ["numpy"]):
        pool = ProcessPool(1, imports=imports)
        assert ("numpy" in pool.submit(eval, "[*__import__('sys').modules]").result()) == bool(
            imports
        )
        pool.close()


@pytest.mark.parametrize("start", ["forks", "new interpreters"])
def test_children_do_not_outlive_a_killed_parent(tmp_path, start):
    """Not even during a task, which would never end here."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(pipe), start], stdout=subprocess.PIPE, cwd=ROOT
    )
    with open(pipe, "wb"):  # opens once the task reads
        parent.kill()
        # The children share the standard output, which is closed when the last of them ends.
        assert parent.communicate(timeout=60) == (b"", None)


def test_modules_in_the_current_folder_do_not_shadow_the_librarys(tmp_path):
    (tmp_path / "queue.py").write_text("raise SystemExit('the wrong queue')")
    code = (
        "import sys; sys.path.pop(0)\n"
        "from recordmill.processes.pool import ProcessPool\n"
        "pool = ProcessPool(1)\n"
        "print(pool.submit(len, 'abc').result())\n"
        "pool.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


def test_a_failed_import_is_reported_by_the_task_that_needs_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "fragile.py"
    module.write_text("def work(): return 1\n")
    work = importlib.import_module("fragile").work
    module.write_text("raise ImportError('libfragile.so is missing')\n")
    pool = ProcessPool(1, imports=["fragile"])
    try:
        with pytest.raises(ImportError, match=r"libfragile\.so is missing") as caught:
            pool.submit(work).result()
        assert f'File "{module}", line 1' in caught.value.__notes__[-1]
        assert pool.submit(double, 2).result() == 4
    finally:
        pool.close()


START = """
import multiprocessing, sys, threading
from recordmill.processes import environment

environment.set_up()
import pyarrow.compute

from recordmill.processes.pool import fork_children, shared_pool
from tests.pool_tasks import command, kill

if sys.argv[1] == "forked, then threads":
    fork_children()
if sys.argv[1] == "a store":
    from recordmill.storage import files, filesystems

    filesystems.before_threads(fork_children)
    files.arrow_store("s3://bucket", "scheme=http&endpoint_override=127.0.0.1:1&region=us-east-1")
if sys.argv[1] != "none":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
pool = shared_pool(1)
assert len(multiprocessing.active_children()) <= 1, "there are more children than the pool has"
print(pool.submit(command).result())
if sys.argv[2] == "killed":
    print(pool.submit(kill, 9).exception())
    print(pool.submit(command).result())
pool.close()
"""


@pytest.mark.parametrize("killed", ["killed", "alive"])
@pytest.mark.parametrize(
    ("threads", "spawned"), [("none", False), ("threads", True), ("forked, then threads", False)]
)
def test_children_are_forked_only_if_there_are_no_threads(threads, spawned, killed):
    """A child that was killed is replaced by a new interpreter, because the pool has threads."""
    process = subprocess.Popen(
        [sys.executable, "-c", START, threads, killed],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    out, err = process.communicate(timeout=60)
    first, *rest = out.splitlines()
    assert first.split()[0] == str(process.pid)
    assert ("child_process import main" in first) == spawned
    if killed == "killed":
        assert "(signal 9, Killed)" in rest[0]
        assert rest[1].split()[0] == str(process.pid)
        assert "child_process import main" in rest[1]
    assert (err, process.returncode) == ("", 0)


def test_a_process_that_ends_without_any_row_is_an_error():
    """Its memory may be too little for its libraries."""

    def crash(call, limits):
        raise WorkerCrashedError("it ended", RecordError(Reason.TOO_LARGE, "memory"))

    task = RowTask(count=3, call=lambda faults: process_id, trial=process_id)
    with pytest.raises(WorkerCrashedError, match="it ended"):
        run_isolated(task, crash)


def test_functions_and_classes_defined_in_functions():
    factor = 3

    @dataclasses.dataclass(frozen=True)
    class Scale:
        by: int

        def of(self, number: int) -> int:
            return self.by * factor * number

    with contextlib.closing(ProcessPool(1)) as pool:
        assert pool.submit(lambda number: Scale(2).of(number), 5).result() == 30
        assert pool.submit(Scale(4).of, 5).result() == 60
        task = RowTask(count=1, call=lambda faults: lambda: Scale(1).of(7), trial=lambda some: None)
        assert pool.submit_rows(task).result() == 21


def test_processes_name_options_as_the_process_that_started_them():
    """Also if a command follows a pipeline in Python in one process, and the other way round."""
    for _ in range(2):
        assert shared_pool(1).submit(option_name, "max_length").result() == "max_length"
        with as_flags():
            assert shared_pool(1).submit(option_name, "max_length").result() == "--max-length"
    close_shared_pool()
