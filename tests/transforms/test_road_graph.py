"""The graph that the road builds: eight steps at its top level, whatever a run needs of them."""

from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest

from recordmill.pipelines.jobs.road import Road
from recordmill.runners import direct
from recordmill.transforms import (
    Analyze,
    AssignSplits,
    BatchRecords,
    Check,
    DecodeAndResizeImages,
    FileTree,
    HeaderCheck,
    ImageEncoder,
    ImageOptions,
    Publish,
    Read,
    ReadImages,
    Rebalance,
    Reshuffle,
    RunSpec,
    WriteToTFRecord,
)
from tests.folders import make_folder
from tests.tiny import TinyAnalysis, TinyDuplicates, TinySections, TinySource, tiny_rows
from tests.tiny_jobs import tiny_job

STEPS = [
    *("Read", "Check", "AssignSplits", "Analyze"),
    *("Rebalance", "Reshuffle", "WriteToTFRecord", "Publish"),
]
PLAIN = {"source": TinySource(rows=tiny_rows(50))}
GROUPS = tuple(f"group {i % 9}" for i in range(60))
SPLITS = tuple("train" if i % 9 else "test" for i in range(60))
RICH = {
    "source": TinySource(rows=tiny_rows(60), unique_keys=False, groups=GROUPS, splits=SPLITS),
    "check": True,
    "analysis": TinyAnalysis(),
    "stratify": True,
    "balance": "oversample",
}
SECTIONS = {
    "source": TinySections(rows=tiny_rows(60)),
    "duplicates": TinyDuplicates(mode="drop"),
    "balance": "undersample",
}


def road_of(folder, **options) -> Road:
    """The road of a job that is not run."""
    roads: list[Road] = []

    class Found(Exception):
        pass

    def keep(road: Road) -> None:
        roads.append(road)
        raise Found

    with pytest.raises(Found):
        tiny_job(folder, options.pop("source"), **options).run(keep, on_listed=lambda rows: None)
    return roads[0]


def proto_of(road: Road) -> Any:
    pipeline = beam.Pipeline(runner="DirectRunner")
    road.build(pipeline)
    return pipeline.to_runner_api()


def top_level(road: Road) -> list[str]:
    """The names at the top level of the pipeline's proto, in their order."""
    proto = proto_of(road)
    (root,) = proto.root_transform_ids
    transforms = proto.components.transforms
    return [transforms[name].unique_name for name in transforms[root].subtransforms]


@pytest.mark.parametrize("options", [PLAIN, RICH, SECTIONS], ids=["plain", "rich", "sections"])
def test_eight_steps_are_the_top_level(options, tmp_path):
    assert top_level(road_of(tmp_path / "out", **options)) == STEPS


def test_a_plain_run_has_few_stages(tmp_path):
    """Each source and each exchange is a stage, with a worker to start on Flink."""
    transforms = proto_of(road_of(tmp_path / "out", **PLAIN)).components.transforms.values()
    # A Reshuffle has a GroupByKey in it.
    names = {"impulse": 3, "reshuffle": 2, "group_by_key": 3, "combine_per_key": 0}
    urns = [transform.spec.urn for transform in transforms]
    assert {name: urns.count(f"beam:transform:{name}:v1") for name in names} == names


def test_a_dry_run_ends_with_the_plan(tmp_path):
    assert top_level(road_of(tmp_path / "out", **PLAIN, dry_run=True)) == STEPS[:5]


def test_every_step_counts_its_records(tmp_path):
    rows = [
        (key, label, b"early " if i < 3 else value)
        for i, (key, label, value) in enumerate(tiny_rows(60))
    ]
    rows[10] = (rows[10][0], rows[10][1], b"bad")
    job = tiny_job(
        tmp_path / "out", TinySource(rows=tuple(rows)), check=True, max_reject_fraction=0.2
    )
    results = []
    job.run(
        lambda road: results.append(direct.run(road.build, workers=2)), on_listed=lambda rows: None
    )
    counted = {
        (one.key.metric.namespace, one.key.metric.name): one.result
        for one in results[0].metrics().query()["counters"]
    }
    assert {(step, f"records_{name}") for step in STEPS for name in ("in", "out")} <= set(counted)
    assert {step: counted[step, "records_out"] for step in STEPS} == {
        "Read": 60,
        **dict.fromkeys(("Check", "AssignSplits", "Analyze", "Rebalance", "Reshuffle"), 57),
        **dict.fromkeys(("WriteToTFRecord", "Publish"), 56),
    }
    assert counted["Check", "records_rejected"] == 3
    assert counted["WriteToTFRecord", "records_rejected"] == 1


class Pet(NamedTuple):
    """A record with types that Beam knows."""

    name: str
    kind: str


def photos_of_a_folder(pipeline: beam.Pipeline, folder: str) -> None:
    options = ImageOptions(size=(64, 64))
    run = RunSpec(output=f"{folder}/out", encoder=ImageEncoder(options=options))
    analyzed = (
        pipeline
        | Read.from_source(FileTree(input=f"{folder}/photos"), run)
        | Check(check=HeaderCheck(options=options))
        | AssignSplits()
        | Analyze()
    )
    analyzed | Rebalance("oversample") | Reshuffle() | WriteToTFRecord() | Publish()


def photos_in_memory(pipeline: beam.Pipeline, folder: str) -> None:
    decoded = pipeline | ReadImages(f"{folder}/photos") | DecodeAndResizeImages(size=64)
    decoded | Rebalance("oversample") | WriteToTFRecord(f"{folder}/out")


def named_tuples(pipeline: beam.Pipeline, folder: str) -> None:
    pets = pipeline | beam.Create([Pet("a", "cat")])
    pets | Rebalance("oversample") | WriteToTFRecord(f"{folder}/out")


def dicts_with_a_schema(pipeline: beam.Pipeline, folder: str) -> None:
    schema = pa.schema([("name", pa.string()), ("kind", pa.string())])
    batches = BatchRecords(label_column="kind", schema=schema)
    dicts = pipeline | beam.Create([{"name": "a", "kind": "cat"}]) | batches
    dicts | Rebalance("oversample") | WriteToTFRecord(f"{folder}/out")


def dicts_with_groups(pipeline: beam.Pipeline, folder: str) -> None:
    batches = BatchRecords(key_column="name", group_column="kind")
    dicts = pipeline | beam.Create([{"name": "a", "kind": "cat"}]) | batches
    dicts | WriteToTFRecord(f"{folder}/out")


@pytest.mark.parametrize(
    ("build", "most", "composites"),
    [
        (photos_of_a_folder, 60, {"FindQuotas"}),
        (photos_in_memory, 97, {"FindQuotas", "FindRepeatedKeys"}),
        (named_tuples, 66, {"FindQuotas"}),
        (dicts_with_a_schema, 66, {"FindQuotas"}),
        (dicts_with_groups, 78, {"FindGroupLeakage", "FindRepeatedKeys"}),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_checks_that_can_find_nothing_are_not_in_the_graph(build, most, composites, tmp_path):
    make_folder(tmp_path / "photos", {"cat": 4, "dog": 2})
    pipeline = beam.Pipeline(runner="DirectRunner")
    build(pipeline, str(tmp_path))
    transforms = pipeline.to_runner_api().components.transforms.values()
    found = {one.unique_name.rpartition("/")[2] for one in transforms if one.subtransforms}
    assert {name for name in found if name.startswith("Find")} - {"FindThresholds"} == composites
    assert len([one for one in transforms if not one.subtransforms]) <= most
