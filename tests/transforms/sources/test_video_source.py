"""Videos of many formats: frames, sections, and damage."""

import io
import os
import pathlib
import re
import sys

import numpy as np
import pytest
from PIL import Image

from recordmill.errors import ConfigError, Reason, RecordError, RunError
from recordmill.job.staging import Staging
from recordmill.storage import decoder_stream
from recordmill.storage.files import Location
from recordmill.storage.storage_errors import ChangedInputError, StorageError
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.folders.folders import FileTree
from recordmill.transforms.sources.splitters.segments import SegmentColumns
from recordmill.transforms.sources.splitters.split_files import SplitFiles
from recordmill.transforms.sources.video.clip_plan import ClipSampling
from recordmill.transforms.sources.video.clip_rows import LENGTHS, STARTS, TIMES, read_frames
from recordmill.transforms.sources.video.frame_times import Packets
from recordmill.transforms.sources.video.video_decoder import VideoFile
from recordmill.transforms.sources.video.video_splitter import VideoSplitter
from recordmill.transforms.staged.listing import stage_listing
from recordmill.transforms.staged.parts import read_part, with_staged_paths
from recordmill.transforms.staged.row_reader import RowReader
from tests.video_files import (
    CLOSED_GOP,
    OPEN_GOP,
    difference,
    fragmented,
    frames_of,
    make_film,
    remuxed,
    spoil,
)

MAKES: dict[str, dict] = {
    "closed.mp4": {"options": CLOSED_GOP},
    "open.mp4": {"options": OPEN_GOP},
    "open.mkv": {"options": OPEN_GOP},
    "open.ts": {"options": OPEN_GOP},
    "refreshed.mp4": {"options": {"x264-params": "intra-refresh=1:keyint=20"}},
    "reordered.avi": {"options": CLOSED_GOP},
    "reordered.asf": {"options": OPEN_GOP},
    "reordered.mxf": {"options": CLOSED_GOP},
    "wrong-keys.avi": {"codec": "h263", "size": (96, 128), "options": {"b": "4M"}},
    "uneven.mkv": {"times": [n * 40 + n % 3 * 9 for n in range(48)]},
    "with-sound.mp4": {"sound": True},
    "of-high-definition.mp4": {"options": {"x264-params": "colormatrix=bt709:keyint=12"}},
    "of-full-range.mkv": {"pixels": "yuvj420p"},
    "of-colours.mkv": {"codec": "ffv1", "pixels": "bgr0"},
    "ten-bits.mkv": {"pixels": "yuv420p10le"},
    "gray.mkv": {"codec": "ffv1", "pixels": "gray"},
    "odd-sizes.mkv": {"codec": "ffv1", "pixels": "yuv444p", "size": (37, 53)},
    "mpeg2.ts": {"codec": "mpeg2video", "b_frames": 2},
    "mpeg4.avi": {"codec": "mpeg4", "b_frames": 2},
    "motion-jpeg.avi": {"codec": "mjpeg", "pixels": "yuvj420p"},
    "vp8.webm": {"codec": "libvpx", "options": {"auto-alt-ref": "1", "lag-in-frames": "16"}},
    "vp9.webm": {"codec": "libvpx-vp9"},
}
# Videos whose times or key frames are not those of the decoder.
UNDIVIDED = ("reordered.avi", "reordered.asf", "reordered.mxf", "wrong-keys.avi")
PNG = ImageOptions(image_format="png")
RAW = ImageOptions(image_format="raw")

SEVERAL = "the file holds several videos, the first of 30 frames"


def open_film(path: pathlib.Path) -> VideoFile:
    status = os.stat(path)
    return VideoFile(str(path), size=status.st_size, mtime=status.st_mtime_ns)


def packets_of(path: pathlib.Path) -> Packets:
    with open_film(path) as video:
        return video.packets()


def source_of(
    path: pathlib.Path, cut: ClipSampling, images: ImageOptions = RAW, **more
) -> SplitFiles:
    return SplitFiles(
        files=FileTree(input=str(path), leave_out=()),
        splitter=VideoSplitter(cut=cut, images=images, **more),
        segments=SegmentColumns(),
    )


def read(source: SplitFiles) -> list[ListingPart]:
    """All that workers give of all parts."""
    parts = [part.rows for part in source.scan() if part.rows is not None]
    layout = source.layout(parts)
    return [listed for part in parts for listed in source.read(part, layout)]


