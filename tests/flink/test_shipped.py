"""--setup_file: code that only the submitter has is shipped with the job."""

from benchmarks.flink_cluster import JOB_SERVER
from tests.flink.jobs import ended, start

SETUP = "import setuptools; setuptools.setup(name='shipped', version='1', py_modules=['shipped'])"
SHIPPED = """
import pathlib

def note(number, folder):
    pathlib.Path(folder, f"{number} from {__file__}".replace("/", "|")).touch()
"""
PROGRAM = """
import sys
import apache_beam as beam
import shipped
from recordmill.runners.flink.job import FlinkJob
from recordmill.runners.flink.options import FlinkOptions

master, jar, setup, folder = sys.argv[1:]
options = FlinkOptions(
    master=master, environment="process", job_server_jar=jar, beam=[f"--setup_file={setup}"]
)

def build(pipeline):
    pipeline | beam.Create(range(3)) | beam.Map(shipped.note, folder)

FlinkJob(options, workers=1).run(build)
"""


def test_a_module_that_no_worker_has(flink, tmp_path):
    package, notes = tmp_path / "package", tmp_path / "notes"
    for folder in (package, notes):
        folder.mkdir()
    (package / "setup.py").write_text(SETUP)
    (package / "shipped.py").write_text(SHIPPED)
    arguments = (flink.master, JOB_SERVER, package / "setup.py", notes)
    process = start(*map(str, arguments), program=("-c", PROGRAM), PYTHONPATH=str(package))
    result = ended(process)
    assert result.code == 0, result.err
    names = sorted(path.name for path in notes.iterdir())
    assert [name.partition(" ")[0] for name in names] == ["0", "1", "2"]
    assert all(name.endswith("|packages|shipped.py") for name in names), names
