"""Charts as SVG, drawn from numbers. Colours are CSS classes, so that a page can be light or dark.

Every chart has a title that says in words what it shows, for screen readers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from recordmill.printable import escaped
from recordmill.storage.redaction import redact_uri

_WIDTH, _HEIGHT = 300, 96  # of a histogram, in SVG units
_AXIS = 14  # height of the line of numbers below a histogram
_WIDE_BINS = 8  # with at most so many bins, numbers are below the middle of their bins
_SPARK_WIDTH, _SPARK_HEIGHT = 120, 32
_SPARK_POINTS = 240  # longer lines are drawn by the extremes of each piece
BINS = 24
COLOURS = 6  # of series
_KEY_END = 7  # characters of a key that are always shown
_LINE = 80  # characters of a shortened text


@dataclasses.dataclass(frozen=True, kw_only=True)
class BinnedCounts:
    """Counts of values in bins of equal width, per series (such as a split).

    low, high: the ends of the first and the last bin.
    is_whole: each bin holds one whole number, which is its middle.
    """

    low: float
    high: float
    counts: Mapping[str, npt.NDArray[np.int64]]
    is_whole: bool = False


def histogram_of(
    values: Mapping[str, npt.NDArray[np.float64]], *, bins: int = BINS
) -> BinnedCounts:
    """Count values in bins that all series share. Values that are not finite are left out."""
    finite = {name: some[np.isfinite(some)] for name, some in values.items()}
    together = np.concatenate([np.empty(0), *finite.values()])
    low, high = (float(together.min()), float(together.max())) if together.size else (0.0, 1.0)
    is_whole = bool(together.size) and high - low < bins and not (together % 1).any()
    if is_whole:
        bins = round(high - low) + 1
    if is_whole or low == high:
        low, high = low - 0.5, high + 0.5
    return BinnedCounts(
        low=low,
        high=high,
        is_whole=is_whole,
        counts={
            name: _counts(some, low=low, high=high, bins=bins) for name, some in finite.items()
        },
    )


def _counts(
    values: npt.NDArray[np.float64], *, low: float, high: float, bins: int
) -> npt.NDArray[np.int64]:
    """Count values in bins of equal width from low to high.

    np.histogram raises ValueError if the width of a bin is less than the distance of neighbouring
    floats, as for large ids, and if it is infinite.
    """
    scale = 1.0 if np.isfinite(high - low) else 0.25
    span = high * scale - low * scale
    places = (values * scale - low * scale) / (span or 1.0) * bins
    return np.bincount(np.minimum(places.astype(np.int64), bins - 1), minlength=bins)


def histogram(data: BinnedCounts, *, title: str) -> Markup:
    """Draw the share of each series per bin, as steps laid over each other."""
    shares = {
        name: counts / max(int(counts.sum()), 1)
        for name, counts in data.counts.items()
        if counts.any()
    }
    top = max((float(share.max()) for share in shares.values()), default=1.0)
    paths = []
    for place, (name, share) in enumerate(shares.items()):
        step = _WIDTH / len(share)
        points = [f"M0 {_HEIGHT}"]
        for number, value in enumerate(share):
            y = _HEIGHT * (1 - float(value) / top)
            points.append(f"L{number * step:.1f} {y:.1f}L{(number + 1) * step:.1f} {y:.1f}")
        paths.append(
            Markup('<path class="series s{}" d="{}L{} {}Z"><title>{}</title></path>').format(
                place % COLOURS, "".join(points), _WIDTH, _HEIGHT, visible(name)
            )
        )
    height = _HEIGHT + _AXIS
    bins = max((len(share) for share in shares.values()), default=1)
    middle = 0.5 * data.is_whole
    is_wide = data.is_whole and bins <= _WIDE_BINS
    inset = _WIDTH / bins * middle if is_wide else 0.0
    axis = Markup(
        '<text x="{left}" y="{y}" text-anchor="{first}">{low}</text>'
        '<text x="{right}" y="{y}" text-anchor="{last}">{high}</text>'
    ).format(
        y=height - 2,
        left=round(inset, 1),
        right=round(_WIDTH - inset, 1),
        first="middle" if is_wide else "start",
        last="middle" if is_wide else "end",
        low=_axis_text(data.low + middle),
        high=_axis_text(data.high - middle),
    )
    return _svg(_WIDTH, height, title, Markup("").join(paths) + axis, css="histogram")


def bar(value: float, top: float, *, part: float = 0.0) -> Markup:
    """Draw a bar of `value` out of `top`; its last `part` (such as copies) in another shade.

    Screen readers pass it over, because the number stands beside it.
    """
    width = 160 * value / top if top else 0.0
    first = 160 * (value - part) / top if top else 0.0
    return Markup(
        '<svg class="bar" aria-hidden="true" viewBox="0 0 160 10" width="160" height="10"'
        ' preserveAspectRatio="none">'
        '<rect class="s0" width="{:.1f}" height="10"/>'
        '<rect class="copy" x="{:.1f}" width="{:.1f}" height="10"/></svg>'
    ).format(first, first, max(width - first, 0.0))


def sparkline(values: npt.NDArray[np.float64], *, title: str) -> Markup:
    """Draw a series as a line; values that are not finite are gaps."""
    if len(values) > _SPARK_POINTS:
        values = _extremes(values)
    finite = np.isfinite(values)
    low, high = (values[finite].min(), values[finite].max()) if finite.any() else (0.0, 1.0)
    span = (high - low) or 1.0
    step = _SPARK_WIDTH / max(len(values) - 1, 1)
    points = []
    pen = "M"
    for number, value in enumerate(values):
        if not math.isfinite(value):
            pen = "M"
            continue
        y = 2 + (_SPARK_HEIGHT - 4) * (1 - (value - low) / span)
        points.append(f"{pen}{number * step:.1f} {y:.1f}{'h0' * (pen == 'M')}")  # h0: a lone dot
        pen = "L"
    line = Markup('<path class="line" d="{}"/>').format("".join(points))
    return _svg(_SPARK_WIDTH, _SPARK_HEIGHT, title, line, css="spark")


def number_text(value: float) -> str:
    """Return a number in at most about nine characters: 1.25, 1,234, 1.2e+09."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}" if abs(value) < 1e7 else f"{value:.4g}"
    return f"{value:.4g}"