def records(source: SplitFiles) -> list[dict]:
    """The rows, with the bytes of their frames as `frames` instead of where they stand."""
    found = []
    for listed in read(source):
        for row in [] if listed.rows is None else listed.rows.to_pylist():
            places = zip(row.pop(STARTS), row[LENGTHS], strict=True)
            frames = [bytes(listed.data[at : at + size]) for at, size in places]
            found.append(row | {"frames": frames})
    return found


def decoded(row: dict) -> np.ndarray:
    (data,) = row["frames"]
    return np.asarray(Image.open(io.BytesIO(data)))


def invalid(source: SplitFiles) -> dict[str, tuple[Reason, str]]:
    return {one.key: (one.reason, one.detail) for listed in read(source) for one in listed.invalid}


def rejected(source: SplitFiles) -> list[tuple[Reason, str]]:
    """Return the rejects of videos, from the scan and from workers."""
    parts = [*source.scan()]
    if any(part.rows is not None for part in parts):
        parts += read(source)
    return [(one.reason, one.detail) for part in parts for one in part.rejects]


@pytest.mark.parametrize("name", MAKES)
def test_every_frame_equals_a_plain_decode(name, tmp_path) -> None:
    path = make_film(tmp_path / name, **MAKES[name])
    expected = frames_of(path)
    found = records(source_of(path, ClipSampling(frames=1)))
    coded = records(source_of(path, ClipSampling(frames=1), ImageOptions(quality=95)))
    gray = records(source_of(path, ClipSampling(frames=1), ImageOptions(quality=95, mode="gray")))
    assert len(found) == len(coded) == len(gray) == len(expected) == 48
    for number, frame in enumerate(expected):
        row = found[number]
        assert row["__key__"] == coded[number]["__key__"] == f"{name}#{number}"
        got = np.frombuffer(b"".join(row["frames"]), np.uint8).reshape(frame.shape)
        assert difference(got, frame) < 3  # of colours, which FFmpeg's default rounds otherwise
        assert difference(decoded(coded[number]), frame) < 4.5
        luma = np.asarray(Image.fromarray(frame).convert("L"))
        assert difference(decoded(gray[number]), luma) < 2.5


@pytest.mark.parametrize("fps", [None, 20.0])
@pytest.mark.parametrize("name", MAKES)
def test_sections_of_a_video_give_the_same_records(name, fps, tmp_path) -> None:
    path = make_film(tmp_path / name, **MAKES[name])
    cut = ClipSampling(frames=5, stride=3, step=2, fps=fps, rest="pad")
    whole = source_of(path, cut, PNG)
    assert sum(part.rows is not None and len(part.rows) for part in whole.scan()) == 1
    cutting = source_of(path, cut, PNG, section_above=0, section_bytes=1)
    parts = [part.rows for part in cutting.scan() if part.rows is not None]
    assert sum(map(len, parts)) > 1 or name in UNDIVIDED
    assert records(cutting) == records(whole)
    assert sum(listed.inputs or 0 for listed in read(cutting)) == 1


def test_damage_rejects_only_the_clips_that_contain_it(tmp_path) -> None:
    path = make_film(tmp_path / "x.mkv", 60, options=CLOSED_GOP, size=(96, 128))
    cut = ClipSampling(frames=4)
    before = {row["__key__"]: row["frames"] for row in records(source_of(path, cut))}
    place = spoil(path, 2)
    assert place == 24
    for more in ({}, {"section_above": 0, "section_bytes": 1}):
        source = source_of(path, cut, **more)
        after = {row["__key__"]: row["frames"] for row in records(source)}
        lost = invalid(source)
        assert before.keys() == after.keys() | lost.keys()
        # The decoder may still have had a frame of before, which goes with the key frame.
        assert lost.keys() - {"x.mkv#20"} == {f"x.mkv#{n}" for n in range(24, 36, 4)}
        assert {reason for reason, _ in lost.values()} == {"corrupt"}
        assert lost["x.mkv#24"][1] == "frame 24 of the video cannot be decoded"
        assert all(before[key] == after[key] for key in after)


