import gc
import os
import sys
from collections.abc import Iterator

import hypothesis
import pytest

from tests.beam_reuse import reused_inspections
from tests.encoder_reuse import reused_encoders

# Hundreds of processes that tests start, such as encoder processes, would compile all that they
# import, which is two thirds of their CPU.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The modules that are imported while tests are collected stay, TensorFlow among them.
gc.disable()

# How long an example may take says nothing on a machine with other work.
_UNHURRIED = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("quick", max_examples=50, **_UNHURRIED)
hypothesis.settings.register_profile("thorough", max_examples=1000, **_UNHURRIED)
hypothesis.settings.load_profile("quick")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _reused() -> Iterator[None]:
    with reused_encoders(), reused_inspections():
        yield
