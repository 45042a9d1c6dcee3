"""Sums of the profiles of all parts, by groups of columns.

The profile of a part can be larger than its rows. So large profiles are files in the staging
folder, and an encoder process sums each group of columns by itself. The conclusions from a group,
such as the messages of its statistics, are small.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from recordmill.job.staging import Staging
from recordmill.transforms.planning.part_task import DataProfile, write_pieces
from recordmill.transforms.staged.arrow_files import read_piece
from recordmill.transforms.staged.spill import Piece
from recordmill.transforms.statistics import array_pickle
from recordmill.transforms.statistics.dataset_statistics import SliceStatistics
from recordmill.transforms.statistics.statistics_proto import SliceMessage, slice_messages


class GroupConclusion(NamedTuple):
    """Conclusions from the profile of a group of columns.

    messages: its statistics by slice; none without records. whole: statistics of all its records,
      without histograms, if the schema needs them. profile: the violations of the schema, and the
      names of all columns, which only the first group has.
    """

    messages: Sequence[SliceMessage]
    whole: SliceStatistics | None
    profile: DataProfile


class Profile(NamedTuple):
    """Conclusions from the profiles of all groups of columns, joined.

    messages: by group. whole: as in `GroupConclusion`; None if it is not needed, or without
      records.
    """

    messages: Sequence[Sequence[SliceMessage]] = ()
    whole: SliceStatistics | None = None
    profile: DataProfile = DataProfile()

    @classmethod
    def join(cls, groups: Iterable[tuple[int, Piece]], staging: Staging) -> Profile:
        """Join the conclusions from groups, by number."""
        found = [GroupConclusion(*_load(piece, staging)) for _, piece in sorted(groups)]
        wholes = [one.whole for one in found if one.whole is not None]
        profile = found[0].profile if found else DataProfile()
        return cls(
            messages=[one.messages for one in found if one.messages],
            whole=SliceStatistics.join(wholes, profile.columns) if wholes else None,
            profile=profile,
        )


def sum_group(pieces: Sequence[Piece], staging: Staging) -> Piece:
    """Return the sum of the profiles of a group; an encoder task."""
    (piece,) = write_pieces([DataProfile.sum(_load(one, staging) for one in pieces)], staging)
    return piece


def conclude_group(piece: Piece, staging: Staging, *, whole: bool) -> Piece:
    """Return the `GroupConclusion` from the summed profile of a group; an encoder task."""
    profile: DataProfile = _load(piece, staging)
    statistics = profile.statistics
    found = GroupConclusion(
        messages=slice_messages(statistics),
        whole=statistics.whole().without_histograms() if whole and statistics.cells else None,
        profile=DataProfile(violations=profile.violations, columns=profile.columns),
    )
    (conclusion,) = write_pieces([tuple(found)], staging)
    return conclusion


def _load(piece: Piece, staging: Staging) -> Any:
    """Return the value of a piece of `write_pieces`."""
    data, name, offset, length = piece
    return array_pickle.loads(data or read_piece(staging.place(name), offset, length, mapped=True))
