"""The vocabularies of a dataset: which token a number stands for."""

from __future__ import annotations

from recordmill.format.manifest import Manifest
from recordmill.storage.files import Location

_ENTRIES = 2_000_000  # tokens of a vocabulary that are read


def vocabularies(dataset: Location, manifest: Manifest) -> dict[str, dict[int, str]]:
    """Return {feature: {number: token}} of the features that have a vocabulary in the dataset.

    Numbers without a token are padding (0) and unknown tokens.
    """
    found = {}
    for name, feature in manifest.features.items():
        file = f"vocabulary/{name}.txt"
        if feature.kind != "index" or feature.size is None or file not in manifest.files:
            continue
        text = (dataset / file).read_bytes().decode(errors="replace")
        tokens = text.removesuffix("\n").split("\n")[:_ENTRIES]
        # Padding and unknown tokens come first (docs/text.md).
        found[name] = dict(enumerate(tokens, start=max(feature.size - len(tokens), 0)))
    return found
