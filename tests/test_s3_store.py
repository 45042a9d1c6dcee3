"""The light store answers clients of S3 as a true one does, and fails as it is told to."""

import boto3
import pytest
from botocore.exceptions import ClientError
from pyarrow import fs

from tests.s3_store import S3Store

NO_RETRIES = fs.AwsStandardS3RetryStrategy(max_attempts=1)


def arrow(store: S3Store) -> fs.S3FileSystem:
    place = {"endpoint_override": store.address, "scheme": "http", "region": "us-east-1"}
    keys = {"access_key": "test", "secret_key": "x"}
    return fs.S3FileSystem(**place, **keys, retry_strategy=NO_RETRIES)


def boto(store: S3Store, key: str):
    address, region = f"http://{store.address}", "us-east-1"
    keys = {"aws_access_key_id": key, "aws_secret_access_key": "x"}
    return boto3.client("s3", endpoint_url=address, region_name=region, **keys)


def test_arrow_writes_reads_lists_and_deletes(store):
    files = arrow(store)
    content = b"".join(bytes([number]) * 1_000_000 for number in range(30))
    for name in ("a/big", "a/x y+\u00fc&.txt", "b"):
        with files.open_output_stream(f"bucket/{name}") as out:
            out.write(content if name == "a/big" else b"hello")
    assert files.open_input_file("bucket/a/big").read_at(4, 1_999_998) == b"\1\1\2\2"
    assert files.open_input_file("bucket/a/big").readall() == content
    found = files.get_file_info(fs.FileSelector("bucket", recursive=True))
    assert {one.path: one.size for one in found} == {
        "bucket/a": None,
        "bucket/a/big": len(content),
        "bucket/a/x y+\u00fc&.txt": 5,
        "bucket/b": 5,
    }
    files.copy_file("bucket/b", "bucket/c")
    files.delete_dir("bucket/a")
    assert store.names() == ["bucket/b", "bucket/c"]
    assert files.get_file_info("bucket/a").type == fs.FileType.NotFound


def test_long_listings_have_pages(store):
    names = [f"{number:04}" for number in range(2500)]
    for name in names:
        store.put(f"bucket/in/{name}", b"")
    pages = (
        boto(store, "test").get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix="in/")
    )
    keys = [[one["Key"] for one in page["Contents"]] for page in pages]
    assert [len(page) for page in keys] == [1000, 1000, 500]
    assert [key for page in keys for key in page] == [f"in/{name}" for name in names]
    assert [one.operation for one in store.requests] == ["LIST"] * 3


def test_faults_and_strangers(store):
    store.put("bucket/a", b"hello")
    files = arrow(store)
    with store.answering(status=503), pytest.raises(OSError, match="503"):
        files.open_input_file("bucket/a")
    assert files.open_input_file("bucket/a").readall() == b"hello"
    with pytest.raises(ClientError, match="InvalidAccessKeyId"):
        boto(store, "unknown").get_object(Bucket="bucket", Key="a")
    assert {one.status for one in store.requests} == {503, 200, 206, 403}
