"""Publishing over another dataset, cut off at every step it has.

python -m tests.soak.publishing
"""

from __future__ import annotations

import sys

import pytest

from tests.recordmill.job import test_publish


def main() -> int:
    test_publish.EVERY = 1
    return pytest.main(["-q", "-p", "no:xdist", test_publish.__file__])


if __name__ == "__main__":
    sys.exit(main())
