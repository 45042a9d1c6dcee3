"""Films as PyAV opens them: what their headers say, and their packets.

A frame is known by its time: packets come in the order in which they are decoded, and the sorted
times of all packets number the frames. What a file says must not lead to another one: FFmpeg is
told which formats and protocols there are, so that a playlist among the films opens nothing.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import errno
import functools
import importlib
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from recordmill.errors import ConfigError, Reason, RecordError
from recordmill.storage.files import InputFile, is_uri, open_file

Ints = npt.NDArray[np.int64]

# Demuxers of files that hold what they show, by the names that FFmpeg has for them. None of them
# opens other files, as those of playlists (hls, dash, concat) and of pictures (image2) do. Those of
# sound are there so that it can be told that there is nothing to see.
FORMATS = (
    *("mov", "mp4", "m4a", "3gp", "3g2", "mj2", "matroska", "webm", "avi", "mpegts", "mpeg"),
    *("mpegvideo", "m4v", "h264", "hevc", "flv", "asf", "ogg", "gif", "ivf", "nut", "mxf", "dv"),
    *("rm", "wtv", "yuv4mpegpipe", "gxf", "apng", "mjpeg", "av1", "obu", "live_flv", "nsv", "nuv"),
    *("mp3", "wav", "flac", "aac", "amr", "w64", "aiff"),
)
_OPTIONS = {"protocol_whitelist": "file", "format_whitelist": ",".join(FORMATS)}
_HEAD = 12  # bytes by which a format is known
_HIDDEN_VP8 = 0x10  # of the first byte of a packet: whether its frame is shown
_DURATION = re.compile(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)")  # as Matroska has it for a stream
_LATE = Fraction(1, 20)  # seconds that a header may say too much
_TRIES = 16  # to read on where something cannot be understood
_LOST = frozenset({errno.EIO, errno.ESTALE, errno.ENXIO, errno.ENODEV, errno.ETIMEDOUT})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Packets:
    """The frames of a film, by what its packets say.

    times: int64[frames], sorted, in units of the stream. keys: int64[k, 2], the time of each frame
    from which decoding can begin and that at which its packet is decoded; ascending. sizes:
    int64[k], bytes from a key frame to the next. end: the time at which the last frame ends.
    missing: frames of which the header tells, and that are not there; None where it is not known
    how many. ordered: whether each frame has a time of its own; else frames are numbered as they
    are decoded.
    """

    times: Ints
    keys: Ints
    sizes: Ints
    end: int
    missing: int | None = 0
    ordered: bool = True


def library() -> Any:
    """PyAV. Raises ConfigError where it is not installed."""
    return _needed("av", "read by PyAV")


def jpegs() -> Any:
    """What codes frames as JPEG. Raises ConfigError where it is not installed."""
    return _needed("simplejpeg", "coded by simplejpeg")


@functools.cache
def _needed(name: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"films are {what}, which is not installed: pip install 'recordmill[video]'"
        ) from error


def versions() -> dict[str, str]:
    """{library: version} of what decodes and scales."""
    av = library()
    names = ("libavcodec", "libavfilter", "libavformat", "libswscale")
    found = {name: ".".join(map(str, av.library_versions[name])) for name in names}
    return {"pyav": av.__version__, **found}


class Film:
    """An open film, if it is still what the listing saw; a context manager.

    Raises:
      ChangedInputError: it is not.
      RecordError: it cannot be read, or has no pictures.
      ConfigError: PyAV is not installed.
    """

    def __init__(self, path: str, *, size: int, mtime: int) -> None:
        self._place = path, size, mtime
        self._has_hole = False
        self._kept: collections.deque[Any] | None = None
        self._file: Any = None
        if is_uri(path):
            self._file = open_file(path, size=size, mtime=mtime)
            head = self._file.read(_HEAD)
        else:
            with InputFile(path, size=size, mtime=mtime) as file:
                head = file.read(0, min(size, _HEAD))
        try:
            self._open(head)
        except BaseException:
            if self._file is not None:
                self._file.close()
            raise

    def _open(self, head: bytes) -> None:
        av = library()
        if self._file is not None:
            self._file.seek(0)
        source = self._place[0] if self._file is None else self._file
        try:
            self._container = av.open(source, options=_OPTIONS, metadata_errors="ignore")
        except av.FFmpegError as error:
            raise _no_film(head) from error
        try:
            self._container.flags |= av.container.Flags.gen_pts.value
            self.stream = self._find()
        except BaseException:
            self._container.close()
            raise
        context = self.stream.codec_context
        context.thread_type = "NONE"  # films are decoded side by side, not frames
        context.thread_count = 1
        # A frame that is broken is none, not what could be guessed of it.
        context.options = {"err_detect": "explode"}

    def restart(self) -> None:
        """Goes to the beginning, as if nothing had been read. Raises RecordError."""
        self._kept = None
        self._container.close()
        self._open(b"")

    def __enter__(self) -> Film:
        return self

    def __exit__(self, *_: object) -> None:
        self._container.close()
        if self._file is not None:
            self._file.close()

    @property
    def has_sound(self) -> bool:
        return bool(self._container.streams.audio)

    @property
    def unit(self) -> Fraction:
        """Seconds that one of a time's units takes."""
        return Fraction(self.stream.time_base)

    @property
    def rate(self) -> Fraction:
        """Frames per second on average, as the header says; 0 where it does not."""
        return Fraction(self.stream.average_rate or self.stream.guessed_rate or 0)

    @property
    def pixels(self) -> tuple[int, int]:
        """Height and width as they are stored."""
        context = self.stream.codec_context
        return context.height, context.width

    @property
    def aspect(self) -> Fraction:
        """How wide a pixel is shown, compared with its height."""
        return Fraction(self.stream.sample_aspect_ratio or 1) or Fraction(1)

    def packets(self, *, keep: bool = False) -> Packets:
        """Reads all of the film, and decodes nothing. keep: what was read is in memory, and `demux`
        gives it once more.

        Raises:
          RecordError: it has no frames, or its times do not tell how these follow each other.
        """
        times: list[int] = []
        keys: list[tuple[int, int]] = []
        sizes: list[int] = []
        last, length, read, guessed = 0, 0, 0, 0
        kept: collections.deque[Any] = collections.deque()
        for packet in self.demux():
            read += 1
            if keep:
                kept.append(packet)
            time = packet.pts
            if time is None:
                guessed += 1
                time = last + length if packet.dts is None else packet.dts
            if not keys and not packet.is_keyframe:
                continue
            if packet.is_keyframe:
                if times and time < last and self._tells_times:
                    raise RecordError(
                        Reason.UNSUPPORTED,
                        f"its times begin anew after {len(times)} frames, as where films were put"
                        " one behind another: join them as with ffmpeg -f concat, or apart",
                    )
                keys.append((time, time if packet.dts is None else packet.dts))
                sizes.append(0)
            sizes[-1] += packet.size
            if self._is_shown(packet) and time >= keys[0][0]:
                times.append(time)
                if time >= last or len(times) == 1:
                    last, length = time, packet.duration or 0
        if read and guessed == read:
            raise RecordError(
                Reason.UNSUPPORTED,
                "frames without times, as in a bare stream: put it into a container, such as with"
                " ffmpeg -i FILE -c copy FILE.mp4",
            )
        if not times:
            raise RecordError(Reason.EMPTY, "no frames")
        if not length:
            length = round(1 / (self.rate * self.unit)) if self.rate else 1
        found = np.sort(np.array(times, np.int64))
        order = np.argsort(np.array(keys, np.int64)[:, 0], kind="stable")
        packets = Packets(
            times=found,
            keys=np.array(keys, np.int64)[order],
            sizes=np.array(sizes, np.int64)[order],
            end=int(found[-1]) + length,
            ordered=self._tells_times and not guessed and bool((np.diff(found) > 0).all()),
        )
        self._kept = kept if keep else None
        return dataclasses.replace(packets, missing=self._missing(packets, read))

    def demux(self) -> Iterator[Any]:
        """The packets of its pictures, to the end of what can be read.

        Raises:
          RecordError: the file cannot be read any more.
        """
        if self._kept is not None:
            while self._kept:
                yield self._kept.popleft()
            return
        av = library()
        packets = self._container.demux(self.stream)
        failed = 0
        while failed < _TRIES:
            try:
                packet = next(packets)
            except (StopIteration, av.EOFError):
                return
            except av.FFmpegError as error:
                if error.errno in _LOST:
                    raise RecordError(Reason.UNREADABLE, "an I/O error within the film") from error
                failed += 1  # what it could not understand is behind us, perhaps
                packets = self._container.demux(self.stream)
                continue
            except IndexError:
                # PyAV 18 knows no stream that first shows itself in the middle of a file, as those
                # of MPEG-TS may: the packet is of that one, and the next is read.
                packets = self._container.demux(self.stream)
                continue
            if packet.size:
                self._has_hole |= failed > 0
                failed = 0
                yield packet

    def seek(self, key: tuple[int, int]) -> None:
        """Goes to a key frame, or somewhere before it."""
        with contextlib.suppress(library().FFmpegError):
            self._container.seek(min(key), stream=self.stream, backward=True)

    def _find(self) -> Any:
        """The pictures. Raises RecordError where there are none."""
        av = library()
        attached = av.stream.Disposition.attached_pic
        streams = list(self._container.streams.video)
        moving = [one for one in streams if not one.disposition & attached]
        if not moving:
            what = "only a picture on its cover" if streams else "no pictures"
            raise RecordError(Reason.UNSUPPORTED, f"{what}: expected a film")
        moving = [one for one in moving if one.codec_context is not None] or moving
        found = max(moving, key=self._rank)
        if found.codec_context is None or not found.time_base:
            raise RecordError(
                Reason.UNSUPPORTED, "its pictures are coded in a way that FFmpeg cannot read"
            )
        if not found.codec_context.width or not found.codec_context.height:
            raise RecordError(Reason.CORRUPT, "the header says of no height and width")
        return found

    @staticmethod
    def _rank(stream: Any) -> tuple[bool, int]:
        """Of several tracks the default one comes first, then the largest."""
        context = stream.codec_context
        pixels = 0 if context is None else context.height * context.width
        return bool(stream.disposition & library().stream.Disposition.default), pixels

    def _is_shown(self, packet: Any) -> bool:
        """Whether a frame comes of it: some are decoded for the sake of others."""
        if packet.is_discard:
            return False
        if self.stream.codec_context.name == "vp8":
            return bool(memoryview(packet)[0] & _HIDDEN_VP8)
        return True

    @property
    def _tells_times(self) -> bool:
        """AVI has none: those of H.264 and H.265 are made up, and wrong where frames are not shown
        as they are decoded.
        """
        context = self.stream.codec_context
        is_reordered = context.has_b_frames and context.name in ("h264", "hevc")
        return not (is_reordered and self._container.format.name == "avi")

    def _missing(self, packets: Packets, read: int) -> int | None:
        if self._has_hole:
            return None
        form = self._container.format.name
        if form.startswith("mov"):
            size = self._place[1]
            return sum(bool(one.pos + one.size > size) for one in self.stream.index_entries)
        if form == "avi" and self.stream.frames:
            return max(int(self.stream.frames) - read, 0)
        told = self._told_end
        if told is None:
            return 0
        late = max(2 * Fraction(packets.end - int(packets.times[-1])) * self.unit, _LATE)
        return None if told > packets.end * self.unit + late else 0

    @property
    def _told_end(self) -> Fraction | None:
        """Seconds at which its pictures end, as the header says."""
        found = _DURATION.fullmatch(self.stream.metadata.get("DURATION", ""))
        if found is not None:
            return 3600 * int(found[1]) + 60 * int(found[2]) + Fraction(found[3])
        if self._container.format.name == "flv" and not self.has_sound:
            length = self._container.duration
            return None if length is None else Fraction(length, library().time_base)
        return None


def _no_film(head: bytes) -> RecordError:
    """Why FFmpeg cannot open what begins so."""
    if head[4:8] == b"ftyp":
        return RecordError(
            Reason.TRUNCATED, "an MP4 whose index cannot be read, or was never written"
        )
    if head.startswith(b"\x1a\x45\xdf\xa3"):
        return RecordError(Reason.CORRUPT, "a Matroska file whose header cannot be read")
    return RecordError(Reason.UNSUPPORTED, "no film: a format that is not known, or not allowed")
