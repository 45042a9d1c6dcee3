"""Frames of films as pictures: upright, resized, coded.

Scaling is FFmpeg's, in its exact mode, so that the bytes do not hang on what the processor can do.
What is cut off is never scaled. A JPEG stores luma, and chroma at half the size, as films do: its
planes go to libjpeg-turbo as they come, and are never made RGB.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from recordmill.errors import Reason, RecordError
from recordmill.transforms.imaging.colour import PILLOW_MODES, blank
from recordmill.transforms.imaging.geometry import ResizePlan, Size, plan_resize
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.pixels import UPRIGHT, check_sides, encode
from recordmill.transforms.sources.video.video_decoder import jpegs, library

# uint8: a picture as [height, width, 3], or its luma [height, width] and chroma at half the size.
Plane = npt.NDArray[np.uint8]

# As pictures are resized: the triangle filter, over all the pixels that one stands for.
_FLAGS = "bilinear+accurate_rnd+bitexact"
_SIDEWAYS = 5  # the first orientation that swaps height and width
_SCALERS = 8  # kept, for frames of so many kinds
_SOME = 64  # pixels, to ask how many values of chroma there are for them
_PARTS = (1, 2, 2)  # of its sides, that luma and chroma have in a JPEG

# Orientations by EXIF's numbers, by the signs of (a, b, c, d) of a display matrix, which leads the
# point (p, q) to (ap + cq, bp + dq). Source: https://ffmpeg.org/doxygen/trunk/group__lavu__video__display.html
_TURNS = {
    (1, 0, 0, 1): 1,
    (-1, 0, 0, 1): 2,
    (-1, 0, 0, -1): 3,
    (1, 0, 0, -1): 4,
    (0, 1, 1, 0): 5,
    (0, 1, -1, 0): 6,
    (0, -1, -1, 0): 7,
    (0, -1, 1, 0): 8,
}
_RIGHT = 1 << 14  # of 1 << 16: below it, an entry of a matrix counts as 0


class EncodedFrame(NamedTuple):
    """A picture's bytes, and its sides in pixels."""

    data: bytes
    height: int
    width: int


class _Kind(NamedTuple):
    """What frames have to have in common to go through one graph."""

    width: int
    height: int
    format: str
    colorspace: int
    color_range: int
    turn: int


