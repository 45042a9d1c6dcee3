"""Frames of films as pictures: upright, resized, coded.

Scaling is FFmpeg's, in its exact mode, so that the bytes do not hang on what the processor can do.
What is cut off is never scaled. What becomes JPEG, which stores luma and chroma as films do, is not
made RGB before: that takes a tenth off the time of a film of 640x272.
"""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any, NamedTuple

from PIL import Image

from recordmill.errors import Reason, RecordError
from transforms.encoders.colour import blank
from transforms.encoders.geometry import Plan, Size, plan_resize
from transforms.encoders.image_options import ImageOptions
from transforms.encoders.pixels import UPRIGHT, encode
from transforms.sources.films import library

# As pictures are resized: the triangle filter, over all the pixels that one stands for.
_FLAGS = "bilinear+accurate_rnd+bitexact"
_SIDEWAYS = 5  # the first orientation that swaps height and width
_GRAPHS = 8  # kept, for frames of so many kinds

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


class Coded(NamedTuple):
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
        self._graphs: dict[_Kind, _Scaler] = {}

    def code(self, frame: Any) -> Coded:
        """Raises RecordError for a frame that cannot be a picture."""
        kind = _Kind(
            frame.width,
            frame.height,
            frame.format.name,
            int(frame.colorspace),
            int(frame.color_range),
            _turn_of(frame),
        )
        scaler = self._graphs.get(kind)
        if scaler is None:
            if len(self._graphs) >= _GRAPHS:
                self._graphs.clear()
            scaler = self._graphs[kind] = self._scaler(frame, kind)
        image = scaler.scale(frame)
        if kind.turn != 1:
            image = image.transpose(UPRIGHT[kind.turn])
        if self._options.mode == "gray":
            image = image.convert("L")  # of YCbCr this is its luma
        if scaler.standing.canvas != scaler.standing.inner:
            canvas = blank(
                scaler.standing.canvas,
                mode=self._options.mode,
                background=self._options.background,
            ).convert(image.mode)
            canvas.paste(image, scaler.standing.corner)
            image = canvas
        return Coded(encode(image, self._options), image.height, image.width)

    def _scaler(self, frame: Any, kind: _Kind) -> _Scaler:
        """For the film as it is shown: upright, its pixels as wide as they are."""
        if kind.width * kind.height > self._options.max_pixels:
            raise too_many_pixels(kind.height, kind.width, self._options)
        shown = (max(round(kind.width * self._aspect), 1), kind.height)
        sideways = kind.turn >= _SIDEWAYS
        standing = plan_resize(shown[::-1] if sideways else shown, self._options)
        plan = standing.turned() if sideways else standing
        window = _window((kind.width, kind.height), shown, plan)
        luma = self._options.image_format == "jpeg"
        try:
            return _Scaler(frame, window=window, size=plan.inner, standing=standing, luma=luma)
        except library().FFmpegError as error:
            raise RecordError(
                Reason.UNSUPPORTED, f"FFmpeg cannot scale pixels of {kind.format}"
            ) from error


class _Scaler:
    """Cuts the same window out of frames of a kind, and scales it. standing: how these get to the
    size that is asked for, upright. luma: give YCbCr as JPEG has it, not RGB.
    """

    def __init__(
        self, frame: Any, *, window: str | None, size: Size, standing: Plan, luma: bool
    ) -> None:
        self.standing = standing
        self._size = size
        self._luma = luma
        scale = f"{size[0]}:{size[1]}:flags={_FLAGS}"
        steps = [] if window is None else [("crop", window)]
        if luma:
            scale += ":out_color_matrix=bt601:out_range=full"
        steps += [("scale", scale), ("format", "yuv444p" if luma else "rgb24")]
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

    def scale(self, frame: Any) -> Image.Image:
        """As RGB, or as YCbCr."""
        self._graph.push(frame)
        planes = self._graph.pull().planes
        if self._luma:
            return Image.merge("YCbCr", [self._image(plane, "L") for plane in planes])
        return self._image(planes[0], "RGB")

    def _image(self, plane: Any, mode: str) -> Image.Image:
        return Image.frombytes(mode, self._size, bytes(plane), "raw", mode, plane.line_size, 1)


def too_many_pixels(height: int, width: int, options: ImageOptions) -> RecordError:
    """The reject of a film that is too large for `max_pixels`."""
    return RecordError(
        Reason.TOO_MANY_PIXELS,
        f"{width}x{height} pixels, more than --max-pixels {options.max_pixels}",
    )


def _window(stored: Size, shown: Size, plan: Plan) -> str | None:
    """What the crop filter is told to leave, in whole pixels as they are stored."""
    sides = [
        min(max(round(part * has / seen), 1), has)
        for part, has, seen in zip(plan.window, stored, shown, strict=True)
    ]
    if tuple(sides) == stored:
        return None
    left, top = ((has - side) // 2 for has, side in zip(stored, sides, strict=True))
    return f"{sides[0]}:{sides[1]}:{left}:{top}:exact=1"


def _turn_of(frame: Any) -> int:
    """The orientation that the film says its frames are to be shown in; right angles only."""
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return 1
    a, b, _, c, d, *_ = struct.unpack("=9i", bytes(matrix))
    signs = tuple((value > _RIGHT) - (value < -_RIGHT) for value in (a, b, c, d))
    return _TURNS.get(signs, 1)
