"""Checks before planning: what can be known to be bad is rejected here, so that counts come out
exact.
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
from transforms.listing import read_part, write_part

_CHUNK = 256  # rows of a task


def checked_name(part: Part) -> str:
    """Where the rows of a part go that pass."""
    return f"checked/{part.name.rpartition('/')[2]}"


def check_part(part: Part, *, check: Check, staging: Staging, workers: int) -> Part:
    """Writes the rows of a part that pass, beside what did not; done already on resume."""
    name = checked_name(part)
    done = staging.read_json(f"{name}.json")
    if done is not None:
        return Part(**done["part"])
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
        write_part(rows.take(pa.array(kept, pa.int64())), staging, name),
        rejected=len(rejects),
        filtered=filtered.total(),
    )
    # Written last: a part with its JSON is complete.
    staging.place(f"{name}.json").write_bytes(
        to_json({"part": dataclasses.asdict(checked), "rejects": rejects, "filtered": filtered})
    )
    return checked


def check_outcome(part: Part, *, staging: Staging) -> tuple[list[Reject], dict[str, int]]:
    """What the checks left out of a part: (rejects, {option: filtered})."""
    if not part.name.startswith("checked/"):
        return [], {}
    done = staging.read_json(f"{part.name}.json")
    return [Reject(**reject) for reject in done["rejects"]], done["filtered"]


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
