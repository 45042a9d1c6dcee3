"""Clips of films by a plain loop in two processes, half of the films each: the floor.

    python -m benchmarks.peers.video_loops FILMS OUTPUT pyav|opencv|to_image

Every frame is decoded and coded once; clips of 16 every 8 share what is coded, and are written as
SequenceExamples by our encoder, which is the fastest that there is. No splits, shuffle, resume or
checksums of files. `to_image` is what PyAV's own pages show: a picture of PIL's of each frame.
"""

from __future__ import annotations

import io
import pathlib
import sys
from collections.abc import Callable, Iterator

import pyarrow as pa

from benchmarks.peers.processes import PROCESSES, finish, shard, started
from recordmill.tfrecord.example import encode_frames

_ROWS = 16  # clips encoded at once
_FRAMES, _STRIDE, _SIDE, _QUALITY = 16, 8, 112, 90


def by_pyav(path: str) -> Iterator[tuple[bytes, int]]:
    """Every frame as JPEG, and its time in microseconds."""
    import av
    from av.video.reformatter import Interpolation, VideoReformatter
    from PIL import Image

    reformatter = VideoReformatter()
    with av.open(path) as film:
        stream = film.streams.video[0]
        stream.thread_type = "NONE"
        for frame in film.decode(stream):
            small = reformatter.reformat(
                frame, _SIDE, _SIDE, "rgb24", interpolation=Interpolation.BILINEAR
            )
            plane = small.planes[0]
            image = Image.frombuffer(
                "RGB", (_SIDE, _SIDE), memoryview(plane), "raw", "RGB", plane.line_size, 1
            )
            out = io.BytesIO()
            image.save(out, "JPEG", quality=_QUALITY)
            yield out.getvalue(), int(frame.time * 1e6)


def by_opencv(path: str) -> Iterator[tuple[bytes, int]]:
    import cv2

    cv2.setNumThreads(1)
    film = cv2.VideoCapture(path, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    while True:
        time = film.get(cv2.CAP_PROP_POS_MSEC)
        found, frame = film.read()
        if not found:
            return
        small = cv2.resize(frame, (_SIDE, _SIDE), interpolation=cv2.INTER_LINEAR)
        _, data = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
        yield data.tobytes(), int(time * 1000)


def by_to_image(path: str) -> Iterator[tuple[bytes, int]]:
    import av

    with av.open(path) as film:
        stream = film.streams.video[0]
        stream.thread_type = "NONE"
        for frame in film.decode(stream):
            image = frame.to_image().resize((_SIDE, _SIDE))
            out = io.BytesIO()
            image.save(out, "JPEG", quality=_QUALITY)
            yield out.getvalue(), int(frame.time * 1e6)


_ROADS: dict[str, Callable[[str], Iterator[tuple[bytes, int]]]] = {
    "pyav": by_pyav,
    "opencv": by_opencv,
    "to_image": by_to_image,
}


def clips(frames: Iterator[tuple[bytes, int]]) -> Iterator[list[tuple[bytes, int]]]:
    """Those of 16 frames every 8."""
    held: list[tuple[bytes, int]] = []
    for frame in frames:
        held.append(frame)
        if len(held) == _FRAMES:
            yield held
            held = held[_STRIDE:]


def write(road: str, films: list[str], target: str) -> None:
    """Writes one TFRecord file."""
    with open(target, "wb") as sink:
        rows: list[tuple[str, list[tuple[bytes, int]]]] = []
        for film in films:
            for clip in clips(_ROADS[road](film)):
                rows.append((pathlib.Path(film).name, clip))
                if len(rows) == _ROWS:
                    sink.write(_encoded(rows))
                    rows = []
        if rows:
            sink.write(_encoded(rows))


def _encoded(rows: list[tuple[str, list[tuple[bytes, int]]]]) -> bytes:
    count = len(rows)
    flat = [frame for _, clip in rows for frame in clip]
    lists = {
        "image/encoded": pa.array([data for data, _ in flat], pa.binary()),
        "image/timestamp": pa.array([time for _, time in flat], pa.int64()),
    }
    columns = {
        name: pa.FixedSizeListArray.from_arrays(values, _FRAMES) for name, values in lists.items()
    }
    columns |= {
        "clip/data_path": pa.array([name for name, _ in rows], pa.string()),
        "image/format": pa.array(["jpeg"] * count, pa.string()),
        "image/height": pa.array([_SIDE] * count, pa.int64()),
        "image/width": pa.array([_SIDE] * count, pa.int64()),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    return encode_frames(batch, dict.fromkeys(lists, _FRAMES)).data


def main(source: str, output: str, road: str) -> None:
    films = sorted(map(str, pathlib.Path(source).rglob("*.mp4")))
    pathlib.Path(output).mkdir()
    finish([started(write, road, films[i::PROCESSES], shard(output, i)) for i in range(PROCESSES)])


if __name__ == "__main__":
    main(*sys.argv[1:])
