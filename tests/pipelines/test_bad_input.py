"""Input that cannot work gives an exit code, and a sentence that says what to do."""

import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recordmill.checking.verify import verify
from recordmill.errors import Reason
from recordmill.pipelines.cli import main
from recordmill.storage.files import Location
from tests.folders import make_folder
from tests.image_runs import Made, make, run

CLASSES = {"ant": 6, "bee": 4}


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> pathlib.Path:
    return make_folder(tmp_path_factory.mktemp("input") / "photos", CLASSES)


def images(*argv: object) -> int:
    return main(["images", "--quiet", "--workers", "1", *map(str, argv)])


def case(name: str, code: int, message: str, *argv: str, make=None):
    """`argv` and `message` may use {photos} and {tmp}; `make(tmp, photos)` prepares the case."""
    return pytest.param(code, message, argv, make, id=name)


def write(name: str, text: str):
    def make(tmp: pathlib.Path, photos: pathlib.Path) -> None:
        (tmp / name).write_text(text.format(photos=photos))

    return make


def empty_folder(tmp: pathlib.Path, photos: pathlib.Path) -> None:
    (tmp / "empty").mkdir()


def someone_elses(tmp: pathlib.Path, photos: pathlib.Path) -> None:
    (tmp / "out").mkdir()
    (tmp / "out" / "thesis.tex").write_text("years of work")


def someone_elses_json(tmp: pathlib.Path, photos: pathlib.Path) -> None:
    (tmp / "out").mkdir()
    (tmp / "out" / "dataset.json").write_text('{"format": "theirs"}')


def broken_pictures(tmp: pathlib.Path, photos: pathlib.Path) -> None:
    make_folder(tmp / "mixed", {"ant": 4})
    (tmp / "mixed" / "ant" / "notes.jpg").write_text("no picture")


def pipe(tmp: pathlib.Path, photos: pathlib.Path) -> None:
    os.mkfifo(tmp / "pipe")


def flat(tmp: pathlib.Path, photos: pathlib.Path) -> None:
    make_folder(tmp / "flat", {".": 4})


def lonely(tmp: pathlib.Path, photos: pathlib.Path) -> None:
    make_folder(tmp / "lonely", {"ant": 8, "bee": 1})


IN, OUT = ("--input", "{photos}"), ("--output", "{tmp}/out")
FLINK = (*IN, *OUT, "--runner", "flink", "--flink-master")

