"""Parts of rows in staging, which a resumed run uses again only if they are whole."""

import pyarrow as pa
import pytest
import xxhash

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
        return [write(staging, f"{stem}-{number}") for number in range(2)]

    return make_or_reuse(LISTED, staging, make), bool(made)


def write(staging, stem):
    """A part with a file of large values."""
    data = f"{stem}.data"
    staging.place(data).write_bytes(b"values")
    return write_checked_part(
        *(ROWS, staging, f"{stem}.arrow"),
        rejects=[],
        filtered={},
        checksums={data: xxhash.xxh3_128_hexdigest(b"values")},
    )


def test_whole_parts_are_used_again(staging):
    first, made = make_parts(staging)
    again, made_again = make_parts(staging)
    assert (made, made_again) == (True, False)
    assert again == first


DAMAGES = {
    "missing": None,
    "without bytes": lambda content: b"",
    "zeros": lambda content: bytes(len(content)),
    "shorter": lambda content: content[:-1],
    "one bit": lambda content: bytes([content[0] ^ 1]) + content[1:],
}


@pytest.mark.parametrize("ending", [".arrow", ".arrow.json", ".data"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_part_of_which_a_file_is_damaged_is_made_again(staging, ending, damage):
    """As after a power cut, because files of parts are not synced."""
    (_, last), _ = make_parts(staging)
    place = staging.place(last.name.removesuffix(".arrow") + ending)
    written = place.read_bytes()
    if damage is None:
        place.delete()
    else:
        place.write_bytes(damage(written))
    assert make_parts(staging)[1]
    assert place.read_bytes() == written
    assert not make_parts(staging)[1]
