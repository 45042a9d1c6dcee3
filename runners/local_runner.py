"""A Beam runner for a command's pipeline on this machine, in threads of this process.

Beam's own in-process runner translates a pipeline into protocol buffers, creates the operations of
each stage anew for each thread, and encodes and decodes all elements between stages. The elements
of these pipelines are few and small, and the records themselves are in files, so that this took a
third of the CPU of a small job. Here elements pass from step to step as they are. Beam calls the
steps.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import AppliedPTransform, Pipeline, PipelineVisitor
from apache_beam.pvalue import AsSideInput, PCollection
from apache_beam.runners.common import DoFnRunner, DoFnSignature, Receiver
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState
from apache_beam.transforms import core
from apache_beam.transforms.sideinputs import SideInputMap
from apache_beam.transforms.util import Reshuffle
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

_WINDOWING = core.Windowing(GlobalWindows())
_in_global_window = GlobalWindows.windowed_value

_Pair = tuple[Any, Any]  # of a key and a value
_Side = tuple[AsSideInput, list[WindowedValue]]


class LocalRunner(PipelineRunner):
    """Runs a bounded pipeline whose elements are all in the global window, without timestamps.

    ParDos that follow each other pass their elements on directly. GroupByKey, Reshuffle, Flatten
    and side inputs wait for all elements. CombinePerKey adds values to accumulators while a ParDo
    makes them, and otherwise waits as well. Elements are neither copied nor encoded, so keys must
    be hashable, and equal keys are one key, also 1 and True. Counters are not reported.

    threads: number of threads. Each takes one element at a time, or an equal share of them where a
      DoFn works at the end of a bundle. DoFns and their arguments are copied for each thread, but
      functions, and objects that they close over, are shared.

    Raises:
      NotImplementedError: the pipeline has other transforms.
    """

    def __init__(self, *, threads: int) -> None:
        super().__init__()
        self._threads = threads

    def apply(self, transform: Any, pvalue: Any, options: PipelineOptions) -> Any:
        """Apply a transform while a pipeline is built, without its parts if it is a primitive."""
        if _is_primitive(transform):
            return PCollection.from_(pvalue)
        return super().apply(transform, pvalue, options)

    def run_pipeline(self, pipeline: Pipeline, options: PipelineOptions) -> PipelineResult:
        """Run a pipeline to its end. Raises the exception of the DoFn that failed first."""
        plan = _Plan()
        pipeline.visit(plan)
        with ThreadPoolExecutor(self._threads, thread_name_prefix="stage") as executor:
            run = _Run(plan, executor, threads=self._threads)
            for stage in plan.stages:
                run.run_stage(stage)
        return PipelineResult(PipelineState.DONE)


@dataclasses.dataclass(frozen=True)
class _Stage:
    """ParDos that pass elements on to each other directly.

    source: the elements that the first of them processes.
    """

    source: PCollection
    steps: list[AppliedPTransform] = dataclasses.field(default_factory=list)


class _Plan(PipelineVisitor):
    """Divides a pipeline into stages, in an order in which they can run.

    makers: the transform that makes each PCollection. reads: number of reads of each complete
    PCollection. combined: each CombinePerKey that gets its elements while a stage makes
    them, by its input.
    """

    def __init__(self) -> None:
        self.stages: list[_Stage] = []
        self.makers: dict[PCollection, AppliedPTransform] = {}
        self.reads: Counter[PCollection] = Counter()
        self.combined: dict[PCollection, list[AppliedPTransform]] = defaultdict(list)
        self._complete_after: dict[PCollection, int] = {}  # number of stages

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        """Add a transform that has no parts."""
        node = transform_node
        outputs = set(node.outputs.values())
        if outputs <= set(node.inputs):  # it returns its input
            return
        if not all(output.windowing.is_default() for output in outputs):
            raise NotImplementedError(f"{node.full_label}: windows other than the global one")
        if isinstance(node.transform, core.ParDo):
            after = self._add_step(node)
        elif isinstance(node.transform, core.Impulse):
            after = 0
        elif isinstance(node.transform, core.Flatten | core.GroupByKey) or _is_primitive(
            node.transform
        ):
            after = max((self._complete_after[one] for one in node.inputs), default=0)
            if self._is_combined_early(node):
                self.combined[node.inputs[0]].append(node)
            else:
                self.reads.update(node.inputs)
        else:
            raise NotImplementedError(f"{node.full_label}: {type(node.transform).__name__}")
        for output in outputs:
            self.makers[output] = node
            self._complete_after[output] = after

    def _add_step(self, node: AppliedPTransform) -> int:
        """Add a ParDo to the stage that makes its input, unless a side input is complete later.

        Returns the number of stages after which its output is complete.
        """
        signature = DoFnSignature(node.transform.fn)
        if signature.is_splittable_dofn() or signature.is_stateful_dofn():
            raise NotImplementedError(f"{node.full_label}: a splittable or stateful DoFn")
        (source,) = node.inputs
        sides = [side.pvalue for side in node.side_inputs]
        self.reads.update(sides)
        after = self._complete_after[source]
        if not self._is_made_by_pardo(source) or any(
            self._complete_after[side] >= after for side in sides
        ):
            self.reads[source] += 1
            self.stages.append(_Stage(source))
            after = len(self.stages)
        self.stages[after - 1].steps.append(node)
        return after

    def _is_combined_early(self, node: AppliedPTransform) -> bool:
        return isinstance(node.transform, core.CombinePerKey) and self._is_made_by_pardo(
            node.inputs[0]
        )

    def _is_made_by_pardo(self, collection: PCollection) -> bool:
        return isinstance(self.makers[collection].transform, core.ParDo)


def _is_primitive(transform: Any) -> bool:
    """Return whether a transform that Beam expands into others is a primitive of this runner."""
    if isinstance(transform, core.CombinePerKey):
        return not transform.args and not transform.kwargs
    return isinstance(transform, Reshuffle)


@dataclasses.dataclass(frozen=True)
class _Call:
    """A DoFn and its arguments, in which the side inputs are placeholders."""

    dofn: core.DoFn
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    @property
    def works_at_end(self) -> bool:
        """True if the DoFn has something to do when it has got all elements of a bundle."""
        return type(self.dofn).finish_bundle is not core.DoFn.finish_bundle

    def runner(
        self, sides: Iterable[_Side], receivers: Mapping[str | None, Receiver], *, label: str
    ) -> DoFnRunner:
        """Return what calls the DoFn for each element. label: of the step, for exceptions."""
        maps = [SideInputMap(type(side), side._view_options(), values) for side, values in sides]
        return DoFnRunner(
            *(self.dofn, self.args, self.kwargs, maps, _WINDOWING, receivers), step_name=label
        )


class _Run:
    """One run of a plan, with the elements that are still to be read."""

    def __init__(self, plan: _Plan, executor: ThreadPoolExecutor, *, threads: int) -> None:
        self._plan = plan
        self._executor = executor
        self._threads = threads
        self._reads_left = plan.reads.copy()
        self._elements: dict[PCollection, list[Any]] = {}
        self._accumulators: dict[AppliedPTransform, list[_Pair]] = {}
        self._errors: list[BaseException] = []

    def run_stage(self, stage: _Stage) -> None:
        """Process all elements of a stage's source, in threads."""
        waiting = deque(self._take(stage.source))
        sides = {
            step: [
                (side, [*map(_in_global_window, self._take(side.pvalue))])
                for side in step.side_inputs
            ]
            for step in stage.steps
        }
        for output in (one for step in stage.steps for one in step.outputs.values()):
            if self._plan.reads[output]:
                self._elements[output] = []
            for node in self._plan.combined[output]:
                self._accumulators[node] = []
        calls = [
            _Call(step.transform.fn, step.transform.args, step.transform.kwargs)
            for step in stage.steps
        ]
        threads = min(self._threads, len(waiting))
        copies = [calls, *(copy.deepcopy(calls) for _ in range(1, threads))][:threads]
        # A bundle that does its work at the end would take all elements at once.
        is_shared = any(call.works_at_end for call in calls)
        at_most = -(-len(waiting) // threads) if threads and is_shared else len(waiting)
        futures = [
            self._executor.submit(
                self._process_bundle,
                dict(zip(stage.steps, one, strict=True)),
                sides,
                waiting,
                at_most,
            )
            for one in copies
        ]
        wait(futures)
        if self._errors:
            raise self._errors[0]
        for future in futures:
            future.result()

    def _process_bundle(
        self,
        calls: Mapping[AppliedPTransform, _Call],
        sides: Mapping[AppliedPTransform, list[_Side]],
        waiting: deque[Any],
        at_most: int,
    ) -> None:
        """Process waiting elements, one at a time, until none is left or another thread failed."""
        with contextlib.ExitStack() as stack:
            try:
                runners, combined = self._start_bundle(calls, sides, stack)
                for _ in range(at_most):
                    if self._errors:
                        return
                    try:
                        element = waiting.popleft()
                    except IndexError:
                        break
                    runners[0].process(_in_global_window(element))
                for runner in runners:
                    if self._errors:
                        return
                    runner.finish()
                for one in combined:
                    self._accumulators[one.node].extend(one.accumulators())
            except BaseException as error:
                self._errors.append(error)
                raise

    def _start_bundle(
        self,
        calls: Mapping[AppliedPTransform, _Call],
        sides: Mapping[AppliedPTransform, list[_Side]],
        stack: contextlib.ExitStack,
    ) -> tuple[deque[DoFnRunner], list[_Combined]]:
        """Set up the DoFns of a bundle. stack: tears down those that were set up."""
        followers: dict[PCollection, list[DoFnRunner]] = defaultdict(list)
        runners: deque[DoFnRunner] = deque()
        combined: list[_Combined] = []
        for step in reversed([*calls]):
            receivers: dict[str | None, _Receiver] = {None: _Receiver()}
            for tag, output in step.outputs.items():
                more = [_Combined(node, stack) for node in self._plan.combined[output]]
                combined += more
                receivers[tag] = _Receiver(
                    [runner.process for runner in followers[output]],
                    [one.add for one in more],
                    self._elements[output] if self._plan.reads[output] else None,
                )
            runner = calls[step].runner(sides[step], receivers, label=step.full_label)
            runner.setup()
            stack.callback(runner.teardown)
            runner.start()
            runners.appendleft(runner)
            followers[step.inputs[0]].append(runner)
        return runners, combined

    def _take(self, collection: PCollection) -> list[Any]:
        """Return the elements of a complete collection, and forget them after the last read."""
        self._reads_left[collection] -= 1
        if collection not in self._elements:
            self._elements[collection] = self._make(self._plan.makers[collection])
        if self._reads_left[collection]:
            return self._elements[collection]
        return self._elements.pop(collection)

    def _make(self, node: AppliedPTransform) -> list[Any]:
        """Return the output of a transform that is no ParDo."""
        if isinstance(node.transform, core.Impulse):
            return [b""]
        if isinstance(node.transform, core.CombinePerKey):
            return self._combine(node)
        elements = (element for one in node.inputs for element in self._take(one))
        return _group(elements) if isinstance(node.transform, core.GroupByKey) else [*elements]

    def _combine(self, node: AppliedPTransform) -> list[_Pair]:
        if node not in self._accumulators:
            with contextlib.ExitStack() as stack:
                combined = _Combined(node, stack)
                for element in self._take(node.inputs[0]):
                    combined.add(element)
                self._accumulators[node] = combined.accumulators()
        groups = _group(self._accumulators.pop(node))
        shares = [groups[first :: self._threads] for first in range(self._threads)]
        extract = functools.partial(_extract, node)
        return [pair for pairs in self._executor.map(extract, shares) for pair in pairs]


def _extract(node: AppliedPTransform, groups: Iterable[tuple[Any, list[Any]]]) -> list[_Pair]:
    """Return the result of each key of a CombinePerKey."""
    fn = copy.deepcopy(node.transform.fn)
    fn.setup()
    pairs = [(key, fn.extract_output(fn.merge_accumulators(found))) for key, found in groups]
    fn.teardown()
    return pairs


class _Receiver(Receiver):
    """Passes each element of an output on to DoFns, and stores it for those that read it later.

    combined: each takes pairs of a key and a value. elements: where elements are stored, if at all.
    """

    def __init__(
        self,
        followers: Sequence[Callable[[WindowedValue], Any]] = (),
        combined: Sequence[Callable[[_Pair], None]] = (),
        elements: list[Any] | None = None,
    ) -> None:
        self._followers = followers
        self._combined = combined
        self._elements = elements

    def receive(self, windowed_value: WindowedValue) -> None:
        """Pass on one element."""
        for process in self._followers:
            process(windowed_value)
        for add in self._combined:
            add(windowed_value.value)
        if self._elements is not None:
            self._elements.append(windowed_value.value)


class _Combined:
    """The values of one CombinePerKey in one bundle, accumulated by key.

    stack: tears its CombineFn down.
    """

    def __init__(self, node: AppliedPTransform, stack: contextlib.ExitStack) -> None:
        self.node = node
        self._fn = copy.deepcopy(node.transform.fn)
        self._by_key: dict[Any, Any] = {}
        self._fn.setup()
        stack.callback(self._fn.teardown)

    def add(self, pair: _Pair) -> None:
        """Add a value to the accumulator of its key."""
        key, value = pair
        if key not in self._by_key:
            self._by_key[key] = self._fn.create_accumulator()
        self._by_key[key] = self._fn.add_input(self._by_key[key], value)

    def accumulators(self) -> list[_Pair]:
        """Return the accumulator of each key, when all values were added."""
        return [(key, self._fn.compact(value)) for key, value in self._by_key.items()]


def _group(pairs: Iterable[_Pair]) -> list[tuple[Any, list[Any]]]:
    """Return the values of each key."""
    groups: dict[Any, list[Any]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return [*groups.items()]
