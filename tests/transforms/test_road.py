"""The road from end to end, with a data type of only a source and an encoder."""

import collections
import dataclasses
import json
import os
import pathlib
import random

import pyarrow as pa
import pytest

from recordmill.checking.verify import verify
from recordmill.errors import ConfigError, RunError
from recordmill.format.file_names import index_name
from recordmill.format.manifest import Manifest, load
from recordmill.format.shard_index import read_index
from recordmill.job.staging import FOLDER
from recordmill.pipelines.earlier.published import Published
from recordmill.processes.pool import close_shared_pool
from recordmill.processes.row_tasks import WorkerDiedError
from recordmill.reading.reader import read
from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.model.splits import apportion
from recordmill.transforms.writing.shards import shard_writer, write_stages
from tests.tiny import TinySections, TinySource, tiny_rows
from tests.tiny_jobs import run, tiny_job, tree

SPLITS = {"train": 0.7, "validation": 0.2, "test": 0.1}


def manifest(output: pathlib.Path) -> Manifest:
    return load(Location.parse(str(output)))


def indexed(output: pathlib.Path, split: str) -> list[dict]:
    """The rows of the indexes of a split, in their order."""
    made = manifest(output).splits[split]
    places = [index_name(split, i, len(made.shards)) for i in range(len(made.shards))]
    location = Location.parse(str(output))
    return [row for name in places for row in read_index(location / name).to_pylist()]


def shuffled(source: TinySource, *, part: int) -> TinySource:
    """The same records in another order, in other parts."""
    order = random.Random(part).sample(range(len(source.rows)), len(source.rows))

    def turned(column):
        return column and tuple(column[i] for i in order)

    return dataclasses.replace(
        source,
        rows=turned(source.rows),
        groups=turned(source.groups),
        splits=turned(source.splits),
        part=part,
    )


def no_pipeline(road):
    raise AssertionError("nothing was left to do")


def status(job) -> str:
    """Status of a job that needs no pipeline."""
    return job.run(no_pipeline, on_listed=lambda rows: None).status


# --- A job that uses all there is ---------------------------------------------------------------


def rich_source() -> TinySource:
    """900 records: some bad early, some bad late, some filtered, most of them in groups."""
    prefixes = {7: b"early ", 11: b"bad ", 13: b"skip "}
    rows = []
    for i, (key, label, value) in enumerate(tiny_rows(900)):
        prefix = next((p for n, p in prefixes.items() if i % 9 == 0 and i % n == 0), b"")
        rows.append((key, label, prefix + value))
    groups = tuple(None if i % 5 == 0 else f"group {i * 7 % 300}" for i in range(len(rows)))
    return TinySource(rows=tuple(rows), groups=groups)


RICH = {
    "splits": SPLITS,
    "stratify": True,
    "balance": "oversample",
    "num_shards": {"train": 4, "test": 2},
    "compression": "gzip",
    "label_offset": 1,
    "rename": {"value": "bytes"},
    "seed": 3,
    "max_reject_fraction": 0.1,
}


@pytest.fixture(scope="module")
def rich(tmp_path_factory):
    """The same job twice: with 1 worker and 4, in other orders and parts, spilled or not."""
    folder = tmp_path_factory.mktemp("rich")
    source = rich_source()
    variants = {1: (source, {}), 4: (shuffled(source, part=37), {"spill_above": 1})}
    for workers, (rows, options) in variants.items():
        close_shared_pool()
        job = tiny_job(folder / f"{workers}", rows, check=True, workers=workers, **RICH, **options)
        assert run(job, workers=workers).status == "published"
    close_shared_pool()
    return folder


def test_the_same_bytes_whatever_runs_it(rich):
    one = tree(rich / "1")
    assert len([name for name in one if ".tfrecord-" in name]) == 7
    assert tree(rich / "4") == one


def test_nothing_of_the_job_stays(rich):
    assert not any((rich / name / FOLDER).exists() for name in "14")


def test_what_is_published_can_be_verified(rich):
    report = verify(Location.parse(str(rich / "1")), deep=True)
    assert report.damages == ()
    assert report.records == sum(split.records for split in manifest(rich / "1").splits.values())


