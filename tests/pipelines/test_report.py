import dataclasses
import io
import pathlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import RenderableType

from recordmill.checking import inspection, record_inspection
from recordmill.checking.shard_check import Damage
from recordmill.checking.verify import VerificationReport
from recordmill.errors import Reason, Reject
from recordmill.format.ledger import CopyCounts, InputCounts, Ledger, RecordCounts
from recordmill.format.manifest import Manifest
from recordmill.notes import notes_of
from recordmill.pipelines.terminal import report
from recordmill.reading.reader import Records
from recordmill.storage.files import Location
from recordmill.tfrecord.decode import decode_example
from tests.make_dataset import make_dataset


def shown(part: RenderableType | None) -> str:
    assert part is not None
    out = io.StringIO()
    report.show(part, stream=out)
    lines = out.getvalue().splitlines()
    assert max(map(cell_len, lines)) <= 100
    return "\n".join(line.rstrip() for line in lines)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Location:
    folder = tmp_path_factory.mktemp("report") / "out"
    make_dataset(folder)
    return Location.parse(str(folder))


@pytest.fixture(scope="module")
def summary(dataset: Location) -> inspection.Summary:
    return inspection.inspect(dataset)


def planned(classes: dict[str | None, tuple[int, int]]) -> report.PlanView:
    train = report.PlanSplit(
        records=12_000, copies=3400, shards=12, bytes=1_400_000_000, classes=classes
    )
    return report.PlanView(splits={"train": train}, seconds=150)


def test_a_plan() -> None:
    test = report.PlanSplit(records=5, copies=0, shards=1, bytes=900, classes={"rose": (5, 5)})
    plan = planned({"rose": (8000, 8000), "tulip": (600, 4000), None: (7, 7)})
    plan = dataclasses.replace(plan, splits={"test": test, **plan.splits})
    assert (
        shown(report.plan_table(plan))
        == """\
split   records   of them copies   shards   approx. size
────────────────────────────────────────────────────────
train    12,000            3,400       12         1.4 GB
test          5                0        1      900 bytes

             train      train
class        found   balanced   test
────────────────────────────────────
rose         8,000      8,000      5
tulip          600      4,000      0
(no class)       7          7      0
found: before balancing; balanced: planned after balancing

Writing takes about 2 min 30 s."""
    )


def test_a_plan_from_json() -> None:
    train = {"records": 9, "copies": 4, "shards": 1, "bytes": 90, "seconds": 8.0}
    train |= {"before": [["a", 5], ["b", 3]], "after": [["a", 5], ["b", 4], [None, 0]]}
    plan = report.PlanView.from_json({"splits": {"train": train}, "rejected": 0}, workers=2)
    assert plan.seconds == 4
    assert plan.splits["train"].classes == {"a": (5, 5), "b": (3, 4), None: (0, 0)}


def test_of_many_classes_the_largest_and_the_smallest_show() -> None:
    text = shown(report.plan_table(planned({f"c{n:03}": (n + 1, n + 1) for n in range(1000)})))
    rows = [line.split()[0] for line in text.splitlines() if line.startswith(("c0", "c9", "..."))]
    assert rows == [f"c{n:03}" for n in range(999, 989, -1)] + ["..."] + [
        f"c{n:03}" for n in range(9, -1, -1)
    ]
    assert "... 980 more" in text
    assert "\n980 more: train 11 to 990 records each\n" in text


def _with_lacking(lacking: set[str]) -> report.PlanView:
    """A plan of 100 classes, of which the validation split lacks some."""
    classes: dict[str | None, tuple[int, int]] = {f"c{n:03}": (n, n) for n in range(100, 200)}
    validation = report.PlanSplit(
        records=9, copies=0, shards=1, bytes=9,
        classes={label: (2, 2) for label in classes if label not in lacking},
    )  # fmt: skip
    plan = planned({**classes, "c130": (3, 60), "c131": (4, 60), None: (5, 5)})
    return dataclasses.replace(plan, splits={**plan.splits, "validation": validation})


def _class_rows(plan: report.PlanView) -> tuple[list[str], list[str]]:
    """The names in the table of classes, and the lines below it."""
    lines = shown(report.plan_table(plan)).splitlines()
    rows = [line.split()[0] for line in lines if line.startswith(("c1", "...", "(no class)"))]
    return rows, [line for line in lines if line.endswith("records each")]


def test_classes_that_need_attention_come_first() -> None:
    rows, sums = _class_rows(_with_lacking({"c150", "c151"}))
    assert rows[:4] == ["(no", "c151", "c150", "c130"]
    assert rows[4:] == [f"c{n}" for n in range(199, 191, -1)] + ["..."] + [
        *(f"c{n}" for n in range(106, 99, -1)),
        "c131",
    ]
    assert sums == ["81 more: train 107 to 191, validation 2 records each"]


