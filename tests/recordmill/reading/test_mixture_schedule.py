"""The shares of a mixture hold in every window, and positions are located without those before."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.errors import ConfigError
from recordmill.reading.mixture_schedule import PARTS, WINDOW, MixtureSchedule, shares

WEIGHTS = st.lists(
    st.floats(1e-3, 1.0) | st.sampled_from([0.001, 0.5, 1.0, 3.0]), min_size=1, max_size=12
)
BEGINNINGS = st.integers(0, 10**12) | st.sampled_from([0, PARTS - 2_000, 7 * PARTS - 1])


@given(WEIGHTS, BEGINNINGS)
def test_every_window_has_the_shares_to_one_record(weights, begin) -> None:
    named = dict(enumerate(weights))
    schedule = MixtureSchedule(shares(named))
    sources, _ = schedule.locate(np.arange(begin, begin + 4 * WINDOW))
    taken = np.cumsum(np.eye(len(weights), dtype=int)[sources], axis=0)
    taken = np.concatenate([np.zeros((1, len(weights)), int), taken])
    counts = taken[WINDOW:] - taken[:-WINDOW]
    parts = np.array(schedule.parts)
    assert (counts >= parts // WINDOW).all()
    assert (counts <= -(-parts // WINDOW)).all()
    exact = WINDOW * np.array(weights) / sum(weights)
    assert np.abs(counts - exact).max() <= 1.001  # shares are rounded to millionths
    assert np.abs(parts - PARTS * np.array(weights) / sum(weights)).max() <= 1


@given(WEIGHTS, BEGINNINGS)
def test_places_are_counted_from_the_beginning(weights, begin) -> None:
    schedule = MixtureSchedule(shares(dict(enumerate(weights))))
    positions = np.arange(begin, begin + 2_500)
    sources, indices = schedule.locate(positions)
    counts = schedule.counts(begin)
    assert counts.sum() == begin
    for offset, (source, index) in enumerate(zip(sources.tolist(), indices.tolist(), strict=True)):
        assert index == counts[source], offset
        counts[source] += 1
    assert (schedule.counts(begin + 2_500) == counts).all()
    for offset in (0, 1, 999, 1_000, 2_499):
        assert schedule.position(int(sources[offset]), int(indices[offset])) == begin + offset
    # Any positions, in any order, are located alike.
    some = np.random.default_rng(0).permutation(2_500)[:50]
    assert (schedule.locate(positions[some])[1] == indices[some]).all()


def test_a_million_positions_have_exact_shares() -> None:
    schedule = MixtureSchedule(shares({"a": 1, "b": 1, "c": 1}))
    assert schedule.parts == (333_334, 333_333, 333_333)
    assert schedule.counts(PARTS).tolist() == [*schedule.parts]
    assert schedule.counts(0).tolist() == [0, 0, 0]


def test_whole_thousandths_repeat_after_a_thousand() -> None:
    schedule = MixtureSchedule(shares({"a": 0.7, "b": 0.2, "c": 0.1}))
    sources, _ = schedule.locate(np.arange(3_000))
    assert (sources[:1_000] == sources[1_000:2_000]).all()
    assert np.bincount(sources[:1_000]).tolist() == [700, 200, 100]
    # They are spread: a hundred positions have each source to a few records.
    for begin in range(900):
        counts = np.bincount(sources[begin : begin + 100], minlength=3)
        assert np.abs(counts - [70, 20, 10]).max() <= 4
    # Each of several hosts, which take every n-th position, has records of each source.
    for hosts in (2, 5, 8, 10):
        for host in range(hosts):
            assert {*sources[:1_000][host::hosts].tolist()} == {0, 1, 2}


@pytest.mark.parametrize(("until", "length"), [("first_exhausted", 40), ("all_exhausted", 120)])
def test_the_length_ends_with_a_record(until, length) -> None:
    schedule = MixtureSchedule(shares({"a": 3, "b": 1}))
    found = schedule.length([30, 30], until=until)
    assert abs(found - length) <= 2
    before, after = schedule.counts(found - 1), schedule.counts(found)
    first = 0 if until == "first_exhausted" else 1
    assert (before[first], after[first]) == (29, 30)


def test_the_schedule_stays_the_same_in_later_versions() -> None:
    schedule = MixtureSchedule(shares({"a": 0.5, "b": 0.3, "c": 0.15, "d": 0.05}))
    assert (
        "".join("abcd"[one] for one in schedule.locate(np.arange(20))[0]) == "abcabadabaacbabacaba"
    )
    schedule = MixtureSchedule(shares({"a": 1, "b": 1, "c": 1}))
    found = "".join("abc"[one] for one in schedule.locate(np.arange(999, 1_020))[0])
    assert found == "cacbbcaacbacbbcaabcab"


def test_a_share_below_a_millionth_is_refused() -> None:
    with pytest.raises(ConfigError, match="the weight of b is less than a millionth of all wei"):
        shares({"a": 1, "b": 1e-7})
