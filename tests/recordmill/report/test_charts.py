import base64
import io

import numpy as np
import pytest
from PIL import Image

from recordmill.report.charts import histogram, histogram_of
from recordmill.report.distributions import _plot
from recordmill.report.thumbnail_drawing import of_array, of_encoded

IDS = 1_850_000_000_000_000_000 + 30.0 * np.arange(60)  # neighbouring floats are 256 apart
WIDE = np.array([-1.5e308, 0, 1, 1.5e308])  # their range is infinite
CLOSE = np.array([0.1, 0.1, np.nextafter(0.1, 1)])
TINY = np.array([5e-324, 0, 0])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", [IDS, WIDE, CLOSE, TINY], ids=["ids", "wide", "close", "tiny"])
def test_extreme_numbers_are_drawn(values: np.ndarray) -> None:
    binned = histogram_of({"train": values, "test": values[:0], "odd": np.array([np.nan])})
    counts = {name: int(some.sum()) for name, some in binned.counts.items()}
    assert counts == {"train": len(values), "test": 0, "odd": 0}
    figure = _plot("values", "values of x", {"train": values}, by="split")
    assert figure.chart
    assert "nan" not in figure.facts
    assert "inf" not in figure.facts
    assert of_array(values[None]) is not None


def test_bins_are_those_of_numpy() -> None:
    values = np.random.default_rng(0).normal(size=1000)
    binned = histogram_of({"train": values})
    expected = np.histogram(values, bins=24)[0]
    np.testing.assert_array_equal(binned.counts["train"], expected)


@pytest.mark.filterwarnings("error")
def test_colours_are_those_of_finite_numbers() -> None:
    arrays = np.full((2, 3, 3), np.nan), np.full((3, 3), -0.0), np.eye(3) * 7, WIDE[None]
    drawn = [of_array(array) for array in arrays]
    colours = [repr(one.colours) for one in drawn if one is not None]
    assert colours[:3] == ["None", "(0.0, 0.0)", "(0.0, 7.0)"]
    assert "inf" not in colours[3]


def test_names_of_series_are_escaped() -> None:
    drawn = histogram(histogram_of({"<b>\u202e\x1b": np.arange(9.0)}), title="t")
    assert "<title>&lt;b&gt;\\u202e\\x1b</title>" in drawn


@pytest.mark.parametrize("level", [1028, 16448, 65535])
def test_the_brightness_of_16_bits_is_that_of_the_full_range(level: int) -> None:
    """Such an image is drawn by its own range, in which a dark scan looks bright."""
    levels = np.full((8, 8), level, np.uint16)
    levels[0, 0] = 0
    content = io.BytesIO()
    Image.fromarray(levels).save(content, "PNG")
    drawn = of_encoded(content.getvalue())
    assert drawn is not None
    assert drawn.brightness == pytest.approx(level / 257 * 63 / 64)
    assert drawn.levels.mean() > 240


def test_gray_pixels_are_drawn_in_gray() -> None:
    """Numbers of arrays have colours, and a scale of them."""
    levels = np.linspace(0, 65535, 256).reshape(16, 16, 1).astype(np.uint16)
    for is_image in (False, True):
        drawn = of_array(levels, is_image=is_image)
        assert drawn is not None
        with Image.open(io.BytesIO(base64.b64decode(drawn.uri.partition(",")[2]))) as image:
            red, _, blue = np.asarray(image.convert("RGB"), int).transpose(2, 0, 1)
        assert (np.abs(red - blue).max() < 2) == is_image
        assert (drawn.colours is None) == is_image
