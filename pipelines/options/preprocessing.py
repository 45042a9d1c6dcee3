"""The option `--preprocessing-fn`, which makes all features by a tensorflow-transform function."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import pathlib
import sys
from collections.abc import Collection
from typing import Any

from recordmill.errors import ConfigError, install_extra
from recordmill.transforms.encoders.preprocessed import load_function


def described(name: str) -> str:
    """Return the name of a function and the sha256 of its module's source.

    Raises:
      ConfigError: the function or tensorflow-transform is missing.
    """
    if importlib.util.find_spec("tensorflow_transform") is None:
        raise ConfigError(
            "--preprocessing-fn: needs tensorflow-transform, which is not installed:"
            f" {install_extra('tft')}"
        )
    module = sys.modules[load_function(name).__module__]
    source = pathlib.Path(str(module.__file__)).read_bytes()
    return f"{name} {hashlib.sha256(source).hexdigest()}"


def refuse_features(config: Any, names: Collection[str]) -> None:
    """Raise ConfigError if an option that makes features is given beside --preprocessing-fn.

    names: fields of the config.
    """
    for field in dataclasses.fields(config):
        default = field.default
        if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if field.name in names and getattr(config, field.name) != default:
            raise ConfigError(
                f"--{field.name.replace('_', '-')}: has no effect with --preprocessing-fn, which"
                " makes all features: leave one of them out"
            )