def percent_text(fraction: float, decimals: int = 1) -> Markup:
    """Return a fraction in percent, with a non-breaking space."""
    return Markup("{}&nbsp;%").format(f"{100 * fraction:.{decimals}f}")


def _axis_text(value: float) -> str:
    """Return the number at an end of an axis; numbers from 100 on have no decimals."""
    return number_text(float(round(value)) if 100 <= abs(value) < 1e7 else value)


def _extremes(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the smallest and the largest value of each piece of a long series."""
    pieces = np.array_split(values, _SPARK_POINTS // 2)
    return np.array([one for piece in pieces for one in (piece.min(), piece.max())])


def _svg(width: int, height: int, title: str, content: Markup, *, css: str) -> Markup:
    return Markup(
        '<svg class="{css}" role="img" viewBox="0 0 {w} {h}" width="{w}" height="{h}"'
        ' aria-label="{title}">{content}</svg>'
    ).format(css=css, w=width, h=height, title=visible(title), content=content)


def visible(text: str) -> Markup:
    """Return text for a page: HTML escaped, without secrets, control characters as escapes.

    Joiners and marks of direction are escaped too: a page shows what a name really consists of.
    """
    return escape(_shown(text))


def breakable(name: str) -> Markup:
    """Return a name for a page; lines may break after its slashes."""
    return Markup("/<wbr>").join(_shown(name).split("/"))


def ends_of(key: str) -> tuple[str, str]:
    """Return a key in two parts for a page, which always shows the second one."""
    text = _shown(key)  # as a whole, because a secret that is cut in two is not recognized
    return text[:-_KEY_END], text[-_KEY_END:]


def shortened(text: str) -> str:
    """Return the beginning of a text for one line of a page."""
    text = _shown(text)
    return text if len(text) <= _LINE else f"{text[:_LINE]}..."


def _shown(text: str) -> str:
    return escaped(redact_uri(text), keep="\n")
