"""Compiled templates on disk: their compilation takes longer than the rest of a small report."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import pathlib
import sys

import jinja2
from jinja2.bccache import Bucket

_SUM_BYTES = hashlib.sha256().digest_size


class BytecodeFiles(jinja2.BytecodeCache):
    """Keeps the bytecode of templates in `__pycache__`, as Python keeps that of modules.

    A template is compiled again if it, Jinja or the options have changed, and each time if the
    folder is not writable. Damaged or unreadable files are ignored.

    options: Jinja's options that influence the bytecode.
    """

    def __init__(self, options: str) -> None:
        self._compiler = f"{importlib.metadata.version('jinja2')} {options}"

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        return importlib.util.cache_from_source(filename or name)

    def get_source_checksum(self, source: str) -> str:
        return super().get_source_checksum(f"{self._compiler} {source}")

    def load_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError), open(bucket.key, "rb") as file:
            content = file.read()
            code = content[_SUM_BYTES:]
            if content.startswith(hashlib.sha256(code).digest()):  # Jinja does not check it
                bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        if sys.dont_write_bytecode:
            return
        path = pathlib.Path(bucket.key)
        draft = path.with_suffix(f".{os.getpid()}")
        code = bucket.bytecode_to_string()
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                draft.write_bytes(hashlib.sha256(code).digest() + code)
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)
