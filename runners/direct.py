"""Beam's in-process portable runner, built explicitly.

Explicitly, because the default DirectRunner first tries to download another one. Workers are
threads of this process (`in_memory`): the mode `multi_threading` loses records. Encoding does not
suffer, it runs in processes of its own.
"""

import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners import common
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.runners.runner import PipelineResult

from recordmill.runners import beam_patches
from recordmill.runners.beam_options import CachedViewOptions

_THREADS = 8  # at most: they wait for encoder processes, and each makes more bundles of a stage


class _BundlesWithWork(fn_runner.ParallelBundleManager):
    """Beam makes a bundle for each thread, though half of all stages have one element."""

    _num_workers: int

    def process_bundle(self, inputs: Mapping[str, Any], *more: Any, **options: Any) -> Any:
        count = self._num_workers
        parts = {name: buffer.partition(count) for name, buffer in inputs.items()}
        busy = [n for n in range(count) if not n or any(any(part[n]) for part in parts.values())]
        self._num_workers = len(busy)
        try:
            taken = {name: _Parts([part[n] for n in busy]) for name, part in parts.items()}
            return super().process_bundle(taken, *more, **options)
        finally:
            self._num_workers = count


class _Parts(list[list[bytes]]):
    """Encoded elements that have been dealt to threads."""

    def partition(self, count: int) -> list[list[bytes]]:
        assert count == len(self)
        return self


def run(
    build: Callable[[beam.Pipeline], None], *, workers: int, beam_options: Sequence[str] = ()
) -> PipelineResult:
    """Run a pipeline to its end and return its result; raises what a stage of it raised.

    workers: threads that run stages side by side, as far as they are of use.
    beam_options: Beam's own, as flags.
    """
    options = CachedViewOptions(
        [
            *beam_options,
            f"--direct_num_workers={min(workers, _THREADS)}",
            "--direct_running_mode=in_memory",
        ]
    )
    provision = fn_runner.ExtendedProvisionInfo(
        beam_provision_api_pb2.ProvisionInfo(
            pipeline_options=JobServiceHandle.encode_pipeline_options(options.get_all_options())
        )
    )
    # It warns that threads are no parallelism; ours do not compute.
    logging.getLogger(fn_runner.__name__).setLevel(logging.ERROR)
    # It prints the traceback of what a stage raises, which comes out of here anyway.
    logging.getLogger(common.__name__).setLevel(logging.CRITICAL)
    if beam_patches.enabled():
        fn_runner.ParallelBundleManager = _BundlesWithWork
    runner = fn_runner.FnApiRunner(provision_info=provision)
    pipeline = beam.Pipeline(runner=runner, options=options)
    # Only transforms of other languages use it, and it would stay behind when we are killed.
    shutil.rmtree(pipeline.local_tempdir)
    build(pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    return result
