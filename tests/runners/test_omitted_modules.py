"""Modules of Beam that are omitted or deferred: the imports of a new interpreter."""

import pytest

from tests.runners.test_beam_patches import PERMANENT, printed

BEAM = "import recordmill.pipelines.road, recordmill.runners.direct"


def loaded(program: str, **environment: str) -> set[str]:
    """Return the names of all modules that a new interpreter has loaded after a program."""
    return set(printed(f"{program}\nimport sys\nprint(*sys.modules, sep='\\n')", **environment))


def test_the_switch_leaves_the_imports_of_beam_unchanged():
    program = f"{PERMANENT} {BEAM}"
    omitted = {"beartype", "boto3", "pymongo", "pyparsing", "requests"}
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
    ],
)
def test_omitted_modules_can_be_imported_later(name):
    program = f"{PERMANENT} {BEAM}\nimport {name} as it; print(it.__file__)"
    (file,) = printed(program, RECORDMILL_BEAM_PATCHES="1")
    assert file.endswith(f"{name.replace('.', '/')}.py")
