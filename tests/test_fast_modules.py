"""The plugin of `make test-fast` leaves out exactly the modules that its rule names."""

import pytest

from tests import fast_modules


@pytest.fixture
def tests(tmp_path, monkeypatch):
    monkeypatch.setattr(fast_modules, "ROOT", tmp_path)
    fast_modules.is_slow.cache_clear()
    folder = tmp_path / "tests"
    folder.mkdir()
    yield folder
    fast_modules.is_slow.cache_clear()


@pytest.mark.parametrize(
    ("source", "slow"),
    [
        ("import numpy as np\nimport apache_beam as beam\n", False),
        ("import tensorflow as tf\n", True),
        ("import subprocess, sys\n", True),
        ("def test():\n    import tensorflow_datasets as tfds\n", True),
        ("from recordmill.pipelines import cli\n", True),
        ("from recordmill.pipelines.cli import main\n", True),
        ("from recordmill.pipelines.options import config\n", False),
        ("from tests.helper import made\n", True),
        ("from tests import helper\n", True),
        ("from tests import plain\n", False),
        ("'import tensorflow'\n", False),
    ],
)
def test_imports_make_a_module_slow(tests, source, slow):
    (tests / "helper.py").write_text("from tests import runs\n")
    (tests / "runs.py").write_text("import subprocess\n")
    (tests / "plain.py").write_text("import json\n")
    module = tests / "test_it.py"
    module.write_text(source)
    assert fast_modules.is_slow(module) is slow
    assert fast_modules.pytest_ignore_collect(module) is (True if slow else None)


def test_other_paths_are_left_to_pytest(tests, tmp_path):
    assert fast_modules.pytest_ignore_collect(tests) is None
    assert fast_modules.pytest_ignore_collect(tmp_path / "setup.py") is None
