"""The cause of a failed Flink job, extracted from the Java stack trace around it."""

import pytest

from recordmill.runners.failures import parse_failure, strip_stage

_BUG = """\
java.util.concurrent.ExecutionException: java.lang.RuntimeException: Error received from SDK harness for instruction 7: Traceback (most recent call last):
  File "apache_beam/runners/common.py", line 1498, in process
    return self.do_fn_invoker.invoke_process(windowed_value)
  File "/home/x/transforms/y.py", line 3, in f
    raise ValueError("no such thing: [1, 2]")
ValueError: no such thing: [1, 2]

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "apache_beam/runners/worker/sdk_worker.py", line 312, in _execute
    response = task()
ValueError: no such thing: [1, 2] [while running 'Plan-ptransform-12']

\tat java.base/java.util.concurrent.CompletableFuture.reportGet(CompletableFuture.java:396)
\tat org.apache.beam.sdk.util.MoreFutures.get(MoreFutures.java:61)
Caused by: java.lang.RuntimeException: Error received from SDK harness for instruction 7: Traceback (most recent call last):
  File "apache_beam/runners/worker/sdk_worker.py", line 312, in _execute
ValueError: no such thing: [1, 2] [while running 'Plan-ptransform-12']

\tat org.apache.beam.runners.fnexecution.control.FnApiControlClient$ResponseStreamObserver.onNext(FnApiControlClient.java:180)
"""  # noqa: E501

_OURS = """\
java.lang.RuntimeException: Error received from SDK harness for instruction 3: Traceback (most recent call last):
  File "apache_beam/runners/worker/sdk_worker.py", line 312, in _execute
    response = task()
recordmill.storage.storage_errors.ChangedInputError: photos/a.jpg changed while the job ran (was 3 bytes, is 4): run the same command again to list the input anew [while running 'Shards/Write-ptransform-9']

\tat org.apache.beam.runners.fnexecution.control.FnApiControlClient.onNext(FnApiControlClient.java:180)
"""  # noqa: E501

_NO_PYTHON = """\
org.apache.flink.runtime.JobException: Recovery is suppressed by FixedDelayRestartBackoffTimeStrategy
\tat org.apache.flink.runtime.executiongraph.failover.ExecutionFailureHandler.handleFailure(ExecutionFailureHandler.java:180)
Caused by: java.io.IOException: Insufficient number of network buffers: required 512, but only 456 available.
\tat org.apache.flink.runtime.io.network.buffer.NetworkBufferPool.createBufferPool(NetworkBufferPool.java:462)
\t... 10 more
Caused by: java.lang.Exception
\tat x.y(Z.java:1)
"""  # noqa: E501


@pytest.mark.parametrize(
    ("text", "kind", "message", "shown"),
    [
        (_BUG, "ValueError", "no such thing: [1, 2]", "ValueError: no such thing: [1, 2]"),
        (
            _OURS,
            "recordmill.storage.storage_errors.ChangedInputError",
            "photos/a.jpg changed while the job ran (was 3 bytes, is 4): run the same command"
            " again to list the input anew",
            None,
        ),
        (
            _NO_PYTHON,
            "java.io.IOException",
            "Insufficient number of network buffers: required 512, but only 456 available.",
            "IOException: Insufficient number of network buffers: required 512, but only 456"
            " available.",
        ),
        (
            "Caused by: a.OuterError: a.OuterError: b.InnerError: no\nCaused by: b.InnerError:"
            " b.InnerError: no",
            "b.InnerError",
            "no",
            "InnerError: no",
        ),
        (
            "java.lang.RuntimeException: Error received from SDK harness for instruction 1: the"
            " worker has recordmill 9\n\tat a.b(C.java:1)",
            "",
            "the worker has recordmill 9",
            "the worker has recordmill 9",
        ),
    ],
)
def test_root_cause_of_a_stack_trace(text, kind, message, shown):
    failure = parse_failure(text)
    assert failure is not None
    assert (failure.kind, failure.message) == (kind, message)
    if shown is not None:
        assert str(failure) == shown


def test_the_traceback_contains_no_java():
    failure = parse_failure(_BUG)
    assert failure is not None
    assert failure.traceback.startswith("Traceback (most recent call last):\n")
    assert "java" not in failure.traceback


def test_text_without_a_failure():
    assert parse_failure("") is None
    assert parse_failure("all is well\nreally") is None


def test_multi_line_messages_are_kept():
    text = (
        "java.lang.RuntimeException: Error received from SDK harness for instruction 1:"
        ' Traceback (most recent call last):\n  File "x", line 1\n'
        "recordmill.errors.RunError: one\ntwo [while running 'A-b']\n\n\tat a.b(C.java:1)"
    )
    failure = parse_failure(text)
    assert failure is not None
    assert failure.message == "one\ntwo"


def test_the_stage_name_is_stripped():
    assert strip_stage("it fails [while running 'A/B-ptransform-1']") == "it fails"
    assert strip_stage("it fails [1]") == "it fails [1]"
