"""Filters are resolved in the index; ranks of kept records and positions belong together."""

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recordmill
from recordmill.errors import ConfigError
from recordmill.reading.epoch_order import OrderLayout, epoch_order
from recordmill.reading.kept_records import KeptOrder, KeptRecords, kept_records
from tests.make_dataset import make_dataset

FIELD = pc.field


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept") / "out"
    make_dataset(folder)
    return folder


@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        (FIELD("label") == "rose", "ace"),
        (FIELD("copy") == 0, "abcde"),
        (FIELD("key").isin(["b", "e", "x"]), "bbe"),
        ((FIELD("group") == "bed d") | (pc.utf8_length(FIELD("key")) > 1), "d"),
        ((FIELD("label") == "tulip") & (FIELD("copy") < 1), "bd"),
        (~(FIELD("label") == "rose"), "bbd"),
        (FIELD("length") > 0, "abbcde"),
        (pc.scalar(True), "abbcde"),
    ],
)
def test_conditions_on_columns_of_the_index(folder, condition, keys) -> None:
    records = recordmill.open(folder, "train")
    kept = kept_records(records, condition)
    chosen = kept.are_kept(np.arange(len(records)))
    places = zip(records.places(), chosen, strict=True)
    assert "".join(place.key for place, is_kept in places if is_kept) == keys
    assert kept.count == len(keys)


def test_filters_that_keep_the_same_records_have_one_digest(folder) -> None:
    records = recordmill.open(folder, "train")
    one = kept_records(records, FIELD("label") == "rose")
    same = kept_records(records, FIELD("key").isin(["a", "c", "e"]))
    other = kept_records(records, FIELD("key").isin(["a", "c", "d"]))
    assert one.text != same.text
    assert one.digest == same.digest != other.digest


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("label == 'rose'", "filter: expected an expression of pyarrow.compute, such as"),
        (
            FIELD("lable") == "rose",
            r"the index \(key, label, copy, group, length\), got",
        ),
        (FIELD("offset") > 5, r"got \(offset > 5\): No match for FieldRef.Name\(offset\)"),
        (FIELD("label"), "filter: expected a condition on columns of the index .* got label: "),
        (FIELD("copy") + 1, "filter: expected a condition on columns of the index"),
        (FIELD("copy") == "x", "filter: expected a condition on columns of the index"),
        (FIELD("label") == "oak", r'\(label == "oak"\) keeps none of the 6 records of train'),
    ],
)
def test_invalid_filters(folder, condition, message) -> None:
    with pytest.raises(ConfigError, match=message):
        kept_records(recordmill.open(folder, "train"), condition)


@given(
    st.lists(st.booleans(), min_size=1, max_size=90).filter(any),
    st.sampled_from(["stored", "windowed", "full"]),
    st.booleans(),
    st.integers(0, 5),
)
def test_ranks_are_those_of_the_whole_order(chosen, name, seekable, epoch) -> None:
    layout = OrderLayout(
        shards=(len(chosen) // 2, len(chosen) - len(chosen) // 2),
        record_bytes=3e6,  # windows of about ten records
        seekable=seekable,
        salt="",
    )
    kept = KeptRecords(text="", bits=np.packbits(chosen, bitorder="little"), count=sum(chosen))
    whole = epoch_order(name, layout, seed=1, epoch=epoch)
    numbers = whole.record_numbers(np.arange(len(chosen)))
    positions = [at for at, number in enumerate(numbers.tolist()) if chosen[number]]

    def order() -> KeptOrder:
        return KeptOrder(epoch_order(name, layout, seed=1, epoch=epoch), kept)

    ranks = np.arange(kept.count)
    assert order().record_numbers(ranks).tolist() == numbers[positions].tolist()
    assert order().windows(ranks).tolist() == [at // layout.window for at in positions]
    last = order()
    assert last.record_numbers(ranks[-1:]).tolist() == [numbers[positions[-1]]]
    assert [last.position(rank) for rank in ranks.tolist()] == [
        0, *(at + 1 for at in positions[:-1])
    ]  # fmt: skip
    assert last.position(kept.count) == len(chosen)
    for position in range(len(chosen) + 1):
        assert order().rank(position) == sum(at < position for at in positions)
