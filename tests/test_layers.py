"""Imports: linters check the layers, these tests the modules that a fresh interpreter loads."""

import subprocess
import sys

import pytest

HEAVY = ("tensorflow", "tensorflow_transform", "pandas", "apache_beam")


def loaded(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after a statement."""
    names = "*{name.partition('.')[0] for name in sys.modules}"
    return set(printed(f"{statement}\nimport sys\nprint({names})").split())


def printed(code: str) -> str:
    """Output of a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout


@pytest.mark.parametrize(
    "module",
    [
        "recordmill.pipelines.images",
        "recordmill.pipelines.cli",
        "recordmill.pipelines.jobs.run",
        "recordmill.reading.reader",
        "recordmill.checking.verify",
        "recordmill.transforms.staged.encoder_tasks",
        "recordmill.transforms.encoders.images",
    ],
)
def test_importing_it_loads_nothing_heavy(module):
    assert loaded(f"import {module}").isdisjoint(HEAVY)


def test_a_whole_run_needs_beam_only():
    modules = loaded("import recordmill.pipelines.jobs.road, recordmill.pipelines.images")
    assert "apache_beam" in modules
    assert modules.isdisjoint({"tensorflow", "tensorflow_transform", "pandas"})


def test_encoder_processes_have_what_arrow_imports_with_its_first_arrays():
    import_it = (
        "import recordmill.transforms.staged.encoder_tasks, numpy as np, pyarrow as pa, sys\n"
        "before = {*sys.modules}"
    )
    make = "pa.array(np.arange(2)), pa.array([1, None]), pa.array(['a'])"
    assert printed(f"{import_it}\n{make}\nprint({{*sys.modules}} - before)") == "set()\n"


def test_help_loads_nothing_heavy():
    modules = loaded("from recordmill.pipelines.cli import main; main(['images', '--help'])")
    assert modules.isdisjoint(HEAVY)


def test_errors_of_the_input_are_reported_before_beam_is_imported():
    command = ["images", "--input", "/dev/null/photos", "--output", "/dev/null/out"]
    modules = loaded(f"from recordmill.pipelines.cli import main; assert main({command}) == 2")
    assert "pyarrow" in modules
    assert modules.isdisjoint(HEAVY)


def test_a_run_that_has_nothing_to_do_imports_no_beam(tmp_path):
    (tmp_path / "a.csv").write_text("text\none\ntwo\n")
    command = ["text", "--input", f"{tmp_path}/a.csv", "--output", f"{tmp_path}/out", "--quiet"]
    run = f"from recordmill.pipelines.cli import main; assert main({command}) == 0"
    assert "apache_beam" in loaded(run)
    assert "apache_beam" not in loaded(run)
