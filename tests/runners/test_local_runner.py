"""`LocalRunner` against Beam's own runner, and what it promises beyond."""

import functools
import gc
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.pvalue import AsDict, AsIter, AsList, AsSingleton, TaggedOutput
from apache_beam.transforms.combiners import MeanCombineFn
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue

from recordmill.runners import direct
from recordmill.runners.local_runner import LocalRunner

_results: list[Any] = []


def keep(element: Any) -> None:
    _results.append(element)


def run(build: Callable[[beam.Pipeline], None], *, threads: int = 2) -> None:
    pipeline = beam.Pipeline(runner=LocalRunner(threads=threads))
    build(pipeline)
    pipeline.run(test_runner_api=False)


def sorted_values(pair: tuple[Any, Iterable[Any]]) -> tuple[Any, list[Any]]:
    return pair[0], sorted(pair[1])


class Batches(beam.DoFn):
    """Emits elements in batches when it has seen all of a bundle."""

    def start_bundle(self) -> None:
        self._seen: list[int] = []

    def process(self, element: int) -> None:
        self._seen.append(element)

    def finish_bundle(self) -> Iterator[Any]:
        for element in self._seen:
            yield GlobalWindows.windowed_value(element + 1)


class Means(MeanCombineFn):
    """Has to be set up."""

    def setup(self, *args: Any) -> None:
        self.factor = 2

    def extract_output(self, accumulator: Any) -> float:
        return super().extract_output(accumulator) * self.factor


class Scaled(beam.CombineFn):
    """Multiplies a sum by an argument."""

    def create_accumulator(self, factor: int) -> int:
        return 0

    def add_input(self, accumulator: int, element: int, factor: int) -> int:
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[int], factor: int) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int, factor: int) -> int:
        return accumulator * factor


def numbers(pipeline: beam.Pipeline, *, of: int = 20, name: str = "Numbers") -> Any:
    return pipeline | name >> beam.Create(range(of))


def by_parity(pipeline: beam.Pipeline) -> Any:
    return numbers(pipeline) | beam.Map(lambda number: (number % 2, number))


def tagged(pipeline: beam.Pipeline) -> Any:
    def split(number: int) -> Iterator[Any]:
        yield number
        yield TaggedOutput("odd" if number % 2 else "even", number)

    parts = numbers(pipeline) | beam.FlatMap(split).with_outputs("odd", "even", main="all")
    return (
        parts.all | "All" >> beam.Map(lambda number: ("all", number)),
        parts.odd | "Odd" >> beam.Map(lambda number: ("odd", number)),
    ) | beam.Flatten()


def side_of_the_same_stage(pipeline: beam.Pipeline) -> Any:
    """The side input and the main input are made by ParDos that follow each other."""
    first = numbers(pipeline) | "First" >> beam.Map(lambda number: number + 1)
    second = first | "Second" >> beam.Map(lambda number: number * 2)
    return first | beam.Map(lambda one, others: (one, sum(others)), AsList(second))


AS_TEXTS = {0: "0", 1: "1", 2: "2"}


def several_sides(pipeline: beam.Pipeline) -> Any:
    few = numbers(pipeline, of=3, name="Few")
    names = few | beam.Map(lambda number: (number, str(number)))
    total = few | beam.CombineGlobally(sum)
    none = few | beam.Filter(lambda number: number > 5)
    return numbers(pipeline) | beam.Map(
        lambda number, total, names, few, none: (number, total, names == AS_TEXTS, sum(few), none),
        AsSingleton(total),
        names=AsDict(names),
        few=AsIter(few),
        none=AsSingleton(none, default_value="none"),
    )


