import gc
import os
import socket
import sys
from collections.abc import Iterator

import hypothesis
import pytest

from recordmill.storage import storage_errors
from tests.beam_reuse import reused_options
from tests.encoder_reuse import reused_encoders
from tests.image_runs import encoders_kept
from tests.s3_server import CREDENTIALS, shared_server
from tests.s3_store import S3Store

# Hundreds of processes that tests start, such as encoder processes, would compile all that they
# import, which is two thirds of their CPU.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# As pyproject.toml does for this process: encoder processes, commands and Python workers on Flink
# inherit it.
os.environ["PYTHONWARNINGS"] = "error::RuntimeWarning"

# The modules that are imported while tests are collected stay, TensorFlow among them.
gc.disable()

# How long an example may take says nothing on a machine with other work.
_UNHURRIED = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("quick", max_examples=25, **_UNHURRIED)
hypothesis.settings.register_profile("thorough", max_examples=1000, **_UNHURRIED)
hypothesis.settings.load_profile("quick")


_MEMORY = "/dev/shm"
_MEMORY_NEEDED = 4 << 30  # bytes; the files of one session take a tenth of it


def pytest_configure(config: pytest.Config) -> None:
    """Put the files of tests into memory, where there is enough of it: runs wait for no disk."""
    if config.option.basetemp is None and _is_enough_memory():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _MEMORY)


def _is_enough_memory() -> bool:
    try:
        place = os.statvfs(_MEMORY)
    except OSError:
        return False
    is_usable = not place.f_flag & (os.ST_NOEXEC | os.ST_RDONLY) and os.access(_MEMORY, os.W_OK)
    return is_usable and place.f_bavail * place.f_frsize >= _MEMORY_NEEDED


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _reused() -> Iterator[None]:
    with reused_encoders(), reused_options(), shared_server():
        yield


@pytest.fixture(autouse=True, scope="session")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Intermediate files of outputs in stores are not in the home folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_pauses() -> Iterator[None]:
    """Calls of storage are repeated at once in this process, not after 2.6 s in all."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PAUSES", "OUTAGE_PAUSES"):
            patch.setattr(storage_errors, name, (0,) * len(getattr(storage_errors, name)))
        yield


@pytest.fixture(scope="module")
def encoders() -> Iterator[None]:
    """All runs of a module share two encoder processes."""
    with encoders_kept():
        yield


@pytest.fixture(scope="module")
def encoders_with_credentials() -> Iterator[None]:
    """All runs of a module share two encoder processes, which have credentials of an S3 server."""
    with encoders_kept(CREDENTIALS):
        yield


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Store]:
    """A light store, and its credentials in the environment."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    listener = socket.create_server(("127.0.0.1", 0))
    with S3Store(listener, access_key=CREDENTIALS["AWS_ACCESS_KEY_ID"]) as made:
        yield made
