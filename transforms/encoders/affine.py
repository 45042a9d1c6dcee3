"""Where points of a picture go when it is turned, resized, cut out or mirrored: arithmetic.

Points are (x, y) in pixels from the left and top edge, so that a picture of width w reaches from
0 to w, and the centre of its first pixel is at 0.5.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Affine:
    """(x, y) becomes (a*x + b*y + c, d*x + e*y + f)."""

    a: float = 1.0
    b: float = 0.0
    c: float = 0.0
    d: float = 0.0
    e: float = 1.0
    f: float = 0.0

    @classmethod
    def scale(cls, across: float, down: float) -> Affine:
        return cls(a=across, e=down)

    @classmethod
    def shift(cls, across: float, down: float) -> Affine:
        return cls(c=across, f=down)

    def then(self, after: Affine) -> Affine:
        """This, and after it the other."""
        return Affine(
            after.a * self.a + after.b * self.d,
            after.a * self.b + after.b * self.e,
            after.a * self.c + after.b * self.f + after.c,
            after.d * self.a + after.e * self.d,
            after.d * self.b + after.e * self.e,
            after.d * self.c + after.e * self.f + after.f,
        )

    @property
    def area(self) -> float:
        """How many times as large areas become."""
        return abs(self.a * self.e - self.b * self.d)

    def inverse(self) -> Affine:
        """What undoes it. Raises ZeroDivisionError where it leaves no area."""
        by = self.a * self.e - self.b * self.d
        a, b, d, e = self.e / by, -self.b / by, -self.d / by, self.a / by
        return Affine(a, b, -a * self.c - b * self.f, d, e, -d * self.c - e * self.f)

    def points(self, points: Floats) -> Floats:
        """Of float64[..., 2]."""
        matrix = np.array([[self.a, self.d], [self.b, self.e]])
        return np.asarray(points @ matrix + np.array([self.c, self.f]))

    def boxes(self, boxes: Floats) -> Floats:
        """Of float64[n, 4], each (xmin, ymin, xmax, ymax): the upright boxes around what they
        become.
        """
        corners = self.points(boxes[:, [[0, 1], [2, 1], [2, 3], [0, 3]]])
        return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)


IDENTITY = Affine()


def upright(orientation: int, size: tuple[float, float]) -> Affine:
    """From the picture as it is stored to the picture upright.

    orientation: EXIF's, 1 to 8. size: (width, height) as stored.

    Source: Exif 2.32 (CIPA DC-008), 4.6.4 A. Orientation.
    """
    width, height = size
    return {
        1: IDENTITY,
        2: Affine(-1, 0, width, 0, 1, 0),
        3: Affine(-1, 0, width, 0, -1, height),
        4: Affine(1, 0, 0, 0, -1, height),
        5: Affine(0, 1, 0, 1, 0, 0),
        6: Affine(0, -1, height, 1, 0, 0),
        7: Affine(0, -1, height, -1, 0, width),
        8: Affine(0, 1, 0, -1, 0, width),
    }[orientation]
