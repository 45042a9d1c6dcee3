"""Row sources: workers read the listed sections, and datasets equal those of listed rows."""

import collections
import json

import pytest

from recordmill.format.manifest import load
from recordmill.reading.reader import read
from recordmill.storage.files import Location
from tests.image_runs import Made
from tests.tiny import (
    TinyAnalysis,
    TinyChunker,
    TinyDuplicates,
    TinySections,
    TinySource,
    tiny_rows,
)
from tests.tiny_jobs import run, tiny_job, tree

ROWS = tiny_rows(300)


def manifest_of(folder):
    return load(Location.parse(str(folder)))


def values(folder, split):
    return [record["value"] for record in read(folder, split)]


def shards(folder):
    return {n: c for n, c in tree(folder).items() if ".tfrecord" in n or n.startswith("index/")}


def test_sections_make_the_dataset_that_listed_rows_make(tmp_path):
    options = {"balance": "oversample", "num_shards": 2, "seed": 3}
    rows = ROWS[:60]  # a task per row takes 20 ms
    assert run(tiny_job(tmp_path / "a", TinySource(rows=rows), **options)).status == "published"
    for name, section, part in (("b", 50, 20), ("c", 1, 1), ("d", 60, 60), ("e", 7, 3)):
        source = TinySections(rows=rows, section=section, part=part)
        assert run(tiny_job(tmp_path / name, source, **options), workers=2).status == "published"
        assert shards(tmp_path / name) == shards(tmp_path / "a")


def test_unreadable_rows_are_rejected_inputs_and_checked_rows_rejected_records(tmp_path):
    rows = [*ROWS[:90], ("empty-1", "c0", b""), ("empty-2", "c1", b""), ("late", "c0", b"early x")]
    job = tiny_job(
        tmp_path / "out", TinySections(rows=tuple(rows)), check=True, max_reject_fraction=0.1
    )
    outcome = run(job)
    assert outcome.status == "published"
    assert [(r.key, r.stage, r.reason) for r in outcome.rejects] == [
        ("empty-1", "read", "empty"),
        ("empty-2", "read", "empty"),
        ("late", "check", "corrupt"),
    ]
    ledger = manifest_of(tmp_path / "out").ledger
    assert (ledger.inputs.read, ledger.inputs.rejected) == (91, 2)
    assert (ledger.records.made, ledger.records.written, ledger.records.rejected) == (91, 90, 1)


def test_too_many_unreadable_rows_end_the_job(tmp_path):
    rows = (*ROWS[:5], *((f"empty-{i}", "c0", b"") for i in range(5)))
    outcome = run(tiny_job(tmp_path / "out", TinySections(rows=rows)))
    assert outcome.status == "refused"
    assert outcome.verdict.message.startswith("5 of 10 inputs were rejected (50.0%)")


def test_a_label_outside_the_labels_file_is_rejected(tmp_path):
    (tmp_path / "labels.txt").write_text("c0\nc1\n")
    job = tiny_job(
        tmp_path / "out",
        TinySections(rows=ROWS),
        labels_file=str(tmp_path / "labels.txt"),
        max_reject_fraction=1,
    )
    assert run(job).status == "published"
    others = sum(label not in ("c0", "c1") for _, label, _ in ROWS)
    assert others
    assert manifest_of(tmp_path / "out").ledger.inputs.rejected == others


def doubled(rows):
    """Every third row three times, under other keys, in other cases."""
    again = [(f"{key}-again", label, value.upper()) for key, label, value in rows[::3]]
    more = [(f"a-{key}", label, value) for key, label, value in rows[::3]]
    return (*rows, *again, *more)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_duplicate_with_the_smallest_key_is_kept(tmp_path, workers):
    rows = doubled(ROWS)
    job = tiny_job(
        tmp_path / "out", TinySections(rows=rows), duplicates=TinyDuplicates(mode="drop")
    )
    assert run(job, workers=workers).status == "published"
    manifest = manifest_of(tmp_path / "out")
    written = [v.lower() for split in manifest.splits for v in values(tmp_path / "out", split)]
    assert sorted(written) == sorted({value.lower() for _, _, value in rows})
    ledger = manifest.ledger
    assert ledger.records.filtered == len(rows) - len(written) >= 200
    assert ledger.records.made == ledger.inputs.read == len(rows)


