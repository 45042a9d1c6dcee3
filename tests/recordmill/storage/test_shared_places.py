"""Places that a worker on another machine must reach."""

import os
import re
import socket

import pytest

from recordmill.pipelines.cli import main
from recordmill.runners.workers import start_check
from recordmill.storage import storage_errors
from recordmill.storage.shared_places import existing_part, find_unreachable
from tests.paths import DEMO
from tests.s3_store import S3Store


@pytest.mark.parametrize("name", ["in", "in/*.jpg", "in/a.zip#x/*", "missing/too/deep"])
def test_the_part_of_a_pattern_that_exists(tmp_path, name):
    (tmp_path / "in").mkdir()
    expected = tmp_path if name.startswith("missing") else tmp_path / "in"
    assert existing_part(str(tmp_path / name)) == str(expected)


def test_a_folder_that_is_not_shared(tmp_path):
    assert find_unreachable({str(tmp_path): "--input"}) is None
    missing = tmp_path / "out" / ".recordmill" / "1" / "listing.json"
    assert find_unreachable({str(tmp_path): "--input", str(missing): "--output"}) == (
        f"--output: not shared: the worker on {os.uname().nodename} has no {tmp_path}/out: mount"
        " the folder under the same path on every machine, or use an object store"
    )


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"AWS_ACCESS_KEY_ID": "known", "AWS_SECRET_ACCESS_KEY": "x"}, None),
        ({"AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "x"}, "--input: the store denies"),
        ({}, "has no credentials for s3://bucket/in"),
    ],
    ids=["known", "unknown", "none"],
)
def test_credentials_of_a_store(tmp_path, monkeypatch, variables, words):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with S3Store(socket.create_server(("127.0.0.1", 0)), access_key="known") as store:
        uri = store.uri("in")
        found = find_unreachable({uri: "--input"})
        assert words in found if words else found is None
        # One that may answer later is no reason to refuse a job.
        store.status = 503
        assert find_unreachable({uri: "--input"}) is None


@pytest.mark.parametrize(
    ("key", "status", "code", "words"),
    [
        ("", 0, 2, "out?.*: this command has no credentials; set them, such as AWS_ACCESS_KEY_ID"),
        ("other", 0, 2, "permission denied; check its owner, mode or access policy"),
        ("known", 503, 1, "check that the storage is"),
    ],
    ids=["no credentials", "denied", "fails"],
)
def test_a_command_that_a_store_refuses(tmp_path, monkeypatch, capsys, key, status, code, words):
    """A scheduler retries only what may pass."""
    monkeypatch.setattr(storage_errors, "PAUSES", ())
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
        if key and name != "AWS_PROFILE":
            monkeypatch.setenv(name, key)
    with S3Store(socket.create_server(("127.0.0.1", 0)), access_key="known") as store:
        store.status = status
        command = ["images", "--input", str(DEMO), "--output", store.uri("out")]
        assert main(command) == code
    assert re.search(words, capsys.readouterr().err)


def test_a_check_goes_to_the_workers_by_its_name(tmp_path):
    assert start_check.find_refusal(None) is None
    for place, is_refused in ((tmp_path, False), (tmp_path / "missing", True)):
        option = start_check.to_option(find_unreachable, {str(place): "--input"})
        assert (start_check.find_refusal(option) is not None) == is_refused
