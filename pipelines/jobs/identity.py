"""Identity of a job: the options and the versions that shape the bytes of its dataset."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from typing import Any

from recordmill.job.staging import to_json
from recordmill.options import declaration
from recordmill.pipelines.earlier.reused_datasets import fingerprint_shaping
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.transforms.model.data_type import DataType


def shaping_of(
    config: CommonConfig, data_type: DataType, labels: Sequence[str] | None
) -> dict[str, Any]:
    """Return {option: value} of the options that shape the bytes of the dataset, except the seed.

    labels: the content of --labels-file, which counts instead of its path.

    Raises:
      ConfigError: --fingerprint is not for this data type.
    """
    return {
        **{key: value for key, value in declaration.shaping(config).items() if key != "seed"},
        **{"kind": data_type.name, **data_type.shaping},
        **_top_of_rows(config, data_type),
        **({} if labels is None else {"labels_file": list(labels)}),
        **fingerprint_shaping(config, data_type),
        **config.selection_shaping(),
        **config.path_shaping(),
    }


def _top_of_rows(config: CommonConfig, data_type: DataType) -> dict[str, str]:
    """Return --label-from top if it is given for rows, whose default is a column of classes."""
    of_rows = data_type.shape is None or data_type.shape.payload == "held"
    return {"label_from": "top folder"} if of_rows and config.label_from == "top" else {}


def versions_of(config: CommonConfig, data_type: DataType) -> dict[str, str]:
    """Return {library: version} of the libraries that shape the bytes of the dataset."""
    versions = dict(data_type.encoder.versions())
    return versions | ({"zlib": zlib.ZLIB_RUNTIME_VERSION} if config.compression == "gzip" else {})


def job_id(identity: Any) -> str:
    """Return the name of the staging folder of a job. identity: JSON data that identifies it."""
    return hashlib.sha256(to_json(identity)).hexdigest()[:16]
