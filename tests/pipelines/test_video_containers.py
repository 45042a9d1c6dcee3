"""Videos in many containers and codecs through the command line, compared with a decoding loop.

The loop takes every frame in the order of the decoder, from the beginning of the video, and ignores
times. Pixels are equal to the last bit, and each frame shows the picture that was encoded.
"""

import collections
import json
import pathlib
import struct
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import av
import numpy as np
import pytest

import recordmill
from tests.image_runs import Made, make, run
from tests.video_files import CLOSED_GOP, OPEN_GOP, make_film, picture

FRAMES = 30
SIZE = (96, 128)  # which H.263 allows, too
NEAR = 12.0  # levels of 255 that a frame differs from its picture, at most
NOT_CODED = b"\0\0\1\xb6\x50\x40\x00"  # a frame of MPEG-4 that repeats the one before

FINE = {"options": {"b": "4M"}}
CODECS: dict[str, dict] = {
    "h264": {"options": {"bf": "0"}},
    "h264-b": {"options": CLOSED_GOP},
    "h264-open": {"options": OPEN_GOP},
    "hevc-b": {"codec": "libx265", "options": {"x265-params": "log-level=none:bframes=3:pools=1"}},
    "mpeg4": {"codec": "mpeg4", **FINE},
    "mpeg4-b": {"codec": "mpeg4", "b_frames": 2, **FINE},
    "mpeg2-b": {"codec": "mpeg2video", "b_frames": 2, **FINE},
    "mpeg2": {"codec": "mpeg2video", **FINE},
    "mpeg1-b": {"codec": "mpeg1video", "b_frames": 2, **FINE},
    "vp8": {"codec": "libvpx", "options": {"auto-alt-ref": "1", "lag-in-frames": "16"}},
    "vp9": {"codec": "libvpx-vp9", "options": {"auto-alt-ref": "1", "lag-in-frames": "16"}},
    "av1": {"codec": "libsvtav1", "options": {"preset": "10"}},
    "mjpeg": {"codec": "mjpeg", "pixels": "yuvj420p"},
    "wmv1": {"codec": "wmv1", **FINE},
    "wmv2": {"codec": "wmv2", **FINE},
    "msmpeg4": {"codec": "msmpeg4", **FINE},
    "prores": {"codec": "prores_ks", "pixels": "yuv422p10le"},
    "ffv1": {"codec": "ffv1"},
    "flv1": {"codec": "flv", **FINE},
    "h263": {"codec": "h263", **FINE},
    "rv20": {"codec": "rv20", **FINE},
}
CONTAINERS = {
    "3gp": ("h264", "h264-b", "h263"),
    "asf": ("h264", "h264-b", "h264-open", "mpeg4-b", "wmv1", "wmv2", "msmpeg4", "mjpeg"),
    "avi": ("h264", "h264-b", "h264-open", "mpeg4", "mpeg4-b", "mpeg2-b", "mjpeg", "msmpeg4"),
    "flv": ("h264", "h264-b", "flv1"),
    "ivf": ("vp8", "vp9", "av1"),
    "mkv": ("h264-b", "h264-open", "hevc-b", "mpeg4-b", "mpeg1-b", "ffv1", "vp9"),
    "mov": ("h264-b", "hevc-b", "prores", "mjpeg", "mpeg4-b"),
    "mp4": ("h264", "h264-b", "h264-open", "hevc-b", "mpeg4-b", "av1", "vp9", "mjpeg"),
    "mpg": ("mpeg1-b", "mpeg2-b", "mpeg2", "h264-b"),
    "mxf": ("h264-b", "h264-open", "mpeg2-b", "mpeg2", "prores"),
    "nut": ("h264-b", "mpeg4-b", "hevc-b", "ffv1"),
    "ogg": ("vp8",),
    "rm": ("rv20",),
    "ts": ("h264", "h264-b", "h264-open", "hevc-b", "mpeg2-b", "mpeg4"),
    "webm": ("vp8", "vp9", "av1"),
}


