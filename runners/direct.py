"""Runs a pipeline in this process: with `LocalRunner` for a command, otherwise with Beam's runner.

Beam's default DirectRunner would first try to download another runner. The workers of its
FnApiRunner are threads (`in_memory`), because the mode `multi_threading` loses records. With both
runners, threads wait for the encoder processes, which do the work.
"""

import contextlib
import logging
import shutil
from collections.abc import Callable, Sequence

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners import common
from apache_beam.runners.runner import PipelineResult, PipelineRunner

from recordmill.option_checks import expect_whole
from recordmill.processes.pool import process_count
from recordmill.runners import beam_patches
from recordmill.runners.local_runner import LocalRunner

_MAX_THREADS = 8  # they only wait for encoder processes


def run(
    build: Callable[[beam.Pipeline], None],
    *,
    workers: int,
    beam_options: Sequence[str] = (),
    checks: bool = True,
) -> PipelineResult:
    """Run a pipeline to its end and return its result. Raises the exception of a stage that failed.

    workers: number of encoder processes, and of threads that run stages, up to eight; 0 is one per
      core.
    beam_options: Beam's own options, as flags.
    checks: whether Beam checks types and functions, and its in-process runner encodes elements and
      reports counters, for authors of custom pipelines. If False, `LocalRunner` runs the pipeline,
      unless Beam's version was not checked, or with RECORDMILL_BEAM_PATCHES=0.

    Raises:
      ConfigError: workers is no whole number, or below 0.
    """
    threads = min(process_count(expect_whole("workers", workers, least=0)), _MAX_THREADS)
    beam_patches.apply_patches()
    runner: PipelineRunner
    steps: contextlib.AbstractContextManager[None]
    if not checks and beam_patches.enabled():
        options = PipelineOptions([*beam_options, "--no_pipeline_type_check"])
        runner, steps = LocalRunner(threads=threads), beam_patches.fewer_steps()
    else:
        flags = f"--direct_num_workers={threads}", "--direct_running_mode=in_memory"
        options = PipelineOptions([*beam_options, *flags])
        runner, steps = _beam_runner(options), contextlib.nullcontext()
    # The traceback of a failed stage, whose exception is raised anyway.
    logging.getLogger(common.__name__).setLevel(logging.CRITICAL)
    pipeline = beam.Pipeline(runner=runner, options=options)
    # Only cross-language transforms use this folder, and a killed process would leave it behind.
    shutil.rmtree(pipeline.local_tempdir)
    with steps:
        build(pipeline)
    result = pipeline.run(test_runner_api=False)
    result.wait_until_finish()
    return result


def _beam_runner(options: PipelineOptions) -> PipelineRunner:
    # Imported here because commands do not need them.
    from apache_beam.portability.api import beam_provision_api_pb2
    from apache_beam.runners.portability.fn_api_runner import fn_runner
    from apache_beam.runners.portability.portable_runner import JobServiceHandle

    beam_patches.apply_patches()
    # A warning that threads do not compute in parallel; here they need not.
    logging.getLogger(fn_runner.__name__).setLevel(logging.ERROR)
    provision = fn_runner.ExtendedProvisionInfo(
        beam_provision_api_pb2.ProvisionInfo(
            pipeline_options=JobServiceHandle.encode_pipeline_options(options.get_all_options())
        )
    )
    return fn_runner.FnApiRunner(provision_info=provision)
