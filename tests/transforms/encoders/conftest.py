"""Messages are those of commands: `tests/transforms/test_errors.py` has those of Python."""

from collections.abc import Iterator

import pytest

from recordmill.option_names import as_flags


@pytest.fixture(autouse=True)
def _flags() -> Iterator[None]:
    with as_flags():
        yield
