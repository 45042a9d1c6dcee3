"""Patches of Beam: their effect, and the versions and the switch that they depend on."""

import gc
import json
import os
import pickle
import subprocess
import sys
from types import ModuleType
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.internal import pickler
from apache_beam.options import pipeline_options
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.runners.worker import statecache
from apache_beam.runners.worker.statesampler import DEFAULT_SAMPLING_PERIOD_MS, StateSampler
from apache_beam.transforms import core, userstate
from apache_beam.typehints.decorators import IOTypeHints, TypeCheckError
from apache_beam.utils.counters import CounterFactory

from recordmill.runners import beam_patches, direct
from tests.paths import DEMO, ROOT

PATCHED = {
    "apache_beam.options.pipeline_options": (PipelineOptions, "view_as"),
    "apache_beam.transforms.core": (core, "get_function_args_defaults"),
    "apache_beam.transforms.userstate": (userstate, "get_dofn_specs"),
    "apache_beam.runners.worker.statecache": (statecache, "get_deep_size"),
    "apache_beam.runners.worker.statesampler": (StateSampler.__init__, "__defaults__"),
}
"""Module of Beam: (object, attribute) that a patch changes."""

PERMANENT = (
    "from recordmill.runners.beam_patches import permanent_imports\nwith permanent_imports():"
)
STATE = f"""
{PERMANENT}
    import recordmill.pipelines.jobs.road, recordmill.runners.direct
    import apache_beam.runners.worker.statecache
import sys
from tests.runners.test_beam_patches import PATCHED, is_patched
print(*map(is_patched, PATCHED.values()))
"""


def is_patched(place: tuple[Any, str]) -> bool:
    value = getattr(*place)
    return value == (5,) if isinstance(value, tuple) else hasattr(value, "__wrapped__")


def printed(program: str, **environment: str) -> list[str]:
    """Return the lines that a program prints in a new interpreter."""
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT, env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip


@pytest.fixture
def unpatched(monkeypatch):
    """Beam as in a new process, whether or not this process has patched it."""
    for holder, name in PATCHED.values():
        value = getattr(holder, name)
        original = (200,) if isinstance(value, tuple) else getattr(value, "__wrapped__", value)
        monkeypatch.setattr(holder, name, original)
    monkeypatch.setattr(beam_patches, "_applied", set())
    monkeypatch.delenv(beam_patches.SWITCH, raising=False)
    beam_patches.enabled.cache_clear()
    yield
    beam_patches.enabled.cache_clear()


def attributes() -> list[object]:
    return [getattr(holder, name) for holder, name in PATCHED.values()]


def test_every_patch_is_listed_here():
    assert PATCHED.keys() == beam_patches._PATCHES.keys()


@pytest.mark.parametrize(("value", "patched"), [("1", "True"), ("", "True"), ("0", "False")])
def test_the_switch_leaves_beam_unchanged(value, patched):
    assert printed(STATE, RECORDMILL_BEAM_PATCHES=value) == [" ".join([patched] * len(PATCHED))]


def test_other_versions_of_beam_are_not_patched(unpatched, monkeypatch):
    before = attributes()
    monkeypatch.setattr(beam_patches, "installed_version", lambda name: "2.78.0")
    with beam_patches.permanent_imports():
        pass
    assert attributes() == before
    beam_patches.enabled.cache_clear()
    monkeypatch.undo()
    assert beam_patches.enabled() == (os.environ.get(beam_patches.SWITCH) != "0")


def test_patches_apply_once(unpatched):
    before = attributes()
    beam_patches.apply_patches()
    patched = attributes()
    assert all(new is not old for new, old in zip(patched, before, strict=True))
    beam_patches.apply_patches()
    assert attributes() == patched


@pytest.mark.parametrize("module", PATCHED)
def test_a_missing_attribute_means_no_patch(unpatched, monkeypatch, module):
    before = attributes()
    monkeypatch.setitem(sys.modules, module, ModuleType(module))
    beam_patches.apply_patches()
    unchanged = [new is old for new, old in zip(attributes(), before, strict=True)]
    assert unchanged == [name == module for name in PATCHED]


def fail_to_import() -> None:
    with beam_patches.permanent_imports():
        assert not gc.isenabled()
        raise ImportError


def test_garbage_collection_is_back_after_the_imports():
    with pytest.raises(ImportError):
        fail_to_import()
    assert gc.isenabled()


def test_a_block_that_imports_nothing_keeps_no_garbage():
    before = gc.get_freeze_count()
    with beam_patches.permanent_imports():
        pass
    assert gc.get_freeze_count() <= before  # frozen objects can end


@pytest.mark.long
def test_datasets_are_the_same_without_patches(tmp_path):
    digests = []
    for value in "01":
        output = tmp_path / value
        subprocess.run(
            [
                *(sys.executable, "-m", "recordmill", "images", "--input", DEMO / "hat"),
                *("--output", output, "--size", "16", "--quiet"),
            ],
            cwd=ROOT, env=os.environ | {beam_patches.SWITCH: value}, check=True,
        )  # fmt: skip
        digests.append(json.loads((output / "dataset.json").read_text())["digest"])
    assert digests[0] == digests[1]


