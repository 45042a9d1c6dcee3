"""Video clips as SequenceExamples of encoded frames, or as Examples with one array per clip.

Features are named as in MediaPipe's MediaSequence, which models for video read.

Source: https://github.com/google-ai-edge/mediapipe/tree/master/mediapipe/util/sequence
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import PIL
import pyarrow as pa
import simplejpeg
from PIL import features as pillow_features

from recordmill.option_checks import check_options
from recordmill.tfrecord.features import Feature, Features
from recordmill.transforms.encoders.labels import label_columns, label_feature, text_feature
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.model.data_type import Context, Encoded, RowOutcome
from recordmill.transforms.model.ragged import binary_array, fixed_lists, string_array
from recordmill.transforms.model.user_columns import user_fields, with_users
from recordmill.transforms.sources.splitters.segments import NAME
from recordmill.transforms.sources.video import video_decoder
from recordmill.transforms.sources.video.clip_rows import (
    END,
    HEIGHT,
    OWN,
    RATE,
    TIMES,
    WIDTH,
    read_frames,
)

_CODERS = {"pillow-zlib": "zlib", "zlib-ng": "zlib_ng"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClipEncoder:
    """Encoder of clips of videos, whose frames are already encoded.

    Args:
      frame_options: Options that frames were encoded with.
      frames: Number of frames of a clip.
      unlabelled: Rows without a label may occur; they have no label features.
    """

    frame_options: ImageOptions
    frames: int
    unlabelled: bool = False

    def __post_init__(self) -> None:
        check_options(self)

    def features(self, rows: pa.Schema, context: Context) -> Features:
        """Return the features of every record.

        Raises:
            ConfigError: a column of the user has an unsupported type or the name of a feature.
        """
        integer, text = Feature(dtype="int64"), Feature(dtype="string", kind="text")
        raw = self.frame_options.is_raw
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
            unlabelled = self.unlabelled
            declared["clip/label/index"] = label_feature(rows, unlabelled=unlabelled)
            declared["clip/label/string"] = text_feature(rows, unlabelled=unlabelled)
        return with_users(declared, user_fields(rows), where="listing")

    @property
    def _shape(self) -> tuple[int | None, int | None, int]:
        """Shape of a frame: height and width (None if they vary) and channels."""
        options = self.frame_options
        fixed = options.size is not None and options.resize_mode != "fit"
        height, width = options.size if fixed and options.size else (None, None)
        return height, width, options.channels

    def _encoded(self, context: Context) -> Feature:
        if not self.frame_options.is_raw:
            return Feature(
                dtype="string",
                shape=(self.frames,),
                kind="image",
                raw_dtype="uint8",
                raw_shape=self._shape,
                sequence=True,
            )
        shape = (context.name("clip/shape"),) if None in self._shape else ()
        return Feature(
            dtype="string",
            kind="raw",
            raw_dtype="uint8",
            raw_shape=(self.frames, *self._shape),
            shape_features=shape,
        )

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the libraries that affect pixels or bytes."""
        found = video_decoder.versions()
        if self.frame_options.image_format == "jpeg":
            found["simplejpeg"] = simplejpeg.__version__
        elif self.frame_options.image_format == "png":
            found["pillow"] = PIL.__version__
            for name, feature in _CODERS.items():
                version = pillow_features.version(feature)
                if version is not None:
                    found[name] = version
        return found

    def _encoded_frames(self, rows: pa.RecordBatch) -> pa.Array:
        """Return a list of frames per clip, or the bytes of all its frames if raw."""
        clips = read_frames(rows)
        if self.frame_options.is_raw:
            return binary_array([b"".join(frames) for frames in clips])
        flat = binary_array([frame for frames in clips for frame in frames])
        return pa.FixedSizeListArray.from_arrays(flat, self.frames)

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        """Encode all rows."""
        count = len(rows)
        raw = self.frame_options.is_raw
        times = rows[TIMES]
        columns: dict[str, pa.Array] = {
            "image/encoded": self._encoded_frames(rows),
            "image/timestamp": times,
            "image/format": string_array([self.frame_options.image_format] * count),
            "image/height": rows[HEIGHT],
            "image/width": rows[WIDTH],
            "image/frame_rate": rows[RATE],
            "clip/data_path": rows[NAME],
            "clip/frames": rows[OWN],
            "clip/start/timestamp": times.flatten().take(pa.array(np.arange(count) * self.frames)),
            "clip/end/timestamp": rows[END],
        }
        if raw and None in self._shape:
            shapes = np.empty((count, 4), np.int64)
            shapes[:, 0], shapes[:, 3] = self.frames, self.frame_options.channels
            shapes[:, 1], shapes[:, 2] = np.asarray(rows[HEIGHT]), np.asarray(rows[WIDTH])
            columns["clip/shape"] = fixed_lists(shapes)
        if context.labels:
            numbers, names = label_columns(rows, context)
            columns |= {"clip/label/index": numbers, "clip/label/string": names}
        columns |= {field.name: rows[field.name] for field in user_fields(rows.schema)}
        steps = {} if raw else dict.fromkeys(("image/encoded", "image/timestamp"), self.frames)
        return Encoded(
            columns=pa.RecordBatch.from_pydict(columns),
            rows=RowOutcome(kept=np.arange(count)),
            steps=steps,
        )
