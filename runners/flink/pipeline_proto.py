"""The proto of a pipeline and Beam's options, as the jar of a job contains them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
)
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import PipelineResult, PipelineState

from recordmill.runners.flink.options import FlinkOptions


class _CaptureRunner(PortableRunner):
    """Runner that keeps the pipeline's proto instead of sending it to a job server."""

    proto: Any = None

    def run_portable_pipeline(self, pipeline: Any, options: PipelineOptions) -> PipelineResult:
        self.proto = self._optimize_pipeline(pipeline, options)
        return PipelineResult(PipelineState.DONE)


def pipeline_proto(
    build: Callable[[beam.Pipeline], None], options: PipelineOptions, *, folder: str
) -> Any:
    runner = _CaptureRunner()
    before = tempfile.tempdir
    tempfile.tempdir = folder  # Beam creates temporary folders and does not remove them
    try:
        pipeline = beam.Pipeline(runner=runner, options=options)
        build(pipeline)
        pipeline.run()
    finally:
        tempfile.tempdir = before
    return runner.proto


def beam_options_of(
    options: FlinkOptions, *, embedded: bool, environment: tuple[str, str], parallelism: int
) -> PipelineOptions:
    parsed = PipelineOptions(list(options.beam))
    flink, portable = parsed.view_as(FlinkRunnerOptions), parsed.view_as(PortableOptions)
    # The jar runs in the cluster itself and must not connect to another one.
    flink.flink_master = "[local]" if embedded else "[auto]"
    flink.parallelism = parallelism
    portable.environment_type, portable.environment_config = environment
    # The name of a Python class means nothing to Java.
    parsed.view_as(StandardOptions).runner = None
    given = parsed.get_all_options(drop_default=True)
    return PipelineOptions.from_dictionary(given | {"job_name": options.job_name})
