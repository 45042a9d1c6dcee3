"""The survey and the plan: counts, samples, shards, and what stops a job before it writes."""

import collections
import dataclasses

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.job.staging import StagedPart, Staging, to_json
from recordmill.storage.files import Location
from recordmill.transforms.balancing.quotas import Quota
from recordmill.transforms.model import batch
from recordmill.transforms.model.rank_cuts import BEFORE_ALL
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.model.source import Layout
from recordmill.transforms.model.splits import assign
from recordmill.transforms.planning import estimates
from recordmill.transforms.planning.estimates import Estimate
from recordmill.transforms.planning.plan import SplitPlan, make_plan
from recordmill.transforms.planning.refusals import refusal
from recordmill.transforms.planning.sample_rows import sample_size
from recordmill.transforms.planning.survey import SAMPLE, Survey
from recordmill.transforms.staged.handles import StagedBatch
from recordmill.transforms.staged.listing import stage_listing
from recordmill.transforms.staged.parts import observed_columns, read_part, write_columns
from tests.tiny import TinyEncoder, TinySource, tiny_rows

SEED = 6
FRACTIONS = {"train": 0.8, "test": 0.2}
PRESPLIT = Layout(
    columns=pa.schema([]), labelled=True, grouped=False, split_source="the column 'split'"
)
OPTIONS = {
    "seed": SEED,
    "splits": {"train": 0.8, "validation": 0.1, "test": 0.1},
    "workers": 2,
    "job_id": "job",
}


def staged(folder, source, **options):
    """State of the road when it plans: (survey, parts, staging)."""
    staging = Staging.of(Location.parse(str(folder)), "job")
    parts = stage_listing(source, staging).parts
    surveys = []
    for part in parts:
        rows = assign(read_part(part.name, staging=staging), fractions=FRACTIONS, seed=SEED)
        surveys.append(Survey.of(rows, StagedBatch(part), seed=SEED))
    if parts:
        write_columns(observed_columns(rows), staging)
    return Survey.sum(surveys), parts, staging


def planned(
    survey, parts, staging, *, quotas=None, problems=(), encoder=None, listing_rejects=0, **options
):
    output = staging.output.spelling
    return make_plan(
        dataclasses.replace(survey, batches=tuple(map(StagedBatch, parts))),
        quotas or {},
        problems,
        run=RunSpec(output=output, encoder=encoder or TinyEncoder(), **{**OPTIONS, **options}),
        listing_rejects=listing_rejects,
    )


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    return staged(tmp_path_factory.mktemp("out"), TinySource(rows=tiny_rows(3000), part=700))


@pytest.fixture
def new(tmp_path):
    """A survey of a few rows, whose staging is a test's own."""
    return lambda rows, **source: staged(tmp_path, TinySource(rows=tuple(rows), **source))


@given(
    st.lists(
        st.tuples(st.none() | st.sampled_from(["a", "b"]), st.sampled_from(["train", "new"])),
        max_size=700,
    ),
    st.integers(50, 400),
)
def test_a_survey_counts_and_samples_whatever_the_parts(rows, size):
    table = pa.RecordBatch.from_pydict(
        {
            batch.KEY: pa.array([f"key {i}" for i in range(len(rows))], pa.string()),
            batch.LABEL: pa.array([label for label, _ in rows], pa.string()),
            batch.SPLIT: pa.array([split for _, split in rows], pa.string()),
        }
    )
    surveys = [
        Survey.of(
            table.slice(at, size),
            StagedBatch(StagedPart(name=f"{at}", rows=0, bytes=0)),
            seed=SEED,
        )
        for at in range(0, len(rows), size)
    ]
    found = Survey.sum([Survey.sum(surveys[1:]), *surveys[:1]])
    ranks = batch.order_ranks(table, seed=SEED)
    for split in {split for _, split in rows}:
        own = [i for i, row in enumerate(rows) if row[1] == split]
        assert found.counts[split] == collections.Counter(rows[i][0] for i in own)
        smallest = sorted(own, key=lambda i: ranks[i])[:SAMPLE]
        sample = found.samples[split]
        assert sample["key"].to_pylist() == [f"key {i}" for i in smallest]
        places = zip(sample["part"].to_pylist(), sample["row"].to_pylist(), strict=True)
        assert [int(part) + row for part, row in places] == smallest
    assert found.counts.keys() == {split for _, split in rows}


def test_the_samples_of_a_sum_are_sent_alone():
    """Arrow sends a slice with all rows that it was taken from."""
    rows = pa.RecordBatch.from_pydict(
        {
            batch.KEY: pa.array(map(str, range(10 * SAMPLE))),
            batch.LABEL: pa.nulls(10 * SAMPLE, pa.string()),
            batch.SPLIT: batch.constant("train", 10 * SAMPLE),
        }
    )
    part = StagedBatch(StagedPart(name="part", rows=0, bytes=0))
    survey = Survey.of(rows, part, seed=SEED)
    found = Survey.sum([survey] * 20).samples["train"]
    assert found.get_total_buffer_size() < 2 * survey.samples["train"].get_total_buffer_size()


