"""Cutting batches into the pieces of shards."""

from recordmill.job.staging import StagedPart
from recordmill.transforms.model.data_type import Context
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.staged.handles import StagedBatch
from recordmill.transforms.writing.shards.shuffle import CutIntoPieces
from tests.tiny import TinySource, tiny_rows
from tests.tiny_jobs import run, tiny_job


def test_a_retry_after_publishing_finds_nothing_to_do(tmp_path):
    """A runner may repeat this step if a worker dies at the very end, when staging is swept."""
    job = tiny_job(tmp_path / "out", TinySource(rows=tiny_rows(20)))
    run(job)
    part = StagedPart(name="listing/00000", rows=20, bytes=100)
    plan = Plan(seed=0, splits={}, quotas={}, context=Context(seed=0, labels=()), parts=(part,))
    cut = CutIntoPieces(job.staging)
    cut.start_bundle()
    assert list(cut.process(StagedBatch(part), plan)) == []
