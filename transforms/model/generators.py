"""Random generators of records, for augmentations."""

from __future__ import annotations

import numpy as np
import xxhash


def generator_for(seed: int, *, key: str, copy: int) -> np.random.Generator:
    """Return the random generator of one copy of one record, the same on every machine."""
    digest = xxhash.xxh3_128_intdigest(f"{seed}/{copy}/{key}".encode("utf-8", "surrogateescape"))
    return np.random.Generator(np.random.PCG64(digest))
