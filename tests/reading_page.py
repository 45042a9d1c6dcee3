"""Names that the code of docs/reading.md needs to run."""

import pathlib
import re

from recordmill.tfrecord.features import Feature
from tests.make_dataset import LABELS, Row, make_dataset, picture
from tests.paths import ROOT

DOCS = ROOT / "docs"
FEATURES = {
    "image/class/label": Feature(dtype="int64", kind="label"),
    "image/encoded": Feature(dtype="string", kind="image"),
}


def python_of(page: str) -> list[str]:
    """The Python code of a page."""
    return re.findall(
        r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL
    )


def pictures_dataset(folder: pathlib.Path, *, records: int) -> None:
    """Ten pictures again and again."""
    pictures = [picture(seed) for seed in range(10)]
    rows = [
        Row(
            key=f"{number:06d}",
            label=LABELS[number % 2],
            values={
                "image/class/label": [number % 2],
                "image/encoded": [pictures[number % 10]],
            },
        )
        for number in range(records)
    ]
    make_dataset(folder, {"train": [rows]}, features=FEATURES)
