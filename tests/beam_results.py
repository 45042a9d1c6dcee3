"""Runs a small pipeline as commands do, and hands its results to the test."""

from collections import defaultdict
from collections.abc import Callable, Mapping

import apache_beam as beam

from recordmill.runners import direct
from recordmill.transforms.staged.records import RecordValues

_found: defaultdict[str, list] = defaultdict(list)


def _keep(element: object, name: str) -> None:
    _found[name].append(element)  # the workers are threads of this process


def results(
    build: Callable[[beam.Pipeline], Mapping[str, beam.PCollection]],
    *,
    workers: int = 2,
    checks: bool = False,
) -> dict[str, list]:
    """The elements of each PCollection that `build` returns by name, in any order.

    checks: run as a custom pipeline, not as a command.
    """

    def build_and_keep(pipeline: beam.Pipeline) -> None:
        for name, collection in build(pipeline).items():
            if isinstance(collection, RecordValues):
                collection = collection.batches
            collection | f"Keep {name}" >> beam.Map(_keep, name)

    _found.clear()
    direct.run(build_and_keep, workers=workers, checks=checks)
    return dict(_found)