def test_many_classes_that_need_attention_are_summed_up() -> None:
    rows, sums = _class_rows(_with_lacking({f"c{n}" for n in range(140, 161)}))
    assert rows[:12] == ["(no", *(f"c{n}" for n in range(160, 150, -1)), "..."]
    assert rows[12:] == [f"c{n}" for n in range(199, 194, -1)] + ["..."] + [
        *(f"c{n}" for n in range(103, 99, -1)),
        "c131",
    ]
    assert sums == [
        "12 more that need attention: train 60 to 150, validation 0 to 2 records each",
        "68 more: train 104 to 194, validation 2 records each",
    ]


@given(st.integers(0, 60), st.integers(0, 60))
def test_every_class_is_in_the_table_or_summed_up(urgent: int, others: int) -> None:
    classes: dict[str | None, tuple[int, int]] = {f"c{n:03}": (9, 9) for n in range(others)}
    validation = report.PlanSplit(records=9, copies=0, shards=1, bytes=9, classes={**classes})
    plan = planned({**classes, **{f"c{n:03}": (9, 9) for n in range(100, 100 + urgent)}})
    if others:
        plan = dataclasses.replace(plan, splits={**plan.splits, "validation": validation})
    text = shown(report.plan_table(plan)) if urgent + others else ""
    hidden = [int(line.split()[1]) for line in text.splitlines() if line.startswith("... ")]
    listed = text.count("\nc0") + text.count("\nc1")
    assert listed + sum(hidden) == urgent + others
    assert listed <= 22


def test_a_split_without_any_classes_lacks_none() -> None:
    test = report.PlanSplit(records=5, copies=0, shards=1, bytes=9, classes={None: (5, 5)})
    plan = planned({f"c{n:03}": (n + 1, n + 1) for n in range(100)})
    plan = dataclasses.replace(plan, splits={**plan.splits, "test": test})
    text = shown(report.plan_table(plan))
    assert text.count("\nc0") == 20
    assert "\n(no class)" in text


def test_no_row_says_that_one_is_hidden() -> None:
    text = shown(report.plan_table(planned({f"c{n:03}": (n, n) for n in range(21)})))
    assert "more" not in text
    assert text.count("\nc0") == 21


def test_a_dataset_without_classes_has_no_table_of_them() -> None:
    assert "class" not in shown(report.plan_table(planned({None: (5, 5)})))


def test_a_job_s_end(summary: inspection.Summary) -> None:
    rejects = [
        Reject("z/1.jpg", "check", Reason.EMPTY, "a file of no bytes"),
        Reject("z/2.jpg", "encode", Reason.CORRUPT, "broken [bold]JPEG"),
        Reject("z/3.jpg", "encode", Reason.CORRUPT, "broken JPEG"),
    ]
    text = shown(
        report.closing(
            summary.manifest,
            output="out",
            plan=planned({"rose": (3, 3), "tulip": (2, 3)}),
            rejects=rejects,
            seconds=134,
        )
    )
    assert (
        text.split("\n\n", 1)[1]
        == """\
        train      train     train
class   found   balanced   written   validation   test
──────────────────────────────────────────────────────
rose        3          3         3            1      0
tulip       2          3         3            1      0
found: before balancing; balanced: planned after balancing; written: in the dataset

8 inputs: 8 read
8 records: 7 written, 1 rejected
1 copy: 1 written

reject reason   records   examples
─────────────────────────────────────────────────────
corrupt               2   z/2.jpg  broken [bold]JPEG
                          z/3.jpg  broken JPEG
empty                 1   z/1.jpg  a file of no bytes

8 records written to out in 2 min 14 s"""
    )


def test_a_class_that_lost_records_at_writing_tells_it_from_balancing(
    summary: inspection.Summary,
) -> None:
    plan = planned({"rose": (4, 4), "tulip": (3, 3)})
    assert """\
        train     train
class   found   written   validation   test
───────────────────────────────────────────
rose        4         3            1      0
tulip       3         3            1      0
found: before balancing; written: in the dataset
""" in shown(report.closing(summary.manifest, output="out", plan=plan))


def test_a_ledger_adds_up_in_words(summary: inspection.Summary) -> None:
    ledger = Ledger(
        inputs=InputCounts(read=1058, rejected=9, filtered=2),
        records=RecordCounts(made=1058, written=1045, rejected=10, filtered=2, dropped=1),
        copies=CopyCounts(planned=5, written=4, rejected=1),
    )
    text = shown(report.closing(dataclasses.replace(summary.manifest, ledger=ledger), output="out"))
    assert (
        """
1,069 inputs: 1,058 read, 9 rejected, 2 filtered
1,058 records: 1,045 written, 10 rejected, 2 filtered, 1 dropped
5 copies: 4 written, 1 rejected
"""
        in text
    )


