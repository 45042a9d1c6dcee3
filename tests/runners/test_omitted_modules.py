"""Modules of Beam that are omitted or deferred: the imports of a new interpreter."""

import pytest

from tests.runners.test_beam_patches import PERMANENT, printed

BEAM = "import recordmill.pipelines.road, recordmill.runners.direct"


def loaded(program: str, **environment: str) -> set[str]:
    """Return the names of all modules that a new interpreter has loaded after a program."""
    return set(printed(f"{program}\nimport sys\nprint(*sys.modules, sep='\\n')", **environment))


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
def test_omitted_modules_can_be_imported_later(name):
    program = f"{PERMANENT} {BEAM}\nimport {name} as it; print(it.__file__)"
    (file,) = printed(program, RECORDMILL_BEAM_PATCHES="1")
    assert file.endswith(f"{name.replace('.', '/')}.py")


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("apache_beam.coders.coder_impl.parse_schema", "it({'type': 'string'})"),
        ("apache_beam.io.avroio.fastavro", "it.reader"),
        ("apache_beam.transforms.util.Fernet", "it(b'A' * 43 + b'=')"),
    ],
)
def test_deferred_libraries_are_imported_when_they_are_used(name, use):
    module, _, attribute = name.rpartition(".")
    program = f"{PERMANENT} {BEAM}\nfrom {module} import {attribute} as it; print(bool({use}))"
    assert printed(program, RECORDMILL_BEAM_PATCHES="1") == ["True"]


def test_messages_of_proto_are_recognized_once_it_is_imported():
    program = f"{PERMANENT} {BEAM}\nfrom apache_beam.coders import registry\nimport proto"
    program += "\nmessage = type('M', (proto.Message,), {'__module__': 'm'})"
    program += "\nprint(type(registry.get_coder(message)).__name__)"
    assert printed(program, RECORDMILL_BEAM_PATCHES="1") == ["ProtoPlusCoder"]


def test_interceptors_of_beam_are_those_of_grpc_once_it_is_imported():
    program = f"{PERMANENT} {BEAM}\nfrom apache_beam.runners.worker import sdk_worker as worker"
    program += "\nchannel = worker.grpc.insecure_channel('localhost:1')"
    program += "\nchannel = worker.grpc.intercept_channel(channel, worker.WorkerIdInterceptor('a'))"
    program += "\nimport grpc\nprint(isinstance(channel, grpc.Channel))"
    assert printed(program, RECORDMILL_BEAM_PATCHES="1") == ["True"]


def test_functions_of_arrow_keep_their_signatures():
    program = f"{PERMANENT} {BEAM}\nimport inspect, sys, pyarrow.compute as pc"
    program += "\nprint(inspect.signature(pc.sum), 'pyarrow.vendored.docscrape' in sys.modules)"
    expected = "(array, /, *, skip_nulls=True, min_count=1, options=None, memory_pool=None) False"
    assert printed(program, RECORDMILL_BEAM_PATCHES="1") == [expected]
