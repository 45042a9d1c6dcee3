"""docs/tutorial.md: its scripts, and the files that they need."""

from __future__ import annotations

import json
import pathlib
import re
import shutil

from tests.paths import DEMO, ROOT

PAGE = ROOT / "docs" / "tutorial.md"
RUN = "recordmill.run(build)"
DATASETS = {"images.py": "clothing", "texts.py": "messages"}  # {script: its dataset}


def scripts(folder: pathlib.Path, **options: object) -> list[pathlib.Path]:
    """Write the scripts and their input into a folder, and return the paths of the scripts.

    options: of `recordmill.run`.
    """
    shutil.copytree(DEMO, folder / "photos")
    shutil.copy(ROOT / "tests/data/sms_spam/SMSSpamCollection", folder / "messages.tsv")
    found = re.findall(r"^`(\w+\.py)`:\n\n```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert [name for name, _ in found] == [*DATASETS]
    for name, script in found:
        assert len(script.splitlines()) <= 40
        assert RUN in script
        given = f"recordmill.run(build, **__import__('json').loads({json.dumps(options)!r}))"
        (folder / name).write_text(script.replace(RUN, given))
    return [folder / name for name in DATASETS]


def trainings() -> list[str]:
    """Return the code that trains on the datasets, in their order."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    found = [block for block in blocks if "model.fit" in block]
    assert len(found) == len(DATASETS)
    return found