PIPELINES: dict[str, Callable[[beam.Pipeline], Any]] = {
    "create": numbers,
    "empty": lambda pipeline: pipeline | beam.Create([]) | beam.Map(lambda one: one),
    "chain": lambda pipeline: (
        numbers(pipeline)
        | beam.Filter(lambda number: number > 3)
        | beam.FlatMap(lambda number: [number, -number])
        | beam.Map(str)
    ),
    "group": lambda pipeline: by_parity(pipeline) | beam.GroupByKey() | beam.Map(sorted_values),
    "group of a group": lambda pipeline: (
        by_parity(pipeline)
        | "Once" >> beam.GroupByKey()
        | "Again" >> beam.GroupByKey()
        | beam.Map(lambda pair: (pair[0], [sorted(one) for one in pair[1]]))
    ),
    "combine per key": lambda pipeline: by_parity(pipeline) | beam.CombinePerKey(sum),
    "combine with an argument": lambda pipeline: (
        by_parity(pipeline) | beam.CombinePerKey(Scaled(), factor=3)
    ),
    "combine after a reshuffle": lambda pipeline: (
        by_parity(pipeline) | beam.Reshuffle() | beam.CombinePerKey(Means())
    ),
    "combine twice": lambda pipeline: (
        (by_parity(pipeline) | "One" >> beam.CombinePerKey(max))
        | "Two" >> beam.CombinePerKey(Means())
    ),
    "combine globally": lambda pipeline: numbers(pipeline) | beam.CombineGlobally(Means()),
    "combine nothing": lambda pipeline: numbers(pipeline, of=0) | beam.CombineGlobally(sum),
    "combine nothing without a default": lambda pipeline: (
        numbers(pipeline, of=0) | beam.CombineGlobally(sum).without_defaults()
    ),
    "reshuffle": lambda pipeline: (
        numbers(pipeline) | beam.Reshuffle() | beam.Map(lambda number: number + 1)
    ),
    "flatten": lambda pipeline: (
        (numbers(pipeline), numbers(pipeline, of=30, name="More"))
        | beam.Flatten()
        | beam.Distinct()
    ),
    "read twice": lambda pipeline: (
        lambda read: (read | "A" >> beam.Map(str), read | "B" >> beam.Map(float)) | beam.Flatten()
    )(numbers(pipeline) | beam.Reshuffle()),
    "bundles": lambda pipeline: numbers(pipeline) | beam.Reshuffle() | beam.ParDo(Batches()),
    "bundles in a row": lambda pipeline: (
        numbers(pipeline)
        | beam.Reshuffle()
        | "One" >> beam.ParDo(Batches())
        | "Two" >> beam.ParDo(Batches())
    ),
    "tagged": tagged,
    "side of the same stage": side_of_the_same_stage,
    "several sides": several_sides,
}


@pytest.mark.parametrize("name", PIPELINES)
def test_results_are_those_of_beams_runner(name):
    build = PIPELINES[name]

    def build_and_keep(pipeline: beam.Pipeline) -> None:
        build(pipeline) | "Keep" >> beam.Map(keep)

    found = []
    for run_here in (run, functools.partial(direct.run, workers=2)):
        _results.clear()
        run_here(build_and_keep)
        found.append(sorted(map(repr, _results)))
    local, beams = found
    assert local == beams
    assert beams or name in ("empty", "combine nothing without a default")


_barrier = threading.Barrier(2, timeout=60)


class Meets(beam.DoFn):
    """Waits until another thread processes an element, and proves that the DoFn is not shared."""

    def start_bundle(self) -> None:
        self._current: list[int] = []

    def process(self, element: int) -> Iterator[int]:
        self._current.append(element)
        _barrier.wait()
        assert self._current == [element]
        self._current.clear()
        yield element


def test_elements_are_processed_at_once_by_dofns_of_their_own():
    _results.clear()

    def build(pipeline: beam.Pipeline) -> None:
        meeting = numbers(pipeline, of=6) | beam.Reshuffle() | beam.ParDo(Meets())
        meeting | beam.Map(keep)

    run(build)
    assert sorted(_results) == [*range(6)]


def test_one_thread_takes_all_elements():
    _results.clear()

    def build(pipeline: beam.Pipeline) -> None:
        threads = numbers(pipeline) | beam.Map(lambda _: threading.current_thread().name)
        threads | beam.Map(keep)

    run(build, threads=1)
    assert len(_results) == 20
    assert len(set(_results)) == 1


class Fails(beam.DoFn):
    def process(self, element: int) -> Iterator[int]:
        _results.append(element)
        if element == 3:
            raise ValueError("the third")
        yield element

    def teardown(self) -> None:
        _results.append("torn down")


def test_the_first_exception_ends_the_run():
    """No element is processed after it, and no later stage begins."""

    def build(pipeline: beam.Pipeline) -> None:
        failing = numbers(pipeline) | "Before" >> beam.Reshuffle() | beam.ParDo(Fails())
        failing | beam.Reshuffle() | beam.Map(lambda _: _results.append("a later stage"))

    _results.clear()
    with pytest.raises(ValueError, match=r"the third \[while running 'ParDo\(Fails\)'\]"):
        run(build, threads=1)
    assert _results == [0, 1, 2, 3, "torn down"]