def test_the_ledger_says_where_everything_went(rich):
    values = [value for _, _, value in rich_source().rows]
    counts = collections.Counter(
        prefix
        for value in values
        for prefix in (b"early", b"bad", b"skip")
        if value.startswith(prefix)
    )
    ledger = manifest(rich / "1").ledger
    assert ledger.open_items() == []
    assert ledger.records.made == len(values) == 900
    assert ledger.records.rejected == counts[b"early"] + counts[b"bad"]
    assert ledger.records.filtered == counts[b"skip"] > 0
    assert ledger.records.written == 900 - counts.total()
    assert ledger.copies.rejected > 0
    assert ledger.copies.written > 100
    rejects = (rich / "1" / "rejects.jsonl").read_text().splitlines()
    assert len(rejects) == counts[b"early"] + counts[b"bad"]
    keys = [json.loads(line)["key"] for line in rejects]
    assert keys == sorted(keys)


def test_groups_never_part_and_classes_are_exact(rich):
    """Records are divided within each class, in whole groups, bad ones included."""
    source = rich_source()
    splits = {row["key"]: split for split in SPLITS for row in indexed(rich / "1", split)}
    of_unit = collections.defaultdict(set)
    of_class = collections.defaultdict(list)
    for (key, label, value), group in zip(source.rows, source.groups, strict=True):
        if not value.startswith(b"early"):
            of_unit[group or key] |= {splits[key]} if key in splits else set()
            of_class[label].append(splits.get(key))  # None: it was left out at writing
    assert max(map(len, of_unit.values())) == 1
    for found in of_class.values():
        counts = collections.Counter(found)
        for name, size in zip(SPLITS, apportion(len(found), SPLITS), strict=True):
            assert size - counts[None] - 1 <= counts[name] <= size + 1


def test_classes_of_train_are_equal_but_for_what_was_left_out(rich):
    made = indexed(rich / "1", "train")
    copies = collections.defaultdict(list)
    for row in made:
        copies[row["key"]].append(row["copy"])
    assert all(sorted(found) == list(range(len(found))) for found in copies.values())
    # A class has as many as the largest one, and loses the copies of what is bad.
    counts = collections.Counter(row["label"] for row in made)
    times = {label: collections.Counter() for label in counts}
    for row in made:
        if row["copy"] == 0:
            times[row["label"]][len(copies[row["key"]])] += 1
    for label, found in times.items():
        assert max(found) - min(found) <= 1, label
    assert min(counts.values()) > 0.9 * max(counts.values())
    assert {
        row["copy"] for split in ("validation", "test") for row in indexed(rich / "1", split)
    } == {0}


def test_the_order_is_a_function_of_seed_key_and_copy(rich):
    for split in SPLITS:
        rows = indexed(rich / "1", split)
        table = pa.RecordBatch.from_pydict(
            {
                batch.KEY: pa.array([row["key"] for row in rows]),
                batch.COPY: pa.array([row["copy"] for row in rows], pa.int32()),
            }
        )
        ranks = batch.order_ranks(table, seed=3)
        assert batch.sort_order(ranks, table).tolist() == list(range(len(rows)))
        shards = batch.scale(ranks, len(manifest(rich / "1").splits[split].shards)).tolist()
        sizes = [shard.records for shard in manifest(rich / "1").splits[split].shards]
        assert [shards.count(i) for i in range(len(sizes))] == sizes


def test_records_hold_what_their_index_says(rich):
    values = {key: (value, label) for key, label, value in rich_source().rows}
    labels = manifest(rich / "1").labels
    for split in SPLITS:
        examples = read(rich / "1", split)
        for row, example in zip(indexed(rich / "1", split), examples, strict=True):
            value, label = values[row["key"]]
            assert example == {
                "bytes": value,
                "copy": row["copy"],
                "label": labels.index(label) + 1,
            }


# --- A job without all that ---------------------------------------------------------------------


def plain_source() -> TinySource:
    splits = tuple("holdout" if i % 10 == 0 else None for i in range(600))
    return TinySource(rows=tiny_rows(600, seed=1), splits=splits, unique_keys=False)