CASES = [
    case("no input", 2, "--input", *OUT),
    case("no output", 2, "--output", *IN),
    case("missing input", 2, "{tmp}/nowhere", "--input", "{tmp}/nowhere", *OUT),
    case("empty folder", 2, "empty", "--input", "{tmp}/empty", *OUT, make=empty_folder),
    case("pipe", 2, "pipe is a pipe", "--input", "{tmp}/pipe", *OUT, make=pipe),
    case("device", 2, "/dev/zero is a device", "--input", "/dev/zero", *OUT),
    case("output inside input", 2, "lies inside --input", *IN, "--output", "{photos}/out"),
    case(
        "output is a file",
        2,
        "expected a folder",
        *IN,
        "--output",
        "{tmp}/out",
        make=write("out", ""),
    ),
    case("someone else's folder", 2, "not empty", *IN, *OUT, make=someone_elses),
    case("... with overwrite", 2, "not empty", *IN, *OUT, "--overwrite", make=someone_elses),
    case(
        "someone else's json", 2, "did not write", *IN, *OUT, "--overwrite", make=someone_elses_json
    ),
    case("splits sum", 2, "sum to 1", *IN, *OUT, "--splits", "train=0.8,test=0.1"),
    case("unknown option", 2, "did you mean --balance", *IN, *OUT, "--blance", "none"),
    case("abbreviation", 2, "--compression", *IN, *OUT, "--compress", "gzip"),
    case(
        "unknown key",
        2,
        "did you mean.*balance",
        *IN,
        *OUT,
        "--config",
        "{tmp}/job.yaml",
        make=write("job.yaml", "blance: none\n"),
    ),
    case("size 0", 2, "--size", *IN, *OUT, "--size", "0"),
    case("size too large", 2, "from 1 to 65500", *IN, *OUT, "--size", "99999999"),
    case(
        "balance without labels",
        2,
        "needs classes",
        "--input",
        "{tmp}/flat",
        *OUT,
        "--balance",
        "oversample",
        make=flat,
    ),
    case(
        "one-hot without labels",
        2,
        "--one-hot-label needs classes",
        "--input",
        "{tmp}/flat",
        *OUT,
        "--one-hot-label",
        make=flat,
    ),
    case(
        "features for decoders with class 0",
        2,
        "--feature-set tf-object-detection: .* reserve the class number 0 .*add --label-offset 1",
        *IN,
        *OUT,
        *("--feature-set", "tf-object-detection"),
    ),
    case("shards of no split", 2, "names a split 'tset'", *IN, *OUT, "--num-shards", "tset=2"),
    case(
        "stratify without labels",
        2,
        "needs classes",
        "--input",
        "{tmp}/flat",
        *OUT,
        "--stratify",
        make=flat,
    ),
    case(
        "stratum too small",
        1,
        "'bee' \\(1\\)",
        "--input",
        "{tmp}/lonely",
        *OUT,
        "--stratify",
        make=lonely,
    ),
    case(
        "too many rejects",
        1,
        "1 of 5 inputs were rejected",
        "--input",
        "{tmp}/mixed",
        *OUT,
        make=broken_pictures,
    ),
    case(
        "duplicate keys",
        1,
        "#1 has the same key as .*#2, but the path differs",
        "--input",
        "{tmp}/list.csv",
        *OUT,
        "--key-column",
        "id",
        make=write(
            "list.csv",
            "path,id,label\n{photos}/ant/000.jpg,same,a\n{photos}/ant/001.jpg,same,a\n"
            "{photos}/ant/002.jpg,other,b\n",
        ),
    ),
    case(
        "listing without labels",
        1,
        "2 of 3 inputs were rejected",
        "--input",
        "{tmp}/list.csv",
        *OUT,
        make=write(
            "list.csv",
            "path,label\n{photos}/ant/000.jpg,\n{photos}/ant/001.jpg,\n{photos}/ant/002.jpg,b\n",
        ),
    ),
    case(
        "listing of files that are gone",
        2,
        "gone",
        "--input",
        "{tmp}/list.csv",
        *OUT,
        make=write("list.csv", "path,label\ngone/a.jpg,a\ngone/b.jpg,b\n"),
    ),
    case(
        "listing without paths",
        2,
        "--path-column",
        "--input",
        "{tmp}/list.csv",
        *OUT,
        make=write("list.csv", "where,label\na.jpg,a\n"),
    ),
    case("columns of a folder", 2, "applies only to listings", *IN, *OUT, "--label-column", "x"),
    case("drop of a folder", 2, "applies only to listings", *IN, *OUT, "--drop-columns", "x"),
    case("augment nothing", 2, "--balance oversample", *IN, *OUT, "--augment", "flip"),
    case("labels file", 2, "--labels-file", *IN, *OUT, "--labels-file", "{tmp}/none.txt"),
    case(
        "rename onto another",
        2,
        "'image/encoded' and 'image/height' would both be named 'image/height'",
        *IN,
        *OUT,
        "--rename",
        "image/encoded=image/height",
    ),
    case(
        "rename of nothing",
        2,
        "no feature 'image/hight' .did you mean 'image/height'.*the features are image/channels, ",
        *IN,
        *OUT,
        "--rename",
        "image/hight=h",
    ),
    case(
        "rename onto a column",
        2,
        "would both be named 'who'",
        "--input",
        "{tmp}/list.csv",
        *OUT,
        "--rename",
        "image/class/label=who",
        make=write("list.csv", "path,label,who\n{photos}/ant/000.jpg,a,x\n"),
    ),
    case(
        "no cluster",
        1,
        "no Flink cluster answers at http://127.0.0.1:9 .connection refused.: start it, or",
        *FLINK,
        "127.0.0.1:9",
    ),
    case("no address", 2, "--flink-master: expected HOST:PORT, got 'a b'", *FLINK, "a b"),
    case(
        "loopback workers of a cluster elsewhere",
        2,
        "--environment loopback: the workers would run here, where the cluster at"
        " http://flink.example.com:8081 does not reach them: use external",
        *FLINK,
        "flink.example.com",
        "--environment",
        "loopback",
    ),
    case(
        "no image",
        2,
        "--environment docker: expected the image of the workers in --environment-config",
        *FLINK,
        "flink.example.com",
        "--environment",
        "docker",
    ),
    case(
        "no pool",
        1,
        "no worker pool answers at localhost:9: start one with recordmill worker-pool --port 9",
        *FLINK,
        "localhost:8081",
        "--environment",
        "external",
        "--environment-config",
        "localhost:9",
    ),
    case(
        "detached from nothing",
        2,
        "--detach needs a cluster that keeps running after this command: --flink-master",
        *IN,
        *OUT,
        "--runner",
        "FlinkRunner",
        "--detach",
    ),
    case(
        "Beam contradicts",
        2,
        "--environment process contradicts Beam's option of the same meaning, docker",
        *IN,
        *OUT,
        "--runner",
        "flink",
        "--environment",
        "process",
        "--environment_type=DOCKER",
    ),
    case(
        "Beam names another cluster",
        2,
        "--flink-master http://flink.example.com:8081 contradicts Beam's option of the same"
        " meaning, http://localhost:9: remove one",
        *FLINK,
        "flink.example.com",
        "--flink_master=localhost:9",
    ),
    case(
        "a setup file that there is not",
        2,
        "--setup_file: there is no file '/nowhere/setup.py'",
        *IN,
        *OUT,
        "--runner",
        "flink",
        "--setup_file=/nowhere/setup.py",
    ),
    case(
        "no address of a pool",
        2,
        "--environment-config: expected HOST:PORT of a pool, got 'pool'",
        *FLINK,
        "localhost:8081",
        "--environment",
        "external",
        "--environment-config",
        "pool",
    ),
    case(
        "no such program",
        2,
        "--environment process: there is no program '/nowhere/worker' to run",
        *FLINK,
        "localhost:8081",
        "--environment",
        "process",
        "--environment-config",
        "/nowhere/worker",
    ),
    case(
        "a place for workers that have theirs",
        2,
        "--environment-config has no effect with --environment loopback",
        *FLINK,
        "localhost:8081",
        "--environment",
        "loopback",
        "--environment-config",
        "localhost:1",
    ),
    case(
        "a jar that is another",
        2,
        "does not contain org.apache.beam.runners.flink.FlinkPipelineRunner",
        *IN,
        *OUT,
        "--runner",
        "flink",
        "--flink-job-server-jar",
        __file__,
    ),
    case(
        "no job server",
        2,
        "--flink-job-server-jar: there is no file '/nowhere.jar'",
        *IN,
        *OUT,
        "--runner",
        "flink",
        "--flink-job-server-jar",
        "/nowhere.jar",
    ),
    case(
        "flink's option without it",
        2,
        "--parallelism: has no effect without --runner flink",
        *IN,
        *OUT,
        "--parallelism",
        "2",
    ),
]


