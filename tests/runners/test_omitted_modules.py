"""Modules of Beam that are omitted or deferred: the imports of a new interpreter."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.paths import ROOT
from tests.runners.test_beam_patches import PERMANENT, printed

BEAM = "import recordmill.pipelines.jobs.road, recordmill.runners.direct"
# Each line is the repr of a program, which a fork runs; another line ends what it has printed.
FORKS = """
import ast, os, sys, traceback
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        code = 1
        try:
            exec(ast.literal_eval(line), {})
            code = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(code)
    print("exit code", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def loaded(program: str, **environment: str) -> set[str]:
    """Return the names of all modules that a new interpreter has loaded after a program."""
    return set(printed(f"{program}\nimport sys\nprint(*sys.modules, sep='\\n')", **environment))


@pytest.fixture(scope="module")
def after_beam() -> Iterator[Callable[[str], list[str]]]:
    """A function that returns the lines that a program prints in a process with a patched Beam.

    Each program is run in a fork of a new interpreter: importing Beam takes most of the time.
    """
    with subprocess.Popen(
        [sys.executable, "-c", f"{PERMANENT} {BEAM}{FORKS}"],
        cwd=ROOT, env=os.environ | {"RECORDMILL_BEAM_PATCHES": "1"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip

        def lines(program: str) -> list[str]:
            print(repr(program), file=process.stdin, flush=True)
            found = []
            while not (line := process.stdout.readline().rstrip("\n")).startswith("exit code "):
                assert process.poll() is None, found
                found.append(line)
            assert line == "exit code 0"
            return found

        yield lines


@pytest.mark.long
def test_the_switch_leaves_the_imports_of_beam_unchanged():
    program = f"{PERMANENT} {BEAM}"
    omitted = {"absl", "beartype", "boto3", "cryptography", "fastavro", "grpc", "proto", "pymongo"}
    omitted |= {"pyparsing", "requests"}
    unchanged = loaded(BEAM)
    assert unchanged >= omitted, "this version of Beam imports other modules"
    assert loaded(program, RECORDMILL_BEAM_PATCHES="1").isdisjoint(omitted)
    assert loaded(program, RECORDMILL_BEAM_PATCHES="0") >= unchanged


@pytest.mark.parametrize(
    "name",
    [
        "apache_beam.internal.http_client",
        "apache_beam.io.aws.s3filesystem",
        "apache_beam.io.gcp.bigquery",
        "apache_beam.io.mongodbio",
        "apache_beam.io.parquetio",
    ],
)
def test_omitted_modules_can_be_imported_later(name, after_beam):
    program = f"import {name} as it; print(it.__file__)"
    (file,) = after_beam(program)
    assert file.endswith(f"{name.replace('.', '/')}.py")


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("apache_beam.coders.coder_impl.parse_schema", "it({'type': 'string'})"),
        ("apache_beam.io.avroio.fastavro", "it.reader"),
        ("apache_beam.transforms.util.Fernet", "it(b'A' * 43 + b'=')"),
    ],
)
def test_deferred_libraries_are_imported_when_they_are_used(name, use, after_beam):
    module, _, attribute = name.rpartition(".")
    program = f"from {module} import {attribute} as it; print(bool({use}))"
    assert after_beam(program) == ["True"]


def test_messages_of_proto_are_recognized_once_it_is_imported(after_beam):
    program = "from apache_beam.coders import registry\nimport proto"
    program += "\nmessage = type('M', (proto.Message,), {'__module__': 'm'})"
    program += "\nprint(type(registry.get_coder(message)).__name__)"
    assert after_beam(program) == ["ProtoPlusCoder"]


def test_interceptors_of_beam_are_those_of_grpc_once_it_is_imported(after_beam):
    program = "from apache_beam.runners.worker import sdk_worker as worker"
    program += "\nchannel = worker.grpc.insecure_channel('localhost:1')"
    program += "\nchannel = worker.grpc.intercept_channel(channel, worker.WorkerIdInterceptor('a'))"
    program += "\nimport grpc\nprint(isinstance(channel, grpc.Channel))"
    assert after_beam(program) == ["True"]


def test_functions_of_arrow_keep_their_signatures(after_beam):
    program = "import inspect, sys, pyarrow.compute as pc"
    program += "\nprint(inspect.signature(pc.sum), 'pyarrow.vendored.docscrape' in sys.modules)"
    expected = "(array, /, *, skip_nulls=True, min_count=1, options=None, memory_pool=None) False"
    assert after_beam(program) == [expected]
