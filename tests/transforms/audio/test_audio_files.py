import pathlib
import re
import struct

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from recordmill.errors import Reason, RecordError, StorageError
from recordmill.storage.decoder_stream import DecoderStream
from recordmill.transforms.audio import audio_decoders, audio_streams
from recordmill.transforms.audio.audio_decoders import open_audio, read_header
from recordmill.transforms.audio.audio_files import AudioFile, read_segment
from recordmill.transforms.audio.audio_streams import FileInMemory
from recordmill.transforms.audio.mpeg_frames import check_mpeg_end
from tests.sounds import chirp, decode, encode, write

SOUND = chirp(16000, 8000)
STEREO = np.stack([SOUND, -SOUND], axis=1)


# Headers of frames, and their bytes: of MPEG-1, 2 and 2.5, and of layers I to III.
MPEG_FRAMES = [
    (b"\xff\xfb\x90\x64", 417),  # 144 * 128000 // 44100
    (b"\xff\xfb\x92\x64", 418),  # with padding
    (b"\xff\xf3\x84\xc4", 192),  # 72 * 64000 // 24000
    (b"\xff\xe3\x48\xc4", 288),  # 72 * 32000 // 8000
    (b"\xff\xfd\x84\x04", 384),  # 144 * 128000 // 48000
    (b"\xff\xff\x44\x04", 128),  # 12 * 128000 // 48000 * 4
]


def opened(path: pathlib.Path) -> AudioFile:
    status = path.stat()
    return open_audio(str(path), size=status.st_size, mtime=status.st_mtime_ns)


def read(path: pathlib.Path, start=None, end=None, *, max_seconds=10.0) -> np.ndarray:
    with opened(path) as file:
        return read_segment(file, start, end, max_seconds=max_seconds)


def reason_of(path: pathlib.Path, *segment: float | None, max_seconds: float = 10.0) -> Reason:
    with pytest.raises(RecordError) as caught:
        read(path, *segment, max_seconds=max_seconds)
    return caught.value.reason


@pytest.mark.parametrize("extension", ["wav", "flac", "aiff", "au", "caf"])
def test_lossless_formats_keep_samples(tmp_path, extension):
    path = write(tmp_path / f"x.{extension}", STEREO, subtype="PCM_16")
    with opened(path) as file:
        assert (file.header.format, file.header.rate) == (extension, 16000)
        assert (file.header.channels, file.header.frames) == (2, 8000)
    np.testing.assert_allclose(read(path), STEREO, atol=1 / 32768)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("extension", ["wav", "flac", "ogg", "mp3", "m4a", "aiff"])
@pytest.mark.parametrize("rate", [8000, 96_000])
def test_headers_are_those_of_the_decoders(tmp_path, monkeypatch, extension, rate, large):
    if large:
        monkeypatch.setattr(audio_streams, "IN_MEMORY", 0)
    if rate == 96_000 and extension == "mp3":
        rate = 48_000
    path = write(tmp_path / f"x.{extension}", STEREO, rate)
    status = path.stat()
    with opened(path) as file:
        expected = file.header
    assert read_header(str(path), size=status.st_size, mtime=status.st_mtime_ns) == expected


@pytest.mark.parametrize("extension", ["ogg", "mp3", "m4a"])
def test_lossy_formats_are_near(tmp_path, extension):
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(16000) / 16000).astype(np.float32)
    path = write(tmp_path / f"x.{extension}", np.stack([tone, -tone], axis=1))
    found = read(path)
    assert 16000 <= len(found) <= 16000 + 1152
    assert found.shape[1] == 2
    for channel, sign in enumerate((1, -1)):
        middle = found[4000:12000, channel]
        assert np.abs(middle - sign * tone[4000:12000]).max() < 0.05


