"""Beam's in-process portable runner, created explicitly.

The default DirectRunner would first try to download another runner. The workers are threads of this
process (`in_memory`), because the mode `multi_threading` loses records. The threads wait for the
encoder processes, which do the work.
"""

import contextlib
import logging
import shutil
from collections.abc import Callable, Sequence

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners import common
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.runners.runner import PipelineResult

from recordmill.runners import beam_patches, in_process_patches

_MAX_THREADS = 8  # each thread adds a bundle to each stage, and none of them computes


def run(
    build: Callable[[beam.Pipeline], None],
    *,
    workers: int,
    beam_options: Sequence[str] = (),
    checks: bool = True,
) -> PipelineResult:
    """Run a pipeline to its end and return its result. Raises the exception of a stage that failed.

    workers: number of encoder processes, and of threads that run stages, up to eight.
    beam_options: Beam's own options, as flags.
    checks: whether Beam checks types and functions, for the author of the pipeline, and reports
      metrics of its own. Without, a small job takes 4 % less CPU.
    """
    beam_patches.apply_patches()
    options = PipelineOptions(
        [
            *beam_options,
            f"--direct_num_workers={min(workers, _MAX_THREADS)}",
            "--direct_running_mode=in_memory",
        ]
    )
    provision = fn_runner.ExtendedProvisionInfo(
        beam_provision_api_pb2.ProvisionInfo(
            pipeline_options=JobServiceHandle.encode_pipeline_options(options.get_all_options())
        )
    )
    # A warning that threads do not compute in parallel; here they need not.
    logging.getLogger(fn_runner.__name__).setLevel(logging.ERROR)
    # The traceback of a failed stage, whose exception is raised anyway.
    logging.getLogger(common.__name__).setLevel(logging.CRITICAL)
    runner = fn_runner.FnApiRunner(provision_info=provision)
    pipeline = beam.Pipeline(runner=runner, options=options)
    # Only cross-language transforms use this folder, and a killed process would leave it behind.
    shutil.rmtree(pipeline.local_tempdir)
    fewer_steps = contextlib.nullcontext if checks else in_process_patches.fewer_steps
    with in_process_patches.in_process(), fewer_steps():
        build(pipeline)
        result = pipeline.run()
        result.wait_until_finish()
    return result