@pytest.mark.parametrize(("code", "message", "argv", "make"), CASES)
def test_bad_input(code, message, argv, make, photos, tmp_path, capfd):
    if make is not None:
        make(tmp_path, photos)
    before = snapshot(tmp_path)
    fill = {"photos": photos, "tmp": tmp_path}
    assert images(*(text.format(**fill) for text in argv)) == code
    said = capfd.readouterr()
    assert re.search(message.format(**fill), said.err), said.err
    assert "Traceback" not in said.err + said.out
    assert not (tmp_path / "out" / "dataset.json").exists() or "dataset.json" in before["out"]
    if code == 2:
        assert snapshot(tmp_path) == before, "a wrong command leaves nothing behind"


def snapshot(folder: pathlib.Path) -> dict[str, list[str]]:
    return {
        os.path.relpath(root, folder): sorted(folders + files)
        for root, folders, files in os.walk(folder)
    }


OBEY_PERMISSIONS = """
# Root may do everything, unless it gives up CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.
import ctypes, os, sys
for capability in (1, 2):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.parametrize("closed", ["photos", "out"])
def test_no_permission(closed, tmp_path):
    make_folder(tmp_path / "photos", CLASSES)
    (tmp_path / "out").mkdir()
    (tmp_path / closed).chmod(0o000 if closed == "photos" else 0o555)
    command = ("-m", "recordmill.pipelines.cli", "images", "--input", tmp_path / "photos")
    done = subprocess.run(
        [sys.executable, "-c", OBEY_PERMISSIONS, *command, "--output", tmp_path / "out"],
        capture_output=True,
        text=True,
        check=False,
    )
    (tmp_path / closed).chmod(0o755)
    assert done.returncode in (1, 2), done
    assert "permission" in done.stderr
    assert "Traceback" not in done.stderr


def test_unlabelled_rows_are_kept_when_asked(photos, tmp_path):
    write("list.csv", "path,label\n{photos}/ant/000.jpg,\n{photos}/ant/001.jpg,b\n")(
        tmp_path, photos
    )
    argv = ["--input", tmp_path / "list.csv", "--output", tmp_path / "out"]
    assert images(*argv, "--splits", "train=1", "--unlabelled", "keep") == 0


@pytest.mark.parametrize(
    ("command", "name", "said"),
    [
        ("images", "photos.rar", "photos.rar is an archive: unpack it, and pass the folder"),
        ("images", "photos.tar.gz", "photos.tar.gz is a compressed tar"),
        ("images", "a.tfrecord", "no usable record in"),
        ("images", "coco.json", "coco.json is a JSON document: pass annotations as --annotations"),
        ("images", "a.pdf", "a.pdf has an extension of files that this data type"),
        ("images", "a.svg", "a.svg is an SVG, which is not a raster image: convert it to pixels"),
        ("video", "a.zip", "a.zip cannot be read: it is not a zip file"),
        ("arrays", "a.zip", "a.zip cannot be read: it is not a zip file"),
        ("table", "a.zip", "a.zip: File is not a zip file"),
        (
            "table",
            "train.tfrecord-00000-of-00001",
            "; the first reject: train.tfrecord-00000-of-00001#0: the file ends inside it",
        ),
        ("text", "a.tar", "a.tar cannot be read: the archive ends inside a header"),
    ],
)
def test_a_file_of_another_kind(command, name, said, tmp_path, capsys):
    (tmp_path / name).write_bytes(b"x")
    argv = (command, "--input", tmp_path / name, "--output", tmp_path / "out", "--dry-run")
    assert run(*argv) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["images", "table"])
def test_a_pattern_that_the_shell_expanded(command, tmp_path, capsys):
    assert run(command, "--input", "a.csv", "b.csv", "--output", tmp_path / "out") == 2
    assert (
        "unexpected argument 'b.csv' after --input a.csv: repeat --input before each value, or put"
        " a pattern such as '*.csv' in quotes, because the shell expands it"
    ) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("images", "no usable record in"),
        ("arrays", "no usable record in"),
        ("text", "; the first reject: a.tfrecord#0: the file ends inside it"),
        ("table", "; the first reject: a.tfrecord#0: the file ends inside it"),
    ],
)
def test_a_folder_of_tfrecords(command, said, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    for name in ("a.tfrecord", "b-00000-of-00001.tfrecord"):
        (tmp_path / "in" / name).write_bytes(b"x")
    argv = (command, "--input", tmp_path / "in", "--output", tmp_path / "out", "--dry-run")
    assert run(*argv) == 2
    assert said in capsys.readouterr().err


def test_columns_that_hold_bytes(tmp_path, capsys):
    hub = pa.table({"text": [{"bytes": b"\x89PNG", "path": "a.png"}], "label": [1]})
    pq.write_table(hub, tmp_path / "hub.parquet")
    argv = ("--output", tmp_path / "out", "--dry-run")
    assert run("text", "--input", tmp_path / "hub.parquet", *argv) == 1
    assert (
        "not UTF-8: expected text in column 'text', which holds bytes (--encoding names their"
        " encoding); recordmill images, video, audio and arrays read files of other kinds"
    ) in " ".join(capsys.readouterr().err.split())
    latin = pa.table({"text": pa.array([b"caf\xe9", b"x"], pa.binary()), "label": [1, 2]})
    pq.write_table(latin, tmp_path / "latin.parquet")
    assert run("text", "--input", tmp_path / "latin.parquet", *argv) == 1
    message = " ".join(capsys.readouterr().err.split())
    assert "not UTF-8: expected text in column 'text', which holds bytes" in message


@pytest.mark.parametrize(
    ("command", "column"),
    [("text", [1.5, 1e39, -np.inf]), ("table", [[1.5], [0.5, 1e39], [-np.inf]])],
)
def test_numbers_that_float32_cannot_hold_are_rejected(command, column, tmp_path):
    """They were written as infinities; TableCheck rejects those of tables that are not in lists."""
    values = column[:1] * 20 + column[1:]
    names = [f"text {n}" for n in range(len(values))]
    pq.write_table(pa.table({"text": names, "x": values}), tmp_path / "a.parquet")
    argv = ["--input", tmp_path / "a.parquet", "--output", tmp_path / "out"]
    assert run(command, *argv, "--max-reject-fraction", "0.2") == 0
    made = Made(tmp_path / "out")
    assert made.rejects == dict.fromkeys(("a.parquet#21", "a.parquet#22"), Reason.BAD_VALUE)
    reasons = (made.folder / "rejects.jsonl").read_text()
    assert "row 21: column 'x': 1e+39 is not a finite float32" in reasons


@pytest.mark.parametrize("options", [(), ("--balance", "oversample")])
def test_every_reject_of_the_ledger_has_a_line(options, photos, tmp_path):
    paths = sorted(path for path in photos.rglob("*") if path.is_file())
    rows = [f"{path},{'ab'[number > 2]}" for number, path in enumerate(paths)]
    (tmp_path / "bad.png").write_bytes(b"junk" * 30)
    rows += ["gone.png,a", "gone.png,a", "gone.png,b", "bad.png,b"]
    (tmp_path / "l.csv").write_text("\n".join(["path,label", *rows]))
    argv = ("--input", tmp_path / "l.csv", "--max-reject-fraction", 1, "--size", 16)
    out = make(tmp_path / "out", *argv, *options).folder
    keys = [json.loads(line)["key"] for line in (out / "rejects.jsonl").read_bytes().splitlines()]
    assert keys == ["bad.png", "gone.png", "gone.png", "gone.png"]
    assert verify(Location.parse(str(out))).damages == ()
