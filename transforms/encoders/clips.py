"""Clips as Examples: SequenceExamples of coded frames, or arrays.

Features have the names that MediaPipe's MediaSequence gives them, which are those of models that
read clips. Source: https://github.com/google-ai-edge/mediapipe/tree/master/mediapipe/util/sequence
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import PIL
import pyarrow as pa
from PIL import features as pillow_features

from recordmill.format.features import Feature, Features
from recordmill.transforms.encoders.labels import label_feature, label_numbers
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Context, Encoded, RowOutcome
from recordmill.transforms.model.ragged import binary_array, fixed_lists, string_array
from recordmill.transforms.model.user_columns import user_fields, with_users
from recordmill.transforms.sources.video import video_decoder
from recordmill.transforms.sources.video.clip_rows import (
    END,
    FILM,
    HEIGHT,
    OWN,
    RATE,
    TIMES,
    WIDTH,
    pictures_of,
)

_CODERS = {"pillow-zlib": "zlib", "zlib-ng": "zlib_ng"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClipEncoder:
    """Writes rows of `Films`, whose frames are coded already.

    pictures: how frames came out. frames: of a clip. unlabelled: rows without a label may occur,
    and have no label features.
    """

    pictures: ImageOptions
    frames: int
    unlabelled: bool = False

    def features(self, rows: pa.Schema, context: Context) -> Features:
        """Raises ConfigError for a user column that no feature can hold, or of a feature's name."""
        integer, text = Feature(dtype="int64"), Feature(dtype="string", kind="text")
        raw = self.pictures.is_raw
        declared = {
            "image/encoded": self._encoded(context),
            "image/timestamp": Feature(dtype="int64", shape=(self.frames,), sequence=not raw),
            "image/format": text,
            "image/height": integer,
            "image/width": integer,
            "image/frame_rate": Feature(dtype="float32"),
            "clip/data_path": text,
            "clip/frames": integer,
            "clip/start/timestamp": integer,
            "clip/end/timestamp": integer,
        }
        if raw and None in self._shape:
            declared["clip/shape"] = Feature(dtype="int64", shape=(4,))
        if context.labels:
            shape = (None,) if self.unlabelled else ()
            declared["clip/label/index"] = label_feature(unlabelled=self.unlabelled)
            declared["clip/label/string"] = Feature(dtype="string", shape=shape, kind="text")
        return with_users(declared, user_fields(rows), where="listing")

    @property
    def _shape(self) -> tuple[int | None, int | None, int]:
        """Of a frame."""
        options = self.pictures
        fixed = options.size is not None and options.resize_mode != "fit"
        height, width = options.size if fixed and options.size else (None, None)
        return height, width, options.channels

    def _encoded(self, context: Context) -> Feature:
        if not self.pictures.is_raw:
            return Feature(
                dtype="string",
                shape=(self.frames,),
                kind="image",
                raw_dtype="uint8",
                raw_shape=self._shape,
                sequence=True,
            )
        told = (context.name("clip/shape"),) if None in self._shape else ()
        return Feature(
            dtype="string",
            kind="raw",
            raw_dtype="uint8",
            raw_shape=(self.frames, *self._shape),
            shape_features=told,
        )

    def versions(self) -> Mapping[str, str]:
        """Of all that decodes, scales or codes: a different release may round differently."""
        found = video_decoder.versions()
        if self.pictures.image_format == "jpeg":
            found["simplejpeg"] = video_decoder.jpegs().__version__
        elif self.pictures.image_format == "png":
            found["pillow"] = PIL.__version__
            for name, feature in _CODERS.items():
                version = pillow_features.version(feature)
                if version is not None:
                    found[name] = version
        return found

    def _pictures(self, rows: pa.RecordBatch) -> pa.Array:
        """Of each clip the list of its frames, or the bytes of all of them as one array."""
        clips = pictures_of(rows)
        if self.pictures.is_raw:
            return binary_array([b"".join(frames) for frames in clips])
        flat = binary_array([frame for frames in clips for frame in frames])
        return pa.FixedSizeListArray.from_arrays(flat, self.frames)

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        count = len(rows)
        raw = self.pictures.is_raw
        times = rows[TIMES]
        columns: dict[str, pa.Array] = {
            "image/encoded": self._pictures(rows),
            "image/timestamp": times,
            "image/format": string_array([self.pictures.image_format] * count),
            "image/height": rows[HEIGHT],
            "image/width": rows[WIDTH],
            "image/frame_rate": rows[RATE],
            "clip/data_path": rows[FILM],
            "clip/frames": rows[OWN],
            "clip/start/timestamp": times.flatten().take(pa.array(np.arange(count) * self.frames)),
            "clip/end/timestamp": rows[END],
        }
        if raw and None in self._shape:
            shapes = np.empty((count, 4), np.int64)
            shapes[:, 0], shapes[:, 3] = self.frames, self.pictures.channels
            shapes[:, 1], shapes[:, 2] = np.asarray(rows[HEIGHT]), np.asarray(rows[WIDTH])
            columns["clip/shape"] = fixed_lists(shapes)
        if context.labels:
            columns["clip/label/index"] = label_numbers(rows[batch.LABEL], context)
            columns["clip/label/string"] = rows[batch.LABEL]
        columns |= {field.name: rows[field.name] for field in user_fields(rows.schema)}
        steps = {} if raw else dict.fromkeys(("image/encoded", "image/timestamp"), self.frames)
        return Encoded(
            columns=pa.RecordBatch.from_pydict(columns),
            rows=RowOutcome(kept=np.arange(count)),
            steps=steps,
        )