@pytest.mark.parametrize("name", ["x.mkv", "x.ts", "x.mp4"])
def test_a_missing_tail_rejects_no_other_clip(name, tmp_path) -> None:
    path = tmp_path / name
    # With the index of an MP4 at the front, as in videos for the web.
    make_film(path, 100, options=CLOSED_GOP, size=(96, 128), front=name == "x.mp4")
    cut = ClipSampling(frames=4)
    before = {row["__key__"]: row["frames"] for row in records(source_of(path, cut))}
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    source = source_of(path, cut)
    after = {row["__key__"]: row["frames"] for row in records(source)}
    assert 10 < len(after) < 20
    assert all(before[key] == pixels for key, pixels in after.items())
    lost = invalid(source)
    assert not lost.keys() & after.keys()
    if name != "x.ts":  # which has no duration in its header
        assert "truncated" in {reason for reason, _ in lost.values()}


@pytest.mark.parametrize(
    "name", ["x.ts", "x.mpg", "x.mp4", "front.mp4", "x.mov", "x.flv", "long.flv"]
)
def test_concatenated_videos_are_rejected(name, tmp_path) -> None:
    codec = {"codec": "mpeg2video"} if name == "x.mpg" else {"options": CLOSED_GOP}
    codec |= {"front": name == "front.mp4", "sound": name == "long.flv"}
    one = make_film(tmp_path / f"one-{name}", 30, **codec)
    other = make_film(tmp_path / f"other-{name}", 40, offset=50, **codec)
    joined = tmp_path / name
    joined.write_bytes(one.read_bytes() + other.read_bytes())
    with pytest.raises(
        RecordError,
        match=SEVERAL,
    ):
        packets_of(joined)


def test_fragments_are_one_video_unless_another_follows(tmp_path) -> None:
    plain = make_film(tmp_path / "plain.mp4", 30, options=CLOSED_GOP)
    path = fragmented(plain, tmp_path / "x.mp4")
    data = path.read_bytes()
    assert len(packets_of(path).times) == 30
    first, second = (found.start() - 4 for found in [*re.finditer(b"moof", data)][:2])
    path.write_bytes(data[:second] + data[:first] + data[second:])  # repeats the header
    assert len(packets_of(path).times) == 30
    for other in (data, plain.read_bytes()):
        path.write_bytes(data + other)
        with pytest.raises(RecordError, match=SEVERAL):
            packets_of(path)


def test_bytes_after_the_boxes_of_a_video_change_nothing(tmp_path) -> None:
    path = make_film(tmp_path / "x.mp4", 30)
    data = path.read_bytes()
    for tail in (
        bytes(100),
        b"junk" * 9,
        b"\0\0\0\1free" + b"\xff" * 8,  # a size of nearly 2**64
        b"\0\0\0\1free" + (20).to_bytes(8, "big") + bytes(4),
        b"\0\0\0\0free" + data,  # to the end of the file
        b"\0\0\0\x08free" * 9000,
    ):
        path.write_bytes(data + tail)
        assert len(packets_of(path).times) == 30
    path.write_bytes(data + b"\0\0\0\1free" + (20).to_bytes(8, "big") + bytes(4) + data)
    with pytest.raises(RecordError, match=SEVERAL):
        packets_of(path)


@pytest.mark.parametrize("name", ["x.mkv", "x.mp4"])
@pytest.mark.parametrize("more", [{}, {"section_above": 0}])
def test_a_damaged_video_is_not_called_short(name, more, tmp_path) -> None:
    path = make_film(tmp_path / name, 45, options=CLOSED_GOP, front=name == "x.mp4")
    make_film(tmp_path / "long.ts", 50)
    source = source_of(tmp_path, ClipSampling(frames=50), **more)
    short = "a video of 45 frames, but a clip takes 50: --clip-rest pad repeats the last frame"
    assert rejected(source) == [(Reason.BAD_VALUE, short)]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    missing = "a part of the video cannot be read, or it ends earlier than its header declares"
    if name == "x.mp4":
        count = packets_of(path).missing
        missing = f"the last {count} frames that the header of the video declares are missing"
    source = source_of(tmp_path, ClipSampling(frames=50), **more)
    assert rejected(source) == [(Reason.TRUNCATED, f"{missing}: the rest is shorter than a clip")]