def test_splits_come_in_the_users_order_and_others_after(new):
    rows = [(f"{i}", "a", b"v") for i in range(4)]
    made = planned(*new(rows, splits=("zebra", "test", "apple", "train")))
    assert list(made.splits) == ["train", "test", "apple", "zebra"]


def test_a_split_without_records_is_noted(new):
    rows = [(f"{i}", "a", b"v") for i in range(3)]
    found = new(rows, splits=("train", "test", "train"))
    why = "there are too few records (3 for a fraction of 0.1)"
    notes = [note for note in planned(*found).notes if note.code == "empty-split"]
    assert notes == [f"no record is in the split 'validation', because {why}"]
    given = planned(*found, layout=PRESPLIT).notes
    assert [note for note in given if note.code == "empty-split"] == []


@pytest.mark.parametrize(
    ("options", "shards"),
    [
        ({"num_shards": 5}, {"train": 5, "test": 5}),
        ({"num_shards": {"train": 7}}, {"train": 7, "test": 1}),
        ({"num_shards": 10**6}, {"train": 2430, "test": 570}),  # no more than records
        ({"shard_bytes": 10**9}, {"train": 1, "test": 1}),
    ],
)
def test_shards(survey, options, shards):
    made = planned(*survey, **options)
    assert {name: split.shards for name, split in made.splits.items()} == shards