def test_duplicates_are_kept_together(tmp_path):
    rows = doubled(ROWS)
    job = tiny_job(
        tmp_path / "out",
        TinySections(rows=rows),
        duplicates=TinyDuplicates(mode="group"),
        splits={"train": 0.5, "test": 0.5},
    )
    assert run(job).status == "published"
    assert manifest_of(tmp_path / "out").ledger.records.written == len(rows)
    train, test = ({v.lower() for v in values(tmp_path / "out", s)} for s in ("train", "test"))
    assert not train & test
    assert len(train) > 100 < len(test)


@pytest.mark.parametrize("source", [TinySource, TinySections])
def test_learning_uses_train_before_balancing(tmp_path, source):
    job = tiny_job(
        tmp_path / "out", source(rows=ROWS), analysis=TinyAnalysis(least=5), balance="oversample"
    )
    assert run(job).status == "published"
    out = tmp_path / "out"
    index = [record for record in read(out, "train") if record["copy"] == 0]
    counts = collections.Counter(chr(record["value"][0]) for record in index)
    lines = [f"{item} {n}" for item, n in sorted(counts.items()) if n >= 5]
    learned = (out / "learned/bytes.txt").read_text()
    assert learned.splitlines() == [f"{len(index)}", *lines]
    assert "learned/bytes.txt" in json.loads((out / "dataset.json").read_text())["files"]


def test_learning_needs_a_train_split(tmp_path):
    job = tiny_job(
        tmp_path / "out", TinySections(rows=ROWS), analysis=TinyAnalysis(), splits={"test": 1}
    )
    outcome = run(job)
    assert outcome.status == "refused"
    assert outcome.verdict.message == "there is nothing to learn"


def test_a_second_run_reads_nothing_again(tmp_path, monkeypatch):
    source = TinySections(rows=ROWS)
    assert run(tiny_job(tmp_path / "out", source)).status == "published"
    before = tree(tmp_path / "out")
    monkeypatch.setattr(TinySections, "read", None)
    assert run(tiny_job(tmp_path / "out", source)).status == "unchanged"
    assert tree(tmp_path / "out") == before


def test_chunks_of_a_record_stay_in_one_split_and_are_counted(tmp_path):
    out = tmp_path / "out"
    job = tiny_job(
        out,
        TinySections(rows=ROWS),
        chunker=TinyChunker(size=10),
        unit="piece",
        splits={"train": 0.5, "test": 0.5},
    )
    assert run(job, workers=2).status == "published"
    pieces = {}
    for split in ("train", "test"):
        rows = Made(out).index(split)
        for row, value in zip(rows, values(out, split), strict=True):
            key, _, number = row["key"].rpartition("/")
            assert row["group"] == key
            pieces.setdefault(key, {})[int(number)] = (split, value)
    for key, _, value in ROWS:
        found = pieces[key]
        assert b"".join(found[number][1] for number in range(len(found))) == value
        assert len({split for split, _ in found.values()}) == 1
    manifest = manifest_of(out)
    assert manifest.ledger.unit == "piece"
    assert manifest.ledger.inputs.read == len(ROWS)
    assert manifest.ledger.records.made == sum(map(len, pieces.values())) > 2 * len(ROWS)
    assert not manifest.open_items()


def test_packs_lose_nothing_and_keep_the_order(tmp_path):
    rows = (*ROWS, ("bad-1", "c0", b"bad x"), ("skip-1", "c1", b"skip y"))
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    options = {"num_shards": 2, "max_reject_fraction": 0.1}
    assert run(tiny_job(plain, TinySections(rows=rows), **options)).status == "published"
    job = tiny_job(packed, TinySections(rows=rows), packed=True, **options)
    assert run(job, workers=2).status == "published"
    for split in ("train", "validation", "test"):
        packs = [list(record["values"]) for record in read(packed, split)]
        assert [value for pack in packs for value in pack] == values(plain, split)
    manifest = manifest_of(packed)
    assert manifest.ledger.inputs.read == len(rows)
    assert manifest.ledger.records.written == len(rows) - 2
    packs = sum(split.records for split in manifest.splits.values())
    assert manifest.ledger.packs == packs < len(rows) // 2
    assert manifest.ledger.records.rejected == manifest.ledger.records.filtered == 1
    assert not manifest.open_items()
