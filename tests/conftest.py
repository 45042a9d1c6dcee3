import pathlib

import hypothesis
import pytest

# How long an example may take says nothing on a machine with other work.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """Real, dirty data that stands beside the repository."""
    folder = pathlib.Path(__file__).parents[2] / "shared" / "data"
    assert folder.is_dir(), f"the test data is missing: expected it at {folder}"
    return folder