PLAIN = {
    "splits": {"train": 0.9, "test": 0.1},
    "balance": "undersample",
    "balance_target": "median",
    "shard_size": 6000,
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    output = tmp_path_factory.mktemp("plain") / "out"
    assert run(tiny_job(output, plain_source(), **PLAIN), workers=1).status == "published"
    return output


def test_what_is_left_out_is_dropped_and_counted(plain):
    made = manifest(plain)
    train = made.splits["train"]
    assert made.ledger.open_items() == []
    assert made.ledger.records.dropped > 0
    assert made.ledger.copies.planned == 0
    sizes = sorted(train.classes.values())
    assert sizes[1] == sizes[2]
    assert made.splits["holdout"].records == 60
    assert len(train.shards) > 2
    assert verify(Location.parse(str(plain))).damages == ()


def test_the_same_bytes_spilled_and_in_any_order(plain, tmp_path):
    job = tiny_job(tmp_path / "out", shuffled(plain_source(), part=600), spill_above=1, **PLAIN)
    run(job, workers=2)
    assert tree(tmp_path / "out") == tree(plain)


def changes_of(folder):
    """When each file was changed last, as far as it may be read meanwhile."""
    found = {path: os.stat(path) for path in folder.rglob("*") if path.is_file()}
    return {path: (one.st_ino, one.st_mtime_ns, one.st_ctime_ns) for path, one in found.items()}


def test_the_same_command_again_changes_nothing(plain):
    before = changes_of(plain)
    assert status(tiny_job(plain, plain_source(), **PLAIN)) == "unchanged"
    assert status(tiny_job(plain, shuffled(plain_source(), part=7), **PLAIN)) == "unchanged"
    assert (
        status(tiny_job(plain, plain_source(), workers=7, overwrite=True, **PLAIN)) == "unchanged"
    )
    assert changes_of(plain) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 5}, "--seed was 0, is 5"),
        ({"compression": "gzip"}, "--compression was none, is gzip"),
        ({"balance_target": 7}, "--balance-target was median, is 7"),
    ],
)
def test_other_options_are_refused(plain, change, message):
    before = tree(plain)
    with pytest.raises(ConfigError, match="holds a dataset made with other options") as caught:
        status(tiny_job(plain, plain_source(), **{**PLAIN, **change}))
    assert message in str(caught.value)
    assert tree(plain) == before
    assert not (plain / FOLDER).exists()


def test_a_dataset_of_another_command_is_refused(plain):
    published = Published.find(Location.parse(str(plain)))
    ours = published.manifest.command
    with pytest.raises(ConfigError) as caught:
        published.refuse_others({"kind": "video"}, seed=0, encoders={})
    assert str(caught.value) == (
        f"{plain} holds a dataset made by recordmill {ours}, not by recordmill video: --overwrite"
        " replaces it, another --output keeps it"
    )


def test_other_input_is_refused(plain):
    before = tree(plain)
    rows = (*plain_source().rows[:-1], ("key-00599", "c0", b"changed"))
    source = dataclasses.replace(plain_source(), rows=rows)
    with pytest.raises(ConfigError, match=r"the input has changed since .* was written"):
        status(tiny_job(plain, source, **PLAIN))
    assert tree(plain) == before
    assert not (plain / FOLDER).exists()


def test_a_damaged_dataset_is_noticed(plain, tmp_path):
    output = tmp_path / "out"
    output.mkdir()
    for name, content in tree(plain).items():
        (output / name).parent.mkdir(exist_ok=True)
        (output / name).write_bytes(content)
    lost = next(output.glob("train.tfrecord-00001-*"))
    lost.write_bytes(b"")
    with pytest.raises(RunError, match=f"is damaged: {lost.name} (is missing|has another size)"):
        status(tiny_job(output, plain_source(), **PLAIN))


def test_overwriting_replaces_the_dataset(plain, tmp_path):
    output = tmp_path / "out"
    options = {"splits": {"train": 1.0}, "num_shards": 1}
    few = TinySource(rows=tiny_rows(20))
    run(tiny_job(output, few, **options))
    run(tiny_job(output, plain_source(), overwrite=True, **PLAIN))
    assert tree(output) == tree(plain)


