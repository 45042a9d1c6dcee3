"""Removal of secrets from URIs before they are shown, logged, or written to a dataset."""

from __future__ import annotations

import os
import re
from typing import Any

from recordmill.storage.members import shown_reference

HIDDEN = "***"

# A secret key may contain '/', which is often left unescaped.
_USER = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s@'\"]*:[^\s@'\"]*@")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://[^\s'\"]*")
_OPTION = re.compile(r"([?&])([A-Za-z][\w.-]*)=([^&\s'\",;]*)")
_STORES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
# Options of these stores in pyarrow that hold no secret.
_SHOWN = re.compile(
    "allow_bucket_creation|allow_bucket_deletion|allow_delayed_open|anonymous|background_writes"
    "|blob_storage_authority|buffer_size|connect_timeout|default_block_size|dfs_storage_authority"
    "|enable_tls|endpoint_override|force_virtual_addressing|region|replication|request_timeout"
    "|retry_limit_seconds|role_arn|scheme|smart_defaults|tls_ca_file_path"
)
_SECRET = re.compile("sig|secret|token|key|passw|pwd|cred|auth|access", re.IGNORECASE)


def redact_uri(text: str) -> str:
    """Return a URI, or a text with URIs, without access keys, passwords and tokens.

    Keys before '@' become '***', and so do the values of options, unless they hold no secret.
    """
    if "://" not in text:
        return text
    return _URI.sub(_redact_options, _USER.sub(rf"\1{HIDDEN}@", text))


def redact_uris(value: Any) -> Any:
    """Return plain data with `redact_uri` applied to all of its texts."""
    if isinstance(value, str):
        return redact_uri(value)
    if isinstance(value, dict):
        return {name: redact_uris(one) for name, one in value.items()}
    return [redact_uris(one) for one in value] if isinstance(value, list | tuple) else value


def holds_keys(uri: str) -> bool:
    """Return whether a URI has a user and a password, or an access key and its secret."""
    return _USER.match(uri) is not None


def _redact_options(uri: re.Match[str]) -> str:
    in_store = uri[1].lower() in _STORES

    def redact(option: re.Match[str]) -> str:
        hidden = not _SHOWN.fullmatch(option[2]) if in_store else _SECRET.search(option[2])
        return f"{option[1]}{option[2]}={HIDDEN}" if hidden else option[0]

    return _OPTION.sub(redact, uri[0])


def shown(place: object) -> str:
    """Return a path as text without secrets, with escapes for bytes that are not UTF-8."""
    text = shown_reference(str(place))
    return redact_uri(os.fsencode(text).decode("utf-8", "backslashreplace"))
