import pathlib

import pytest


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """Real, dirty data that stands beside the repository."""
    folder = pathlib.Path(__file__).parents[2] / "shared" / "data"
    assert folder.is_dir(), f"the test data is missing: expected it at {folder}"
    return folder
