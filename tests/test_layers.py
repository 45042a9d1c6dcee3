"""What importing costs: linters check the layers, these what a fresh interpreter really loads."""

import subprocess
import sys

import apache_beam as beam
import pytest
from apache_beam.runners.worker import statesampler
from apache_beam.transforms import core
from apache_beam.utils.counters import CounterFactory

from recordmill.runners import beam_patches
from recordmill.runners.beam_patches import permanent_imports

HEAVY = ("tensorflow", "tensorflow_transform", "pandas", "apache_beam")


def loaded(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after a statement."""
    names = "*{name.partition('.')[0] for name in sys.modules}"
    return set(printed(f"{statement}\nimport sys\nprint({names})").split())


def printed(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout


@pytest.mark.parametrize(
    "module",
    [
        "recordmill.pipelines.images",
        "recordmill.pipelines.cli",
        "recordmill.reading.reader",
        "recordmill.checking.verify",
        "recordmill.transforms.staged.encoder_tasks",
        "recordmill.transforms.encoders.images",
    ],
)
def test_importing_it_loads_nothing_heavy(module):
    assert loaded(f"import {module}").isdisjoint(HEAVY)


def test_a_whole_run_needs_beam_only():
    modules = loaded("import recordmill.pipelines.run, recordmill.pipelines.images")
    assert "apache_beam" in modules
    assert modules.isdisjoint({"tensorflow", "tensorflow_transform", "pandas"})


def test_beam_comes_without_its_clients():
    clients = {"beartype", "boto3", "pymongo", "pyparsing", "requests"}
    permanent = (
        "from recordmill.runners.beam_patches import permanent_imports\n"
        "with permanent_imports(): import recordmill.pipelines.run"
    )
    assert loaded("import recordmill.pipelines.run") >= clients, "Beam has changed what it imports"
    assert loaded(permanent).isdisjoint(clients)
    # Who wants one can have it.
    assert "pymongo" in loaded(f"{permanent}\nimport apache_beam.io.mongodbio")


def test_beam_finds_the_parameters_that_methods_have(monkeypatch):
    find = getattr(core.get_function_args_defaults, "__wrapped__", core.get_function_args_defaults)
    monkeypatch.setattr(core, "get_function_args_defaults", find)

    class Adds(beam.DoFn):
        def process(self, element, *others, window=1, timestamp=beam.DoFn.TimestampParam):
            yield element

    class AddsMore(beam.DoFn):
        def process(self, element, bound=2):
            yield element

    dofns = Adds(), AddsMore(), Adds()
    expected = [find(dofn.process) for dofn in dofns]
    monkeypatch.setattr(beam_patches, "_applied", set())
    with permanent_imports():
        pass
    assert core.get_function_args_defaults is not find
    for _ in range(2):
        found = [core.get_function_args_defaults(dofn.process) for dofn in dofns]
        assert found == expected
        found[0][0].append("to a list of its own")
    assert core.get_function_args_defaults(Adds.process) == find(Adds.process)


def test_bundles_do_not_wait_long_for_the_thread_that_samples_their_state():
    with permanent_imports():
        pass
    assert statesampler.DEFAULT_SAMPLING_PERIOD_MS == 200, "Beam has changed how often it looks"
    assert statesampler.StateSampler("a-step", CounterFactory()).sampling_period_ms == 5


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
