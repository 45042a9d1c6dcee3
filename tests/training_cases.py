"""Training runs with filters and mixtures, for the tests of every loader."""

import itertools
import pathlib
import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow.compute as pc

import recordmill
from recordmill.reading.sequence import State
from tests.numbered_records import SEED, Expected, numbered_dataset

ROSES = pc.field("label") == "rose"
SIZES = {"large": 211, "small": 40, "tiny": 13}
CASES: dict[str, tuple[dict[str, float], dict[str, Any]]] = {
    "plain": ({"large": 1}, {"shuffle": True}),
    "plain-full": ({"large": 1}, {"shuffle": True, "order": "full"}),
    "plain-gzip": ({"zipped": 1}, {"shuffle": True}),
    "filter": ({"large": 1}, {"shuffle": True, "filter": ROSES}),
    "filter-full": ({"large": 1}, {"shuffle": True, "order": "full", "filter": ROSES}),
    "filter-stored": ({"large": 1}, {"filter": ROSES}),
    "filter-gzip": ({"zipped": 1}, {"shuffle": True, "filter": ROSES}),
    "mixture": ({"large": 0.7, "small": 0.2, "tiny": 0.1}, {"shuffle": True}),
    "mixture-thirds": ({"large": 1, "small": 1, "tiny": 1}, {"shuffle": True, "order": "full"}),
    "mixture-gzip": ({"zipped": 5, "small": 1}, {"shuffle": True}),
    "mixture-filter": ({"large": 2, "tiny": 1}, {"shuffle": True, "filter": ROSES}),
}


def make_datasets(folder: pathlib.Path) -> None:
    """Write the datasets of all cases."""
    for number, (name, records) in enumerate(SIZES.items()):
        numbered_dataset(folder / name, records=records, first=1000 * number)
    numbered_dataset(folder / "zipped", first=5000, compression="gzip")


class TrainingCase:
    """The datasets and options of a training run, and the records that it has to read."""

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        weights, self.options = CASES[name]
        self.weights = {folder / one: weight for one, weight in weights.items()}
        self.is_mixture = len(weights) > 1
        self.datasets: Any = self.weights if self.is_mixture else next(iter(self.weights))
        is_shuffled = bool(self.options.get("shuffle"))
        self.expected = Expected(
            weights=self.weights,
            order=self.options.get("order", "windowed" if is_shuffled else "stored"),
            keep=(lambda number: number % 3 == 0) if "filter" in self.options else lambda _: True,
        )

    @property
    def size(self) -> int:
        """Number of records in an epoch."""
        return 1 << 62 if self.is_mixture else self.expected.size(self.datasets)

    def position(self, **options: Any) -> State:
        """Return a state of the run."""
        options = {"seed": SEED, "shuffle": False} | self.options | options
        return recordmill.position(self.datasets, **options)


# (state, host, hosts, batch, steps): the numbers of the records in each batch of this host, without
# the last records of an epoch that fill no batch of every host.
Batches = Callable[[State | None, int, int, int, int], Sequence[Sequence[int]]]


def expect_continued(case: TrainingCase, readers: Sequence[Batches], *, seed: str) -> State:
    """Interrupt a run at random steps; each global batch must be that of the undisturbed run.

    readers: the loader that all hosts use until each interruption. Returns the state at the end.
    """
    generator = random.Random(seed)
    sequence = case.expected.numbers(len(readers) * 8 * 6 * 7)
    at, state = 0, None
    for read in readers:
        hosts = generator.choice((1, 2, 3, 5, 8))
        batch, steps = generator.randint(1, 6), generator.randint(1, 6)
        parts = [read(state, host, hosts, batch, steps) for host in range(hosts)]
        for batches in zip(*parts, strict=True):
            left = case.size - at % case.size
            if left < hosts * batch:  # the next epoch has begun
                at += left
            found = sorted(itertools.chain(*batches))
            assert found == sorted(sequence[at : at + hosts * batch])
            at += hosts * batch
        state = case.position(
            step=steps, global_batch=hosts * batch, start=state, drop_remainder=True
        )
        if not case.is_mixture and state["epoch"] * case.size > at:
            at = state["epoch"] * case.size  # the rest of the epoch fills no batch
            assert state["records"] == 0
    assert state is not None
    return state
