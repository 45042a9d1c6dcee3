"""The examples that train learn nothing from shuffled labels: python -m tests.soak.examples."""

from __future__ import annotations

import pathlib
import random
import tempfile

from tests.soak.command import DifferenceError
from tests.test_examples import EXAMPLES, accuracy


def main() -> None:
    for example in EXAMPLES:
        with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as name:
            folder = pathlib.Path(name)
            example.make(folder, _shuffle)
            found = accuracy(example.train(folder))
        print(f"{example.name}: accuracy {found:.2f} on shuffled labels", flush=True)
        if found >= example.most:
            raise DifferenceError(f"{example.name}: expected less than {example.most}")


def _shuffle(labels: list[str]) -> list[str]:
    return random.Random(7).sample(labels, len(labels))


if __name__ == "__main__":
    main()
