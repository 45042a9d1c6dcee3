"""Files in staging, which are mapped into memory."""

import numpy as np
import pyarrow as pa
import pytest

from recordmill.storage.files import Location
from recordmill.storage.storage_errors import StorageError
from recordmill.transforms.staged.mapped_files import map_array, open_arrow, read_range


def test_no_file_is_mapped_through_a_link(tmp_path) -> None:
    rows = pa.record_batch([[1, 2]], names=["x"])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with pa.ipc.new_file(elsewhere / "part.arrow", rows.schema) as writer:
        writer.write_batch(rows)
    staging = tmp_path / "staging"
    staging.mkdir()
    (staging / "part.arrow").symlink_to(elsewhere / "part.arrow")
    (staging / "folder").symlink_to(elsewhere)
    top = Location.parse(str(staging)).without_links()
    for name in ("part.arrow", "folder/part.arrow"):
        with pytest.raises(StorageError, match="is a symbolic link"):
            open_arrow(top / name)
        with pytest.raises(StorageError, match="is a symbolic link"):
            read_range(top / name, 0, 8)
        with pytest.raises(StorageError, match="is a symbolic link"):
            map_array(top / name, "u1")
    (staging / "part.arrow").unlink()
    (elsewhere / "part.arrow").rename(staging / "part.arrow")
    with open_arrow(top / "part.arrow") as file:
        assert pa.ipc.open_file(file).get_batch(0) == rows


@pytest.mark.parametrize("numbers", [[], [1, 2**64 - 1]])
def test_an_array_is_mapped(tmp_path, numbers) -> None:
    (tmp_path / "numbers").write_bytes(np.array(numbers, "<u8").tobytes())
    mapped = map_array(Location.parse(str(tmp_path / "numbers")), "<u8")
    assert mapped.tolist() == numbers
    assert not mapped.flags.writeable
