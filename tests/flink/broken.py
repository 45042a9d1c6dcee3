"""An encoder with a bug, for pictures."""

import dataclasses
from typing import Any

import pyarrow as pa

from recordmill.pipelines import images
from recordmill.transforms.encoders.images import ImageEncoder


class BrokenEncoder(ImageEncoder):
    """Fails where it should encode."""

    def encode(self, rows: pa.RecordBatch, context: Any) -> Any:
        raise ValueError("this encoder is broken")


def install() -> None:
    """Makes `recordmill images` use it."""
    real = images.data_type

    def data_type(config: Any) -> Any:
        found = real(config)
        return dataclasses.replace(found, encoder=BrokenEncoder(**vars(found.encoder)))

    images.data_type = data_type