_failed = threading.Event()


class FailsBeside(beam.DoFn):
    """Fails at one element while another thread processes the other."""

    def process(self, element: int) -> None:
        keep(element)
        _barrier.wait()
        self._is_failing = element == 0
        if self._is_failing:
            raise ValueError("the first")
        assert _failed.wait(60)

    def finish_bundle(self) -> None:
        keep("finished")

    def teardown(self) -> None:
        if self._is_failing:
            _failed.set()


def test_other_threads_stop_after_a_failure():
    def build(pipeline: beam.Pipeline) -> None:
        numbers(pipeline) | beam.Reshuffle() | beam.ParDo(FailsBeside())

    _results.clear()
    _failed.clear()
    with pytest.raises(ValueError, match="FailsBeside"):
        run(build)
    assert sorted(map(str, _results)) == ["0", "1"]


class FailsToSetUp(beam.DoFn):
    """Has nothing to tear down."""

    def setup(self) -> None:
        raise ValueError("at the beginning")

    def teardown(self) -> None:
        keep("torn down")


def test_what_was_not_set_up_is_not_torn_down():
    def build(pipeline: beam.Pipeline) -> None:
        numbers(pipeline) | beam.ParDo(FailsToSetUp())

    _results.clear()
    with pytest.raises(ValueError, match="at the beginning"):
        run(build)
    assert not _results


class Collects(beam.DoFn):
    """Begins its work when the bundle is complete."""

    def start_bundle(self) -> None:
        self._count = 0

    def process(self, element: int) -> None:
        self._count += 1

    def finish_bundle(self) -> None:
        keep(self._count)


@pytest.mark.parametrize("of", [9, 8, 2])
def test_bundles_that_work_at_their_end_have_equal_shares(of):
    def build(pipeline: beam.Pipeline) -> None:
        numbers(pipeline, of=of) | beam.Reshuffle() | beam.ParDo(Collects())

    _results.clear()
    run(build, threads=3)
    assert sum(_results) == of
    assert max(_results) <= -(-of // 3)


class MeetingMeans(MeanCombineFn):
    """Extracts two results at once."""

    def extract_output(self, accumulator: Any) -> float:
        _barrier.wait()
        return super().extract_output(accumulator)


def test_results_of_keys_are_extracted_at_once():
    def build(pipeline: beam.Pipeline) -> None:
        by_parity(pipeline) | beam.CombinePerKey(MeetingMeans()) | beam.Map(keep)

    _results.clear()
    run(build)
    assert sorted(_results) == [(0, 9.0), (1, 10.0)]


class Large:
    """An element that can be referred to weakly."""


def test_elements_are_freed_after_the_last_read():
    """The source of a stage is freed while it is read, all else before the next stage."""
    made: list[weakref.ref[Large]] = []
    alive: list[int] = []

    def make(number: int) -> Large:
        element = Large()
        made.append(weakref.ref(element))
        return element

    def count(_: Any) -> Iterator[int]:
        gc.collect()
        alive.append(sum(one() is not None for one in made))
        yield 1

    def build(pipeline: beam.Pipeline) -> None:
        larges = numbers(pipeline, of=4) | beam.Map(make) | "Larges" >> beam.Reshuffle()
        ones = larges | "While" >> beam.FlatMap(count)
        ones | "Ones" >> beam.Reshuffle() | "After" >> beam.FlatMap(count)

    run(build, threads=1)
    assert alive[:4] == [4, 3, 2, 1]
    assert alive[4:] == [0, 0, 0, 0]


def windows(pipeline: beam.Pipeline) -> None:
    times = numbers(pipeline) | beam.Map(lambda number: TimestampedValue((1, number), number))
    times | beam.WindowInto(FixedWindows(5)) | beam.GroupByKey()


def states(pipeline: beam.Pipeline) -> None:
    by_parity(pipeline) | beam.GroupIntoBatches(3)


def text_files(pipeline: beam.Pipeline) -> None:
    pipeline | beam.io.ReadFromText(__file__)


@pytest.mark.parametrize("build", [windows, states, text_files])
def test_what_is_not_supported_is_an_error(build):
    with pytest.raises(NotImplementedError):
        run(build)
