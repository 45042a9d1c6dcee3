"""Settings that give obstore's S3 client the credentials and the address that pyarrow uses.

The AWS SDK in pyarrow looks for credentials in environment variables, profiles and web identity
tokens, and at the endpoints of containers and EC2 instances. obstore reads no profiles; profiles
with access keys are read here.
"""

from __future__ import annotations

import configparser
import datetime
import os
from collections.abc import Mapping
from typing import Any

_RENEWED = datetime.timedelta(minutes=5)  # keys of a profile, which other programs may replace
_CREDENTIALS, _CONFIG = "~/.aws/credentials", "~/.aws/config"
# Settings of a profile with which the SDK itself gets keys.
_OF_THE_SDK = ("credential_process", "role_arn", "source_profile", "sso_", "web_identity_token")

# Sources of keys: environment variables and files. A role of the machine needs neither.
_SOURCES = (
    *("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    *("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
)


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