# --- Jobs that do not come to their end ---------------------------------------------------------


def test_a_job_that_was_cut_off_goes_on(plain, tmp_path, monkeypatch):
    """Finished shards are not written again, and the dataset is the same to the byte."""
    real = shard_writer.ShardWriter._write_rows

    def fail_in_the_end(self, *arguments):
        shards = self.staging.place("shards")
        if shards.exists() and shards.list_dir():
            raise RunError("cut off")
        return real(self, *arguments)

    job = tiny_job(tmp_path / "out", plain_source(), **PLAIN)
    with monkeypatch.context() as patch:
        patch.setattr(shard_writer.ShardWriter, "_write_rows", fail_in_the_end)
        with pytest.raises(RunError, match="cut off"):
            run(job, workers=1)
    assert tree(tmp_path / "out") == {}
    finished = {
        path.stem: (path.parents[1] / "shards" / path.stem).stat().st_ino
        for path in (tmp_path / "out").glob(f"{FOLDER}/*/info/*.json")
    }
    assert finished
    assert run(job).status == "published"
    assert tree(tmp_path / "out") == tree(plain)
    assert {name: (tmp_path / "out" / name).stat().st_ino for name in finished} == finished


def test_too_many_bad_records_are_refused_and_then_allowed(tmp_path):
    rows = tuple((f"{i}", "a", b"bad" if i % 20 == 0 else b"good") for i in range(200))
    output = tmp_path / "out"
    refused = run(tiny_job(output, TinySource(rows=rows)))
    assert refused.status == "refused"
    assert refused.verdict.message == (
        "10 of 200 inputs were rejected (5.0%), more than --max-reject-fraction 0.01 allows:"
        " correct the input, or raise --max-reject-fraction"
    )
    assert [reject.key for reject in refused.rejects] == sorted(f"{i}" for i in range(0, 200, 20))
    assert tree(output) == {}
    shards = {path.name: path.stat().st_ino for path in output.glob(f"{FOLDER}/*/shards/*")}
    allowed = run(tiny_job(output, TinySource(rows=rows), max_reject_fraction=0.05))
    assert allowed.status == "published"
    assert {name: (output / name).stat().st_ino for name in shards} == shards


def test_what_checks_reject_is_known_before_anything_is_written(tmp_path):
    rows = tuple((f"{i}", "a", b"early" if i % 2 else b"good") for i in range(20))
    refused = run(tiny_job(tmp_path / "out", TinySource(rows=rows), check=True))
    assert refused.verdict.message.startswith("10 of 20 inputs were rejected (50.0%)")
    assert len(refused.rejects) == 10
    assert list((tmp_path / "out").glob(f"{FOLDER}/*/shards")) == []


def test_where_no_record_is_left_the_verdict_says_why(tmp_path):
    rows = [(f"{i:02}", "a", b"skip" if i % 4 else b"bad") for i in range(20)]
    job = tiny_job(tmp_path / "out", TinySource(rows=tuple(rows)), max_reject_fraction=1.0)
    refused = run(job)
    assert refused.status == "refused"
    assert refused.verdict.message == (
        "nothing is left to write: of 20 inputs 5 were rejected, 15 were filtered by --skip:"
        " correct the input, or relax --skip"
    )


def test_repeated_keys_and_small_classes_are_refused(tmp_path):
    rows = (*tiny_rows(50), ("key-00007", "c0", b"again"), ("rare", "rare", b"one"))
    source = TinySource(rows=rows, unique_keys=False)
    refused = run(tiny_job(tmp_path / "out", source, stratify=True))
    assert refused.verdict.message.startswith("--stratify: expected at least 3 records in every")
    source = dataclasses.replace(source, rows=rows[:-1])
    refused = run(tiny_job(tmp_path / "out", source))
    assert refused.verdict.message.startswith(
        "expected every key once, got 1 that repeat: 'key-00007' (2 times)"
    )
    assert tree(tmp_path / "out") == {}


