"""The files for the Flink operator fit its schema, and their settings and commands run here."""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from benchmarks.flink_cluster import HOME, JOB_SERVER, FlinkCluster, wait_until
from recordmill.format.manifest import load
from recordmill.pipelines.cli import main
from recordmill.runners.flink.jar import library_name
from recordmill.storage.files import Location
from tests.paths import DEMO, ROOT
from tests.recordmill.storage.test_s3 import fill
from tests.s3_server import CREDENTIALS, s3_server

FILES = ROOT / "deploy" / "kubernetes"
CLUSTER = yaml.safe_load((FILES / "flink-cluster.yaml").read_text())
JOB = yaml.safe_load((FILES / "flink-job.yaml").read_text())
DOCKERFILE = (ROOT / "deploy" / "container" / "flink.Dockerfile").read_text()
OPERATOR = ROOT / "build" / "flink-kubernetes-operator-api.jar"
SCHEMA = "META-INF/fabric8/flinkdeployments.flink.apache.org-v1.yml"
SETTINGS: Mapping[str, str] = CLUSTER["spec"]["flinkConfiguration"]
(WORKERS,) = [
    one
    for one in CLUSTER["spec"]["taskManager"]["podTemplate"]["spec"]["containers"]
    if one["name"] == "workers"
]
(SUBMITTER,) = JOB["spec"]["template"]["spec"]["containers"]


def closed(schema: Any) -> Any:
    """A schema that also refuses unknown fields, which Kubernetes drops in silence."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    out = {name: closed(one) for name, one in schema.items()}
    return {"additionalProperties": False, **out} if "properties" in schema else out


@pytest.fixture(scope="module")
def operator() -> jsonschema.Draft7Validator:
    """The operator's schema of a FlinkDeployment."""
    assert OPERATOR.exists(), f"{OPERATOR} is missing: make {OPERATOR.relative_to(ROOT)}"
    with zipfile.ZipFile(OPERATOR) as jar:
        definition = yaml.safe_load(jar.read(SCHEMA))
    (version,) = definition["spec"]["versions"]
    schema = closed(version["schema"]["openAPIV3Schema"])
    # Fields of every resource.
    schema["properties"] |= {
        "apiVersion": {"const": f"{definition['spec']['group']}/{version['name']}"},
        "kind": {"const": definition["spec"]["names"]["kind"]},
        "metadata": {"type": "object"},
    }
    return jsonschema.Draft7Validator(schema)


def test_the_cluster_fits_the_schema_of_the_operator(operator):
    assert [error.message for error in operator.iter_errors(CLUSTER)] == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("numberOfTaskSlots: ", "numberOfTaskSlots: 2 #"),
        ("mode: standalone", "mode: alone"),
        ("livenessProbe:", "livenesProbe:"),
        ("replicas: 2", "replicas: two"),
    ],
)
def test_a_wrong_cluster_does_not_fit(operator, before, after):
    text = (FILES / "flink-cluster.yaml").read_text()
    assert before in text
    assert [*operator.iter_errors(yaml.safe_load(text.replace(before, after)))]


def test_the_job_is_valid():
    kubernetes_validate.validate(JOB, "1.31", strict=True)


def test_both_files_name_the_same_secrets_and_images():
    images = {WORKERS["image"], SUBMITTER["image"], CLUSTER["spec"]["image"]}
    tagged = set(re.findall(r"--tag (\S+)", DOCKERFILE))
    assert {image.removeprefix("registry.example.com/") for image in images} == tagged
    assert WORKERS["envFrom"] == SUBMITTER["envFrom"]
    volumes = [
        {one["name"]: one for one in spec["volumes"]}["pool-secret"]["secret"]["secretName"]
        for spec in (
            CLUSTER["spec"]["taskManager"]["podTemplate"]["spec"],
            JOB["spec"]["template"]["spec"],
        )
    ]
    assert volumes == ["recordmill-pool", "recordmill-pool"]


