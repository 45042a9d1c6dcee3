import pathlib

import pytest

from tests.folders import make_folder


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder of photos of two classes, for tests that only read it."""
    return make_folder(tmp_path_factory.mktemp("in") / "photos", {"ant": 4, "bee": 4})
