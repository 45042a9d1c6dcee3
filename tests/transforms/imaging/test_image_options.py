"""Options of pictures that cannot work, and the message each gets."""

import re

import pytest

from recordmill.errors import ConfigError
from recordmill.transforms.imaging.pixels import ImageOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": (0, 224)}, "size: expected height and width from 1 to 65500"),
        ({"size": (9, 99999999)}, "from 1 to 65500, such as 224 or 480x640, got 9x99999999"),
        ({"size": (224,)}, "size: expected (height, width) in pixels"),
        (
            {"size": 64},
            "size: expected (height, width) in pixels, such as (224, 224), or None, got 64",
        ),
        ({"size": "64"}, "size: expected (height, width) in pixels, such as (224, 224), or None"),
        ({"size": (64, 2.5)}, "size: expected (height, width) in pixels, such as (224, 224)"),
        ({"size": (60_000, 60_000)}, "size: 60000x60000 is more than max_pixels=178956970"),
        ({"size": (9, 9), "resize_mode": "none"}, "resize_mode='none': contradicts size"),
        ({"resize_mode": "pad"}, "resize_mode='pad': requires size"),
        ({"resize_mode": "cover"}, "resize_mode: expected one of crop, pad, stretch, fit, none"),
        ({"mode": "cmyk"}, "mode: expected one of rgb, gray, rgba, got 'cmyk'"),
        ({"mode": "rgba"}, "mode='rgba': JPEG has no alpha channel; use image_format='png'"),
        ({"image_format": "webp"}, "image_format: expected one of jpeg, png, raw, got 'webp'"),
        ({"quality": 0}, "quality: expected 1 to 95, got 0"),
        ({"normalize": "unit"}, "normalize='unit': only image_format='raw' can hold floats, got"),
        ({"normalize": "zscore"}, "normalize: expected one of none, unit, signed, imagenet"),
        ({"background": (0, 0, 256)}, "background: expected red, green and blue from 0 to 255"),
        ({"max_pixels": 0}, "max_pixels: expected 1 to"),
        ({"min_size": -1}, "min_size: expected 0 to"),
    ],
)
def test_options_that_cannot_work(options, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        ImageOptions(**options)