def make_video(path: pathlib.Path, codec: str, **more: object) -> pathlib.Path:
    return make_film(path, FRAMES, size=SIZE, **CODECS[codec], **more)


def plain_frames(path: pathlib.Path) -> list[np.ndarray]:
    """Every frame of the decoder, in its order, uint8[height, width, 3]."""
    found = []
    with av.open(str(path)) as source:
        stream = source.streams.video[0]
        stream.thread_type = "NONE"
        graph = None
        for frame in source.decode(stream):
            if graph is None:
                graph = av.filter.Graph()
                graph.link_nodes(
                    graph.add_buffer(
                        width=frame.width,
                        height=frame.height,
                        format=frame.format,
                        time_base=Fraction(1, 25),
                    ),
                    graph.add("scale", "flags=bilinear+accurate_rnd+bitexact"),
                    graph.add("format", "rgb24"),
                    graph.add("buffersink"),
                ).configure()
            frame.pts = len(found)  # filters need ascending times
            graph.push(frame)
            found.append(graph.pull().to_ndarray())
    return found


def made_of(tmp_path: pathlib.Path, *options: object, frames: int = 1) -> Made:
    """The clips of the videos in the folder `in`."""
    fixed = ("--input", tmp_path / "in", "--splits", "train=1", "--image-format", "raw")
    return make(tmp_path / "out", *fixed, "--clip-frames", frames, *options, command="video")


def clips_of(made: Made) -> dict[str, dict[int, np.ndarray]]:
    """{video: {number of the first frame: uint8[frames, height, width, 3]}}."""
    found: dict[str, dict[int, np.ndarray]] = collections.defaultdict(dict)
    keys = [row["key"] for row in made.index("train")]
    for key, record in zip(keys, recordmill.read(made.folder, "train"), strict=True):
        name, number = key.rsplit("#", 1)
        found[name][int(number)] = np.reshape(record["image/encoded"], record_shape(record))
    return found


def record_shape(record: dict) -> tuple[int, ...]:
    shape = np.shape(record["image/encoded"])
    return shape if len(shape) == 4 else tuple(record["clip/shape"])


def check(path: pathlib.Path, clips: dict[int, np.ndarray], pictures: Sequence[int]) -> None:
    """Check clips of one frame. pictures: numbers of what each frame of the video shows."""
    plain = plain_frames(path)
    assert sorted(clips) == list(range(len(plain))), path.name
    assert len(plain) == len(pictures), path.name
    for number, frame in enumerate(plain):
        np.testing.assert_array_equal(clips[number][0], frame, f"{path.name}#{number}")
    height, width = SIZE
    shown = np.stack([picture(number, height=height, width=width) for number in range(FRAMES)])
    for number, wanted in enumerate(pictures):
        levels = np.abs(shown.astype(float) - plain[number]).mean((1, 2, 3))
        assert int(levels.argmin()) == wanted, f"{path.name}#{number}"
        assert levels[wanted] < NEAR


@pytest.mark.parametrize("container", CONTAINERS)
def test_frames_are_those_of_the_decoder_in_its_order(container, tmp_path) -> None:
    paths = [
        make_video(tmp_path / "in" / f"{codec}.{container}", codec)
        for codec in CONTAINERS[container]
    ]
    made = made_of(tmp_path)
    clips = clips_of(made)
    assert not made.rejects
    for path in paths:
        check(path, clips[path.name], range(FRAMES))


def micros_of(made: Made, name: str) -> list[int]:
    """Times of the frames of a video in microseconds, in order."""
    keys = [row["key"].rsplit("#", 1) for row in made.index("train")]
    found = {
        int(number): int(np.ravel(record["image/timestamp"])[0])
        for (key, number), record in zip(keys, recordmill.read(made.folder, "train"), strict=True)
        if key == name
    }
    return [found[number] for number in sorted(found)]


def packets_of(path: pathlib.Path) -> Iterator[av.Packet]:
    with av.open(str(path)) as source:
        for packet in source.demux(video=0):
            if packet.size:
                yield packet


