"""The one pass over all records before they are planned: what has to be known of them comes from a
single reading. What takes long of it is a task of encoder processes.
"""

import dataclasses

import apache_beam as beam

from recordmill.processes.pool import shared_pool
from recordmill.staging import Part
from transforms import batch
from transforms.examine import Counts, Examiner, Findings, Task, run_task
from transforms.kind import Analysis
from transforms.passes import Passes, SplitReader
from transforms.splits import Strata
from transforms.survey import Survey
from transforms.unique import partition_hashes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Seen:
    """What a part has shown.

    hashes: of its keys, as `partition_hashes` gives them, where keys may repeat. counts: of what is
    learned from train. findings: what statistics and schemas are about.
    """

    survey: Survey
    hashes: tuple[tuple[int, bytes], ...] = ()
    counts: Counts | None = None
    findings: Findings = Findings()  # noqa: RUF009, it is frozen


@dataclasses.dataclass(frozen=True, kw_only=True)
class Look:
    """What to look for. keys: whether they may repeat."""

    keys: bool = False
    analysis: Analysis | None = None
    examiner: Examiner | None = None

    def at(
        self, part: Part, strata: Strata | None = None, *, reader: SplitReader, workers: int
    ) -> Seen:
        """Looks at a part."""
        rows = reader.read(part.name, strata)
        task = None
        if self.analysis is not None or self.examiner is not None:
            task = shared_pool(workers).submit(
                run_task,
                Task(staging=reader.staging, analysis=self.analysis, examiner=self.examiner),
                part.name,
                batch.to_bytes(rows.select([batch.SPLIT])),
            )
        survey = Survey.of(rows, part, seed=reader.seed)
        hashes = tuple(partition_hashes(rows)) if self.keys else ()
        counts, findings = (None, Findings()) if task is None else task.result()
        return Seen(survey=survey, hashes=hashes, counts=counts, findings=findings)

    def over(self, passes: Passes, label: str, *, workers: int) -> beam.PCollection[Seen]:
        """Looks at all parts."""
        look = beam.Map(self.at, *passes.sides, reader=passes.reader, workers=workers)
        return passes.parts | label >> look.with_output_types(Seen)
