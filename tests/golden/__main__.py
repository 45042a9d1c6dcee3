"""Compares the golden matrix with its recording, or records it anew.

python -m tests.golden                        compare all cases
python -m tests.golden --only ^table/         compare those whose names match
python -m tests.golden --record               make golden: write recorded.jsonl
python -m tests.golden --serve FOLDER         answer names of cases with their outcomes
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator

import apache_beam  # noqa: F401  (only a Beam that was imported is patched)

from recordmill.storage import storage_errors
from tests.beam_reuse import reused_options
from tests.golden import matrix
from tests.image_runs import encoders_kept
from tests.s3_server import CREDENTIALS


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--serve", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--workers", type=int, default=1, metavar="N")
    given = parser.parse_args()
    storage_errors.PAUSES = (0,) * len(storage_errors.PAUSES)
    with (
        reused_options(),
        encoders_kept(CREDENTIALS),
        tempfile.TemporaryDirectory() as folder,
    ):
        runs = matrix.Runs(given.serve or pathlib.Path(folder).resolve(), workers=given.workers)
        try:
            if given.serve:
                return _serve(runs)
            names = [name for name in matrix.cases() if re.search(given.only, name)]
            return _record(runs, names) if given.record else _compare(runs, names)
        finally:
            runs.close()


def _serve(runs: matrix.Runs) -> int:
    for line in sys.stdin:
        print(json.dumps(runs.outcome(line.rstrip("\n"))), flush=True)
    return 0


def _record(runs: matrix.Runs, names: list[str]) -> int:
    known = {}
    if len(names) < len(matrix.cases()):
        known = {name: one for name, one in matrix.recorded()[1].items() if name in matrix.cases()}
    matrix.record(known | dict(_progress(runs, names)))
    return 0


def _compare(runs: matrix.Runs, names: list[str]) -> int:
    encoders, expected = matrix.recorded()
    found = []
    for name, outcome in _progress(runs, names):
        if different := matrix.differences(name, outcome, encoders, expected):
            found.append(name)
            print("\n    ".join([f"DIFFERENT: {name}", *different]))
            print(textwrap.indent(runs.messages[name][-2000:], "    | "), flush=True)
    if len(names) == len(matrix.cases()):
        for name in expected.keys() - matrix.cases().keys():
            found.append(name)
            print(f"DIFFERENT: {name}\n    recorded, but no case")
    print(f"{len(found)} of {len(names)} cases differ")
    return 1 if found else 0


def _progress(runs: matrix.Runs, names: list[str]) -> Iterator[tuple[str, matrix.Outcome]]:
    for number, name in enumerate(names, 1):
        print(f"{number}/{len(names)} {name}"[:100], file=sys.stderr)
        yield name, runs.outcome(name)


if __name__ == "__main__":
    sys.exit(main())
