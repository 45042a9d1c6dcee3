"""Reading of rows before the pipeline runs: encoder processes read while Beam is imported."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait

from recordmill.job.staging import StagedPart
from recordmill.processes.pool import running_pool, shared_pool
from recordmill.transforms.staged.row_reader import RowReader, read_rows_task

_early: dict[str, Future[list[StagedPart]]] = {}  # by the name of the part


@contextlib.contextmanager
def early_reads(
    reader: RowReader | None, parts: Sequence[StagedPart], memory: int
) -> Iterator[None]:
    """Begin to read the parts of a listing, the largest first, if encoder processes are running.

    `read_rows_of` in this process takes the results. Inside the block they are read; at its end, no
    task goes on. memory: bytes that an encoder process may have.
    """
    pool = running_pool()
    if reader is not None and pool is not None:
        for part in sorted(parts, key=lambda part: (-part.reads, part.name)):
            _early[part.name] = pool.submit_rows(read_rows_task(reader, part, memory))
    try:
        yield
    finally:
        for future in _early.values():
            future.cancel()
        wait(_early.values())
        _early.clear()


def read_rows(
    reader: RowReader, part: StagedPart, *, workers: int, memory: int
) -> list[StagedPart]:
    """Read a part of a listing in an encoder process, unless that has begun already."""
    early = _early.pop(part.name, None)
    if early is None:
        early = shared_pool(workers).submit_rows(read_rows_task(reader, part, memory))
    return early.result()