@pytest.mark.parametrize("extension", ["wav", "flac", "m4a"])
@pytest.mark.parametrize("large", [False, True])
def test_a_segment_is_a_part_of_the_file(tmp_path, monkeypatch, extension, large):
    """Small files are read at once, large ones in ranges."""
    if large:
        monkeypatch.setattr(audio_streams, "IN_MEMORY", 0)
    path = write(tmp_path / f"x.{extension}", STEREO)
    whole = read(path)
    np.testing.assert_array_equal(read(path, 0.1, 0.3), whole[1600:4800])
    np.testing.assert_array_equal(read(path, 0.25, None), whole[4000:])
    np.testing.assert_array_equal(read(path, None, 0.25), whole[:4000])
    np.testing.assert_array_equal(read(path, 0.4, 0.9), whole[6400:])  # an end within a second
    np.testing.assert_array_equal(read(path, 0.1, 0.3, max_seconds=0.2), whole[1600:4800])


@pytest.mark.parametrize("extension", ["wav", "flac", "mp3", "m4a"])
def test_invalid_segments_are_rejected(tmp_path, extension):
    path = write(tmp_path / f"x.{extension}", SOUND)
    for segment in ((-0.1, 0.2), (0.3, 0.2), (0.2, 0.2), (float("nan"), None), (0.1, 3)):
        assert reason_of(path, *segment) == Reason.BAD_VALUE, segment
    assert reason_of(path, 2, None) in (Reason.BAD_VALUE, Reason.EMPTY)
    assert reason_of(path, max_seconds=0.4) == Reason.TOO_LARGE
    assert reason_of(path, 0.1, 0.4, max_seconds=0.2) == Reason.TOO_LARGE


@pytest.mark.parametrize("extension", ["wav", "flac", "ogg", "m4a", "aiff", "au", "w64"])
@pytest.mark.parametrize("kept", [0.3, 0.7, 0.9])
def test_files_that_end_early_are_rejected(tmp_path, extension, kept):
    path = write(tmp_path / f"x.{extension}", SOUND)
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data))])
    assert reason_of(path) in (Reason.TRUNCATED, Reason.CORRUPT)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("extension", ["mp3", "mp2"])