def test_an_encoder_process_that_dies_ends_the_job(tmp_path):
    rows = tuple((f"{i}", "a", b"die" if i == 150 else b"good") for i in range(200))
    job = tiny_job(tmp_path / "out", TinySource(rows=rows), num_shards=3)
    with pytest.raises(WorkerDiedError, match=r"died in the middle of its work \(exit code 42\)"):
        run(job)
    assert tree(tmp_path / "out") == {}


@pytest.mark.long
def test_records_that_crash_their_process_are_rejects(tmp_path):
    """The shards are those of a run, with other workers, whose encoder rejects the records."""
    crashing = {"7": b"crash", "8": b"early-crash", "150": b"crash too"}
    bad = {key: b"early" if b"early" in value else b"bad" for key, value in crashing.items()}
    made = []
    for number, values in enumerate((crashing, bad)):
        rows = tuple((f"{i}", "a", values.get(f"{i}", b"good")) for i in range(200))
        options = {"max_reject_fraction": 0.1, "compression": "gzip", "workers": number + 1}
        job = tiny_job(tmp_path / f"{number}", TinySource(rows=rows), check=True, **options)
        assert run(job).verdict is None
        made.append(tree(tmp_path / f"{number}"))
    rejects = [json.loads(line) for line in made[0]["rejects.jsonl"].splitlines()]
    assert [(one["key"], one["stage"], one["reason"]) for one in rejects] == [
        ("150", "encode", "crashed_decoder"),
        ("7", "encode", "crashed_decoder"),
        ("8", "check", "crashed_decoder"),
    ]
    shards = [name for name in made[0] if ".tfrecord-" in name]
    assert shards
    assert {name: made[0][name] for name in shards} == {name: made[1][name] for name in shards}


@pytest.mark.long
def test_sections_that_crash_their_process_end_the_job_by_name(tmp_path):
    rows = tuple((f"{i}", "a", b"early-crash" if i == 70 else b"good") for i in range(100))
    job = tiny_job(tmp_path / "out", TinySections(rows=rows), check=True)
    with pytest.raises(RunError, match="cannot read /nowhere/rows: the library that decodes it"):
        run(job)


@pytest.mark.long
def test_a_record_that_takes_too_much_memory_is_a_reject(tmp_path):
    rows = tuple((f"{i}", "a", b"grow" if i == 15 else b"good") for i in range(20))
    options = {"max_worker_memory": 300 << 20, "max_reject_fraction": 0.1}
    assert run(tiny_job(tmp_path / "out", TinySource(rows=rows), **options)).verdict is None
    (reject,) = map(json.loads, tree(tmp_path / "out")["rejects.jsonl"].splitlines())
    assert (reject["key"], reject["reason"]) == ("15", "too_large")
    assert reject["detail"].endswith("more than --max-worker-memory 314572800 bytes for it")


def test_a_shard_that_gets_lost_is_noticed(tmp_path, monkeypatch):
    """Whatever the engine loses, the ledger does not close and nothing is published."""
    real = write_stages.WriteShard.process

    def process(self, element, plan):
        return iter(()) if element[0] == ("train", 1) else real(self, element, plan)

    monkeypatch.setattr(write_stages.WriteShard, "process", process)
    refused = run(tiny_job(tmp_path / "out", TinySource(rows=tiny_rows(90)), num_shards=3))
    assert refused.verdict.message.startswith("the ledger does not close: 90 records were made")
    assert "3 shards of train were planned, 2 came back" in refused.verdict.message
    assert tree(tmp_path / "out") == {}


def test_a_dry_run_plans_and_writes_nothing(tmp_path):
    rows = tiny_rows(90)
    job = tiny_job(
        tmp_path / "out", TinySource(rows=rows), dry_run=True, num_shards=2, balance="oversample"
    )
    planned = run(job)
    assert planned.status == "planned"
    assert (
        sum(split["records"] - split["copies"] for split in planned.plan["splits"].values()) == 90
    )
    assert planned.plan["splits"]["train"]["copies"] > 0
    assert not (tmp_path / "out").exists()