def test_flink_knows_each_setting():
    (dist,) = (HOME / "lib").glob("flink-dist-*.jar")
    with zipfile.ZipFile(dist) as jar:
        names = [name for name in jar.namelist() if name.endswith("Options.class")]
        known = b"".join(jar.read(name) for name in names)
    assert [name for name in SETTINGS if name.encode() not in known] == []
    shipped = yaml.safe_load((HOME / "conf" / "config.yaml").read_text())["env"]["java"]["opts"]
    assert SETTINGS["env.java.opts.all"].startswith(shipped["all"])


def test_the_images_have_the_tested_flink_and_its_library(tmp_path):
    (dist,) = (HOME / "lib").glob("flink-dist-*.jar")
    version = re.search(r"^ARG FLINK=flink:([\d.]+)-", DOCKERFILE, re.M)[1]
    assert dist.name == f"flink-dist-{version}.jar"
    assert CLUSTER["spec"]["flinkVersion"] == f"v{'_'.join(version.split('.')[:2])}"
    (command,) = re.findall(r"^RUN (.*)$", DOCKERFILE, re.M)
    (lib,) = re.findall(r"^COPY --from=submit (\S+)/ /opt/flink/lib/$", DOCKERFILE, re.M)
    (jar,) = re.findall(r"^COPY flink-job-server.jar (\S+)$", DOCKERFILE, re.M)
    run(command, {jar: str(JOB_SERVER), lib: str(tmp_path / "lib")})
    assert os.listdir(tmp_path / "lib") == [library_name(str(JOB_SERVER))]


def started(line: str, places: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start a shell's line of a container with other paths and addresses."""
    for old, new in places.items():
        assert old in line
        line = line.replace(old, new)
    path = f"{pathlib.Path(sys.executable).parent}:/usr/bin:/bin"
    return subprocess.Popen(
        ["/bin/sh", "-c", line],
        cwd=ROOT, env=os.environ | {"PATH": path}, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def run(line: str, places: Mapping[str, str]) -> None:
    process = started(line, places)
    _, said = process.communicate(timeout=280)
    assert process.returncode == 0, said


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@contextlib.contextmanager
def pool(secret: pathlib.Path, folder: pathlib.Path) -> Iterator[str]:
    """The pool as the container of workers starts it; gives its port."""
    port = free_port()
    (line,) = WORKERS["args"]
    own = str(folder / "pool.secret")
    places = {"/etc/recordmill-pool/secret": str(secret), "/tmp/pool.secret": own, "50000": port}
    process = started(line, places)
    probe = [one.replace("50000", port) for one in WORKERS["livenessProbe"]["exec"]["command"]]

    def answers() -> bool:
        return subprocess.run(probe, stderr=subprocess.DEVNULL, check=False).returncode == 0

    try:
        wait_until(answers, "a pool that answers its probe")
        yield port
    finally:
        process.terminate()
        process.communicate()


def test_their_commands_run_a_job_from_store_to_store(tmp_path, monkeypatch):
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    # A file of a Secret is root's, and its group may read it.
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123456789abcdef")
    secret.chmod(0o440)
    for name in ("pool", "submitter", "flink"):
        (tmp_path / name).mkdir()
    with (
        s3_server() as uri,
        FlinkCluster(tmp_path / "flink", settings=SETTINGS) as cluster,
        pool(secret, tmp_path / "pool") as port,
    ):
        source = fill(uri, photos=[*DEMO.rglob("*.jpg")])
        command = ["images", "--input", source, "--size", "32", "--quiet", "--output"]
        assert main([*command, uri("here")]) == 0
        job = tmp_path / "job.yaml"
        printed = subprocess.run(
            [sys.executable, "-m", "recordmill", *command, uri("flink"), "--print-config"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        job.write_text(printed.stdout)
        (line,) = SUBMITTER["args"]
        places = {
            "/etc/recordmill-pool/secret": str(secret),
            "/tmp/pool.secret": str(tmp_path / "submitter" / "pool.secret"),
            "/etc/recordmill/job.yaml": str(job),
            "recordmill-rest:8081": cluster.master,
            "/opt/recordmill/flink-job-server.jar": str(JOB_SERVER),
            "localhost:50000": f"localhost:{port}",
        }
        run(line, places)
        digests = {load(Location.parse(uri(name))).digest for name in ("here", "flink")}
        assert len(digests) == 1
        assert len(cluster.cluster.jobs()) == 1
