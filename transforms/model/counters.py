"""Beam counters of records, under the same three names for every transform."""

import dataclasses

from apache_beam.metrics import Metrics


@dataclasses.dataclass(frozen=True)
class RecordCounters:
    """The counters `records_in`, `records_out` and `records_rejected`.

    transform: their namespace, the name of a public transform.
    """

    transform: str

    def add(self, *, read: int = 0, out: int = 0, rejected: int = 0) -> None:
        """Add to the counters of the running step."""
        for name, count in (("in", read), ("out", out), ("rejected", rejected)):
            Metrics.counter(self.transform, f"records_{name}").inc(count)
