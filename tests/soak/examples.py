"""The examples that train learn from true labels, and nothing from shuffled ones.

python -m tests.soak.examples
"""

from __future__ import annotations

import pathlib
import random
import tempfile

from tests.soak.command import DifferenceError
from tests.test_examples import EXAMPLES, Example, Order, accuracy, as_they_are


def main() -> None:
    for example in EXAMPLES:
        if _measure(example, as_they_are, "true") < example.least:
            raise DifferenceError(f"{example.name}: expected at least {example.least}")
        if _measure(example, _shuffle, "shuffled") >= example.most:
            raise DifferenceError(f"{example.name}: expected less than {example.most}")


def _measure(example: Example, order: Order, labels: str) -> float:
    with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as name:
        folder = pathlib.Path(name)
        example.make(folder, order)
        found = accuracy(example.train(folder))
    print(f"{example.name}: accuracy {found:.2f} on {labels} labels", flush=True)
    return found


def _shuffle(labels: list[str]) -> list[str]:
    return random.Random(7).sample(labels, len(labels))


if __name__ == "__main__":
    main()
