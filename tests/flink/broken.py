"""An encoder with a bug, for pictures."""

from typing import Any

import pyarrow as pa

from pipelines import images
from transforms.encoders.images import ImageEncoder


class BrokenEncoder(ImageEncoder):
    """Fails where it should encode."""

    def encode(self, rows: pa.RecordBatch, context: Any) -> Any:
        raise ValueError("this encoder is broken")


def install() -> None:
    """Makes `recordmill images` use it."""
    real = images.kind

    def kind(config: Any) -> Any:
        found = real(config)
        encoder = found.encoder
        broken = BrokenEncoder.__new__(BrokenEncoder)
        broken.__dict__.update(vars(encoder))
        return type(found)(found.name, found.source, broken, found.check)

    images.kind = kind
