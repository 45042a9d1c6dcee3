"""Identification of the content of files by their first bytes."""

import gzip
import io
import sqlite3
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.format.file_content import HEAD, identify

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 9\n"


def zipped(*names: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for name in names:
            file.writestr(name, "x")
    return data.getvalue()


def parquet() -> bytes:
    data = io.BytesIO()
    pq.write_table(pa.table({"x": [1]}), data)
    return data.getvalue()


def orc() -> bytes:
    data = io.BytesIO()
    pyarrow.orc.write_table(pa.table({"x": [1]}), data)
    return data.getvalue()


def sqlite() -> bytes:
    with sqlite3.connect(":memory:") as database:
        database.execute("create table x (y)")
        return database.serialize()


def npz() -> bytes:
    data = io.BytesIO()
    np.savez(data, x=np.arange(3))
    return data.getvalue()


KNOWN = {
    "a Git LFS pointer instead of the file itself: run git lfs pull": [LFS, b"\xef\xbb\xbf" + LFS],
    "an HTML page, such as an error page of a server: download the file again": [
        b"\n <!doctype HTML>",
        b"<html lang='en'>",
        b"<?xml version='1.0'?>\n<!-- a --> <!-- b -->\n<!DOCTYPE html>",
    ],
    "gzip-compressed data: decompress it": [gzip.compress(b"x")],
    "xz-compressed data: decompress it": [b"\xfd7zXZ\0\0"],
    "an Excel workbook: export it as CSV or Parquet": [
        zipped("[Content_Types].xml", "_rels/.rels", "xl/workbook.xml")
    ],
    "a zip archive: unpack it": [zipped("a.csv")],
    "a NumPy archive: name it .npz": [npz()],
    "an ARFF file: export it as CSV or Parquet": [
        b"@relation x",
        b"% a comment\n%\n\n  \n@RELATION 'a b'\n",
    ],
    "a JSON document": [b'{"a": 1}', b"[\n {", b"\xef\xbb\xbf[[1]]"],
    "a Parquet file: name it .parquet": [parquet()],
    "an ORC file: write it as Parquet": [orc()],
    "an SQLite database: export it as CSV or Parquet": [sqlite()],
    "a NIST SPHERE file: convert it to WAV or FLAC, for example with sph2pipe": [
        b"NIST_1A\n   1024\nchannel_count -i 1\n"
    ],
    "a JPEG XL image: convert it to JPEG or PNG, for example with djxl": [
        b"\xff\x0a\xfa\x1f\x01\x90\x08\x06",
        b"\0\0\0\x0cJXL \r\n\x87\n",
    ],
    "a MATLAB file older than version 7.3: save it with -v7.3": [b"MATLAB 5.0 MAT-file, Platform"],
}


@pytest.mark.parametrize(
    ("content", "head"),
    [(text, head) for text, heads in KNOWN.items() for head in heads],
    ids=range(sum(map(len, KNOWN.values()))),
)
def test_content_is_named(content, head):
    assert str(identify(head[:HEAD])) == content


@pytest.mark.parametrize(
    "text", ["BM,label", "ORC\nelf\n", "PAR1,PAR2", "ID3,a", "% of x,y", "CDF", "RDX,y", "[x],[y]"]
)
def test_text_that_begins_like_a_signature_is_not_identified(text):
    assert identify(text.encode()) is None


@given(st.binary(max_size=HEAD))
def test_any_bytes_are_accepted(head):
    found = identify(head)
    assert found is None or found.noun


@pytest.mark.parametrize("piece", [b"<!-- -->", b"%\n", b"\n", b"<!--", b"\r\n%"])
@pytest.mark.parametrize("start", [b"<!-- -->", b"%\n", b"<?xml ?>"])
def test_repeated_pieces_do_not_take_long(piece, start):
    """A pattern that tries all divisions of them would not end."""
    assert str(identify((start + piece * HEAD)[:HEAD])) != "an ARFF file"
