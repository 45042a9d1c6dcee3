"""Leaks between given splits of a dataset like IMDB, planted and counted, as a table of Markdown.

    python -m benchmarks.leaks

Of 50,000 texts of 3 random SMS each, half in train and half in test, 389 are in both; 123 of these
have another class in test. All of them must be named, and none may be left between splits with
`--dedup group` or `--near-duplicates group`, which need input without given splits.
"""

from __future__ import annotations

import csv
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import numpy as np

from benchmarks.measure import DATA, ROOT

_TEXTS, _SHARED, _CONTRADICT = 50_000, 389, 123


def main() -> None:
    """Print what each option leaves."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "in"
        planted = write(source)
        _row("options", ["texts written", "contents in both splits", "with both classes"])
        print("|---|---:|---:|---:|")
        _report(source, pathlib.Path(folder) / "given", [])
        named = pathlib.Path(folder) / "given" / "leaks.jsonl"
        leaks = [json.loads(line) for line in named.read_text().splitlines()]
        found = {tuple(sorted(one["key"] for one in leak["records"])) for leak in leaks}
        print(f"\n{len(found & planted)} of {len(planted)} planted leaks are named, and"
              f" {len(found - planted)} others\n")  # fmt: skip
        _report(source, pathlib.Path(folder) / "drop", ["--dedup", "drop"])
        for option in ("--dedup", "--near-duplicates"):
            argv = ["--split-from", "none", "--splits", "train=0.5,test=0.5", option, "group"]
            _report(source, pathlib.Path(folder) / option, argv)


def write(folder: pathlib.Path) -> set[tuple[str, ...]]:
    """Write train.csv and test.csv, and return the keys of each pair of equal texts."""
    lines = (DATA / "sms_spam" / "SMSSpamCollection").read_text(encoding="utf-8").split("\n")
    messages = [*dict.fromkeys(line.split("\t", 1)[1] for line in lines[1:-1])]
    generator = np.random.default_rng(0)
    texts: dict[str, None] = {}
    while len(texts) < _TEXTS - _SHARED:
        chosen = generator.integers(0, len(messages), 3)
        texts[" ".join(messages[number] for number in chosen)] = None
    distinct, half = [*texts], _TEXTS // 2
    rows = {"train": distinct[:half], "test": distinct[half:] + distinct[:_SHARED]}
    folder.mkdir()
    for split, found in rows.items():
        with (folder / f"{split}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "text", "label"])
            for number, text in enumerate(found):
                original = number if split == "train" else number - (half - _SHARED)
                label = original % 2
                if split == "test" and 0 <= original < _CONTRADICT:
                    label = 1 - label
                writer.writerow([f"{split}/{number}", text, ("neg", "pos")[label]])
    return {
        tuple(sorted((f"train/{number}", f"test/{number + half - _SHARED}")))
        for number in range(_SHARED)
    }


def _report(source: pathlib.Path, output: pathlib.Path, argv: Sequence[str]) -> None:
    command = [sys.executable, "-m", "recordmill", "text", "--key-column", "id", "--quiet"]
    paths = ["--input", str(source), "--output", str(output)]
    subprocess.run([*command, *paths, *argv], check=True, cwd=ROOT)
    manifest = json.loads((output / "dataset.json").read_bytes())
    content = manifest["content"]
    counts = [content["records"], content["leaks"]["contents"], content["conflicts"]["contents"]]
    _row(" ".join(argv) or "none", [f"{count:,}" for count in counts])


def _row(name: str, cells: Sequence[str]) -> None:
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
