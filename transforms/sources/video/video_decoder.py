"""Video files, read through PyAV: headers, packets and frames.

Packets come in decoding order. The sorted times of all packets number the frames. Formats and
protocols of FFmpeg are restricted, so that a file (such as a playlist) cannot open other files.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from recordmill.errors import Reason, RecordError
from recordmill.format.file_content import HEAD
from recordmill.optional_packages import import_package
from recordmill.storage.decoder_stream import DecoderStream
from recordmill.transforms.sources.video.container_structure import (
    concatenation_error,
    empty_chunks,
    has_cut_index,
    has_second_flv,
    has_second_mp4,
    index_error,
    open_error,
    timeless_error,
)
from recordmill.transforms.sources.video.frame_times import (
    Packets,
    are_usable,
    frame_length,
    time_of_packet,
    usable_times,
)

# FFmpeg's names of allowed demuxers. None of them opens other files, unlike those of playlists
# (hls, dash, concat) and of image sequences (image2). Audio demuxers allow better error messages.
FORMATS = (
    *("mov", "mp4", "m4a", "3gp", "3g2", "mj2", "matroska", "webm", "avi", "mpegts", "mpeg"),
    *("mpegvideo", "m4v", "h264", "hevc", "flv", "asf", "ogg", "gif", "ivf", "nut", "mxf", "dv"),
    *("rm", "wtv", "yuv4mpegpipe", "gxf", "apng", "mjpeg", "av1", "obu", "live_flv", "nsv", "nuv"),
    *("mp3", "wav", "flac", "aac", "amr", "w64", "aiff"),
)
_OPTIONS = {"protocol_whitelist": "file", "format_whitelist": ",".join(FORMATS)}
_SHOWN_VP8 = 0x10  # bit in the first byte of a VP8 packet: the frame is shown
# Duration of a stream in Matroska.
_DURATION = re.compile(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)", re.ASCII)
_LATE = Fraction(1, 20)  # tolerance in seconds for the duration in a header
_TRIES = 16  # attempts to read on after invalid data
_BUFFER = 1 << 18  # bytes that FFmpeg reads at once


def pyav() -> Any:
    """Return PyAV. Raises ConfigError if it is not installed."""
    return import_package("av", extra="video", needed_for="reading videos")


def versions() -> dict[str, str]:
    """Return {library: version} of the libraries that decode and scale."""
    av = pyav()
    names = ("libavcodec", "libavfilter", "libavformat", "libswscale")
    found = {name: ".".join(map(str, av.library_versions[name])) for name in names}
    return {"pyav": av.__version__, **found}


class VideoFile:
    """An open video; a context manager.

    Args:
      path: path or URI.
      size: listed size in bytes.
      mtime: listed modification time in ns since the epoch.

    Raises:
      ChangedInputError: the file has changed since it was listed.
      RecordError: the file cannot be read, or has no video stream.
      ConfigError: PyAV is not installed.
    """

    def __init__(self, path: str, *, size: int, mtime: int) -> None:
        self._place = path, size, mtime
        self._has_hole = False
        self._kept: collections.deque[Any] | None = None
        self._file = DecoderStream(path, size=size, mtime=mtime)
        try:
            self._open()
        except BaseException:
            self._file.close()
            raise

    def _open(self) -> None:
        av = pyav()
        self._file.seek(0)
        try:
            self._container = av.open(
                self._file, options=_OPTIONS, metadata_errors="ignore", buffer_size=_BUFFER
            )
        except av.FFmpegError as error:
            self._file.check()
            self._file.seek(0)
            raise open_error(self._file.read(HEAD)) from error
        try:
            self._file.check()
            self._container.flags |= av.container.Flags.gen_pts.value
            self.stream = self._find()
        except BaseException:
            self._container.close()
            raise
        context = self.stream.codec_context
        context.thread_type = "NONE"  # parallelism is across videos
        context.thread_count = 1
        # Report a broken frame as an error instead of concealing it.
        context.options = {"err_detect": "crccheck+explode"}

    def restart(self) -> None:
        """Reopen the video at the beginning. Raises RecordError."""
        self._kept = None
        self._container.close()
        self._open()

    def __enter__(self) -> VideoFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._container.close()
        self._file.close()

    @property
    def has_sound(self) -> bool:
        """True if there is an audio stream."""
        return bool(self._container.streams.audio)

    @property
    def streams(self) -> Any:
        """All streams of the file."""
        return self._container.streams

    @property
    def unit(self) -> Fraction:
        """Time base of the stream in seconds."""
        return Fraction(self.stream.time_base)

    @property
    def rate(self) -> Fraction:
        """Average frames per second according to the header, 0 if unknown."""
        return Fraction(self.stream.average_rate or self.stream.guessed_rate or 0)

    @property
    def pixels(self) -> tuple[int, int]:
        """Stored height and width in pixels."""
        context = self.stream.codec_context
        return context.height, context.width

    @property
    def aspect(self) -> Fraction:
        """Pixel aspect ratio, width / height."""
        return Fraction(self.stream.sample_aspect_ratio or 1) or Fraction(1)

    def packets(self, *, keep: bool = False, keyless: bool = False) -> Packets:
        """Read all packets without decoding them.

        keep: whether to keep the packets in memory, so that the next `demux` yields them again.
        keyless: whether the first packet counts as a key frame, because no packet is marked as one.

        Raises:
          RecordError: there are no frames, or the file holds several videos.
        """
        times: list[int] = []
        keys: list[tuple[int, int]] = []
        sizes: list[int] = []
        read = guessed = wrong = timeless = before = last = length = 0
        early = late = 0  # frames shown before the first key frame and after it
        decoded: int | None = None  # decoding time of the packet
        place = stop = None  # offset of the packet, and its end
        kept: collections.deque[Any] = collections.deque()
        for packet in self.demux():
            read += 1
            if packet.pos:
                place, stop = packet.pos, packet.pos + packet.size
            last_decoded, decoded = decoded, packet.dts
            goes_back = decoded is not None and last_decoded is not None and decoded < last_decoded
            if keep:
                kept.append(packet)
            guessed += packet.pts is None
            timeless += packet.pts is None and packet.dts is None
            time = time_of_packet(packet, last + length)
            is_key = packet.is_keyframe or (keyless and not keys)
            if not keys and not is_key:
                continue
            if is_key:
                restarts = len(times) > 1 and time <= before and time < last
                if restarts and (goes_back or None in (decoded, last_decoded)):
                    raise concatenation_error(len(times))
                keys.append((time, time if packet.dts is None else packet.dts))
                sizes.append(0)
            sizes[-1] += packet.size
            if not self.makes_frame(packet):
                continue
            if time < keys[0][0]:
                early += 1
                wrong += is_key or late > 0 or not self._reorders or goes_back
            else:
                late += time > keys[0][0]
                times.append(time)
                if time >= last or len(times) == 1:
                    before, last, length = last, time, packet.duration or 0
        if self._has_unread_video(place):
            raise concatenation_error(len(times))
        if read and timeless == read:
            raise self._error(timeless_error(self._container.format.name))
        if read and not keys:
            self.restart()
            return self.packets(keep=keep, keyless=True)
        if not times:
            raise self._error(RecordError(Reason.EMPTY, "no frames"))
        wrong += early > 0 and not late
        found = np.sort(np.array(times, np.int64))
        is_usable = are_usable(int(found[0]), int(found[-1]), self.unit)
        found = usable_times(found, self.unit)
        order = np.argsort(np.array(keys, np.int64)[:, 0], kind="stable")
        packets = Packets(
            times=found,
            keys=np.array(keys, np.int64)[order],
            sizes=np.array(sizes, np.int64)[order],
            end=int(found[-1]) + frame_length(length, self.rate, self.unit),
            ordered=is_usable
            and not (guessed or wrong or keyless)
            and bool((np.diff(found) > 0).all()),
        )
        self._kept = kept if keep else None
        return dataclasses.replace(packets, missing=self._missing(packets, read, stop, decoded))

    def demux(self) -> Iterator[Any]:
        """Yield the packets of the video stream, as far as they can be read.

        Raises:
          StorageError: the file could not be read.
        """
        if self._kept is not None:
            while self._kept:
                yield self._kept.popleft()
            return
        av = pyav()
        packets = self._container.demux(self.stream)
        failed = 0
        while failed < _TRIES:
            try:
                packet = next(packets)
            except (StopIteration, av.EOFError):
                self._file.check()
                return
            except av.FFmpegError:
                self._file.check()
                failed += 1  # the invalid data may be skipped now
                packets = self._container.demux(self.stream)
                continue
            except IndexError:
                # PyAV 18 fails for a packet of a stream that begins in the middle of a file, as
                # in MPEG-TS: skip that packet.
                packets = self._container.demux(self.stream)
                continue
            self._file.check()
            if packet.size:
                self._has_hole |= failed > 0
                failed = 0
                yield packet

    def seek(self, key: tuple[int, int]) -> None:
        """Seek to a key frame, or to some place before it."""
        with contextlib.suppress(pyav().FFmpegError):
            self._container.seek(min(key), stream=self.stream, backward=True)

    def _find(self) -> Any:
        """Return the video stream. Raises RecordError if there is none."""
        av = pyav()
        attached = av.stream.Disposition.attached_pic
        streams = list(self._container.streams.video)
        moving = [one for one in streams if not one.disposition & attached]
        if not moving:
            what = "only cover art" if streams else "no video stream"
            raise self._error(RecordError(Reason.UNSUPPORTED, f"{what}: expected a video"))
        moving = [one for one in moving if one.codec_context is not None] or moving
        found = max(moving, key=self._rank)
        if found.codec_context is None or not found.time_base:
            what = "FFmpeg has no decoder for its video stream"
            raise self._error(RecordError(Reason.UNSUPPORTED, what))
        if not found.codec_context.width or not found.codec_context.height:
            raise self._error(RecordError(Reason.CORRUPT, "its header has no height and width"))
        return found

    def _error(self, error: RecordError) -> RecordError:
        """Return the error that an incomplete index causes, or else the given error."""
        is_cut = self._is_mp4 and has_cut_index(self._file, self._place[1])
        self._file.check()
        return index_error() if is_cut else error

    @property
    def _is_mp4(self) -> bool:
        return bool(self._container.format.name.startswith("mov"))

    @property
    def _reorders(self) -> bool:
        """True if frames of the codec may be shown in another order than that of decoding."""
        return bool(self.stream.codec_context.codec.reorder)

    @staticmethod
    def _rank(stream: Any) -> tuple[bool, int]:
        """Return the rank of a stream: the default stream first, then the largest."""
        context = stream.codec_context
        pixels = 0 if context is None else context.height * context.width
        return bool(stream.disposition & pyav().stream.Disposition.default), pixels

    def makes_frame(self, packet: Any) -> bool:
        """Return whether a packet gives a frame that is shown."""
        if packet.is_discard:
            return False
        if self.stream.codec_context.name == "vp8":
            return bool(memoryview(packet)[0] & _SHOWN_VP8)
        return True

    def _has_unread_video(self, last: int | None) -> bool:
        """Return whether the file has a second video.

        last: offset of the last packet read, None if no packet had one.
        """
        form = self._container.format.name
        if not self._is_mp4 and form != "flv":
            return False
        place = self._file.tell()
        if form == "flv":
            found = last is not None and has_second_flv(self._file, last)
        else:
            found = has_second_mp4(self._file, self._place[1])
        self._file.seek(place)  # where FFmpeg reads on
        self._file.check()
        return found

    def _missing(
        self, packets: Packets, read: int, end: int | None, time: int | None
    ) -> int | None:
        """Return the number of missing frames, None if frames are missing in an unknown number.

        read: number of packets. end: offset of the end of the last one. time: its decoding time.
        """
        if self._has_hole:
            return None
        form = self._container.format.name
        if self._is_mp4:
            return len(self.stream.index_entries) - self._indexed
        if form == "nut" and end == self._place[1]:
            return None  # an index follows the last packet, unless the file was cut
        if form == "avi" and self.stream.frames:
            return self._missing_of_avi(read, end, time)
        declared = self._declared_end
        if declared is None:
            return 0
        late = max(2 * Fraction(packets.end - int(packets.times[-1])) * self.unit, _LATE)
        return None if declared > packets.end * self.unit + late else 0

    def _missing_of_avi(self, read: int, end: int | None, time: int | None) -> int | None:
        """Return the number of missing frames of an AVI, whose times also count empty chunks."""
        if self._indexed > read:
            return None  # frames inside the file could not be read
        missing = int(self.stream.frames) - max(read, 0 if time is None else time + 1)
        if missing > 0 and end is not None:
            at = self._file.tell()
            missing -= empty_chunks(self._file, end + end % 2, self.stream.index)
            self._file.seek(at)  # where FFmpeg reads on
            self._file.check()
        return max(missing, 0)

    @property
    def _indexed(self) -> int:
        """Number of packets in the index that are within the file."""
        size = self._place[1]
        return sum(bool(one.pos + one.size <= size) for one in self.stream.index_entries)

    @property
    def _declared_end(self) -> Fraction | None:
        """End of the video stream in seconds according to the header, None if unknown."""
        found = _DURATION.fullmatch(self.stream.metadata.get("DURATION", ""))
        if found is not None:
            return 3600 * int(found[1]) + 60 * int(found[2]) + Fraction(found[3])
        if self._container.format.name == "flv" and not self.has_sound:
            length = self._container.duration
            return None if length is None else Fraction(length, pyav().time_base)
        return None
