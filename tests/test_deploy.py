"""Files in deploy/ work as their comments say."""

import configparser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import kubernetes_validate
import pytest
import yaml

from recordmill.pipelines.commands.flink_commands import PoolConfig
from recordmill.pipelines.options.arguments import command_line
from recordmill.runners.workers.pool import PORT
from tests.paths import ROOT

SCRIPT = ROOT / "deploy" / "cron" / "recordmill-nightly"
CRONJOB = ROOT / "deploy" / "kubernetes" / "cronjob.yaml"
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
ENTRYPOINT = ROOT / "deploy" / "container" / "entrypoint"


@pytest.fixture
def night(tmp_path):
    """Runs the script of a night; gives (exit code, what it printed, output folder)."""
    photos = tmp_path / "photos"
    shutil.copytree(ROOT / "examples" / "clothing" / "hat", photos / "hat")
    program = tmp_path / "recordmill"
    program.write_text(f'#!/bin/sh\ncd "{ROOT}" && exec {sys.executable} -m recordmill "$@"\n')
    program.chmod(0o755)
    alert = tmp_path / "alert"
    alert.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/alerts\n')
    alert.chmod(0o755)
    job = tmp_path / "job.yaml"
    job.write_text("size: 16\nsplits: {train: 1}\n")

    def run(day="2026-11-21", **environment):
        result = subprocess.run(
            [SCRIPT],
            capture_output=True,
            text=True,
            check=False,
            env={
                "PATH": "/usr/bin:/bin",
                "PYTHONWARNINGS": os.environ["PYTHONWARNINGS"],
                "RECORDMILL": str(program),
                "RECORDMILL_INPUT": str(photos),
                "RECORDMILL_OUTPUT": str(tmp_path / "sets"),
                "RECORDMILL_CONFIG": str(job),
                "RECORDMILL_ALERT": str(alert),
                "RECORDMILL_DAY": day,
                **environment,
            },
        )
        return result.returncode, result.stdout + result.stderr, tmp_path / "sets"

    return run


@pytest.mark.long
def test_nights_do_not_overlap_are_silent_can_be_repeated_and_reuse_the_one_before(night, tmp_path):
    (tmp_path / "sets" / "logs").mkdir(parents=True)
    held = ["flock", str(tmp_path / "sets" / "logs" / "lock"), "sh", "-c", "echo held; read line"]
    with subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        code, said, _ = night()
        holder.stdin.close()
    assert code == 75
    assert "the previous run has not ended" in said

    code, said, sets = night()
    assert (code, said) == (0, "")
    manifest = json.loads((sets / "2026-11-21" / "dataset.json").read_text())
    assert manifest["ledger"]["records"]["written"] == 3
    assert night()[:2] == (0, "")
    assert "nothing has changed" in (sets / "logs" / "2026-11-21.log").read_text()

    assert night("2026-11-22")[:2] == (0, "")
    assert json.loads((sets / "2026-11-22" / "job.json").read_text())["reused"] == 3


def test_a_bad_night_is_told(night, tmp_path):
    (tmp_path / "photos" / "hat" / "broken.jpg").write_text("no picture")
    code, said, sets = night()
    assert code == 1
    assert "ended with exit code 1" in said
    assert "1 of 4 inputs were rejected" in said
    assert "1 of 4 inputs were rejected" in (tmp_path / "alerts").read_text()
    assert not (sets / "2026-11-21" / "dataset.json").exists()


def test_missing_variables_are_named(night):
    result = subprocess.run([SCRIPT], capture_output=True, text=True, check=False, env={})
    assert result.returncode != 0
    assert "RECORDMILL_OUTPUT: folder for the datasets" in result.stderr
    code, said, sets = night(RECORDMILL_INPUT="", RECORDMILL_CONFIG="")
    assert code == 2
    assert "set RECORDMILL_CONFIG to a job file, or RECORDMILL_INPUT to the input" in said
    assert not sets.exists()


