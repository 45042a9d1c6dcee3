import os
import sys
from collections.abc import Iterator

import hypothesis
import pytest

from tests.encoder_reuse import reused_encoders

# Hundreds of processes that tests start, such as encoder processes, would compile all that they
# import, which is two thirds of their CPU.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# How long an example may take says nothing on a machine with other work.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")


@pytest.fixture(autouse=True, scope="session")
def _reused_encoders() -> Iterator[None]:
    with reused_encoders():
        yield
