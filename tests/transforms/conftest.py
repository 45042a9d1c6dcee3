"""Front ends of tests: most folders test what commands do, the files here custom pipelines."""

from collections.abc import Iterator

import pytest

from recordmill.option_names import as_flags

_OF_COMMANDS = {"audio", "checks", "encoders", "near_duplicates", "sources", "windowing"}


@pytest.fixture(autouse=True)
def _flags(request: pytest.FixtureRequest) -> Iterator[None]:
    """Name options as flags in the messages of what only commands use."""
    if request.path.parent.name in _OF_COMMANDS:
        with as_flags():
            yield
    else:
        yield
