"""direct.run: the number of workers."""

import apache_beam as beam
import pytest

from recordmill.errors import ConfigError
from recordmill.runners import direct


def build(pipeline: beam.Pipeline) -> None:
    pipeline | beam.Create([1, 2])


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        (-1, "workers: expected 0 or more, got -1"),
        (True, "workers: expected a whole number, got True"),
        (None, "workers: expected a whole number, got None"),
        (1.5, "workers: expected a whole number, got 1.5"),
        ("2", "workers: expected a whole number, got '2'"),
    ],
)
@pytest.mark.parametrize("checks", [True, False])
def test_workers_that_cannot_be(workers, message, checks):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        direct.run(build, workers=workers, checks=checks)


@pytest.mark.parametrize("checks", [True, False])
def test_no_workers_are_one_per_core(checks):
    direct.run(build, workers=0, checks=checks)
