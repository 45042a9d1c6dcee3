"""Sums of the profiles of all parts, by groups of columns.

The profile of a part with thousands of columns is larger than its rows. So profiles are written
into files of the staging folder, and each group of columns is summed by itself in an encoder
process. The conclusions from a group, such as the messages of its statistics, are small.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import apache_beam as beam

from recordmill.job.staging import Staging
from recordmill.processes.pool import shared_pool
from recordmill.transforms.planning.part_task import DataProfile, write_profiles
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


def _load(piece: Piece, staging: Staging) -> Any:
    data, name, offset, length = piece
    return array_pickle.loads(data or read_piece(staging.place(name), offset, length, mapped=True))


def sum_inline(pieces: Iterable[Piece]) -> Piece:
    """Return the sum of the profiles of a group that are inline."""
    return DataProfile.sum_packed(data for data, *_ in pieces), "", 0, 0


def sum_group(pieces: Sequence[Piece], staging: Staging) -> Piece:
    """Return the sum of the profiles of a group; an encoder task."""
    packed = DataProfile.sum(_load(piece, staging) for piece in pieces).pack()
    return write_profiles([packed], staging)[0]


def conclude_group(piece: Piece, staging: Staging, *, whole: bool) -> Piece:
    """Return the `GroupConclusion` from the summed profile of a group; an encoder task."""
    profile: DataProfile = _load(piece, staging)
    statistics = profile.statistics
    found = GroupConclusion(
        messages=slice_messages(statistics),
        whole=statistics.whole().without_histograms() if whole and statistics.cells else None,
        profile=DataProfile(violations=profile.violations, columns=profile.columns),
    )
    packed = array_pickle.dumps(tuple(found))
    return (packed, "", 0, 0) if piece[0] else write_profiles([packed], staging)[0]


class _Sums:
    """Calls the functions above, in an encoder process if the pieces are in files."""

    def __init__(self, staging: Staging, workers: int, *, whole: bool) -> None:
        self._staging = staging
        self._workers = workers
        self._whole = whole

    def sum(self, pieces: Iterable[Piece]) -> Piece:
        several = list(pieces)
        if len(several) == 1:
            return several[0]
        if all(data for data, *_ in several):
            return sum_inline(several)
        return shared_pool(self._workers).submit(sum_group, several, self._staging).result()

    def conclude(self, group: int, piece: Piece) -> tuple[int, Piece]:
        if piece[0]:
            return group, conclude_group(piece, self._staging, whole=self._whole)
        pool = shared_pool(self._workers)
        task = pool.submit(conclude_group, piece, self._staging, whole=self._whole)
        return group, task.result()


def conclude_groups(
    pieces: beam.PCollection[tuple[int, Piece]],
    label: str,
    *,
    staging: Staging,
    workers: int,
    whole: bool,
) -> beam.PCollection[tuple[int, Piece]]:
    """Sum the profiles of all parts by group: (group, piece) in, (group, conclusion) out.

    whole: whether `GroupConclusion.whole` is needed.
    """
    sums = _Sums(staging, workers, whole=whole)
    return (
        pieces
        | f"{label}Sum" >> beam.CombinePerKey(sums.sum).with_output_types(tuple[int, Piece])
        | f"{label}Groups" >> beam.MapTuple(sums.conclude).with_output_types(tuple[int, Piece])
    )
