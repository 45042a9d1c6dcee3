"""`recordmill.open`: the records of a dataset, which notebooks show as HTML."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from recordmill.reading.reader import Folder, Records

if TYPE_CHECKING:
    from recordmill.report.notebook import RecordsView


class OpenedDataset(Records):
    """The records of a dataset with views for notebooks."""

    def _repr_html_(self) -> str:
        from recordmill.report.notebook import overview_html  # only notebooks need it

        return overview_html(self._location, self.split, features=self._features)

    def show(self, split: str | None = None, n: int = 24) -> RecordsView:
        """Return a view of the first `n` records, which a notebook shows as HTML.

        split: the split to show; by default the records that were opened. Records are shuffled on
        disk, so the first ones are a sample.

        Raises:
          ManifestError, ValueError: as `recordmill.open`; `n` is not a whole number above 0.
        """
        from recordmill.report.notebook import RecordsView

        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"n: expected a whole number above 0, got {n!r}")
        split = self.split if split is None else split
        return RecordsView(self._location, split, count=n, features=self._features)


def open(  # noqa: A001, as gzip and wave do
    dataset: Folder,
    split: str | None = None,
    *,
    features: Collection[str] | None = None,
    max_record_bytes: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_size: int | str | None = None,
) -> OpenedDataset:
    """Open a dataset for access to records by number: `recordmill.open("out/")[123456]`.

    split: the split to read; None for all splits.
    features: names of the features to return; None for all.
    max_record_bytes, cache, cache_size: as for `recordmill.read`.

    Raises:
      ManifestError: the folder is not a dataset.
      ValueError: the split or a feature does not exist.
    """
    return OpenedDataset(
        dataset,
        split,
        features=features,
        max_record_bytes=max_record_bytes,
        cache=cache,
        cache_size=cache_size,
    )
