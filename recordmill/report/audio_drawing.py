"""Draws waveforms and spectrograms: time goes from left to right."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from recordmill.format.manifest import Manifest
from recordmill.report.thumbnail_drawing import coloured

WAVEFORM, SPECTROGRAM = "audio/waveform", "audio/melspectrogram"
BACKGROUND, LINE = (246, 248, 250), (25, 113, 194)
_RANGE = 80  # decibels below the loudest value that have colours of their own

Size = tuple[int, int]
Drawing = Callable[[Size], Image.Image]  # of an image of a size


def audio_features(manifest: Manifest) -> dict[str, str]:
    """Return {name in the dataset: WAVEFORM or SPECTROGRAM} of the arrays of audio."""
    renamed = manifest.options.get("rename") or {}
    names = {renamed.get(one, one): one for one in (WAVEFORM, SPECTROGRAM)}
    features = manifest.features
    return {
        new: one for new, one in names.items() if new in features and features[new].kind == "raw"
    }


def drawing_of(array: npt.NDArray[Any], feature: str) -> Drawing:
    """Return the drawing of an array. feature: WAVEFORM or SPECTROGRAM."""
    return functools.partial(draw_waveform if feature == WAVEFORM else draw_spectrogram, array)


def draw_waveform(samples: npt.NDArray[Any], size: Size) -> Image.Image:
    """Draw a waveform, [n] or [n, channels] with n > 0, as the range of values in each column.

    Channels are one below the other. The largest value reaches the edge.
    """
    width, height = size
    values = np.nan_to_num(samples.reshape(len(samples), -1).astype(np.float64))
    values /= np.abs(values).max() or 1
    starts = np.arange(width) * len(values) // width
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    # A column reaches to the one before it, so that the line has no gaps.
    lows, highs = low.copy(), high.copy()
    lows[1:], highs[1:] = np.minimum(low[1:], high[:-1]), np.maximum(high[1:], low[:-1])
    picture = np.full((height, width, 3), BACKGROUND, np.uint8)
    edges = np.arange(values.shape[1] + 1) * height // values.shape[1]
    for channel, (top, bottom) in enumerate(itertools.pairwise(edges.tolist())):
        middle = (bottom - top - 1) / 2
        rows = np.arange(bottom - top)[:, None]
        is_line = (rows >= np.floor(middle - highs[:, channel] * middle)) & (
            rows <= np.ceil(middle - lows[:, channel] * middle)
        )
        picture[top:bottom][is_line] = LINE
    return Image.fromarray(picture)


def draw_spectrogram(decibels: npt.NDArray[Any], size: Size) -> Image.Image:
    """Draw a spectrogram, [frames, bins]."""
    picture, _ = coloured(upright(decibels))
    return Image.fromarray(picture).resize(size, Image.Resampling.BILINEAR)


def upright(decibels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a spectrogram with its lowest bin at the bottom, without the values of silence."""
    shown: npt.NDArray[Any] = np.maximum(decibels, decibels.max() - _RANGE)
    return shown.T[::-1]