@pytest.mark.parametrize("rate", [16000, 24000, 44100, 48000])
def test_an_mpeg_file_ends_after_a_frame(tmp_path, monkeypatch, extension, rate, large):
    if large:
        monkeypatch.setattr(audio_streams, "IN_MEMORY", 0)
    codec = {"mp3": "libmp3lame", "mp2": "mp2"}[extension]
    path = encode(tmp_path / f"x.{extension}", chirp(rate, rate), rate, codec=codec)
    whole = path.read_bytes()
    path.write_bytes(whole + b"TAG" + bytes(125))
    assert len(read(path)) >= rate
    for after in (b"", bytes(999), b"APETAGEX" + bytes(300)):
        check_mpeg_end(FileInMemory(whole + after), size=len(whole + after))
    for missing in (1, 2, 50, len(whole) // 2 + 1):
        path.write_bytes(whole[:-missing])
        assert reason_of(path) == Reason.TRUNCATED, missing
        assert reason_of(path, 0.1, 0.2) == Reason.TRUNCATED, missing


@given(st.binary(max_size=300), st.sampled_from(MPEG_FRAMES), st.integers(3, 9), st.integers(1, 20))
def test_bytes_after_a_frame_do_not_hide_its_end(before, frame, count, missing):
    header, size = frame
    frames = (header + bytes(size - len(header))) * count
    whole = before.replace(b"\xff", b"") + frames
    check_mpeg_end(FileInMemory(whole), size=len(whole))
    with pytest.raises(RecordError, match="it ends within a frame"):
        check_mpeg_end(FileInMemory(whole[:-missing]), size=len(whole) - missing)


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_an_ogg_file_is_one_whole_stream(tmp_path, subtype):
    """libsndfile reads the first of several, and as many pages as there are."""
    path = tmp_path / "x.ogg"
    noise = np.random.default_rng(0).normal(size=(3 * 48000, 1)) / 10
    soundfile.write(path, noise, 48000, format="OGG", subtype=subtype)
    data = path.read_bytes()
    assert len(read(path)) == len(noise)
    pages = [one.start() for one in re.finditer(b"OggS", data)]
    for at in pages[3], pages[-1]:
        path.write_bytes(data[:at])
        with pytest.raises(RecordError, match="truncated: its last page is missing"):
            read(path)
    path.write_bytes(data[:-20] + bytes(8) + data[-12:])
    with pytest.raises(RecordError, match=r"corrupt: its page at byte \d+ is damaged"):
        read(path)
    path.write_bytes(data + data)
    with pytest.raises(RecordError, match="unsupported: several streams, one after the other"):
        read(path)


# Names, FFmpeg's codecs and formats of files that libsndfile does not read, or not rightly.
OTHER_CODECS = {
    "mp3.wav": ("libmp3lame", "wav", 16000),
    "mp2.wav": ("mp2", "wav", 16000),
    "ac3.wav": ("ac3", "wav", 48000),
    "g722.wav": ("g722", "wav", 16000),
    "g726.wav": ("g726", "wav", 8000),
    "yamaha.wav": ("adpcm_yamaha", "wav", 16000),
    "mp3.w64": ("libmp3lame", "w64", 16000),
    "flac.ogg": ("flac", "ogg", 16000),
    "g722.au": ("g722", "au", 16000),
    "ima.caf": ("adpcm_ima_qt", "caf", 16000),
    "mp3.caf": ("libmp3lame", "caf", 16000),
}


@pytest.fixture(params=[False, True], ids=["small", "large"])
def size_kind(request, monkeypatch):
    """Reads files at once, or in ranges."""
    if request.param:
        monkeypatch.setattr(audio_streams, "IN_MEMORY", 0)


@pytest.mark.usefixtures("size_kind")
@pytest.mark.parametrize("name", OTHER_CODECS)
def test_codecs_that_libsndfile_does_not_read_are_decoded_by_ffmpeg(tmp_path, name):
    codec, form, rate = OTHER_CODECS[name]
    path = encode(tmp_path / name, SOUND, rate, codec=codec, form=form)
    whole = read(path)
    np.testing.assert_array_equal(whole, decode(path))
    assert len(SOUND) <= len(whole) <= len(SOUND) + 2600
    with opened(path) as file:
        assert (file.header.format, file.header.rate) == (path.suffix[1:], rate)
    first, stop = round(0.1 * rate), round(0.16 * rate)
    np.testing.assert_array_equal(read(path, 0.1, 0.16), whole[first:stop])
    data = path.read_bytes()
    for kept in (len(data) - 1, len(data) * 2 // 3):
        path.write_bytes(data[:kept])
        with pytest.raises(RecordError, match=r"truncated: its last \d+ bytes are missing"):
            read(path)


@pytest.mark.usefixtures("size_kind")
def test_alac_in_caf_keeps_its_end(tmp_path):
    """FFmpeg alone drops as many samples as the last packet lacks, although none are padding."""
    levels = np.rint(STEREO * 32767) / 32768
    path = encode(tmp_path / "x.caf", levels.astype(np.float32), codec="alac")
    whole = read(path)
    assert len(decode(path)) < len(whole) == 8000
    np.testing.assert_array_equal(whole, levels.astype(np.float32))
    np.testing.assert_array_equal(read(path, 0.1, 0.3), whole[1600:4800])
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with pytest.raises(RecordError, match="truncated: its last 1 bytes are missing"):
        read(path)


@pytest.mark.parametrize("subtype", ["ALAC_16", "PCM_16"])
def test_a_caf_file_that_lacks_a_byte_is_rejected(tmp_path, subtype):
    """libsndfile leaves the last packet out."""
    path = write(tmp_path / "x.caf", SOUND, subtype=subtype)
    assert len(read(path)) == 8000
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RecordError, match="truncated: its last 1 bytes are missing"):
        read(path)


@pytest.mark.parametrize("name", ["x.wav", "x.aiff", "x.w64", "g721.wav", "nms.wav", "g723.au"])
def test_segments_of_codecs_that_cannot_seek(tmp_path, name):
    subtypes = {"g721.wav": "G721_32", "nms.wav": "NMS_ADPCM_16", "g723.au": "G723_24"}
    path = write(tmp_path / name, SOUND, subtype=subtypes.get(name, "GSM610"))
    whole = read(path)
    assert len(whole) >= 8000
    np.testing.assert_array_equal(read(path, 0.1, 0.3), whole[1600:4800])
    np.testing.assert_array_equal(read(path, 0.25, None), whole[4000:])


@pytest.mark.usefixtures("size_kind")
@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24"])
def test_flac_behind_an_id3_tag_is_checked(tmp_path, subtype):
    path = write(tmp_path / "x.flac", STEREO, subtype=subtype)
    expected, data = read(path), path.read_bytes()
    tag = b"ID3\4\0\0\0\0\2\0" + bytes(256)
    path.write_bytes(tag + data)
    np.testing.assert_array_equal(read(path), expected)
    np.testing.assert_array_equal(read(path, 0.1, 0.3), expected[1600:4800])
    path.write_bytes(tag + data[:26] + bytes(16) + data[42:])  # an MD5 of zeros is none
    np.testing.assert_array_equal(read(path), expected)
    path.write_bytes(tag + data[:26] + b"\1" * 16 + data[42:])
    with pytest.raises(RecordError, match="corrupt: its samples do not match the MD5"):
        read(path)
    frames = len(expected) + 1
    path.write_bytes(tag + data[:24] + struct.pack(">H", frames) + bytes(16) + data[42:])
    for segment in ((), (0.1, 0.3)):
        with pytest.raises(RecordError, match="it ends after 8000 samples, but its header declare"):
            read(path, *segment)


def test_a_wavpack_file_that_ends_in_its_first_block_is_truncated(tmp_path):
    path = encode(tmp_path / "x.wv", SOUND, codec="wavpack")
    assert len(read(path)) == 8000
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(RecordError, match="truncated: its header declares audio, but no sample"):
        read(path)


PIPED = (0x7FFFF000, 0x7FFFF024, 0x7FFFFFFF, 0x80000000, 0xFFFFF000, 0xFFFFFFFE, 0xFFFFFFFF)


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_U8", "G722"])
@pytest.mark.parametrize("stated", PIPED)
def test_a_file_of_unknown_length_is_read(tmp_path, subtype, stated):
    """Programs that write to a pipe cannot state the size of the samples."""
    path = tmp_path / "x.wav"
    if subtype == "G722":
        encode(path, SOUND, codec="g722")
    else:
        write(path, SOUND, subtype=subtype)
    expected, data = read(path), bytearray(path.read_bytes())
    at = data.index(b"data") + 4
    data[at : at + 4] = struct.pack("<I", stated)
    data[4:8] = struct.pack("<I", min(stated + 36, 0xFFFFFFFF))
    path.write_bytes(data)
    np.testing.assert_array_equal(read(path), expected)
    data[at : at + 4] = struct.pack("<I", 0x7FFFEFFF)
    path.write_bytes(data)
    with pytest.raises(RecordError, match=r"truncated: its last 214\d{7} bytes are missing"):
        read(path)


@pytest.mark.parametrize("form", ["aiff", "w64", "au", "caf"])
def test_other_formats_of_unknown_length_are_read(tmp_path, form):
    path = write(tmp_path / f"x.{form}", SOUND, subtype="PCM_16")
    expected, data = read(path), bytearray(path.read_bytes())
    if form == "aiff":  # as SoX writes it
        frames = 0x7F000000 // 2
        common, sound = data.index(b"COMM"), data.index(b"SSND")
        data[4:8] = struct.pack(">I", 2 * frames + 46)
        data[common + 10 : common + 14] = struct.pack(">I", frames)
        data[sound + 4 : sound + 8] = struct.pack(">I", 2 * frames + 8)
    elif form == "w64":
        at = data.index(b"data") + 16
        data[16:24] = data[at : at + 8] = b"\xff" * 8
    elif form == "au":
        data[8:12] = b"\xff" * 4
    else:
        at = data.index(b"data") + 4
        data[at : at + 8] = b"\xff" * 8
    path.write_bytes(data)
    np.testing.assert_array_equal(read(path), expected)


@pytest.mark.parametrize("marker", [b"RF64", b"BW64"])
@pytest.mark.parametrize("stated", [None, 0, (1 << 64) - 1])
def test_sizes_of_64_bits(tmp_path, marker, stated):
    """FFmpeg states 0 if it writes to a pipe. BW64 is RF64 with further chunks."""
    path = tmp_path / "x.wav"
    soundfile.write(path, SOUND, 16000, subtype="PCM_16", format="RF64")
    expected, data = read(path), bytearray(path.read_bytes())
    data[:4] = marker
    if stated is not None:
        at = data.index(b"ds64") + 8
        data[at : at + 16] = struct.pack("<QQ", stated, stated)
    path.write_bytes(data)
    np.testing.assert_array_equal(read(path), expected)
    if stated is None:
        path.write_bytes(data[:-1000])
        with pytest.raises(RecordError, match="truncated: its last 1000 bytes are missing"):
            read(path)


def test_an_unfinished_header_is_named(tmp_path):
    """Programs first write a size of 0; those that are killed never correct it."""
    path = write(tmp_path / "x.wav", SOUND, subtype="PCM_16")
    data = bytearray(path.read_bytes())
    data[4:8], data[40:44] = struct.pack("<I", 36), bytes(4)
    path.write_bytes(data)
    with pytest.raises(RecordError, match="truncated: its header states no samples, but 16000 b"):
        read(path)
    path.write_bytes(data[:44])
    with pytest.raises(RecordError, match="empty: no samples"):
        read(path)


@pytest.mark.parametrize(("form", "endian"), [("RF64", "FILE"), ("WAV", "BIG")])
def test_chunks_of_large_and_of_big_endian_wav_files_are_checked(tmp_path, form, endian):
    path = tmp_path / "x.wav"
    soundfile.write(path, SOUND, 16000, subtype="PCM_16", format=form, endian=endian)
    data = path.read_bytes()
    assert data[:4] == (b"RF64" if form == "RF64" else b"RIFX")
    assert len(read(path)) == 8000
    size = struct.pack(">I" if endian == "BIG" else "<I", 128)
    path.write_bytes(data + b"data" + size + bytes(128))
    with pytest.raises(RecordError, match="unsupported: its samples are in two data chunks"):
        read(path)
    path.write_bytes(data[:-1000])
    with pytest.raises(RecordError, match="truncated: its last 1000 bytes are missing"):
        read(path)


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24"])
@pytest.mark.parametrize("between", [b"", b"LIST\4\0\0\0abcd"])
def test_a_second_data_chunk_is_a_reject(tmp_path, subtype, between):
    """libsndfile refuses it, FFmpeg reads the last one, and Python's `wave` the first one."""
    path = write(tmp_path / "x.wav", SOUND, subtype=subtype)
    with path.open("ab") as file:
        file.write(between)
    assert len(read(path)) == 8000
    with path.open("ab") as file:
        file.write(b"data\x80\0\0\0" + bytes(128))
    with pytest.raises(RecordError, match="unsupported: its samples are in two data chunks"):
        read(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no audio at all, but a text of some length\n" * 40, Reason.UNSUPPORTED),
        (b"RIFF\x24\0\0\0WAVE", Reason.CORRUPT),
        (b"caff\0\1\0\0" + bytes(40), Reason.CORRUPT),
        (b"riff\x2e\x91\xcf\x11" + bytes(80), Reason.CORRUPT),
        (b"fLaC" + bytes(200), Reason.CORRUPT),
        (b"\0\0\0\x20ftypM4A " + bytes(500), Reason.TRUNCATED),
        (b"\x89PNG\r\n\x1a\n" + bytes(64), Reason.UNSUPPORTED),
        (b"#EXTM3U\nhttp://localhost/x.mp3\n", Reason.UNSUPPORTED),
    ],
)
def test_other_files_are_rejected(tmp_path, content, reason):
    path = tmp_path / "x.wav"
    path.write_bytes(content)
    assert reason_of(path) == reason