class FramePictures:
    """Codes frames of one film. aspect: how wide its pixels are, compared with their height."""

    def __init__(self, options: ImageOptions, *, aspect: Fraction = Fraction(1)) -> None:
        self._options = options
        self._aspect = aspect if options.size is not None and aspect > 0 else Fraction(1)
        self._scalers: dict[_Kind, _Scaler] = {}
        self._rotation: int | None = None
        self._turn = 1

    def code(self, frame: Any) -> EncodedFrame:
        """Raises RecordError for a frame that cannot be a picture."""
        kind = _Kind(
            frame.width,
            frame.height,
            frame.format.name,
            frame.colorspace,
            frame.color_range,
            self._turn_of(frame),
        )
        try:
            scaler = self._scalers.get(kind)
            if scaler is None:
                if len(self._scalers) >= _SCALERS:
                    self._scalers.clear()
                scaler = self._scalers[kind] = self._scaler(frame, kind)
            planes = scaler.scale(frame)
        except library().FFmpegError as error:
            raise RecordError(
                Reason.UNSUPPORTED,
                f"FFmpeg cannot scale pixels of {kind.format} in its colours (color space"
                f" {kind.colorspace})",
            ) from error
        if kind.turn != 1:
            planes = [_turned(plane, kind.turn) for plane in planes]
        if scaler.standing.canvas != scaler.standing.inner:
            planes = self._padded(planes, scaler.standing)
        height, width, *_ = planes[0].shape
        return EncodedFrame(self._encoded(planes), height, width)

    def _turn_of(self, frame: Any) -> int:
        """Its orientation. The matrix that says so is looked at where it may be another one: PyAV's
        view of it and the frame are a cycle, which keeps the memory of the frame from the next.
        """
        rotation: int = frame.rotation
        if frame.key_frame or rotation != self._rotation:
            self._rotation, self._turn = rotation, _orientation(frame)
        return self._turn

    def _encoded(self, planes: Sequence[Plane]) -> bytes:
        if self._options.image_format != "jpeg":
            image = Image.fromarray(planes[0])
            return encode(image.convert(PILLOW_MODES[self._options.mode]), self._options)
        luma, *chroma = planes
        height, width = luma.shape
        if height % 2 or width % 2:  # it reads even sides, and what lies beyond the picture with it
            luma = np.pad(luma, ((0, height % 2), (0, width % 2)), "edge")[:height, :width]
        data: bytes = jpegs().encode_jpeg_yuv_planes(
            luma, *(chroma or (None, None)), quality=self._options.quality
        )
        return data

    def _padded(self, planes: Sequence[Plane], standing: ResizePlan) -> list[Plane]:
        """Where chroma is of half the size, the picture begins at an even pixel."""
        colour = blank((1, 1), mode="rgb", background=self._options.background)
        (width, height), (left, top) = standing.canvas, standing.corner
        if self._options.image_format != "jpeg":
            return [_placed(planes[0], (height, width), (top, left), np.array(colour))]
        filling = np.array(colour.convert("YCbCr"))[0, 0]
        return [
            _placed(
                plane,
                (-(-height // part), -(-width // part)),
                (top // 2 * 2 // part, left // 2 * 2 // part),
                value,
            )
            for plane, part, value in zip(planes, _PARTS, filling, strict=False)
        ]

    def _scaler(self, frame: Any, kind: _Kind) -> _Scaler:
        """For the film as it is shown: upright, its pixels as wide as they are."""
        if kind.width * kind.height > self._options.max_pixels:
            raise too_many_pixels(kind.height, kind.width, self._options)
        shown = (max(round(kind.width * self._aspect), 1), kind.height)
        sideways = kind.turn >= _SIDEWAYS
        standing = plan_resize(shown[::-1] if sideways else shown, self._options)
        plan = standing.turned() if sideways else standing
        form = frame.format
        chroma = (_SOME // form.chroma_width(_SOME), _SOME // form.chroma_height(_SOME))
        window = _window((kind.width, kind.height), shown, plan, chroma=chroma)
        jpeg = self._options.image_format == "jpeg"
        if jpeg:
            check_sides(standing.canvas)
        planes = 0 if not jpeg else 1 if self._options.mode == "gray" else 3
        return _Scaler(frame, window=window, size=plan.inner, standing=standing, yuv=planes)


class _Scaler:
    """Cuts the same window out of frames of a kind, and scales it. standing: how these get to the
    size that is asked for, upright. yuv: how many planes to give of the three that JPEG has; none
    is RGB.
    """

    def __init__(
        self, frame: Any, *, window: str | None, size: Size, standing: ResizePlan, yuv: int
    ) -> None:
        self.standing = standing
        self._yuv = yuv
        scale = f"{size[0]}:{size[1]}:flags={_FLAGS}"
        steps = [] if window is None else [("crop", window)]
        if yuv:
            scale += ":out_color_matrix=bt601:out_range=full"
        steps += [("scale", scale), ("format", "yuv420p" if yuv else "rgb24")]
        graph = library().filter.Graph()
        graph.threads = 1
        last = graph.add_buffer(
            width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1)
        )
        for name, arguments in [*steps, ("buffersink", None)]:
            following = graph.add(name, arguments)
            last.link_to(following)
            last = following
        graph.configure()
        self._graph = graph

    def scale(self, frame: Any) -> list[Plane]:
        """Views of memory that goes with them."""
        self._graph.push(frame)
        planes = self._graph.pull().planes
        if self._yuv:
            return [_view(plane, plane.width) for plane in planes[: self._yuv]]
        return [_view(planes[0], planes[0].width * 3).reshape(planes[0].height, -1, 3)]


def _view(plane: Any, width: int) -> Plane:
    """Rows of so many bytes."""
    return np.ndarray((plane.height, width), np.uint8, plane, strides=(plane.line_size, 1))


def _turned(plane: Plane, orientation: int) -> Plane:
    return np.array(Image.fromarray(plane).transpose(UPRIGHT[orientation]))


def _placed(
    plane: Plane, sides: tuple[int, int], corner: tuple[int, int], filling: npt.ArrayLike
) -> Plane:
    """On a larger plane of one colour. sides: its height and width; corner: top and left."""
    canvas = np.full((*sides, *plane.shape[2:]), filling, np.uint8)
    top, left = corner
    canvas[top : top + plane.shape[0], left : left + plane.shape[1]] = plane
    return canvas


def too_many_pixels(height: int, width: int, options: ImageOptions) -> RecordError:
    """The reject of a film that is too large for `max_pixels`."""
    return RecordError(
        Reason.TOO_MANY_PIXELS,
        f"{width}x{height} pixels, more than --max-pixels {options.max_pixels}",
    )


def _window(stored: Size, shown: Size, plan: ResizePlan, *, chroma: Size) -> str | None:
    """What the crop filter is told to leave, in whole pixels as they are stored.

    chroma: how many pixels a value of it is for, across and down. The window begins where one
    begins: FFmpeg would begin within it, which are false colours where a value takes two bytes.
    """
    sides = [
        min(max(round(part * has / seen), 1), has)
        for part, has, seen in zip(plan.window, stored, shown, strict=True)
    ]
    if tuple(sides) == stored:
        return None
    left, top = (
        (has - side) // 2 // part * part
        for has, side, part in zip(stored, sides, chroma, strict=True)
    )
    return f"{sides[0]}:{sides[1]}:{left}:{top}:exact=1"


def _orientation(frame: Any) -> int:
    """The orientation that the film says its frames are to be shown in; right angles only."""
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return 1
    a, b, _, c, d, *_ = struct.unpack("=9i", bytes(matrix))
    signs = tuple((value > _RIGHT) - (value < -_RIGHT) for value in (a, b, c, d))
    return _TURNS.get(signs, 1)
