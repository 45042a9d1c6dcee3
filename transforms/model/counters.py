"""Beam counters of records, with the same three names in every transform."""

import dataclasses

from apache_beam.metrics import Metrics


@dataclasses.dataclass(frozen=True)
class RecordCounters:
    """The counters `records_in`, `records_out` and `records_rejected`.

    transform: their namespace, the name of a public transform.
    """

    transform: str

    def add(self, *, read: int = 0, out: int = 0, rejected: int = 0) -> None:
        """Increment the counters of the running transform."""
        for name, count in (("in", read), ("out", out), ("rejected", rejected)):
            Metrics.counter(self.transform, f"records_{name}").inc(count)
