"""Encoding of video frames as images: rotated upright, resized, encoded.

FFmpeg scales in its exact mode, so that bytes do not depend on the processor. The frame is cropped
before it is scaled. JPEG and most videos store luma, and chroma at half the size, so the planes go
to libjpeg-turbo without conversion to RGB.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import simplejpeg
from PIL import Image

from recordmill.errors import Reason, RecordError
from recordmill.transforms.imaging.colour import PILLOW_MODES, background_image
from recordmill.transforms.imaging.geometry import ResizePlan, Size, plan_resize
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.pixels import UPRIGHT, check_sides, encode
from recordmill.transforms.sources.video.video_decoder import pyav

# uint8: an RGB image [height, width, 3], luma [height, width], or chroma at half the size.
Plane = npt.NDArray[np.uint8]

# The triangle filter with antialiasing, as for images.
_FLAGS = "bilinear+accurate_rnd+bitexact"
_SIDEWAYS = 5  # the first orientation that swaps height and width
_SCALERS = 8  # cached scalers, one per frame format
_SOME = 64  # pixels, to compute the chroma subsampling
_SUBSAMPLING = (1, 2, 2)  # of luma and chroma in a JPEG

# EXIF orientations by the signs of (a, b, c, d) of a display matrix, which maps the point (p, q) to
# (ap + cq, bp + dq). Source: https://ffmpeg.org/doxygen/trunk/group__lavu__video__display.html
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
_RIGHT = 1 << 14  # of 1 << 16: smaller entries of a matrix count as 0


class EncodedFrame(NamedTuple):
    """Bytes of an encoded frame, and its height and width in pixels."""

    data: bytes
    height: int
    width: int


class _FrameFormat(NamedTuple):
    """Properties that frames of one filter graph share."""

    width: int
    height: int
    format: str
    colorspace: int
    color_range: int
    turn: int


class FrameEncoder:
    """Encodes frames of one video. aspect: width of its pixels divided by their height."""

    def __init__(self, options: ImageOptions, *, aspect: Fraction = Fraction(1)) -> None:
        self._options = options
        self._aspect = aspect if options.size is not None and aspect > 0 else Fraction(1)
        self._scalers: dict[_FrameFormat, _Scaler] = {}
        self._rotation: int | None = None
        self._turn = 1

    def encode(self, frame: Any) -> EncodedFrame:
        """Encode a frame. Raises RecordError if its format is not supported."""
        kind = _FrameFormat(
            frame.width,
            frame.height,
            frame.format.name,
            frame.colorspace,
            frame.color_range,
            self._orientation_of(frame),
        )
        try:
            scaler = self._scalers.get(kind)
            if scaler is None:
                if len(self._scalers) >= _SCALERS:
                    self._scalers.clear()
                scaler = self._scalers[kind] = self._scaler(frame, kind)
            planes = scaler.scale(frame)
        except pyav().FFmpegError as error:
            raise RecordError(
                Reason.UNSUPPORTED,
                f"FFmpeg cannot scale pixel format {kind.format} in color space {kind.colorspace}",
            ) from error
        if kind.turn != 1:
            planes = [_transposed(plane, kind.turn) for plane in planes]
        if scaler.upright.canvas != scaler.upright.inner:
            planes = self._pad(planes, scaler.upright)
        height, width, *_ = planes[0].shape
        return EncodedFrame(self._encoded(planes), height, width)

    def _orientation_of(self, frame: Any) -> int:
        """Return the orientation of a frame.

        The display matrix is read only if it may have changed, because PyAV's side data and the
        frame form a reference cycle, which delays the release of the frame's memory.
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
        if height % 2 or width % 2:  # it reads even sides, and so pixels beyond the image
            luma = np.pad(luma, ((0, height % 2), (0, width % 2)), "edge")[:height, :width]
        data: bytes = simplejpeg.encode_jpeg_yuv_planes(
            luma, *(chroma or (None, None)), quality=self._options.quality
        )
        return data

    def _pad(self, planes: Sequence[Plane], upright: ResizePlan) -> list[Plane]:
        """Pad planes to the canvas. In a JPEG the image begins at an even pixel, as chroma does."""
        colour = background_image((1, 1), mode="rgb", background=self._options.background)
        (width, height), (left, top) = upright.canvas, upright.corner
        if self._options.image_format != "jpeg":
            return [_place_on_canvas(planes[0], (height, width), (top, left), np.array(colour))]
        filling = np.array(colour.convert("YCbCr"))[0, 0]
        return [
            _place_on_canvas(
                plane,
                (-(-height // part), -(-width // part)),
                (top // 2 * 2 // part, left // 2 * 2 // part),
                value,
            )
            for plane, part, value in zip(planes, _SUBSAMPLING, filling, strict=False)
        ]

    def _scaler(self, frame: Any, kind: _FrameFormat) -> _Scaler:
        """Return a scaler for the displayed frame: upright, with the pixel aspect ratio applied."""
        if kind.width * kind.height > self._options.max_pixels:
            raise too_many_pixels(kind.height, kind.width, self._options)
        shown = (max(round(kind.width * self._aspect), 1), kind.height)
        sideways = kind.turn >= _SIDEWAYS
        upright = plan_resize(shown[::-1] if sideways else shown, self._options)
        plan = upright.transposed() if sideways else upright
        form = frame.format
        chroma = (_SOME // form.chroma_width(_SOME), _SOME // form.chroma_height(_SOME))
        window = _crop((kind.width, kind.height), shown, plan, chroma=chroma)
        jpeg = self._options.image_format == "jpeg"
        if jpeg:
            check_sides(upright.canvas)
        planes = 0 if not jpeg else 1 if self._options.mode == "gray" else 3
        return _Scaler(frame, window=window, size=plan.inner, upright=upright, yuv=planes)


class _Scaler:
    """Crops and scales frames of one format.

    window: crop in stored pixels. size: (width, height) to scale to. upright: the resize plan of
    the upright frame. yuv: number of JPEG planes to return; 0 for RGB.
    """

    def __init__(
        self, frame: Any, *, window: str | None, size: Size, upright: ResizePlan, yuv: int
    ) -> None:
        self.upright = upright
        self._yuv = yuv
        scale = f"{size[0]}:{size[1]}:flags={_FLAGS}"
        steps = [] if window is None else [("crop", window)]
        if yuv:
            scale += ":out_color_matrix=bt601:out_range=full"
        steps += [("scale", scale), ("format", "yuv420p" if yuv else "rgb24")]
        graph = pyav().filter.Graph()
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
        """Return the planes of a scaled frame, as views of its memory."""
        self._graph.push(frame)
        planes = self._graph.pull().planes
        if self._yuv:
            return [_view(plane, plane.width) for plane in planes[: self._yuv]]
        return [_view(planes[0], planes[0].width * 3).reshape(planes[0].height, -1, 3)]


def _view(plane: Any, width: int) -> Plane:
    """Return a plane as an array with `width` bytes per row."""
    return np.ndarray((plane.height, width), np.uint8, plane, strides=(plane.line_size, 1))


def _transposed(plane: Plane, orientation: int) -> Plane:
    return np.array(Image.fromarray(plane).transpose(UPRIGHT[orientation]))


def _place_on_canvas(
    plane: Plane, sides: tuple[int, int], corner: tuple[int, int], filling: npt.ArrayLike
) -> Plane:
    """Place a plane on a canvas of one colour. sides: (height, width); corner: (top, left)."""
    canvas = np.full((*sides, *plane.shape[2:]), filling, np.uint8)
    top, left = corner
    canvas[top : top + plane.shape[0], left : left + plane.shape[1]] = plane
    return canvas


def too_many_pixels(height: int, width: int, options: ImageOptions) -> RecordError:
    """Return the error for a video that exceeds `max_pixels`."""
    return RecordError(
        Reason.TOO_MANY_PIXELS,
        f"{width}x{height} pixels, more than --max-pixels {options.max_pixels}",
    )


def _crop(stored: Size, shown: Size, plan: ResizePlan, *, chroma: Size) -> str | None:
    """Return the arguments of the crop filter, in stored pixels; None if nothing is cropped.

    chroma: chroma subsampling, (across, down). The crop begins at a multiple of it, because FFmpeg
    would otherwise split a chroma value of two bytes, which gives false colours.
    """
    sides = [
        min(max(round(part * has / displayed), 1), has)
        for part, has, displayed in zip(plan.window, stored, shown, strict=True)
    ]
    if tuple(sides) == stored:
        return None
    left, top = (
        (has - side) // 2 // part * part
        for has, side, part in zip(stored, sides, chroma, strict=True)
    )
    return f"{sides[0]}:{sides[1]}:{left}:{top}:exact=1"


def _orientation(frame: Any) -> int:
    """Return the orientation of the display matrix of a frame; only right angles are supported."""
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return 1
    a, b, _, c, d, *_ = struct.unpack("=9i", bytes(matrix))
    signs = tuple((value > _RIGHT) - (value < -_RIGHT) for value in (a, b, c, d))
    return _TURNS.get(signs, 1)
