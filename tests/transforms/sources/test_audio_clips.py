import pathlib

import pyarrow as pa
import pytest

from recordmill.errors import RunError
from recordmill.transforms.audio.audio_options import AudioOptions
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.audio.audio_splitter import AudioSplitter, read_clips
from recordmill.transforms.sources.folders.folders import FileTree
from recordmill.transforms.sources.splitters.segments import SegmentColumns
from recordmill.transforms.sources.splitters.split_files import SplitFiles
from tests.sounds import chirp, write

OPTIONS = AudioOptions(sample_rate=1000, clip=1000, clip_mode="split")  # of one sample


def source_of(folder: pathlib.Path) -> SplitFiles:
    return SplitFiles(
        files=FileTree(input=str(folder), leave_out=()),
        splitter=AudioSplitter(options=OPTIONS),
        segments=SegmentColumns(),
    )


def parts_of(source: SplitFiles) -> list[ListingPart]:
    """All that workers give of all parts."""
    listed = [part.rows for part in source.scan() if part.rows is not None]
    layout = source.layout(listed)
    return [part for rows in listed for part in source.read(rows, layout)]


def test_parts_of_a_long_file_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "PART_ROWS", 1000)
    write(tmp_path / "a.wav", chirp(1000, 3000), 1000)
    parts = parts_of(source_of(tmp_path))
    counts = [len(part.rows) for part in parts if part.rows is not None]
    assert max(counts) <= 1000
    assert sum(counts) == 3000
    assert sum(part.inputs or 0 for part in parts) == 1


def test_a_staged_file_that_changed_fails_the_run(tmp_path):
    write(tmp_path / "a.wav", chirp(1000, 20), 1000)
    (part,) = parts_of(source_of(tmp_path))
    staged = tmp_path / "staged"
    rows = batch.set_column(part.rows, batch.PATH, pa.array([str(staged)] * 20))
    staged.write_bytes(part.data)
    assert len(list(read_clips(rows))) == 20
    for wrong in (part.data[:40], bytes(len(part.data)), None):
        staged.unlink()
        if wrong is not None:
            staged.write_bytes(wrong)
        with pytest.raises(RunError, match="is not the file that this job wrote"):
            list(read_clips(rows))
