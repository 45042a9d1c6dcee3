"""Access to a cluster: tokens, https, and the program that runs there; on real sockets."""

import base64
import datetime
import hashlib
import http.server
import ipaddress
import json
import pathlib
import ssl
import threading
import zipfile
from collections.abc import Iterator

import pytest
from apache_beam.portability.api import beam_runner_api_pb2
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from recordmill.errors import ConfigError
from recordmill.pipelines.cli import main
from recordmill.runners.flink.jar import (
    ENTRY_CLASS,
    find_job_server_jar,
    find_left_out,
    library_name,
    missing_library,
    write_job_jar,
)
from recordmill.runners.flink.rest import Cluster, ClusterError

BASIC = f"Basic {base64.b64encode(b'user:password').decode()}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        allowed = self.headers.get("Authorization") in ("Bearer the-token", BASIC)
        answer: dict[str, object] = {"flink-version": "1.19.3"} if allowed else {"errors": []}
        if self.path == "/v1/jobmanager/environment":
            answer = {"classpath": ["/opt/flink/lib/here.jar", "/opt/flink/lib/flink-dist.jar"]}
        body = json.dumps(answer).encode()
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def serve(context: ssl.SSLContext | None) -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture
def plain() -> Iterator[int]:
    yield from serve(None)


