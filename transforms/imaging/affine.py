"""Affine transforms of points and boxes in images.

Points are (x, y) in pixels from the left and top edge: an image of width w spans 0 to w, and the
centre of its first pixel is at 0.5.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Affine:
    """Affine transform of (x, y) to (a*x + b*y + c, d*x + e*y + f)."""

    a: float = 1.0
    b: float = 0.0
    c: float = 0.0
    d: float = 0.0
    e: float = 1.0
    f: float = 0.0

    @classmethod
    def scale(cls, across: float, down: float) -> Affine:
        """Return a scaling by two factors."""
        return cls(a=across, e=down)

    @classmethod
    def shift(cls, across: float, down: float) -> Affine:
        """Return a translation, in pixels."""
        return cls(c=across, f=down)

    def then(self, after: Affine) -> Affine:
        """Return the composition: first this transform, then `after`."""
        return Affine(
            after.a * self.a + after.b * self.d,
            after.a * self.b + after.b * self.e,
            after.a * self.c + after.b * self.f + after.c,
            after.d * self.a + after.e * self.d,
            after.d * self.b + after.e * self.e,
            after.d * self.c + after.e * self.f + after.f,
        )

    @property
    def keeps_axes(self) -> bool:
        """True if axis-aligned boxes remain axis-aligned boxes."""
        return self.a == self.e == 0 or self.b == self.d == 0

    @property
    def area(self) -> float:
        """Factor by which areas grow."""
        return abs(self.a * self.e - self.b * self.d)

    @property
    def mirrors(self) -> bool:
        """True if left and right are exchanged, apart from rotations."""
        return self.a * self.e - self.b * self.d < 0

    def inverse(self) -> Affine:
        """Return the inverse transform.

        Raises:
            ZeroDivisionError: the transform is singular.
        """
        by = self.a * self.e - self.b * self.d
        a, b, d, e = self.e / by, -self.b / by, -self.d / by, self.a / by
        return Affine(a, b, -a * self.c - b * self.f, d, e, -d * self.c - e * self.f)

    def points(self, points: Floats) -> Floats:
        """Transform points, float64[..., 2]."""
        matrix = np.array([[self.a, self.d], [self.b, self.e]])
        return np.asarray(points @ matrix + np.array([self.c, self.f]))

    def boxes(self, boxes: Floats) -> Floats:
        """Return the bounding boxes of transformed boxes.

        boxes: float64[n, 4] as (xmin, ymin, xmax, ymax), like the result.
        """
        corners = self.points(boxes[:, _CORNERS])
        return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)

    def visible(self, boxes: Floats, size: tuple[float, float]) -> tuple[Floats, Floats]:
        """Return the visible parts of transformed boxes in an image.

        boxes: float64[n, 4] as (xmin, ymin, xmax, ymax).
        size: (width, height) of the image.

        Returns:
            The bounding boxes of the visible parts, float64[n, 4], zeros if nothing is visible; and
            the areas of the visible parts, float64[n].
        """
        points, there = self._visible_points(boxes, np.array(size, np.float64))
        count = there.sum(axis=1)
        low = np.where(there[..., None], points, np.inf).min(axis=1)
        high = np.where(there[..., None], points, -np.inf).max(axis=1)
        found = np.where(count[:, None] > 0, np.concatenate([low, high], axis=1), 0.0)
        # The points lie on a convex polygon: sort them by their angle around its centre.
        centres = (points * there[..., None]).sum(axis=1) / np.maximum(count, 1)[:, None]
        spokes = np.where(there[..., None], points - centres[:, None], 0.0)
        angles = np.where(there, np.arctan2(spokes[..., 1], spokes[..., 0]), np.inf)
        ring = np.take_along_axis(spokes, np.argsort(angles, axis=1)[..., None], axis=1)
        after = np.roll(ring, -1, axis=1)
        after[np.arange(len(ring)), np.maximum(count - 1, 0)] = ring[:, 0]
        cross = ring[..., 0] * after[..., 1] - ring[..., 1] * after[..., 0]
        return found, np.abs(cross.sum(axis=1)) / 2

    def _visible_points(
        self, boxes: Floats, limits: Floats
    ) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return points whose convex hull is the visible part of each box.

        Returns:
            Candidate points, float64[n, 12, 2], and the mask of valid ones, bool[n, 12].
        """
        starts = self.points(boxes[:, _CORNERS])
        steps = np.roll(starts, -1, axis=1) - starts
        # Clip each side to the image, as fractions of its length (Liang-Barsky).
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.stack([-starts / steps, (limits - starts) / steps])
        level = steps == 0
        between = (starts >= 0) & (starts <= limits)
        enter = np.where(level, np.where(between, 0.0, 2.0), ends.min(axis=0)).max(axis=2).clip(0)
        leave = np.where(level, 1.0, ends.max(axis=0)).min(axis=2).clip(max=1)
        cut = [np.clip(starts + steps * at[..., None], 0, limits) for at in (enter, leave)]
        # Corners of the image that lie in a box.
        corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) * limits
        before = self.inverse().points(corners)[None]
        covered = ((boxes[:, None, :2] <= before) & (before <= boxes[:, None, 2:])).all(axis=2)
        corners = np.broadcast_to(corners, (len(boxes), 4, 2))
        there = np.concatenate([enter <= leave, enter <= leave, covered], axis=1)
        return np.concatenate([*cut, corners], axis=1), there


# Corners in order around a box, as indices into (xmin, ymin, xmax, ymax).
_CORNERS = [[0, 1], [2, 1], [2, 3], [0, 3]]
IDENTITY = Affine()


def exif_transform(orientation: int, size: tuple[float, float]) -> Affine:
    """Return the transform from the image as stored to the upright image.

    orientation: of EXIF, 1 to 8. size: (width, height) as stored.

    Source: Exif 2.32 (CIPA DC-008), 4.6.4 A. Orientation.
    """
    if orientation == 1:
        return IDENTITY
    width, height = size
    return {
        2: Affine(-1, 0, width, 0, 1, 0),
        3: Affine(-1, 0, width, 0, -1, height),
        4: Affine(1, 0, 0, 0, -1, height),
        5: Affine(0, 1, 0, 1, 0, 0),
        6: Affine(0, -1, height, 1, 0, 0),
        7: Affine(0, -1, height, -1, 0, width),
        8: Affine(0, 1, 0, -1, 0, width),
    }[orientation]