@pytest.mark.parametrize("rate", [0, 10, 4_000_000])
def test_impossible_sample_rates_are_rejected(tmp_path, rate):
    path = write(tmp_path / "x.wav", SOUND, subtype="PCM_16")
    data = bytearray(path.read_bytes())
    data[24:28] = struct.pack("<I", rate)
    path.write_bytes(data)
    assert reason_of(path, max_seconds=1e4) in (Reason.CORRUPT, Reason.UNSUPPORTED)


def test_files_without_samples_and_with_nan_are_rejected(tmp_path):
    assert reason_of(write(tmp_path / "empty.wav", SOUND[:0])) == Reason.EMPTY
    for value in (np.nan, np.inf):
        sound = SOUND.copy()
        sound[100] = value
        path = write(tmp_path / "odd.wav", sound, subtype="FLOAT")
        assert reason_of(path) == Reason.BAD_VALUE


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24"])
def test_flac_files_have_the_outcome_of_libsndfile(tmp_path, monkeypatch, subtype):
    """FFmpeg decodes those that are short and intact; whatever is damaged is left to libsndfile."""
    path = write(tmp_path / "x.flac", STEREO[:3000], 22050, subtype=subtype)
    intact = path.read_bytes()
    draw = np.random.default_rng(0)

    def outcome(*segment: float) -> np.ndarray | Reason:
        try:
            return read(path, *segment)
        except RecordError as error:
            return error.reason

    places = [*draw.integers(4, 200, 20), *draw.integers(200, len(intact), 20)]  # 200: of metadata
    damaged = [intact[:at] + bytes([intact[at] ^ 1]) + intact[at + 1 :] for at in places]
    for content in [intact, intact[:-1], intact + b"TAG", intact[:42], *damaged]:
        path.write_bytes(content)
        found = outcome(), outcome(0.0, 0.1)
        with monkeypatch.context() as patch:
            patch.setattr(audio_decoders, "open_short_flac", lambda *_, **__: None)
            np.testing.assert_equal(found, (outcome(), outcome(0.0, 0.1)))