def test_a_class_that_lost_all_its_records_still_shows(summary: inspection.Summary) -> None:
    manifest = dataclasses.replace(summary.manifest, labels=("daisy", "rose", "tulip"))
    assert "\ndaisy       0            0      0" in shown(report.closing(manifest, output="out"))


def test_of_many_rejects_the_first_of_each_reason_show() -> None:
    rejects = [Reject(f"k{n}", "read", Reason.MISSING, "not there") for n in range(5000)]
    text = shown(report.rejects_table(report.sum_up(rejects)))
    assert "missing           5,000   k0  not there" in text
    assert text.count("not there") == 3
    assert report.rejects_table({}) is None


def test_inspection(summary: inspection.Summary) -> None:
    text = shown(report.inspection(summary, dataset="out"))
    for line in [
        f"digest    {summary.manifest.digest}",
        "train              6                1        2      1.9 kB   904 bytes to 956 bytes",
        "test               0                0        0     0 bytes",
        "class   train   validation   test   weight   the source",
        "tulip       3            1      0        1         1.25",
        "grid                float32   2 x 2   raw",
        "caption             string    any     text",
        "empty                 1   z  a file of no bytes",
    ]:
        assert line in text.splitlines()


def test_notes(summary: inspection.Summary) -> None:
    notes = notes_of("tfds", ["no TFDS files: gzip"])
    manifest = dataclasses.replace(summary.manifest, notes=notes)
    assert "Note: no TFDS files: gzip" in shown(report.closing(manifest, output="out"))


def test_a_record(dataset: Location, summary: inspection.Summary) -> None:
    records = Records(dataset, "train")
    values = record_inspection.describe_record(
        decode_example(records.payload(2)),
        summary.manifest.features,
        labels=summary.manifest.labels,
    )
    text = shown(report.record(records.place(2), values))
    assert "key        b, copy 1" in text
    assert "stored in  train.tfrecord-00000-of-00002, record 2 (train)" in text
    assert "image/class/label   1 (tulip)" in text


def test_verification() -> None:
    clean = VerificationReport(shards=1, records=2000, bytes=5_000_000, deep=True, damages=())
    assert shown(report.verification(clean, dataset="out")) == (
        "out: 2,000 records, 1 shard, 5.0 MB, every image decoded: no damage"
    )
    damages = tuple(Damage(file=f"f{n}", what="is\nmissing") for n in range(25))
    bad = dataclasses.replace(clean, damages=damages, deep=False)
    lines = shown(report.verification(bad, dataset="out")).splitlines()
    assert lines[0] == "f0: is\\nmissing"
    assert lines[20:] == [
        "... and 5 more; --json lists all",
        "out: 2,000 records, 1 shard, 5.0 MB: 25 problems",
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("गुलाब", "गुलाब"),
        ("玫瑰", "玫瑰"),
        ("می\u200cخواهم", "می\u200cخواهم"),  # noqa: RUF001
        ("[bold]:smile:[/nothing]", "[bold]:smile:[/nothing]"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\u202eevil", "\\u202eevil"),
        (b"gr\xf6\xdfe".decode("utf-8", "surrogateescape"), "gr\\xf6\\xdfe"),
        ("", ""),
    ],
)
def test_names_may_hold_anything(name: str, expected: str) -> None:
    rows = shown(report.plan_table(planned({name: (1, 1)}))).splitlines()
    assert rows[-3].startswith(expected)
    assert rows[-3].split()[-1] == "1"


COUNTS = st.integers(0, 10**12)


@settings(max_examples=40)
@given(st.dictionaries(st.text(), st.tuples(COUNTS, COUNTS), min_size=1, max_size=40))
def test_a_table_of_classes_is_short(classes: dict[str, tuple[int, int]]) -> None:
    text = shown(report.plan_table(planned({**classes})))
    rows = text.split("\n\n")[1].partition("─\n")[2].partition("\nfound: ")[0].splitlines()
    if len(classes) <= 21:
        assert len(rows) == len(classes)
    else:
        assert len(rows) <= 22 + 4, "two rows and two lines sum up the others"


def test_two_empty_manifests_can_be_shown(summary: inspection.Summary) -> None:
    empty: Manifest = dataclasses.replace(summary.manifest, splits={}, labels=(), class_weights={})
    assert "0 records written to out" in shown(report.closing(empty, output=pathlib.Path("out")))


def test_one_record_is_no_plural(summary: inspection.Summary) -> None:
    split = dataclasses.replace(summary.manifest.splits["train"], records=1, classes={})
    one: Manifest = dataclasses.replace(summary.manifest, splits={"train": split}, class_weights={})
    assert "\n1 record written to out" in shown(report.closing(one, output=pathlib.Path("out")))
