"""Numbers of examples of a property: those of the profile, or a multiple of them."""

import hypothesis


def many(factor: int) -> int:
    """Return `factor` times the examples of the profile: 25 in tests, 1,000 in `make soak`."""
    most = hypothesis.settings.default
    assert most is not None
    return factor * most.max_examples
