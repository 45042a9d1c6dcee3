"""Hashes of video clips, for near duplicates.

The hash of a clip is that of an image, the mean of four of its frames as they are written: those at
1/8, 3/8, 5/8 and 7/8 of the clip. docs/near-duplicates.md compares it with others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.transforms.encoders.image_contents import hash_column
from recordmill.transforms.imaging.image_options import PLAIN, ImageOptions
from recordmill.transforms.imaging.pixels import decode
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import RowOutcome
from recordmill.transforms.near_duplicates.image_hash import hash_pixels
from recordmill.transforms.sources.video.clip_rows import HEIGHT, WIDTH, read_frames

_SAMPLES = 4

Frame = bytes | npt.NDArray[np.uint8]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClipContents:
    """Reader of the hash of each clip; the source provides the hash of its content.

    frame_options: how the frames are encoded. frames: number of frames of a clip.
    """

    frame_options: ImageOptions
    frames: int

    def read(self, rows: pa.RecordBatch) -> tuple[RowOutcome, dict[str, pa.Array]]:
        """Return the hash of each clip, null if its frames are of one colour; all rows are kept."""
        sides = zip(rows[HEIGHT].to_pylist(), rows[WIDTH].to_pylist(), strict=True)
        hashes = []
        sampled = read_frames(rows, frames=sample_frames(self.frames))
        for clip, (height, width) in zip(sampled, sides, strict=True):
            frames: Sequence[Frame] = clip
            if self.frame_options.is_raw:
                shape = (height, width, self.frame_options.channels)
                frames = [np.frombuffer(frame, np.uint8).reshape(shape) for frame in clip]
            hashes.append(hash_clip(frames))
        return RowOutcome(kept=np.arange(len(rows))), {batch.NEAR: hash_column(hashes)}


def sample_frames(count: int) -> list[int]:
    """Return the numbers of the frames to hash, of a clip of `count` frames."""
    return [(2 * number + 1) * count // (2 * _SAMPLES) for number in range(_SAMPLES)]


def hash_clip(frames: Sequence[Frame]) -> int:
    """Return the hash of a clip. frames: those of `sample_frames`, encoded or uint8[h, w, c].

    Raises:
      RecordError: a frame cannot be decoded.
    """
    sums: Any = 0
    for frame in frames:
        image = np.asarray(decode(frame, PLAIN)) if isinstance(frame, bytes) else frame
        sums = sums + image.astype(np.uint16)
    return int(hash_pixels((sums // len(frames)).astype(np.uint8)))
