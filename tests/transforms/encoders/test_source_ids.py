"""Ids of the images of rows, from the user's column, the annotations or the keys."""

import pyarrow as pa
import pytest

from recordmill.transforms.encoders.source_ids import source_ids
from recordmill.transforms.model.annotations import IMAGE_ID, IMAGE_ID_LIMIT

KEYS = pa.array(["a", "b", "c", "a"])


def ids(**columns: pa.Array) -> list[str]:
    rows = pa.RecordBatch.from_pydict({"__key__": KEYS, **columns})
    return [value.decode() for value in source_ids(rows).to_pylist()]


def test_ids_follow_from_keys() -> None:
    made = ids()
    assert made[0] == made[3]
    assert len({*made}) == 3
    assert all(IMAGE_ID_LIMIT <= int(value) < 2 * IMAGE_ID_LIMIT for value in made)
    assert all(int(float(value)) == int(value) for value in made)


def test_ids_of_annotations_come_before_keys() -> None:
    assert ids(**{IMAGE_ID: pa.array([5, None, 0, 5])}) == ["5", ids()[1], "0", "5"]


@pytest.mark.parametrize(
    "given",
    [
        pa.array(["x", "", None, "7"]),
        pa.array([b"x", b"", None, b"7"]),
        pa.array([b"\xff", b"", None, b"7"]),
        pa.array([8, None, None, 7], pa.uint16()),
        pa.nulls(4),
    ],
)
def test_ids_of_the_user_come_first(given: pa.Array) -> None:
    rows = pa.RecordBatch.from_pydict({"__key__": KEYS, "image/source_id": given})
    expected = [
        made if value in (None, "", b"") else value if isinstance(value, bytes) else str(value)
        for value, made in zip(given.to_pylist(), ids(), strict=True)
    ]
    found = source_ids(rows).to_pylist()
    assert found == [one if isinstance(one, bytes) else one.encode() for one in expected]