@pytest.fixture
def certificate(tmp_path: pathlib.Path) -> pathlib.Path:
    """A certificate of 127.0.0.1 that signs itself, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    start = datetime.datetime(2020, 1, 1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start.replace(year=2099))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "ca.pem").write_bytes(made.public_bytes(pem))
    (tmp_path / "server.pem").write_bytes(private + made.public_bytes(pem))
    return tmp_path / "ca.pem"


@pytest.fixture
def encrypted(certificate: pathlib.Path) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.parent / "server.pem")
    yield from serve(context)


def token_file(folder: pathlib.Path, content: str = "the-token") -> str:
    path = folder / "token"
    path.touch(0o600)
    path.write_text(content + "\n")
    return str(path)


@pytest.mark.parametrize("content", ["the-token", "user:password"])
def test_a_token_or_a_password_is_sent(content, plain, tmp_path):
    master = f"127.0.0.1:{plain}"
    with pytest.raises(ClusterError, match="give it in the file of flink_token_file"):
        Cluster.parse(master).version()
    cluster = Cluster.parse(master, token_file=token_file(tmp_path, content))
    assert cluster.version() == "1.19"
    assert content not in repr(cluster)


def test_https_checks_the_certificate(encrypted, certificate, tmp_path):
    master = f"https://127.0.0.1:{encrypted}"
    token = token_file(tmp_path)
    with pytest.raises(ClusterError, match="certificate verify failed"):
        Cluster.parse(master, token_file=token).version()
    assert Cluster.parse(master, token_file=token, ca_file=str(certificate)).version() == "1.19"


def test_a_token_does_not_travel_unencrypted(tmp_path, capsys):
    token = token_file(tmp_path)
    with pytest.raises(ConfigError, match="would be sent unencrypted"):
        Cluster.parse("flink.example.com:8081", token_file=token)
    job = ("--flink-master", "flink.example.com", "--job", "0" * 32)
    assert main(["status", *job, "--flink-token-file", token]) == 2
    assert "would be sent unencrypted" in capsys.readouterr().err
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(ConfigError, match="other users can read"):
        Cluster.parse("https://flink.example.com", token_file=token)
    with pytest.raises(ConfigError, match="expected certificates in PEM"):
        Cluster.parse("https://flink.example.com", ca_file=token)


def test_a_job_server_is_checked(tmp_path):
    jar = tmp_path / "server.jar"
    jar.write_bytes(ENTRY_CLASS.replace(".", "/").encode() + b".class")
    right = hashlib.sha256(jar.read_bytes()).hexdigest()
    assert find_job_server_jar(str(jar), flink_version="1.19", sha256=right) == str(jar)
    assert find_job_server_jar(str(jar), flink_version="1.19") == str(jar)
    with pytest.raises(ConfigError, match=f"but .* has {right}"):
        find_job_server_jar(str(jar), flink_version="1.19", sha256="0" * 64)


@pytest.mark.parametrize("given", [None, "http://127.0.0.1:9/server.jar"])
def test_no_job_server_is_downloaded_unchecked(given):
    with pytest.raises(ConfigError, match=r"would be downloaded from .* and run unchecked"):
        find_job_server_jar(given, flink_version="1.19")


def test_a_library_is_found_in_the_class_path_of_the_jobmanager(plain, tmp_path):
    token = token_file(tmp_path)
    cluster = Cluster.parse(f"127.0.0.1:{plain}", token_file=token)
    jars = cluster.class_path()
    assert jars is not None
    assert "here.jar" in jars
    assert Cluster.parse(f"127.0.0.1:{plain}").class_path() is None  # refused: unknown


def test_the_note_on_a_missing_library_names_that_of_another_job_server():
    url, name = "http://host:8081", "recordmill-beam-1.jar"
    note = missing_library(name, ["flink-dist.jar"], url=url)
    assert note.startswith(f"the cluster at {url} does not have {name} in its lib folder: it loads")
    note = missing_library(name, ["recordmill-beam-2.jar", "flink-dist.jar"], url=url)
    assert f"{name} in its lib folder, but recordmill-beam-2.jar, of another job server: " in note


def job_server(path: pathlib.Path, *, changed: bool = False) -> str:
    entry = ENTRY_CLASS.replace(".", "/")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as jar:
        jar.writestr(f"{entry}.class", b"E" * 5000)
        jar.writestr(f"other/{entry}.class", b"not at the start")
        jar.writestr("org/apache/beam/A.class", b"A" * (4999 if changed else 5000))
        jar.writestr("org/apache/flink/B.class", b"B" * 5000)
        jar.writestr("net/bytebuddy/C.class", b"C" * 5000)
        # A cluster that reads this one reports the version of the job server's Flink.
        jar.writestr(".flink-runtime.version.properties", b"project.version=1.19.0")
    return str(path)


def test_a_library_and_the_jar_of_a_job_beside_it(tmp_path, capsys):
    server = job_server(tmp_path / "server.jar")
    library = ["flink-library", "--flink-job-server-jar", server, "--output"]
    assert main([*library, str(tmp_path / "lib")]) == 0
    (path,) = (tmp_path / "lib").iterdir()
    assert capsys.readouterr().out == f"{path}\n"
    assert path.name == library_name(server)
    assert path.name != library_name(job_server(tmp_path / "other.jar", changed=True))
    entry = f"{ENTRY_CLASS.replace('.', '/')}.class"
    with zipfile.ZipFile(path) as jar:
        assert jar.testzip() is None
        assert set(jar.namelist()) == {entry, f"other/{entry}", "org/apache/beam/A.class"}
    pipeline = beam_runner_api_pb2.Pipeline()
    job = str(tmp_path / "job.jar")
    write_job_jar(job, job_server=server, pipeline=pipeline, options={}, has_library=True)
    with zipfile.ZipFile(job) as jar:
        names = {name for name in jar.namelist() if not name.startswith("BEAM-PIPELINE")}
        assert jar.read(entry) == b"E" * 5000
    assert names == {entry}
    assert main(["flink-library", "--output", str(tmp_path)]) == 2
    assert "expected --flink-job-server-jar and --output" in capsys.readouterr().err
    assert main(["flink-library", "--flink-job-server-jar", str(tmp_path), "--output", "x"]) == 2
    assert "--flink-job-server-jar: there is no file" in capsys.readouterr().err
    assert main([*library, "/dev/null/lib"]) == 2
    assert "--output /dev/null/lib: Not a directory" in capsys.readouterr().err


@pytest.mark.parametrize("whole", [True, False])
def test_the_jar_for_a_cluster_is_without_flink_and_what_no_job_uses(tmp_path, whole):
    server, job = tmp_path / "server.jar", tmp_path / "job.jar"
    flink = {"org/apache/flink/a/B.class": b"B" * 5000, "flink-rpc-akka.jar": b"PK"}
    unused = {"net/bytebuddy/A.class": b"Y" * 5000, "META-INF/native/conscrypt.dll": b"MZ"}
    others = {"META-INF/MANIFEST.MF": b"Main", "org/apache/beam/A.class": b"A" * 5000}
    with zipfile.ZipFile(server, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, content in (others | flink | unused).items():
            jar.writestr(name, content)
    pipeline = beam_runner_api_pb2.Pipeline()
    write_job_jar(str(job), job_server=str(server), pipeline=pipeline, options={}, whole=whole)
    with zipfile.ZipFile(job) as jar:
        assert jar.testzip() is None
        found = {name: jar.read(name) for name in jar.namelist()}
    copied = {name: c for name, c in found.items() if not name.startswith("BEAM-PIPELINE")}
    assert copied == (others | unused if whole else others)
    assert "BEAM-PIPELINE/pipeline/pipeline.json" in found


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (
            "java.lang.NoClassDefFoundError: net/bytebuddy/ByteBuddy\n\tat org.apache.beam.A",
            "net.bytebuddy.ByteBuddy",
        ),
        (
            "java.lang.RuntimeException: failed\n"
            "Caused by: java.lang.ClassNotFoundException: com.google.gson.Gson$1\n\tat java.net",
            "com.google.gson.Gson$1",
        ),
        (
            "java.util.ServiceConfigurationError: a.Service: Provider io.grpc.X not found",
            "io.grpc.X",
        ),
        ("java.lang.NoClassDefFoundError: org/apache/flink/Missing", None),
        ("java.lang.ClassNotFoundException: org.example.Missing", None),
        ("java.lang.IllegalStateException: net.bytebuddy.ByteBuddy", None),
    ],
)
def test_a_class_that_was_left_out_is_found_in_an_error(error, name):
    assert find_left_out(error) == name


def test_a_class_of_the_library_is_left_out_of_a_job_that_relies_on_it():
    error = "java.lang.ClassNotFoundException: org.apache.beam.runners.flink.A\n\tat java.net"
    assert find_left_out(error) is None
    assert find_left_out(error, has_library=True) == "org.apache.beam.runners.flink.A"
