"""Transforms of points and boxes: inverses, and pixels that move the same way."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from PIL import Image

from recordmill.transforms.imaging.affine import IDENTITY, Affine, exif_transform
from recordmill.transforms.imaging.geometry import plan_resize
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.pixels import UPRIGHT

numbers = st.floats(-50, 50)
affines = st.builds(Affine, *[numbers] * 6)
points = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=5).map(np.array)
sides = st.integers(1, 300)
sizes = st.tuples(sides, sides)


@given(one=affines, other=affines, at=points)
def test_then_is_one_after_the_other(one, other, at):
    np.testing.assert_allclose(
        one.then(other).points(at), other.points(one.points(at)), atol=1e-6, rtol=1e-9
    )


@given(one=affines, at=points)
def test_the_inverse_undoes_it(one, at):
    assume(one.area > 0.01)
    np.testing.assert_allclose(one.inverse().points(one.points(at)), at, atol=1e-4)
    assert one.then(one.inverse()).area == pytest.approx(1)


@given(one=affines, at=points)
def test_nothing_changes_what_does_nothing(one, at):
    assert one.then(IDENTITY) == one
    np.testing.assert_allclose(IDENTITY.then(one).points(at), one.points(at))


@given(one=affines, corners=st.tuples(numbers, numbers, numbers, numbers), inner=st.data())
def test_a_box_holds_what_was_in_it(one, corners, inner):
    left, right = sorted(corners[:2])
    top, bottom = sorted(corners[2:])
    x, y = inner.draw(st.floats(left, right)), inner.draw(st.floats(top, bottom))
    (box,) = one.boxes(np.array([[left, top, right, bottom]]))
    at = one.points(np.array([x, y]))
    assert (box[:2] <= at + 1e-6).all()
    assert (at <= box[2:] + 1e-6).all()


@given(one=affines, corners=st.tuples(numbers, numbers, numbers, numbers))
def test_areas_of_boxes_that_stay_upright_grow_by_area(one, corners):
    one = Affine(one.a, 0, one.c, 0, one.e, one.f)
    box = np.array([[*np.minimum(*np.split(np.array(corners), 2)), 60, 70]])
    (moved,) = one.boxes(box)
    expected = np.prod(box[0, 2:] - box[0, :2]) * one.area
    assert np.prod(moved[2:] - moved[:2]) == pytest.approx(expected, rel=1e-6, abs=1e-6)


turns = st.builds(
    lambda angle, zoom: (
        Affine.shift(-50, -40)
        .then(Affine(np.cos(angle), -np.sin(angle), 0, np.sin(angle), np.cos(angle)))
        .then(Affine.scale(zoom, zoom))
        .then(Affine.shift(50, 40))
    ),
    st.floats(0, 6.3),
    st.floats(0.5, 2),
)


@given(one=turns, corners=st.tuples(*[st.floats(-30, 130)] * 4))
@example(one=Affine(0.6, -0.8, 50, 0.8, 0.6, 0), corners=(-300, -300, 300, 300))  # all of it
@example(one=Affine(0.6, -0.8, 50, 0.8, 0.6, 0), corners=(200, 200, 300, 300))  # none of it
def test_what_is_seen_of_a_box_that_is_turned(one, corners):
    box = [*np.minimum(corners[:2], corners[2:]), *np.maximum(corners[:2], corners[2:])]
    (found,), (area,) = one.visible(np.array([box]), (100, 80))
    across, down = np.meshgrid(np.arange(0.25, 100, 0.5), np.arange(0.25, 80, 0.5))
    before = one.inverse().points(np.stack([across, down], axis=-1))
    within = ((before >= box[:2]) & (before <= box[2:])).all(axis=-1)
    edge = 2 * np.sum(np.clip(found[2:] - found[:2], 0, None)) + 4
    assert area == pytest.approx(within.sum() / 4, abs=edge)
    if within.any():
        at = np.stack([across[within], down[within]], axis=-1)
        assert (found[:2] <= at.min(axis=0)).all()
        assert (at.max(axis=0) <= found[2:]).all()
    whole = one.boxes(np.array([box]))[0]
    assert (found[:2] >= 0).all()
    assert (found[2:] <= (100, 80)).all()
    if area > 0:
        assert (found[:2] >= whole[:2] - 1e-6).all()
        assert (found[2:] <= whole[2:] + 1e-6).all()


@pytest.mark.parametrize("turn", range(1, 9))
def test_upright_follows_the_pixels(turn):
    stored = np.arange(35, dtype=np.uint8).reshape(5, 7)  # no pixel twice
    image = Image.fromarray(stored)
    turned = np.asarray(image if turn == 1 else image.transpose(UPRIGHT[turn]))
    moves = exif_transform(turn, image.size)
    for (y, x), level in np.ndenumerate(stored):
        across, down = moves.points(np.array([x + 0.5, y + 0.5]))
        assert turned[int(down), int(across)] == level


@given(source=sizes, size=sizes, mode=st.sampled_from(["crop", "pad", "stretch", "fit"]))
def test_a_plan_moves_the_centre_to_the_centre_and_the_window_to_inner(source, size, mode):
    plan = plan_resize(source, ImageOptions(size=size[::-1], resize_mode=mode))
    moves = plan.transform(source)
    left, top = ((whole - part) / 2 for whole, part in zip(source, plan.window, strict=True))
    window = np.array([[left, top, left + plan.window[0], top + plan.window[1]]])
    inner = [*plan.corner, *np.add(plan.corner, plan.inner)]
    np.testing.assert_allclose(moves.boxes(window), [inner], atol=1e-6)
    if mode in ("crop", "stretch"):
        assert plan.corner == (0, 0)
        assert plan.inner == plan.canvas == size
    if mode == "crop":
        assert moves.a == pytest.approx(moves.e)
