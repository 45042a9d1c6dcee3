"""What comes between the listing and the plan: rows are read where the listing only says where they
stand, and what can be known to be bad is rejected, so that counts come out exact.
"""

import dataclasses
from collections import Counter

import apache_beam as beam
import pyarrow as pa

from recordmill.errors import Reject
from recordmill.pool import shared_pool
from recordmill.staging import Part, Staging, to_json
from transforms import batch
from transforms.encode import check_rows
from transforms.kind import Check
from transforms.listing import read_part, write_outcome, write_part
from transforms.read import RowReader, read_rows

_CHUNK = 256  # rows of a task


def check_part(part: Part, *, check: Check, staging: Staging, workers: int) -> Part:
    """Writes the rows of a part that pass, beside what did not; done already on resume."""
    stem = f"checked/{part.name.rpartition('/')[2].removesuffix('.arrow')}"
    done = staging.read_json(f"{stem}.json")
    if done is not None:
        return Part(**done)
    rows = read_part(part.name, staging=staging)
    pool = shared_pool(workers)
    starts = range(0, len(rows), _CHUNK)
    chunks = [batch.to_bytes(rows.slice(start, _CHUNK)) for start in starts]
    futures = [pool.submit(check_rows, check, chunk) for chunk in chunks]
    kept: list[int] = []
    rejects: list[Reject] = []
    filtered: Counter[str] = Counter()
    for start, future in zip(starts, futures, strict=True):
        outcome = future.result()
        kept += (outcome.kept + start).tolist()
        rejects += outcome.rejects
        filtered.update(option for _, option in outcome.filtered)
    staging.place("checked").make_dirs()
    checked = dataclasses.replace(
        write_part(rows.take(pa.array(kept, pa.int64())), staging, f"{stem}.arrow"),
        rejected=len(rejects),
        filtered=filtered.total(),
    )
    write_outcome(checked, staging, rejects=rejects, filtered=filtered)
    # Written last: with it the part is complete.
    staging.place(f"{stem}.json").write_bytes(to_json(checked))
    return checked


@dataclasses.dataclass(eq=False)
class CheckParts(beam.PTransform):
    """Parts of the listing in, parts of checked rows out."""

    check: Check
    staging: Staging
    workers: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, parts: beam.PCollection[Part]) -> beam.PCollection[Part]:
        return (
            parts
            | "Check"
            >> beam.Map(
                check_part, check=self.check, staging=self.staging, workers=self.workers
            ).with_output_types(Part)
            | "Spread" >> beam.Reshuffle()
        )


def _read_part(part: Part, *, reader: RowReader, workers: int) -> list[Part]:
    return shared_pool(workers).submit(read_rows, reader, part.name).result()


@dataclasses.dataclass(eq=False)
class ReadParts(beam.PTransform):
    """Parts of a listing that says where rows stand in, parts of these rows, checked, out."""

    reader: RowReader
    workers: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, parts: beam.PCollection[Part]) -> beam.PCollection[Part]:
        return (
            parts
            | "Read"
            >> beam.FlatMap(_read_part, reader=self.reader, workers=self.workers).with_output_types(
                Part
            )
            | "Spread" >> beam.Reshuffle()
        )
