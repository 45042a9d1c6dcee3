"""The rows of an input by their keys, for tests that compare records with the lines of a file."""

import functools
import importlib
from collections import Counter
from typing import Any

from recordmill.job.input_facts import InputFacts
from recordmill.pipelines.options.arguments import command_line
from recordmill.pipelines.options.data_types import DATA_TYPES
from recordmill.transforms.model import batch


def places_of_keys(command: str, *argv: object) -> dict[str, str]:
    """{key by content: FILE#ROW}; equal rows are numbered in the order of the files."""
    found = DATA_TYPES[command]
    module = importlib.import_module(found.module)
    flags = [*map(str, argv), "--output", "none"]
    config = command_line.parse(
        getattr(module, found.config), flags, prog="test", description=""
    ).config
    source = module.data_type(config).source
    listing = [*source.scan()]
    parts = [listed.rows for listed in listing if listed.rows is not None]
    facts = functools.reduce(InputFacts.plus, (listed.facts for listed in listing))
    layout = source.layout(parts, facts=facts)
    seen: Counter[str] = Counter()
    places: dict[str, str] = {}
    for part in parts:
        for listed in source.read(part, layout):
            if listed.rows is None:
                continue
            keys = batch.hex_of(source.content_hashes(listed.rows)).to_pylist()
            for key, place in zip(keys, listed.rows[batch.KEY].to_pylist(), strict=True):
                seen[key] += 1
                places[key if seen[key] == 1 else f"{key}#{seen[key]}"] = place
    return places


def by_row(records: dict[str, Any], command: str, *argv: object) -> dict[str, Any]:
    """The records by FILE#ROW instead of their keys."""
    places = places_of_keys(command, *argv)
    return {places[key]: record for key, record in records.items()}
