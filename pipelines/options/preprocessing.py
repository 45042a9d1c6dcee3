"""`--preprocessing-fn`: all features by a function of the user's for tensorflow-transform."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import pathlib
import sys
from collections.abc import Collection
from typing import Any

from recordmill.errors import ConfigError
from recordmill.transforms.encoders.preprocessed import load_function


def described(name: str) -> str:
    """A function by what it does. Raises ConfigError where it is not there."""
    if importlib.util.find_spec("tensorflow_transform") is None:
        raise ConfigError(
            "--preprocessing-fn: needs tensorflow-transform: pip install 'recordmill[tft]'"
        )
    module = sys.modules[load_function(name).__module__]
    source = pathlib.Path(str(module.__file__)).read_bytes()
    return f"{name} {hashlib.sha256(source).hexdigest()}"


def refuse_features(config: Any, names: Collection[str]) -> None:
    """Raises ConfigError where an option is given that makes features; the function makes them all.

    names: those of the config's fields.
    """
    for field in dataclasses.fields(config):
        default = field.default
        if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if field.name in names and getattr(config, field.name) != default:
            raise ConfigError(
                f"--{field.name.replace('_', '-')}: is about features that are made here, and"
                " --preprocessing-fn makes them all: leave one out"
            )