def test_short_flac_files_need_no_libsndfile(tmp_path, monkeypatch):
    path = write(tmp_path / "x.flac", STEREO, subtype="PCM_16")
    monkeypatch.setattr(audio_decoders, "_soundfile", None)
    np.testing.assert_allclose(read(path), STEREO, atol=1 / 32768)
    np.testing.assert_array_equal(read(path, 0.1, 0.3), read(path)[1600:4800])


@pytest.mark.parametrize("large", [False, True])
def test_a_seek_before_the_beginning_is_ignored(tmp_path, monkeypatch, large):
    """Damaged files make libsndfile seek there, and an exception would be printed by cffi."""
    if large:
        monkeypatch.setattr(audio_streams, "IN_MEMORY", 0)
    with opened(write(tmp_path / "x.aiff", SOUND)) as file:
        assert file._stream.seek(7) == 7
        assert file._stream.seek(-1) == 7


def test_the_name_does_not_decide_the_format(tmp_path, monkeypatch):
    monkeypatch.setattr(audio_streams, "IN_MEMORY", 0)
    path = write(tmp_path / "x.flac", SOUND)
    for name in ("x.raw", "x.wav", "x"):
        path = path.rename(tmp_path / name)
        assert len(read(path)) == 8000


@pytest.mark.parametrize("extension", ["flac", "m4a"])
def test_faults_of_the_machine_are_no_rejects(tmp_path, monkeypatch, extension):
    """libsndfile and FFmpeg take errors of a read for the end of the file."""
    monkeypatch.setattr(audio_streams, "IN_MEMORY", 0)
    path = write(tmp_path / f"x.{extension}", np.tile(SOUND, 300))
    read_block = DecoderStream.read

    class _Failing:
        def __init__(self, file):
            self.file = file

        def __getattr__(self, name):
            return getattr(self.file, name)

        def read(self, size):
            if self.file.tell() > 400_000:
                raise StorageError("the disk fails")
            return self.file.read(size)

    def failing(stream, size):
        if not isinstance(stream._file, _Failing):
            stream._file = _Failing(stream._file)
        return read_block(stream, size)

    monkeypatch.setattr(DecoderStream, "read", failing)
    with pytest.raises(StorageError, match="the disk fails"):
        read(path, max_seconds=1000)
