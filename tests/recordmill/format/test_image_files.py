"""Images of a dataset that take minutes to open or decode are refused."""

import io

import pytest
from PIL import Image

from recordmill.format.image_files import UNREADABLE_IMAGE, open_image


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def test_a_gif_with_megabytes_of_comments() -> None:
    data = saved(Image.new("P", (3, 3)), "GIF")
    image = data.index(b",", 13)
    comments = b"!\xfe" + (b"\xff" + b"c" * 255) * 6000 + b"\0"
    assert open_image(data).size == (3, 3)
    with pytest.raises(UNREADABLE_IMAGE, match="the comments of the GIF have megabytes"):
        open_image(data[:image] + comments + data[image:])


def test_a_jpeg_of_thousands_of_scans() -> None:
    data = saved(Image.new("RGB", (2000, 2000)), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    bomb = data[:last] + data[last:-2] * 1000 + data[-2:]
    assert open_image(data).size == (2000, 2000)
    with pytest.raises(UNREADABLE_IMAGE, match="scans of 4000000 pixels"):
        open_image(bomb)