@pytest.mark.parametrize(("job_id", "option"), [(None, "num_shards"), ("j", "--num-shards")])
def test_shards_of_a_split_that_there_is_not_are_refused(survey, job_id, option):
    """The message names the option as it was given: in Python, or to a command."""
    made = planned(*survey, num_shards={"train": 2, "tset": 3}, job_id=job_id)
    message = f"{option} names a split 'tset', expected one of train, validation, test"
    assert made.verdict.message == message


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_shards_are_about_as_large_as_asked(survey, compression):
    survey[2].place("estimate.json").delete(missing_ok=True)
    made = planned(*survey, shard_bytes=20_000, compression=compression)
    train = made.splits["train"]
    assert train.shards == -(-train.records * train.estimate.record_bytes // 20_000)
    assert train.shards > 3
    survey[2].place("estimate.json").delete()


def test_the_estimate_is_the_mean_of_the_records_of_smallest_rank(new):
    rows = [(f"{i}", "a", b"x" * (i % 90)) for i in range(300)]
    survey, parts, staging = new(rows, splits=("train",) * 300)
    made = planned(survey, parts, staging).splits["train"].estimate
    by_key = {key: len(value) for key, _, value in rows}
    sample = [by_key[key] for key in survey.samples["train"]["key"].to_pylist()]
    size = sample_size(300)
    around = 64  # bytes of the frame, of copy and label, and of names and lengths
    assert made.record_bytes == sum(length + around for length in sample[:size]) // size
    assert made.input_bytes > sum(sample[:size]) / size  # of its row in memory


@pytest.mark.parametrize(
    ("records", "size"), [(1, 1), (16, 16), (900, 16), (5000, 50), (10**9, 256)]
)
def test_sample_size(records, size):
    assert sample_size(records) == size


def test_the_first_estimate_is_kept(survey, monkeypatch):
    first = planned(*survey)
    monkeypatch.setattr(estimates, "shared_pool", None)
    assert planned(*survey) == first


def test_a_new_listing_is_estimated_anew(new):
    short = planned(*new([(f"{i}", "a", b"x") for i in range(50)]))
    long = planned(*new([(f"{i}", "a", b"x" * 500) for i in range(50)]))
    assert long.splits["train"].estimate.record_bytes > (
        short.splits["train"].estimate.record_bytes + 400
    )


def test_a_split_of_rejects_is_planned_by_its_inputs(new):
    made = planned(*new([(f"{i}", "a", b"bad") for i in range(50)]))
    estimate = made.splits["train"].estimate
    assert estimate.record_bytes == estimate.input_bytes + 64
    assert made.splits["train"].shards == 1


def test_quotas_count_copies_and_drops(new):
    rows = [*((f"a{i}", "a", b"v") for i in range(4)), ("b", "b", b"v"), ("n", None, b"v")]
    found = new(rows, splits=("train",) * 6)
    over = planned(*found, quotas={"a": Quota(1, BEFORE_ALL, 4), "b": Quota(4, BEFORE_ALL, 4)})
    train = over.splits["train"]
    assert (train.records, train.copies, train.dropped) == (9, 3, 0)
    assert train.before == {"a": 4, "b": 1, None: 1}
    assert train.after == {"a": 4, "b": 4, None: 1}
    under = planned(*found, quotas={"a": Quota(0, BEFORE_ALL, 1), "b": Quota(1, BEFORE_ALL, 1)})
    train = under.splits["train"]
    assert (train.records, train.copies, train.dropped) == (3, 0, 3)


def test_labels_are_those_of_all_splits_in_utf8_order(new):
    rows = [("1", "z", b""), ("2", "ä", b""), ("3", "", b""), ("4", None, b"")]
    found = new(rows, splits=("train", "test", "new", "new"))
    assert planned(*found).context.labels == ("", "z", "ä")
    assert planned(*found, labels=("z", "ä", "", "q")).context.labels == ("z", "ä", "", "q")


@pytest.mark.parametrize(("spill_above", "spill"), [(0, True), (10**9, False)])
def test_large_plans_spill(survey, spill_above, spill):
    assert planned(*survey, spill_above=spill_above).spill is spill


def test_spilling_counts_the_copies(new):
    survey, parts, staging = new([("a", "a", b"v")], splits=("train",))
    above = parts[0].bytes * 10
    few, many = (
        planned(
            survey, parts, staging, quotas={"a": Quota(n, BEFORE_ALL, n)}, spill_above=above
        ).spill
        for n in (10, 11)
    )
    assert (few, many) == (False, True)


@pytest.mark.parametrize(
    ("records", "each", "rows"),
    [
        (10**9, 0, 16384), (10**9, 1, 16384), (10**9, 10_000, 838), (10**9, 1 << 22, 2),
        (10**9, 1 << 30, 1), (0, 1, 1024), (16_384, 1, 1024), (32_000, 1, 2000),
    ],
)  # fmt: skip
def test_rows_of_a_task(records, each, rows):
    estimate = Estimate(record_bytes=each // 2, input_bytes=each - each // 2, seconds=0)
    after = {"a": records}
    assert SplitPlan(before=after, after=after, shards=1, estimate=estimate).task_rows == rows


@pytest.mark.parametrize(
    ("rejected", "seen", "fraction", "refused"),
    [(0, 0, 0, False), (0, 9, 0, False), (1, 100, 0.01, False), (2, 100, 0.01, True)],
)
def test_refusal(rejected, seen, fraction, refused):
    verdict = refusal(rejected, seen, fraction)
    assert (verdict is not None) is refused
    if verdict is not None:
        assert verdict.message == (
            "2 of 100 inputs were rejected (2.0%), more than --max-reject-fraction 0.01 allows:"
            " correct the input, or raise --max-reject-fraction"
        )


def test_a_refusal_shows_large_numbers_as_tables_do():
    verdict = refusal(2000, 20_000, 0.01)
    assert verdict is not None
    assert verdict.message.startswith("2,000 of 20,000 inputs were rejected (10.0%)")


def test_verdicts_stop_before_anything_is_encoded(new, monkeypatch):
    monkeypatch.setattr(estimates, "shared_pool", None)
    survey, parts, staging = new([("a", "a", b"v")])
    found = planned(survey, parts, staging, listing_rejects=1)
    assert found.verdict.message.startswith("1 of 2 inputs were rejected (50.0%)")
    assert found.splits == {}
    found = planned(survey, parts, staging, listing_rejects=1, problems=["this", "that"])
    assert found.verdict.message == "this"
    found = planned(Survey(), (), staging, listing_rejects=1, max_reject_fraction=1)
    assert found.verdict.message == (
        "nothing is left to write: of 1 input 1 were rejected: correct the input"
    )


def test_filtered_rows_are_reported_by_option(new, monkeypatch):
    monkeypatch.setattr(estimates, "shared_pool", None)
    _, _, staging = new([("a", "a", b"v")])
    staging.place("checked").make_dirs()
    outcome = to_json({"rejects": [], "filtered": {"min-size": 3}, "skipped": {}, "left_out": []})
    staging.place("checked/part.arrow.json").write_bytes(outcome)
    part = StagedPart(name="checked/part.arrow", rows=0, bytes=0, filtered=3)
    found = planned(Survey(), (part,), staging)
    assert found.verdict.message == (
        "nothing is left to write: of 3 inputs 3 were filtered by --min-size: relax --min-size"
    )


@pytest.mark.parametrize("name", ["a/b", "..", "été", "a b"])
def test_a_split_that_no_file_can_be_named_after(new, monkeypatch, name):
    monkeypatch.setattr(estimates, "shared_pool", None)
    found = planned(*new([("k", "a", b"v")], splits=(name,)))
    assert found.verdict.message == (
        f"the input names a split {name!r}, expected letters, digits, _ and -, because files are"
        " named after it: rename it in the input"
    )


def test_what_plan_json_says(new):
    made = planned(*new([("a", "a", b"v"), ("n", None, b"v")], splits=("train",) * 2))
    size = made.splits["train"].estimate.record_bytes
    train = made.to_json()["splits"]["train"]
    assert train.pop("seconds") > 0
    assert train == {
        "records": 2,
        "copies": 0,
        "shards": 1,
        "bytes": 2 * size,
        "before": [["a", 1], [None, 1]],
        "after": [["a", 1], [None, 1]],
    }