@pytest.fixture
def text_job(tmp_path):
    """A job file of texts, as `recordmill text --print-config` prints it."""
    (tmp_path / "texts.csv").write_text("text,label\none,a\ntwo,b\n")
    texts = ["--input", tmp_path / "texts.csv", "--output", "sets", "--splits", "train=1"]
    printed = subprocess.run(
        [sys.executable, "-m", "recordmill", "text", *texts, "--print-config"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "\ncommand: text\n" in printed
    (tmp_path / "texts.yaml").write_text(printed)
    return tmp_path / "texts.yaml"


@pytest.mark.parametrize("given", ["job file", "command and job file", "command and input"])
def test_cron_runs_any_command(night, tmp_path, text_job, given):
    texts = str(tmp_path / "texts.csv")
    if given == "job file":
        code, said, sets = night(RECORDMILL_INPUT="", RECORDMILL_CONFIG=str(text_job))
    elif given == "command and job file":
        (tmp_path / "by_hand.yaml").write_text(f"input: {texts}\nsplits: {{train: 1}}\n")
        job = str(tmp_path / "by_hand.yaml")
        code, said, sets = night(
            RECORDMILL_COMMAND="table", RECORDMILL_INPUT="", RECORDMILL_CONFIG=job
        )
    else:
        code, said, sets = night(
            RECORDMILL_COMMAND="text", RECORDMILL_INPUT=texts, RECORDMILL_CONFIG=""
        )
    assert (code, said) == (0, "")
    manifest = json.loads((sets / "2026-11-21" / "dataset.json").read_text())
    assert manifest["ledger"]["records"]["written"] == 2
    kind = "table" if given == "command and job file" else "text"
    job = json.loads((sets / "2026-11-21" / "job.json").read_text())
    assert job["interpretation"]["data"].startswith(f"{kind}, ")


def test_a_job_file_of_another_command_is_wrong_usage(night, text_job):
    code, said, _ = night(RECORDMILL_COMMAND="images", RECORDMILL_CONFIG=str(text_job))
    assert code == 2
    assert "command: expected images, as on the command line, got text" in said


def cronjob_line():
    job = yaml.safe_load(CRONJOB.read_text())
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    (line,) = container["args"]
    return line


def test_the_cronjob_runs_the_command_of_its_job_file(tmp_path, text_job):
    program = tmp_path / "bin" / "recordmill"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ncd "{ROOT}" && exec {sys.executable} -m recordmill "$@"\n')
    program.chmod(0o755)
    line = cronjob_line().replace("/etc/recordmill/job.yaml", str(text_job))
    line = line.replace("s3://datasets/photos", str(tmp_path / "sets"))
    subprocess.run(
        ["sh", "-c", line],
        check=True, capture_output=True,
        env={"PATH": f"{program.parent}:/usr/bin:/bin", "PYTHONWARNINGS": "default"},
    )  # fmt: skip
    (folder,) = (tmp_path / "sets").iterdir()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", folder.name)
    manifest = json.loads((folder / "dataset.json").read_text())
    assert manifest["ledger"]["records"]["written"] == 2


def test_the_cronjob_is_valid():
    job = yaml.safe_load(CRONJOB.read_text())
    kubernetes_validate.validate(job, "1.31", strict=True)
    # A run reuses the datasets of earlier nights.
    places = dict(re.findall(r'--(output|reuse) "(\S+?/[^"]+)"', cronjob_line()))
    assert places["reuse"] == f"{places['output'].rpartition('/')[0]}/*"


def sections(unit: pathlib.Path) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=True)
    parser.optionxform = str
    parser.read_string(unit.read_text())
    return parser


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_knows_the_units(unit, tmp_path):
    service = sections(unit)["Service"]
    wanted = {"User", "EnvironmentFile", "ExecStart", "Restart", "MemoryMax"}
    assert wanted <= service.keys()
    assert service["Restart"] == "always"
    assert service["User"] != "root"
    if verifier := shutil.which("systemd-analyze"):
        program = service["ExecStart"].split()[0]
        text = unit.read_text().replace(f"ExecStart={program}", "ExecStart=/bin/true")
        (tmp_path / unit.name).write_text(text)
        for other in UNITS:  # that it names
            if other != unit:
                (tmp_path / other.name).write_text("[Service]\nExecStart=/bin/true\n")
        result = subprocess.run(
            [verifier, "verify", "--man=no", tmp_path / unit.name],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        said = [line for line in result.stderr.splitlines() if str(tmp_path) in line]
        assert (result.returncode, said) == (0, [])


def test_the_unit_of_the_pool_has_valid_options():
    (unit,) = (unit for unit in UNITS if unit.name == "recordmill-worker-pool.service")
    program, command, *flags = sections(unit)["Service"]["ExecStart"].split()
    assert (program.rpartition("/")[2], command) == ("recordmill", "worker-pool")
    config = command_line.parse(PoolConfig, flags, prog=command).config
    assert isinstance(config, PoolConfig)
    assert (config.port, config.host) == (PORT, "127.0.0.1")


def test_the_container_tells_workers_from_commands(tmp_path):
    for name in ("recordmill-worker", "recordmill"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho {name} "$@"\n')
        program.chmod(0o755)

    def run(*arguments):
        return subprocess.run(
            [ENTRYPOINT, *arguments],
            capture_output=True, text=True, check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        ).stdout  # fmt: skip

    assert (
        run("--id=1", "--provision_endpoint=x")
        == "recordmill-worker --id=1 --provision_endpoint=x\n"
    )
    assert run("recordmill", "verify", "--dataset", "a b") == "recordmill verify --dataset a b\n"
    assert run() == "recordmill --help\n"


def test_the_image_holds_all_packages():
    copied = set(
        re.findall(r"^COPY (\w+) \./\1$", (ENTRYPOINT.parent / "Dockerfile").read_text(), re.M)
    )
    assert copied == {"recordmill", "transforms", "pipelines", "runners"}


def test_the_pod_has_no_token_and_a_seccomp_profile():
    job = yaml.safe_load(CRONJOB.read_text())
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_every_package_of_the_image_has_a_version_and_hashes():
    lock = (ENTRYPOINT.parent / "requirements.lock").read_text()
    assert "://" not in lock
    assert "index-url" not in lock
    packages = re.split(r"\n(?=\S)", lock.replace("\\\n", "").strip())
    for package in packages:
        name, *hashes = package.split(" --hash=")
        assert re.match(r"[\w.\[\]-]+==\S+", name), package
        assert hashes, name
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one.strip()) for one in hashes)
    locked = {package.partition("==")[0] for package in packages}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + [
        one for n in ("arrays", "audio", "text", "video") for one in extras[n]
    ]
    assert {re.match(r"[\w-]+", one)[0] for one in wanted} <= locked
    dockerfile = (ENTRYPOINT.parent / "Dockerfile").read_text()
    assert "--require-hashes" in dockerfile
    assert "--no-deps --no-build-isolation" in dockerfile