def test_a_view_of_options_is_created_once_and_shares_the_values(unpatched):
    beam_patches.cache_option_views(pipeline_options)
    options = PipelineOptions(["--direct_num_workers=3", "--streaming"])
    view = options.view_as(DirectOptions)
    assert (view.direct_num_workers, options.view_as(StandardOptions).streaming) == (3, True)
    assert options.view_as(DirectOptions) is view
    assert PipelineOptions([]).view_as(DirectOptions) is not view
    view.direct_num_workers = 5
    assert options.get_all_options()["direct_num_workers"] == 5
    copy = pickle.loads(pickle.dumps(options))
    assert copy.view_as(DirectOptions).direct_num_workers == 5


def test_beam_finds_the_parameters_of_methods(unpatched):
    class Adds(beam.DoFn):
        def process(self, element, *others, window=1, timestamp=beam.DoFn.TimestampParam):
            yield element

    class AddsMore(beam.DoFn):
        def process(self, element, bound=2):
            yield element

    find = core.get_function_args_defaults
    dofns = Adds(), AddsMore(), Adds()
    expected = [find(dofn.process) for dofn in dofns]
    beam_patches.cache_argument_defaults(core)
    for _ in range(2):
        found = [core.get_function_args_defaults(dofn.process) for dofn in dofns]
        assert found == expected
        found[0][0].append("to a copy")
    assert core.get_function_args_defaults(Adds.process) == find(Adds.process)


def test_beam_finds_the_states_of_dofns(unpatched):
    state = beam.DoFn.StateParam(userstate.CombiningValueStateSpec("count", sum))

    class Counts(beam.DoFn):
        def process(self, element, count=state):
            yield element

    class Replaced(beam.DoFn):
        """Has a method in its attributes, as DoFns that wrap a function do."""

        def __init__(self, dofn):
            self.process = dofn.process

    find = userstate.get_dofn_specs
    dofns = Counts(), beam.DoFn(), Counts(), Replaced(Counts()), Replaced(beam.DoFn())
    expected = [find(dofn) for dofn in dofns]
    assert [len(states) for states, _ in expected] == [1, 0, 1, 1, 0]
    beam_patches.cache_state_specs(userstate)
    for _ in range(2):
        found = [userstate.get_dofn_specs(dofn) for dofn in dofns]
        assert found == expected
        found[0][0].clear()


def test_cached_state_has_the_size_that_beam_measures(unpatched):
    values = [b"x" * 1000, {"a": ["b", 2.5]}, os, os.path.join, core]
    expected = [statecache.get_deep_size(value) for value in values]
    beam_patches.measure_cached_state_alone(statecache)
    assert [statecache.get_deep_size(value) for value in values] == expected
    assert expected[0] > 1000


def test_the_state_of_a_bundle_is_sampled_often(unpatched):
    assert DEFAULT_SAMPLING_PERIOD_MS == 200, "this version of Beam has another default"
    assert StateSampler("a-step", CounterFactory()).sampling_period_ms == 200
    beam_patches.apply_patches()
    assert StateSampler("a-step", CounterFactory()).sampling_period_ms == 5


def mistyped_pipeline(pipeline: beam.Pipeline) -> None:
    texts = pipeline | beam.Create(["1"]).with_output_types(str)
    texts | beam.Map(int).with_input_types(int)


def test_types_are_checked_for_authors_and_without_patches(unpatched, monkeypatch):
    direct.run(mistyped_pipeline, workers=1, checks=False)
    with pytest.raises(TypeCheckError):
        direct.run(mistyped_pipeline, workers=1)
    monkeypatch.setenv(beam_patches.SWITCH, "0")
    beam_patches.enabled.cache_clear()
    with pytest.raises(TypeCheckError):
        direct.run(mistyped_pipeline, workers=1, checks=False)


def test_steps_are_left_out_inside_the_block_alone(unpatched):
    places = (
        (pickler, "roundtrip"),
        (core, "_check_fn_use_yield_and_return"),
        (IOTypeHints, "_make_origin"),
    )
    before = [vars(place)[name] for place, name in places]
    with beam_patches.fewer_steps():
        inside = [vars(place)[name] for place, name in places]
    assert not any(one is other for one, other in zip(inside, before, strict=True))
    assert [vars(place)[name] for place, name in places] == before


def test_authors_are_told_of_a_function_that_cannot_be_pickled(unpatched):
    numbers = iter(range(3) for _ in range(3))

    def build(pipeline: beam.Pipeline) -> None:
        pipeline | beam.Create([1]) | beam.Map(lambda _: next(numbers))

    with pytest.raises(RuntimeError, match="Unable to pickle fn"):
        direct.run(build, workers=1)
