"""The option `--preprocessing-fn`, which makes all features by a tensorflow-transform function."""

from __future__ import annotations

import hashlib
import importlib.util
import pathlib
import sys
from collections.abc import Collection
from typing import Any

from recordmill.errors import ConfigError, install_extra
from recordmill.options.declaration import options_of
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

    Args:
      config: Options of the command.
      names: Names of the options to refuse.
    """
    for one in options_of(type(config)).values():
        if one.name in names and one.of(config) != one.default:
            raise ConfigError(
                f"--{one.key}: has no effect with --preprocessing-fn, which makes all features:"
                " leave one of them out"
            )