def test_frames_with_equal_times_are_all_read(tmp_path) -> None:
    times = [n // 3 for n in range(30)]  # as where a container counts milliseconds
    path = make_film(tmp_path / "x.mkv", 30, codec="mjpeg", pixels="yuvj420p", rate=1000)
    remuxed(path, tmp_path / "same.mkv", times)
    expected = frames_of(path)
    found = records(source_of(tmp_path / "same.mkv", ClipSampling(frames=1)))
    assert [row["__key__"] for row in found] == [f"same.mkv#{n}" for n in range(30)]
    for row, frame in zip(found, expected, strict=True):
        got = np.frombuffer(b"".join(row["frames"]), np.uint8).reshape(frame.shape)
        assert difference(got, frame) < 3
    assert [row[TIMES][0] for row in found] == [time * 1000 for time in times]


def test_frames_after_a_hole_are_read_and_the_hole_is_rejected(tmp_path) -> None:
    path = make_film(tmp_path / "x.ts", 84, options=CLOSED_GOP, size=(240, 320))

    def times() -> list[int]:
        rows = records(source_of(path, ClipSampling(frames=1)))
        return [time for row in rows for time in row[TIMES]]

    before = times()
    data = bytearray(path.read_bytes())
    hole = 188 * 400  # more than FFmpeg looks through for the next packet
    assert len(data) > 5 * hole
    middle = len(data) // 2 // 188 * 188
    data[middle : middle + hole] = bytes(hole)
    path.write_bytes(data)
    after = times()
    assert after[-1] == before[-1]
    assert {*after} < {*before}
    assert invalid(source_of(path, ClipSampling(frames=1)))


@pytest.mark.parametrize("name", ["x.avi", "x.flv", "x.mkv"])
def test_missing_frames_that_a_header_declares_are_rejected(name, tmp_path) -> None:
    codec = {"codec": "mpeg4"} if name == "x.avi" else {"options": CLOSED_GOP}
    path = make_film(tmp_path / name, 100, size=(96, 128), **codec)
    assert not packets_of(path).missing
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 9 // 10])
    packets = packets_of(path)
    assert 80 < len(packets.times) < 100
    assert packets.missing == (100 - len(packets.times) if name == "x.avi" else None)


@pytest.mark.parametrize("name", ["x.mkv", "x.mp4", "x.ts", "x.webm"])
def test_a_video_that_begins_late_is_complete(name, tmp_path) -> None:
    codec = {"codec": "libvpx-vp9"} if name == "x.webm" else {}
    times = [10_000 + 40 * n for n in range(24)]
    path = make_film(tmp_path / name, 24, times=times, **codec)
    packets = packets_of(path)
    assert (len(packets.times), packets.missing) == (24, 0)


def test_frame_rates_are_those_of_the_video(tmp_path) -> None:
    even = make_film(tmp_path / "even.mp4", 20, rate=30)
    (row,) = records(source_of(even, ClipSampling(frames=20)))
    assert row["__rate__"] == 30
    slow = make_film(tmp_path / "slow.mkv", 20, times=[n * n * 10 for n in range(20)])
    (row,) = records(source_of(slow, ClipSampling(frames=20)))
    assert row["__rate__"] == pytest.approx(20 / 3.65, rel=0.05)


def test_clips_that_are_too_large_are_rejected(tmp_path) -> None:
    path = make_film(tmp_path / "x.mp4", 12)
    size = 48 * 64 * 3 * 4
    fits = source_of(path, ClipSampling(frames=4), max_clip_bytes=size)
    assert len(records(fits)) == 3
    with pytest.raises(ConfigError, match="a clip takes 46080 bytes, more than --max-clip-bytes"):
        list(source_of(path, ClipSampling(frames=5), max_clip_bytes=size).scan())
    found = invalid(source_of(path, ClipSampling(frames=4), PNG, max_clip_bytes=100))
    assert {reason for reason, _ in found.values()} == {"too_large"}


def test_times_are_microseconds_from_the_first_frame(tmp_path) -> None:
    times = [n * 40 + n % 3 * 9 + 500 for n in range(20)]
    path = make_film(tmp_path / "x.mkv", 20, times=times)
    (row,) = records(source_of(path, ClipSampling(frames=20)))
    assert row[TIMES] == [(time - times[0]) * 1000 for time in times]


def test_a_changed_video_fails_the_job(tmp_path) -> None:
    path = make_film(tmp_path / "x.mp4")
    source = source_of(path, ClipSampling(frames=4))
    (part,) = [part.rows for part in source.scan() if part.rows is not None]
    os.utime(path, ns=(1, 1))
    with pytest.raises(ChangedInputError, match=r"x\.mp4 changed while the job ran"):
        list(source.read(part, source.layout([part])))


def test_a_seek_that_the_storage_refuses_fails_the_job(tmp_path, monkeypatch) -> None:
    path = make_film(tmp_path / "x.mp4")  # whose index is at its end

    class _Failing(io.BytesIO):
        def seek(self, offset: int, whence: int = 0) -> int:
            if offset:
                raise StorageError("the disk fails")
            return super().seek(offset, whence)

    monkeypatch.setattr(decoder_stream, "open_file", lambda *_, **__: _Failing(path.read_bytes()))
    with pytest.raises(StorageError, match="the disk fails"):
        open_film(path)


PLAYLISTS = {
    "m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfilm.ts\n#EXT-X-ENDLIST\n",
    "ffconcat": "ffconcat version 1.0\nfile film.ts\n",
    "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\n",
}


@pytest.mark.parametrize("kind", PLAYLISTS)
@pytest.mark.parametrize("extension", ["", ".mp4"])
def test_a_playlist_opens_no_other_file(kind, extension, tmp_path) -> None:
    make_film(tmp_path / "film.ts")
    path = tmp_path / f"list.{kind}{extension}"
    path.write_text(PLAYLISTS[kind])
    with pytest.raises(RecordError, match="unsupported: not a video"), open_film(path):
        pass


def test_frames_are_staged_once_and_found_again_by_another_attempt(tmp_path) -> None:
    source = source_of(make_film(tmp_path / "x.mp4", 40), ClipSampling(frames=8, stride=2), PNG)
    staging = Staging(Location.parse(str(tmp_path / "job")))
    staging.root.make_dirs()
    (part,) = stage_listing(source, staging).parts
    layout = source.layout([read_part(part.name, staging=staging)])
    reader = RowReader(source=source, layout=layout, staging=staging)
    written = reader.read(part)
    rows = with_staged_paths(read_part(written[0].name, staging=staging), staging)
    frames = [frame for row in records(source) for frame in row["frames"]]
    assert [frame for clip in read_frames(rows) for frame in clip] == frames
    (file,) = set(rows[batch.PATH].to_pylist())
    assert os.stat(file).st_size == sum(map(len, set(frames))) < sum(map(len, frames)) / 3
    assert reader.read(part) == written

    moved = tmp_path / "moved"
    (tmp_path / "job").rename(moved)
    rows = with_staged_paths(rows.drop_columns([batch.PATH]), Staging(Location.parse(str(moved))))
    assert [frame for clip in read_frames(rows) for frame in clip] == frames
    (file,) = set(rows[batch.PATH].to_pylist())
    content = pathlib.Path(file).read_bytes()
    for wrong in (content[: len(content) // 2], bytes(len(content)), None):
        pathlib.Path(file).unlink()
        if wrong is not None:
            pathlib.Path(file).write_bytes(wrong)
        with pytest.raises(
            RunError, match=r"is not the file that this job wrote: remove .*checked"
        ):
            read_frames(rows)
        pathlib.Path(file).write_bytes(content)


def test_a_missing_library_is_a_config_error_with_advice(tmp_path, monkeypatch) -> None:
    path = make_film(tmp_path / "x.mp4")
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(ConfigError, match=r"recordmill\[video\]'"):
        list(source_of(path, ClipSampling()).scan())


def test_staged_files_are_limited_in_bytes(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(limits, "STAGED_BYTES", 100_000)
    path = make_film(tmp_path / "x.mp4", 120)  # 9,216 bytes of pixels a frame
    found = read(source_of(path, ClipSampling(frames=4, stride=1)))
    sizes = [len(one.data) for one in found if one.data is not None]
    assert len(sizes) > 10
    assert max(sizes) <= 100_000 + 4 * 9216
    assert sum(sizes) < 2 * 120 * 9216  # frames are held once, though each is in four clips
    assert sum(one.inputs or 0 for one in found) == 1


def test_parts_are_limited_in_clips(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(limits, "PART_ROWS", 10)
    path = make_film(tmp_path / "x.mp4", 24)
    found = read(source_of(path, ClipSampling(frames=4, stride=1)))
    assert [len(one.rows) for one in found if one.rows is not None] == [10, 10, 1]
