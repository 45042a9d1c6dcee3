"""Films made for tests, of any container, codec and times, and what PyAV itself reads of them."""

import pathlib
import struct
from collections.abc import Mapping, Sequence
from fractions import Fraction

import av
import numpy as np
from PIL import Image

OPEN_GOP = {"x264-params": "open-gop=1:keyint=12:min-keyint=12:bframes=3:b-adapt=0:scenecut=0"}
CLOSED_GOP = {"x264-params": "open-gop=0:keyint=12:min-keyint=12:bframes=3:b-adapt=0:scenecut=0"}
MATRICES = {  # of MP4's track header; what is stored lies so that it is to be shown turned
    90: (0, 1, -1, 0),
    180: (-1, 0, 0, -1),
    270: (0, -1, 1, 0),
    "mirrored": (-1, 0, 0, 1),
}


def picture(number: int, *, height: int, width: int) -> np.ndarray:
    """uint8[height, width, 3], smooth, so that little is lost; no two of a film are alike."""
    down, across = np.mgrid[:height, :width]
    red = 128 + 100 * np.sin((across + 3 * number) / width * 6)
    green = 128 + 100 * np.cos((down - 2 * number) / height * 5)
    blue = np.full((height, width), 40 + number * 7 % 170)
    return np.stack([red, green, blue], -1).astype(np.uint8)


def make_film(
    path: pathlib.Path,
    frames: int = 48,
    *,
    size: tuple[int, int] = (48, 64),
    codec: str = "libx264",
    options: Mapping[str, str] | None = None,
    pixels: str = "yuv420p",
    rate: int = 25,
    times: Sequence[int] | None = None,
    sound: bool = False,
    aspect: Fraction | None = None,
    container: str | None = None,
    b_frames: int = 0,
    offset: int = 0,
    front: bool = False,
) -> pathlib.Path:
    """times: milliseconds of each frame, where they are not even. offset: number of the first.
    front: the index of an MP4 comes first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width = size
    muxer = {"movflags": "faststart"} if front else {}
    with av.open(str(path), "w", format=container, container_options=muxer) as out:
        stream = out.add_stream(codec, rate=rate)
        stream.width, stream.height, stream.pix_fmt = width, height, pixels
        # x264's macroblock tree depends on where its memory lies: equal films would differ.
        exact = {"crf": "12", "mbtree": "0"} if codec == "libx264" else {}
        stream.options = {**exact, **(options or {})}
        stream.codec_context.gop_size = 12
        if codec != "libx264":
            stream.codec_context.max_b_frames = b_frames
        if aspect is not None:
            stream.codec_context.sample_aspect_ratio = aspect
        if times is not None:
            stream.codec_context.time_base = Fraction(1, 1000)
        voice = out.add_stream("aac", rate=8000, layout="mono") if sound else None
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(
                picture(number + offset, height=height, width=width), "rgb24"
            )
            frame.pts = number if times is None else times[number]
            frame.time_base = Fraction(1, rate) if times is None else Fraction(1, 1000)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
        if voice is not None:
            heard = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
            heard.sample_rate, heard.pts = 8000, 0
            out.mux(voice.encode(heard))
            out.mux(voice.encode(None))
    return path


def make_sound(path: pathlib.Path, *, cover: bool = False) -> pathlib.Path:
    """Sound alone, or with a picture on its cover."""
    with av.open(str(path), "w") as out:
        voice = out.add_stream("aac" if path.suffix != ".mp3" else "libmp3lame", rate=8000)
        voice.layout = "mono"
        art = None
        if cover:
            art = out.add_stream("mjpeg", rate=1)
            art.width, art.height, art.pix_fmt = 16, 16, "yuvj420p"
            art.disposition = av.stream.Disposition.attached_pic
        if art is not None:
            frame = av.VideoFrame.from_ndarray(picture(0, height=16, width=16), "rgb24")
            out.mux(art.encode(frame.reformat(format="yuvj420p")))
            out.mux(art.encode(None))
        for number in range(4):
            heard = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
            heard.sample_rate, heard.pts = 8000, number * 1024
            out.mux(voice.encode(heard))
        out.mux(voice.encode(None))
    return path


def turn(path: pathlib.Path, turned: int | str) -> pathlib.Path:
    """Says in the track header of an MP4 that it is to be shown turned clockwise, or mirrored."""
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4
    at += 4 + (20 if data[at] == 0 else 32) + 16
    a, b, c, d = (one << 16 for one in MATRICES[turned])
    data[at : at + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(data)
    return path


def spoil(path: pathlib.Path, number: int) -> int:
    """Spoils the packet of a key frame; which frame of the film that is."""
    with av.open(str(path)) as film:
        packets = [packet for packet in film.demux(video=0) if packet.size]
        key = [packet for packet in packets if packet.is_keyframe][number]
        place = sorted(packet.pts for packet in packets).index(key.pts)
        start, size = key.pos, key.size
    data = bytearray(path.read_bytes())
    middle = start + size // 3
    data[middle : middle + size // 2] = bytes([0x5A]) * (size // 2)
    path.write_bytes(data)
    return place


def remuxed(path: pathlib.Path, target: pathlib.Path, times: Sequence[int]) -> None:
    """The packets of a film again, which are decoded as they are shown, at other milliseconds."""
    with av.open(str(path)) as film, av.open(str(target), "w") as out:
        stream = out.add_stream_from_template(film.streams.video[0])
        packets = (packet for packet in film.demux(video=0) if packet.size)
        for packet, time in zip(packets, times, strict=True):
            packet.stream, packet.time_base = stream, Fraction(1, 1000)
            packet.pts = packet.dts = time
            out.mux(packet)


def frames_of(path: pathlib.Path) -> list[np.ndarray]:
    """All frames by PyAV's own conversion, uint8[height, width, 3], as they are stored."""
    with av.open(str(path)) as film:
        return [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]


def times_of(path: pathlib.Path) -> list[float]:
    """Seconds of each frame from the first one on."""
    with av.open(str(path)) as film:
        found = [float(frame.pts * frame.time_base) for frame in film.decode(video=0)]
    return [one - found[0] for one in found]


def resized(frame: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """To (height, width) by Pillow, which ignores proportions."""
    image = Image.fromarray(frame).resize(size[::-1], Image.Resampling.BILINEAR)
    return np.asarray(image)


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """Levels, on average."""
    assert one.shape == other.shape
    return float(np.abs(one.astype(float) - other.astype(float)).mean())


def copy_film(
    source: pathlib.Path,
    path: pathlib.Path,
    *,
    size: tuple[int, int],
    crf: int = 12,
    frames: range,
) -> None:
    """Code frames of a film again, with other sides (height and width) and another quality."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(source)) as film, av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=25)
        (stream.height, stream.width), stream.pix_fmt = size, "yuv420p"
        stream.options = {"crf": str(crf)}
        for number, frame in enumerate(film.decode(video=0)):
            if number not in frames:
                continue
            frame = frame.reformat(width=size[1], height=size[0], format="yuv420p")
            frame.pts, frame.time_base = number - frames.start, Fraction(1, 25)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))


def fragmented(path: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    """Copies the packets of an MP4 to one with a fragment for each key frame."""
    options = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}
    with av.open(str(path)) as film, av.open(str(target), "w", container_options=options) as out:
        stream = out.add_stream_from_template(film.streams.video[0])
        for packet in film.demux(video=0):
            if packet.size:
                packet.stream = stream
                out.mux(packet)
    return target
