"""Encoding of frames as JPEG without conversion to RGB: edges, padding, crops."""

import gc
import io

import av
import numpy as np
import pytest
from PIL import Image

from recordmill.errors import RecordError
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.sources.video.frame_encoder import FrameEncoder
from tests.paths import VIDEO
from tests.video_files import difference, picture, resized

NEAR = 3  # levels that JPEG of quality 90 moves flat colours at most


def coded(pixels: np.ndarray, **options: object) -> Image.Image:
    frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
    made = FrameEncoder(ImageOptions(**options)).encode(frame)
    image = Image.open(io.BytesIO(made.data))
    assert image.size == (made.width, made.height)
    return image


def test_frames_are_released_without_garbage_collection() -> None:
    """Each takes as much memory as it has pixels."""
    with av.open(str(VIDEO / "wide.mp4")) as video:
        pictures = FrameEncoder(ImageOptions(size=(24, 24)))
        gc.collect()
        gc.disable()
        try:
            for number, frame in enumerate(video.decode(video=0)):
                pictures.encode(frame)
                if number == 40:
                    break
            held = sum(isinstance(one, av.VideoFrame) for one in gc.get_objects())
        finally:
            gc.enable()
    assert held <= 4


def flat(height: int, width: int, colour: tuple[int, int, int]) -> np.ndarray:
    return np.full((height, width, 3), colour, np.uint8)


@pytest.mark.parametrize("mode", ["rgb", "gray"])
@pytest.mark.parametrize(
    ("height", "width"),
    [
        *((1, 1), (3, 1), (48, 2), (2, 48), (3, 5), (17, 16), (16, 17)),
        *((31, 33), (49, 64), (112, 112)),
    ],
)
def test_flat_colours_are_flat_to_the_last_row_and_column(height, width, mode) -> None:
    image = coded(flat(height, width, (200, 40, 90)), mode=mode)
    pixels = np.asarray(image, np.int16)
    wanted = (200, 40, 90) if mode == "rgb" else (200 * 299 + 40 * 587 + 90 * 114) // 1000
    assert np.abs(pixels - wanted).max() <= NEAR
    assert image.mode == ("RGB" if mode == "rgb" else "L")


@pytest.mark.parametrize("size", [(24, 24), (25, 27), (48, 15)])
@pytest.mark.parametrize("sides", [(20, 36), (36, 20), (21, 36), (36, 19)])
def test_padding_centres_the_frame_on_the_background(size, sides) -> None:
    image = coded(
        flat(*sides, (220, 30, 30)), size=size, resize_mode="pad", background=(20, 60, 200)
    )
    assert image.size == size[::-1]
    red = np.asarray(image, np.int16)[..., 0] > 120
    low, high = (red.any(axis=axis).nonzero()[0] for axis in (1, 0))
    for found, side in zip((low, high), size, strict=True):
        before, after = found[0], side - 1 - found[-1]
        assert abs(before - after) <= 2  # it begins at an even pixel
    far = np.abs(np.asarray(image, np.int16)[~red] - (20, 60, 200)).mean()
    assert far < 10 or red.all()


def test_a_jpeg_has_the_colours_of_the_frame() -> None:
    pixels = picture(3, height=90, width=120)
    image = coded(pixels, size=(60, 80), resize_mode="stretch")
    assert difference(np.asarray(image), resized(pixels, (60, 80))) < 2
    assert image.layer[0][1:3] == (2, 2)  # luma, at twice the size of chroma


def test_the_quality_is_that_of_pillow() -> None:
    pixels = picture(3, height=64, width=64)
    ours = coded(pixels, quality=77)
    theirs = io.BytesIO()
    Image.fromarray(pixels).save(theirs, "JPEG", quality=77)
    assert ours.quantization == Image.open(theirs).quantization


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "form",
    [
        *("yuv420p", "yuv422p", "yuv444p", "yuv410p", "yuv411p", "nv12", "yuyv422", "rgb24"),
        *("yuv420p10le", "yuv422p10le", "yuv444p10le", "yuv420p12le", "p010le", "gray10le"),
    ],
)
def test_a_crop_keeps_the_colours_of_the_frame(form, offset) -> None:
    pixels = picture(3, height=48, width=64 + 2 * offset)
    frame = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format=form)
    scan_counts = frame.to_ndarray(format="rgb24")
    step = 64 // frame.format.chroma_width(64)
    for kind in ("jpeg", "png"):
        options = ImageOptions(size=(48, 64), image_format=kind)
        made = FrameEncoder(options).encode(frame)
        found = np.asarray(Image.open(io.BytesIO(made.data)))
        begin = offset // step * step  # where a value of chroma begins
        assert difference(found, scan_counts[:, begin : begin + 64]) < 4


def test_colour_spaces_that_ffmpeg_cannot_convert_are_rejected() -> None:
    frame = av.VideoFrame.from_ndarray(picture(0, height=48, width=64), format="rgb24")
    frame = frame.reformat(format="yuv420p")
    frame.colorspace = 14  # ICtCp
    with pytest.raises(RecordError, match="cannot scale pixel format yuv420p in color"):
        FrameEncoder(ImageOptions(size=(24, 24))).encode(frame)
