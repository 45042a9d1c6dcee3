"""Removal of secrets from URIs before they are shown, logged, or written to a dataset."""

from __future__ import annotations

import re

HIDDEN = "***"

# A secret key may contain '/', and does so in the URI of a user who did not escape it.
_USER = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s@'\"]*:[^\s@'\"]*@")
_OPTION = re.compile(r"([?&])([A-Za-z][\w.-]*)=([^&\s'\",;]*)")
# Options of pyarrow's filesystems that hold no secret.
_SHOWN = re.compile(
    "allow_bucket_creation|allow_bucket_deletion|allow_delayed_open|anonymous|background_writes|blob_storage_authority"
    "|buffer_size|connect_timeout|default_block_size|dfs_storage_authority|enable_tls|endpoint_override"
    "|force_virtual_addressing|region|replication|request_timeout|retry_limit_seconds|role_arn|scheme|smart_defaults|tls_ca_file_path"
)


def redact_uri(text: str) -> str:
    """Return a URI, or a text with URIs, without access keys, passwords and tokens.

    Keys before '@' and the values of options become '***', except for options that hold no secret.
    """
    if "://" not in text:
        return text
    return _OPTION.sub(_redact_option, _USER.sub(rf"\1{HIDDEN}@", text))


def holds_keys(uri: str) -> bool:
    """Return whether a URI has a user and a password, or an access key and its secret."""
    return _USER.match(uri) is not None


def _redact_option(option: re.Match[str]) -> str:
    if _SHOWN.fullmatch(option[2]):
        return option[0]
    return f"{option[1]}{option[2]}={HIDDEN}"
