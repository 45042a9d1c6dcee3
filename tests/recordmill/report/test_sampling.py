import dataclasses
import itertools
import pathlib
from collections.abc import Sequence

import numpy as np
import pytest

import recordmill
from recordmill.reading.reader import Records
from recordmill.report import sampling
from recordmill.report.counts import kind_of
from recordmill.storage.files import Location
from tests.make_dataset import Row, flower, flowers, make_dataset

ROWS = [flower(f"{letter}{number}", label) for number in range(5) for letter, label in
        (("a", "rose"), ("b", "rose"), ("c", "tulip"))]  # fmt: skip


def chosen(
    folder: pathlib.Path, shards: Sequence[Sequence[Row]], *, plotted: int, shown: int
) -> tuple[list[str], dict[str | None, list[str]]]:
    """The keys that are chosen of train, to plot and to show."""
    manifest = make_dataset(folder, {"train": shards, "validation": [], "test": []})
    sample = sampling.choose(
        Location.parse(str(folder)),
        "train",
        manifest,
        plotted=plotted,
        shown={"rose": shown, "tulip": shown},
    )
    keys = {label: [one.key for one in places] for label, places in sample.shown.items()}
    return [one.key for one in sample.plotted], keys


def test_order_and_shards_do_not_change_a_sample(tmp_path: pathlib.Path) -> None:
    in_one = chosen(tmp_path / "one", [ROWS], plotted=6, shown=2)
    in_three = chosen(tmp_path / "three", [ROWS[9:], ROWS[:4][::-1], ROWS[4:9]], plotted=6, shown=2)
    assert in_one == in_three
    assert len(in_one[0]) == 6
    assert {label: len(keys) for label, keys in in_one[1].items()} == {"rose": 2, "tulip": 2}


def test_a_shuffled_dataset_shows_its_first_records(tmp_path: pathlib.Path) -> None:
    shards = [ROWS[:2], ROWS[2:7], ROWS[7:]]
    made = make_dataset(tmp_path / "out", {"train": shards})
    manifest = dataclasses.replace(made, options={**made.options, "kind": "images"})
    dataset = Location.parse(str(tmp_path / "out"))
    sample = sampling.choose(
        dataset, "train", manifest, plotted=6, shown={"rose": 5, "tulip": 5, "lily": 1}
    )
    assert [one.key for one in sample.plotted] == [row.key for row in ROWS[:6]]
    assert {label: [one.key for one in some] for label, some in sample.shown.items()} == {
        label: [row.key for row in ROWS if row.label == label][:5] for label in ("rose", "tulip")
    }
    assert [ROWS[one.number].key for one in sample.plotted] == [one.key for one in sample.plotted]


@pytest.mark.parametrize("spread", ["even", "low", "equal"])
def test_the_smallest_ranks_however_they_are_spread(spread: str) -> None:
    generator = np.random.default_rng(1)
    ranks = generator.integers(2**64, size=5_000, dtype=np.uint64)
    if spread != "even":
        ranks >>= np.uint64(20 if spread == "low" else 60)
    numbers = generator.permutation(5_000)
    expected = numbers[np.lexsort((numbers, ranks))]
    for count in (0, 1, 7, 3_999, 4_999, 5_000, 9_000):
        chosen = sampling._Chosen(count)
        for part in np.array_split(np.arange(5_000), 3):
            chosen.add(numbers[part], ranks[part])
        assert chosen.numbers.tolist() == expected[:count].tolist()
        assert chosen.is_complete == (count <= 5_000)


def test_a_larger_sample_has_the_records_of_a_smaller_one(tmp_path: pathlib.Path) -> None:
    few, few_shown = chosen(tmp_path / "few", [ROWS], plotted=4, shown=1)
    many, many_shown = chosen(tmp_path / "many", [ROWS], plotted=9, shown=3)
    assert many[:4] == few
    assert {label: keys[:1] for label, keys in many_shown.items()} == few_shown


def test_copies_stand_behind_the_record_that_they_repeat(tmp_path: pathlib.Path) -> None:
    rows = [flower("a", "rose"), flower("b", "tulip"), flower("b", "tulip", copy=2)]
    manifest = make_dataset(tmp_path / "out", {
        "train": [rows, [flower("b", "tulip", copy=1)]], "validation": [], "test": [],
    })  # fmt: skip
    dataset = Location.parse(str(tmp_path / "out"))
    sample = sampling.choose(dataset, "train", manifest, plotted=9, shown={"rose": 3, "tulip": 3})
    shown = [(one.key, one.copy, one.number) for one in sample.shown["tulip"]]
    assert shown == [("b", 0, 1), ("b", 1, 3), ("b", 2, 2)]
    assert sorted(one.key for one in sample.plotted) == ["a", "b"]
    assert sample.numbers() == [0, 1, 2, 3]


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_chosen_records_are_read_by_their_numbers(tmp_path: pathlib.Path, compression: str) -> None:
    make_dataset(tmp_path / "out", flowers(), compression=compression)
    records = Records(tmp_path / "out")
    labels = [b"rose", b"tulip", b"tulip", b"rose", b"tulip", b"rose"]
    for numbers in itertools.chain.from_iterable(
        itertools.combinations(range(6), count) for count in (0, 1, 3, 6)
    ):
        found = list(sampling.read(records, "train", numbers))
        assert [number for number, _ in found] == list(numbers)
        assert [record["image/class/text"] for _, record in found] == [
            labels[number] for number in numbers
        ]
    for split in ("validation", "test"):
        kept = [*recordmill.read(tmp_path / "out", split)]
        found = list(sampling.read(records, split, range(len(kept))))
        assert [number for number, _ in found] == [*range(len(kept))]
        assert [record["image/class/text"] for _, record in found] == [
            one["image/class/text"] for one in kept
        ]


@pytest.mark.parametrize(
    ("options", "kind", "order"),
    [
        ({}, "adopted", "those with the smallest hashes of their keys"),
        ({"kind": "adopt"}, "adopted", "those with the smallest hashes of their keys"),
        ({"kind": "text"}, "text", "the first ones, as records are stored in random order"),
    ],
)
def test_adopted_datasets_may_have_any_order(
    tmp_path: pathlib.Path, options: dict[str, str], kind: str, order: str
) -> None:
    manifest = dataclasses.replace(make_dataset(tmp_path / "out"), options=options)
    assert (kind_of(manifest), sampling.order(manifest)) == (kind, order)
