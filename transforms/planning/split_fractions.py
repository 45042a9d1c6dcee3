"""Note on splits whose sizes are far from the fractions of --splits, and the reason."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from recordmill.notes import Note, count_of
from recordmill.transforms.model.run_spec import RunSpec

_DEVIATIONS = 4
# Probability of more than as many deviations, in either direction, of a normal distribution.
_UNLIKELY = math.erfc(_DEVIATIONS / math.sqrt(2))
_SMALL = 1e-12  # terms of a sum that are smaller, relative to it, are left out


def is_far_off(count: int, total: int, fraction: float, *, splits: int = 1) -> bool:
    """Return whether a split has another size than independent records would give it.

    The size is more than four binomial deviations off, and so unlikely by the exact distribution:
    among few records, or for a small fraction, four deviations are not rare.

    count: number of its records. total: of all records. fraction: its own. splits: number of splits
      that are tested, each of which could be unlikely by chance.
    """
    if not 0 < fraction < 1:
        return False
    expected = total * fraction
    if abs(count - expected) <= _DEVIATIONS * math.sqrt(expected * (1 - fraction)):
        return False
    if count < expected:  # the others are as many more
        count, fraction = total - count, 1 - fraction
    return _at_least(count, total, fraction) < _UNLIKELY / 2 / splits


def _at_least(count: int, total: int, fraction: float) -> float:
    """Return the probability of `count` or more of `total`, for a count above the expected one."""
    chances = math.lgamma(total + 1) - math.lgamma(count + 1) - math.lgamma(total - count + 1)
    term = math.exp(chances + count * math.log(fraction) + (total - count) * math.log1p(-fraction))
    added = term
    odds = fraction / (1 - fraction)
    while count < total and term > _SMALL * added:  # each term is smaller than the one before
        term *= (total - count) / (count + 1) * odds
        added += term
        count += 1
    return added


def fraction_notes(sizes: Mapping[str, int], run: RunSpec, *, labelled: bool) -> Iterator[Note]:
    """Yield a note if a split is far from its fraction.

    sizes: {split: number of its records}. labelled: whether records have classes.
    """
    total = sum(sizes.values())
    if run.may_be_presplit or not sizes.keys() <= run.splits.keys():
        return
    whole = math.fsum(run.splits.values())
    fractions = {name: fraction / whole for name, fraction in run.splits.items()}
    if not any(
        is_far_off(sizes.get(name, 0), total, fraction, splits=len(fractions))
        for name, fraction in fractions.items()
    ):
        return
    found = ", ".join(
        f"{name} {sizes.get(name, 0):,} ({100 * sizes.get(name, 0) / total:.3g} %, not"
        f" {100 * fraction:.3g} %)"
        for name, fraction in fractions.items()
    )
    yield Note(
        "fractions",
        f"the {count_of(total, 'record')} are not divided as --splits says: {found}; the reason is"
        f" that {_reason(run, labelled=labelled)}",
    )


def _reason(run: RunSpec, *, labelled: bool) -> str:
    """Return why records are not independent, and what to do."""
    nearer = "; --stratify comes nearer to the fractions" if labelled else ""
    match run.group_noun:
        case "series":
            return (
                "all windows of a series share a split; --split-by series-time divides every series"
                f"{nearer}"
            )
        case "file":
            return f"all records of a file share a split{nearer}"
        case "group":
            return f"groups are kept whole{nearer}"
    if run.may_be_grouped:
        return (
            "groups of records, such as the chunks of a text or records of similar content, are"
            f" kept whole{nearer}"
        )
    exact = "--stratify divides the records of each class exactly, and " if labelled else ""
    return (
        "records of equal content share a split, and few contents are distinct;"
        f" {exact}--key-column names a column that tells equal records apart"
    )
