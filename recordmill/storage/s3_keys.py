"""Options of stores in URIs, and credentials and address for obstore's S3 client, as in pyarrow.

The AWS SDK in pyarrow looks for credentials in environment variables, profiles and web identity
tokens, and at the endpoints of containers and EC2 instances. obstore reads no profiles; profiles
with access keys are read here.
"""

from __future__ import annotations

import configparser
import datetime
import functools
import os
import urllib.parse
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from recordmill.errors import ConfigError, did_you_mean
from recordmill.storage.filesystems import filesystem_of

# Options in the query of a URI: those of pyarrow, of which older versions lack some.
_OPTIONS = {
    "s3": (
        *("endpoint_override", "scheme", "region", "allow_bucket_creation"),
        *("allow_bucket_deletion", "allow_delayed_open", "smart_defaults"),
        *("tls_ca_file_path", "tls_ca_dir_path", "tls_verify_certificates"),
    ),
    "gs": ("endpoint_override", "scheme", "retry_limit_seconds", "project_id"),
}
_RENEWED = datetime.timedelta(minutes=5)  # keys of a profile, which other programs may replace
_CREDENTIALS, _CONFIG = "~/.aws/credentials", "~/.aws/config"
# Settings of a profile with which the SDK itself gets keys.
_OF_THE_SDK = ("credential_process", "role_arn", "source_profile", "sso_", "web_identity_token")

# Sources of keys: environment variables and files. A role of the machine needs neither.
_SOURCES = (
    *("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    *("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
)


@functools.lru_cache(maxsize=64)
def check_query(scheme: str, query: str) -> None:
    """Check the options in a URI of a store, without access to it.

    Raises:
      ConfigError: pyarrow does not know an option, or two contradict each other.
    """
    known = _OPTIONS.get(scheme, ())
    options = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    for name in options if known else ():
        if name not in known and not _is_known(scheme, name):
            raise ConfigError(
                f"unknown option {name!r} in a {scheme}:// URI{did_you_mean(name, known)}:"
                f" expected one of {', '.join(known)}"
            )
    given, has_scheme, _ = options.get("endpoint_override", "").partition("://")
    if has_scheme and options.get("scheme", given) != given:
        raise ConfigError(
            f"scheme={options['scheme']} contradicts endpoint_override={given}://... in a"
            f" {scheme}:// URI: leave one of the schemes out"
        )


def _is_known(scheme: str, name: str) -> bool:
    """Return whether pyarrow, of a version that may be newer, knows an option."""
    # Without a region, pyarrow would ask Amazon for that of the bucket.
    options = {"region": "us-east-1", name: ""} if scheme == "s3" else {name: ""}
    try:
        filesystem_of(f"{scheme}://bucket/?{urllib.parse.urlencode(options)}")
    except (OSError, pa.ArrowException) as error:
        return "Unexpected query parameter" not in str(error)
    return True


def has_keys() -> bool:
    """Return whether this process finds credentials, other than a role of the machine."""
    files = map(os.path.expanduser, (_CREDENTIALS, _CONFIG))
    return any(map(os.environ.get, _SOURCES)) or any(map(os.path.exists, files))


def key_options(variables: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the credential arguments of `obstore.store.S3Store`.

    None if only the SDK can get them.
    """
    if variables.get("AWS_ACCESS_KEY_ID") and variables.get("AWS_SECRET_ACCESS_KEY"):
        return _provider(
            variables["AWS_ACCESS_KEY_ID"],
            variables["AWS_SECRET_ACCESS_KEY"],
            variables.get("AWS_SESSION_TOKEN"),
        )
    profile = variables.get("AWS_PROFILE") or variables.get("AWS_DEFAULT_PROFILE")
    try:
        found = _profile(variables, profile or "default")
    except (OSError, ValueError, configparser.Error):
        return None
    if found.get("aws_access_key_id") and found.get("aws_secret_access_key"):
        return {"credential_provider": _Profile(dict(variables), profile or "default")}
    if profile or any(name.startswith(_OF_THE_SDK) for name in found):
        return None
    if variables.get("AWS_WEB_IDENTITY_TOKEN_FILE") and variables.get("AWS_ROLE_ARN"):
        return {}
    if variables.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        return {}
    if variables.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        # Without a token file, obstore requests the keys of the EC2 instance instead.
        return {} if variables.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") else None
    if variables.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return {"skip_signature": True}
    place = variables.get("AWS_EC2_METADATA_SERVICE_ENDPOINT")
    return {"imdsv1_fallback": True, **({"metadata_endpoint": place} if place else {})}


def endpoint_of(options: Mapping[str, str], variables: Mapping[str, str]) -> str | None:
    """Return the address of a store that is not AWS. options: those of the URI.

    As in pyarrow, a scheme in `endpoint_override` counts.
    """
    address = options.get("endpoint_override")
    if address:
        scheme, _, host = address.rpartition("://")
        return f"{scheme or options.get('scheme', 'https')}://{host}".rstrip("/")
    address = variables.get("AWS_ENDPOINT_URL_S3") or variables.get("AWS_ENDPOINT_URL")
    return address.rstrip("/") if address else None


class _Profile:
    """Credential provider for a profile; obstore calls it again before the credentials expire."""

    def __init__(self, variables: Mapping[str, str], name: str) -> None:
        self._variables = variables
        self._name = name

    def __call__(self) -> dict[str, Any]:
        found = _profile(self._variables, self._name)
        return {
            "access_key_id": found["aws_access_key_id"],
            "secret_access_key": found["aws_secret_access_key"],
            "token": found.get("aws_session_token"),
            "expires_at": datetime.datetime.now(datetime.UTC) + _RENEWED,
        }


def _provider(key: str, secret: str, token: str | None) -> dict[str, Any]:
    keys = {"access_key_id": key, "secret_access_key": secret, "token": token, "expires_at": None}
    return {"credential_provider": lambda: keys}


def _profile(variables: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the settings of a profile, of which those of the credentials file count first."""
    found: dict[str, str] = {}
    for variable, default, section in (
        ("AWS_CONFIG_FILE", _CONFIG, name if name == "default" else f"profile {name}"),
        ("AWS_SHARED_CREDENTIALS_FILE", _CREDENTIALS, name),
    ):
        parser = configparser.RawConfigParser()
        parser.read(os.path.expanduser(variables.get(variable) or default), "utf-8")
        if parser.has_section(section):
            found.update(parser[section])
    return found
