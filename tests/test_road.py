"""The road from end to end, with a kind of data that is nothing but a source and an encoder."""

import pathlib

from pipelines.config import CommonConfig
from pipelines.job import Job, Outcome
from recordmill.files import Location
from recordmill.manifest import Manifest, load
from runners import direct
from tests.tiny import TinyCheck, TinyEncoder, TinySource, tiny_rows
from transforms.kind import Kind


def run(
    output: pathlib.Path, source: TinySource, *, check: bool = False, workers: int = 2, **options
) -> Outcome:
    config = CommonConfig(input="/nowhere", output=str(output), workers=workers, **options)
    kind = Kind(
        name="tiny", source=source, encoder=TinyEncoder(), check=TinyCheck() if check else None
    )
    job = Job(config, kind)
    return job.run(
        lambda road: direct.run(road.build, workers=workers), on_listed=lambda rows: None
    )


def manifest(output: pathlib.Path) -> Manifest:
    return load(Location.parse(str(output)))


def test_publishes(tmp_path):
    out = tmp_path / "out"
    outcome = run(out, TinySource(rows=tiny_rows(1000)), num_shards=3, balance="oversample")
    assert outcome.status == "published"
    made = manifest(out)
    print(made.to_bytes().decode())
    assert made.ledger.records.written == 1000
