from collections.abc import Iterator

import hypothesis
import pytest

from tests.encoder_reuse import reused_encoders

# How long an example may take says nothing on a machine with other work.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")


@pytest.fixture(autouse=True, scope="session")
def _reused_encoders() -> Iterator[None]:
    with reused_encoders():
        yield