def muxed(
    template: pathlib.Path, path: pathlib.Path, packets: Sequence[tuple[bytes, int, int, bool]]
) -> pathlib.Path:
    """Write packets of (data, presentation time, decoding time, is key frame), in 1/25 seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"avoid_negative_ts": "disabled"}
    with av.open(str(template)) as source, av.open(str(path), "w", options=options) as out:
        stream = out.add_stream_from_template(source.streams.video[0])
        for data, shown, decoded, is_key in packets:
            packet = av.Packet(data)
            packet.stream, packet.time_base = stream, Fraction(1, 25)
            packet.pts, packet.dts, packet.is_keyframe = shown, decoded, is_key
            out.mux(packet)
    return path


def with_times(
    source: pathlib.Path, path: pathlib.Path, time: Callable[[int, int], tuple[int, int]]
) -> pathlib.Path:
    """Write a video with other times: (pts, dts) by (number in order of decoding, pts)."""
    rows = []
    for number, packet in enumerate(packets_of(source)):
        shown = round(packet.pts * packet.time_base * 25)
        rows.append((bytes(packet), *time(number, shown), packet.is_keyframe))
    return muxed(source, path, rows)


def packed(source: pathlib.Path, path: pathlib.Path) -> pathlib.Path:
    """Write MPEG-4 with packed B-frames, as DivX and XviD do.

    A packet holds a frame and the B-frame after it; an empty one stands for the frame that is shown
    late.
    """
    frames = [(bytes(packet), packet.is_keyframe) for packet in packets_of(source)]
    is_b = [data[data.index(b"\0\0\1\xb6") + 4] >> 6 == 2 for data, _ in frames]
    rows: list[tuple[bytes, bool]] = []
    at = 0
    while at < len(frames):
        data, is_key = frames[at]
        if is_key:
            data = b"\0\0\1\xb2DivX503b1393p" + data
        at += 1
        if at < len(frames) and is_b[at]:
            rows.append((data + frames[at][0], is_key))
            at += 1
            while at < len(frames) and is_b[at]:
                rows.append((frames[at][0], False))
                at += 1
            rows.append((NOT_CODED, False))
        else:
            rows.append((data, is_key))
    times = range(len(rows))
    return muxed(
        source, path, [(data, n, n, key) for n, (data, key) in zip(times, rows, strict=True)]
    )


@pytest.mark.parametrize("name", ["packed.avi", "packed.mkv", "packed.mp4"])
def test_packed_b_frames_are_read_in_their_order(name, tmp_path) -> None:
    path = packed(make_video(tmp_path / "source.avi", "mpeg4-b"), tmp_path / "in" / name)
    made = made_of(tmp_path)
    check(path, clips_of(made)[name], range(FRAMES))
    assert not made.rejects


@pytest.mark.parametrize("codec", ["h264-b", "h264-open", "hevc-b", "mpeg4-b", "mpeg2-b"])
def test_times_of_decoding_as_times_of_presentation_change_nothing(codec, tmp_path) -> None:
    source = make_video(tmp_path / "source.mkv", codec)
    paths = [
        with_times(source, tmp_path / "in" / f"equal.{one}", lambda n, shown: (n, n))
        for one in ("mp4", "mkv", "mov", "nut")
    ]
    made = made_of(tmp_path)
    clips = clips_of(made)
    for path in paths:
        check(path, clips[path.name], range(FRAMES))
    assert not made.rejects
    for path in paths:
        assert micros_of(made, path.name) == [40_000 * n for n in range(FRAMES)]


ODD_TIMES: dict[str, tuple[str, Callable[[int, int], tuple[int, int]]]] = {
    "late.mkv": ("h264-b", lambda n, shown: (shown + 999, n + 990)),
    "equal.mkv": ("h264-b", lambda n, shown: (n // 3, n // 3)),
    "uneven.mkv": ("h264-b", lambda n, shown: (shown * 2 + shown % 3, n * 2 - 10)),
    "uneven.mp4": ("hevc-b", lambda n, shown: (shown * 3 + shown % 2, n * 3 - 12)),
}


@pytest.mark.parametrize("name", ODD_TIMES)
def test_odd_times_lose_no_frame(name, tmp_path) -> None:
    codec, time = ODD_TIMES[name]
    source = make_video(tmp_path / "source.mkv", codec)
    path = with_times(source, tmp_path / "in" / name, time)
    made = made_of(tmp_path)
    check(path, clips_of(made)[name], range(FRAMES))
    assert not made.rejects


def ivf_with_time(content: bytes, number: int, time: int) -> bytes:
    """Return an IVF file with another time of a frame. It has a header of 32 bytes, 12 a frame."""
    place = 32
    for _ in range(number):
        place += 12 + struct.unpack_from("<I", content, place)[0]
    return content[: place + 4] + struct.pack("<Q", time) + content[place + 12 :]


@pytest.mark.parametrize("time", [2**40, 2**62, 2**63, 2**63 + 5, 2**64 - 1])
def test_impossible_times_lose_no_frame(time, tmp_path) -> None:
    content = make_video(tmp_path / "source.ivf", "vp9").read_bytes()
    paths = [tmp_path / "in" / f"{number}.ivf" for number in (0, 11, FRAMES - 1)]
    paths[0].parent.mkdir()
    for path in paths:
        path.write_bytes(ivf_with_time(content, int(path.stem), time))
    made = made_of(tmp_path)
    clips = clips_of(made)
    assert not made.rejects
    for path in paths:
        check(path, clips[path.name], range(FRAMES))
        times = micros_of(made, path.name)
        assert times[0] == 0
        assert 0 <= min(np.diff(times)) <= max(np.diff(times)) <= 80_000


def test_a_frame_that_is_shown_for_years_is_not_repeated_for_years(tmp_path) -> None:
    source = make_video(tmp_path / "source.mkv", "h264-b")
    years = 25 * 86_400 * 366 * 10  # in 1/25 seconds
    late = with_times(
        source, tmp_path / "in" / "x.mkv", lambda n, shown: (shown + years * (shown == 29), n - 10)
    )
    make_video(tmp_path / "in" / "y.mkv", "h264-b")
    made = made_of(tmp_path, "--fps", 25, "--max-reject-fraction", 1)
    assert sorted(clips_of(made)) == ["y.mkv"]
    assert details(made).keys() == {late.name}
    assert "correct the times of its frames, or leave out --fps" in details(made)[late.name]


def cut(path: pathlib.Path, size: int) -> pathlib.Path:
    path.write_bytes(path.read_bytes()[:size])
    return path


def test_a_nut_that_ends_early_is_truncated(tmp_path) -> None:
    """FFmpeg takes its last bytes for the offset of an index, outside of the file."""
    path = make_video(tmp_path / "in" / "x.nut", "mjpeg")
    whole = plain_frames(make_video(tmp_path / "in" / "y.nut", "mjpeg"))
    cut(path, path.stat().st_size // 2)
    made = made_of(tmp_path, "--max-reject-fraction", 1)
    clips = clips_of(made)
    assert len(clips["y.nut"]) == len(whole) == FRAMES
    for number, frames in list(clips["x.nut"].items())[:-1]:
        np.testing.assert_array_equal(frames[0], whole[number])
    assert len(clips["x.nut"]) > FRAMES // 4
    assert set(made.rejects.values()) <= {"truncated", "corrupt"}  # corrupt: the last frame
    assert list(made.rejects.values()).count("truncated") == 1
    assert len(made.rejects) <= 2


def test_an_mxf_without_its_index_is_truncated(tmp_path) -> None:
    path = make_video(tmp_path / "in" / "x.mxf", "h264-b")
    cut(path, path.stat().st_size * 6 // 10)
    make_video(tmp_path / "in" / "y.mxf", "h264-b")
    made = made_of(tmp_path, "--max-reject-fraction", 1)
    assert made.rejects == {"x.mxf": "truncated"}
    assert "the index of the file is missing" in details(made)["x.mxf"]


@pytest.mark.parametrize("codec", ["h264-b", "hevc-b"])
def test_an_mp4_that_ends_within_its_index_is_truncated(codec, tmp_path) -> None:
    whole = make_video(tmp_path / "in" / "whole.mp4", codec)
    size, index = whole.stat().st_size, whole.read_bytes().index(b"moov")
    sizes = [int(size - (size - index) * share) for share in (0.1, 0.3, 0.5, 0.7, 0.9, 0.99)]
    for one in [*sizes, index + 330]:  # 330: about where the codec is named
        cut(make_video(tmp_path / "in" / f"{one}.mp4", codec), one)
    made = made_of(tmp_path, "--max-reject-fraction", 1)
    assert sorted(clips_of(made)) == ["whole.mp4"]
    assert len(made.rejects) == len({*sizes, index + 330})
    assert set(made.rejects.values()) == {"truncated"}
    for detail in details(made).values():
        assert "an MP4 whose index cannot be read" in detail


def test_a_video_without_marks_of_key_frames_is_read(tmp_path) -> None:
    source = make_video(tmp_path / "source.mkv", "mpeg4")
    rows = [(bytes(packet), n, n, False) for n, packet in enumerate(packets_of(source))]
    path = muxed(source, tmp_path / "in" / "x.nut", rows)
    assert not any(packet.is_keyframe for packet in packets_of(path))
    made = made_of(tmp_path)
    check(path, clips_of(made)["x.nut"], range(FRAMES))
    assert not made.rejects


def test_frames_before_an_edit_list_are_left_out(tmp_path) -> None:
    source = make_video(tmp_path / "source.mkv", "h264-b")
    path = with_times(source, tmp_path / "in" / "x.mp4", lambda n, shown: (shown - 8, n - 12))
    made = made_of(tmp_path)
    check(path, clips_of(made)["x.mp4"], range(8, FRAMES))
    assert not made.rejects


def test_frames_that_are_not_coded_are_not_damage(tmp_path) -> None:
    source = make_video(tmp_path / "source.avi", "mpeg4")
    rows = []
    for number, packet in enumerate(packets_of(source)):
        if number in (4, 11, 12):
            rows.append((NOT_CODED, False))
        rows.append((bytes(packet), packet.is_keyframe))
    timed = [(data, n, n, is_key) for n, (data, is_key) in enumerate(rows)]
    path = muxed(source, tmp_path / "in" / "x.avi", timed)
    made = made_of(tmp_path)
    check(path, clips_of(made)["x.avi"], range(FRAMES))
    assert not made.rejects
    shown = [n for n in range(FRAMES + 3) if n not in (4, 12, 14)]
    assert micros_of(made, "x.avi") == [40_000 * n for n in shown]


def sparse(tmp_path: pathlib.Path, path: pathlib.Path) -> pathlib.Path:
    """Write an AVI whose frames 10 to 19 repeat the one before, as empty chunks."""
    source = make_video(tmp_path / "source.avi", "mjpeg")
    return with_times(source, path, lambda n, shown: (n + 10 * (n >= 10), n + 10 * (n >= 10)))


def empty_last_chunks(path: pathlib.Path, count: int) -> None:
    """Empty the last chunks of an AVI. The bytes of their frames become chunks to skip."""
    data = bytearray(path.read_bytes().replace(b"indx", b"JUNK"))  # idx1 is the index then
    places = [packet.pos for packet in packets_of(path)][-count:]
    for place in places:
        (size,) = struct.unpack_from("<I", data, place - 4)
        struct.pack_into("<I4sI", data, place - 4, 0, b"JUNK", size - 8)
    end = data.rindex(b"idx1")
    (length,) = struct.unpack_from("<I", data, end + 4)
    for entry in range(end + 8, end + 8 + length, 16):
        name, *_ = struct.unpack_from("<4sIII", data, entry)
        if name == b"00dc" and entry >= end + 8 + length - 16 * count:
            struct.pack_into("<I", data, entry + 12, 0)
    path.write_bytes(data)


def test_empty_chunks_of_an_avi_are_not_missing(tmp_path) -> None:
    path = sparse(tmp_path, tmp_path / "in" / "x.avi")
    last = make_video(tmp_path / "in" / "last.avi", "mjpeg")
    empty_last_chunks(last, 4)
    for one, declared, held in ((path, FRAMES + 10, FRAMES), (last, FRAMES, FRAMES - 4)):
        with av.open(str(one)) as source:
            assert source.streams.video[0].frames == declared
        assert len([*packets_of(one)]) == held
    made = made_of(tmp_path)
    clips = clips_of(made)
    check(path, clips["x.avi"], range(FRAMES))
    check(last, clips["last.avi"], range(FRAMES - 4))
    assert not made.rejects


def details(made: Made) -> dict[str, str]:
    text = (made.folder / "rejects.jsonl").read_text()
    return {one["key"]: one["detail"] for one in map(json.loads, text.splitlines())}


def test_empty_chunks_of_a_truncated_avi_do_not_count_as_missing(tmp_path) -> None:
    path = sparse(tmp_path, tmp_path / "in" / "x.avi")
    places = [packet.pos for packet in packets_of(path)]
    path.write_bytes(path.read_bytes()[: places[24]])
    made = made_of(tmp_path, "--max-reject-fraction", 1)
    assert sorted(clips_of(made)["x.avi"]) == list(range(24))
    missing = "the last 6 frames that the header of the video declares are missing"
    assert details(made) == {"x.avi#24": missing}


@pytest.mark.parametrize("name", ["packed.avi", "equal.mp4"])
def test_damage_is_reported_where_times_are_wrong(name, tmp_path) -> None:
    if name == "packed.avi":
        path = packed(make_video(tmp_path / "source.avi", "mpeg4-b"), tmp_path / "in" / name)
    else:
        source = make_video(tmp_path / "source.mkv", "h264-b")
        path = with_times(source, tmp_path / "in" / name, lambda n, shown: (n, n))
    before = plain_frames(path)
    keys = [number for number, packet in enumerate(packets_of(path)) if packet.is_keyframe]
    damaged = [*packets_of(path)][keys[1]]
    data = bytearray(path.read_bytes())
    data[damaged.pos + 5 : damaged.pos + damaged.size] = b"\x5a" * (damaged.size - 5)
    path.write_bytes(data)
    made = made_of(tmp_path, "--max-reject-fraction", 1)
    clips = clips_of(made)[name]
    assert {"corrupt"} <= set(made.rejects.values()) <= {"corrupt", "truncated"}
    found = []
    for number in sorted(clips):
        equal = [n for n, frame in enumerate(before) if (clips[number][0] == frame).all()]
        assert len(equal) == 1  # no damaged frame is written
        found += equal
    assert found == sorted(found)
    assert {*range(8), *range(keys[2] + 3, FRAMES)} <= {*found}
    assert not {*range(keys[1], keys[2] - 3)} & {*found}


def test_segments_of_videos_with_wrong_times_give_the_same_clips(tmp_path) -> None:
    source = make_video(tmp_path / "source.mkv", "h264-b")
    path = with_times(source, tmp_path / "x.mp4", lambda n, shown: (n, n))
    (tmp_path / "in").mkdir()
    listing = tmp_path / "in" / "list.csv"
    listing.write_text("path,from,to\nx.mp4,0,0.4\nx.mp4,0.4,1.2\n")
    columns = ("--start-column", "from", "--end-column", "to", "--input-root", tmp_path)
    out = tmp_path / "out"
    options = ("--input", listing, "--output", out, "--splits", "train=1", "--image-format", "raw")
    assert run("video", *options, "--clip-frames", 5, *columns) == 0
    plain = plain_frames(path)
    clips = clips_of(Made(out))
    found = {number for one in clips.values() for number in one}
    assert found == set(range(0, FRAMES, 5))
    for one in clips.values():
        for number, clip in one.items():
            np.testing.assert_array_equal(clip, plain[number : number + 5])
