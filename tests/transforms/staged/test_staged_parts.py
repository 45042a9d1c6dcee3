"""Parts of rows in staging, which a resumed run uses again only if they are whole."""

import pyarrow as pa
import pytest

from recordmill.job.staging import StagedPart, Staging
from recordmill.storage.files import Location
from recordmill.transforms.staged.listing import make_or_reuse, write_checked_part

ROWS = pa.record_batch({"__key__": ["a", "b"], "value": [1, 2]})
LISTED = StagedPart(name="listing/part-00000.arrow", rows=2, bytes=1)


@pytest.fixture
def staging(tmp_path):
    return Staging.of(Location.parse(str(tmp_path / "out")), "job")


def make_parts(staging):
    """The parts of a listed part, and whether they were made by this call."""
    made = []

    def make(stem):
        made.append(stem)
        return [
            write_checked_part(ROWS, staging, f"{stem}-{n}.arrow", rejects=[], filtered={})
            for n in range(2)
        ]

    return make_or_reuse(LISTED, staging, make), bool(made)


def test_whole_parts_are_used_again(staging):
    first, made = make_parts(staging)
    again, made_again = make_parts(staging)
    assert (made, made_again) == (True, False)
    assert again == first


@pytest.mark.parametrize("content", [None, b"", b"\0"])
def test_a_part_without_its_content_is_made_again(staging, content):
    """As after a power cut, because parts are not synced."""
    (_, last), _ = make_parts(staging)
    place = staging.place(last.name)
    written = place.read_bytes()
    if content is None:
        place.delete()
    else:
        place.write_bytes(content * len(written))
    assert make_parts(staging)[1]
    assert place.read_bytes() == written
    assert not make_parts(staging)[1]
