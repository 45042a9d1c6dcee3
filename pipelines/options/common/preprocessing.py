"""The option `--preprocessing-fn`, which makes all features by a tensorflow-transform function."""

from __future__ import annotations

import hashlib
import importlib.util
import pathlib
import sys

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
