"""`recordmill audio` from end to end: through its command line, read back without TensorFlow."""

import csv
import json
import pathlib
import re
import struct
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
import soxr

import recordmill
from recordmill.transforms.audio.audio_options import MelOptions
from recordmill.transforms.audio.spectrogram import log_mel
from tests.image_runs import Made, make, run
from tests.sounds import WORDS, chirp, decode, encode, say, speech, write

pytestmark = pytest.mark.usefixtures("encoders")

ALL = ("--splits", "train=1", "--num-shards", 1)
MONO = ("--sample-rate", 16000, "--mono")


@pytest.fixture(scope="module")
def words(tmp_path_factory) -> pathlib.Path:
    """Nine files of three speakers, in all formats."""
    return speech(tmp_path_factory.mktemp("speech"))


def made_of(tmp_path: pathlib.Path, source: object, *options: object, name: str = "out") -> Made:
    return make(tmp_path / name, "--input", source, *ALL, *options, command="audio")


def records(made: Made, split: str = "train") -> dict[tuple[str, int], dict]:
    """By key and copy, as `recordmill.read` gives them."""
    rows = made.index(split)
    found = recordmill.read(made.folder, split)
    return {(row["key"], row["copy"]): one for row, one in zip(rows, found, strict=True)}


def waveforms(made: Made) -> dict[str, np.ndarray]:
    return {key: one["audio/waveform"] for (key, _), one in records(made).items()}


def rows_of(path: pathlib.Path, rows: list[dict]) -> pathlib.Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_waveforms_of_every_format(tmp_path, words):
    made = made_of(tmp_path, words, *MONO)
    found = records(made)
    assert made.manifest.labels == tuple(WORDS)
    assert len(found) == 9
    assert {one["audio/format"] for one in found.values()} >= {b"wav", b"flac", b"mp3", b"mp4"}
    for (key, _), one in found.items():
        assert one["audio/class/text"] == key.partition("/")[0].encode()
        assert one["audio/filename"] == key.encode()
        assert one["audio/sample_rate"] == 16000
        waveform = one["audio/waveform"]
        assert waveform.dtype == np.float32
        assert waveform.shape == (one["audio/samples"],)
        if key.endswith(("wav", "flac")):
            sound, rate = soundfile.read(words / key, dtype="float32")
            np.testing.assert_array_equal(waveform, soxr.resample(sound, rate, 16000))


def test_every_codec_of_a_container_is_decoded(tmp_path):
    """libsndfile reads none of them, or not rightly. Damage is named as for other codecs."""
    codecs = {"libmp3lame": "wav", "g722": "wav", "g726": "wav", "flac": "ogg", "alac": "caf"}
    source, sound = tmp_path / "in", chirp(8000, 8000)
    for codec, form in codecs.items():
        encode(source / f"{codec}.{form}", sound, 8000 if codec == "g726" else 16000, codec=codec)
    data = bytearray(write(source / "sox.wav", sound, subtype="PCM_16").read_bytes())
    data[4:8], data[40:44] = struct.pack("<I", 0x7FFFF024), struct.pack("<I", 0x7FFFF000)
    (source / "sox.wav").write_bytes(data)
    for name in ("g722.wav", "flac.ogg", "alac.caf"):
        cut = (source / name).read_bytes()[:-100]
        (source / f"cut-{name}").write_bytes(cut)
    made = made_of(tmp_path, source, "--max-reject-fraction", 0.4)
    found = waveforms(made)
    assert {*found} == {"sox.wav", *(f"{codec}.{form}" for codec, form in codecs.items())}
    for name, waveform in found.items():
        expected = decode(source / name)
        np.testing.assert_array_equal(waveform[: len(expected)], expected)
    assert found["alac.caf"].shape == found["sox.wav"].shape == (8000, 1)
    assert made.rejects == dict.fromkeys(
        ("cut-g722.wav", "cut-flac.ogg", "cut-alac.caf"), "truncated"
    )


@pytest.mark.parametrize("name", ["gsm.wav", "g722.wav"])
def test_segments_of_a_file_that_is_decoded_from_its_beginning(tmp_path, name):
    if name == "gsm.wav":
        write(tmp_path / "in" / name, chirp(16000, 16000), subtype="GSM610")
    else:
        encode(tmp_path / "in" / name, chirp(16000, 16000), codec="g722")
    rows = [{"path": name, "from": start, "to": start + 0.25} for start in (0, 0.25, 0.5, 0.75)]
    listing = rows_of(tmp_path / "rows.csv", rows)
    columns = ("--start-column", "from", "--end-column", "to", "--input-root", tmp_path / "in")
    parts = waveforms(made_of(tmp_path, listing, *columns))
    (whole,) = waveforms(made_of(tmp_path, tmp_path / "in", name="whole")).values()
    joined = np.concatenate([parts[key] for key in sorted(parts)])
    np.testing.assert_array_equal(joined, whole)


def test_files_keep_their_rate_and_channels(tmp_path):
    stereo = np.stack([chirp(8000, 900), -chirp(8000, 900)], axis=1)
    write(tmp_path / "in" / "a.wav", stereo, 8000)
    write(tmp_path / "in" / "b.flac", chirp(44100, 500), 44100)
    made = made_of(tmp_path, tmp_path / "in", "--dtype", "int16")
    found = {key: one for (key, _), one in records(made).items()}
    assert found["a.wav"]["audio/waveform"].shape == (900, 2)
    assert found["b.flac"]["audio/waveform"].shape == (500, 1)
    assert [one["audio/sample_rate"] for _, one in sorted(found.items())] == [8000, 44100]
    stored = soundfile.read(tmp_path / "in" / "a.wav", dtype="int16")[0]
    np.testing.assert_array_equal(found["a.wav"]["audio/waveform"], stored)


def test_spectrograms_are_those_of_the_waveforms(tmp_path, words):
    clip = ("--clip", "300ms", "--clip-mode", "centre", "--trim-silence", 40)
    sounds = waveforms(made_of(tmp_path, words, *MONO, *clip))
    made = made_of(
        tmp_path,
        words,
        *("--sample-rate", 16000, *clip, "--features", "melspectrogram", "--mel-bins", 20),
        *("--window-size", 512, "--hop", "8ms", "--f-min", 50, "--f-max", 7000),
        name="mel",
    )
    options = MelOptions(bins=20, window=512, hop=0.008, f_min=50, f_max=7000)
    assert made.manifest.features["audio/melspectrogram"].raw_shape == (38, 20)
    for (key, _), one in records(made).items():
        assert one["audio/samples"] <= 4800
        expected = log_mel(sounds[key], options, rate=16000)
        np.testing.assert_array_equal(one["audio/melspectrogram"], expected)


def test_files_are_written_as_they_are(tmp_path, words):
    made = made_of(tmp_path, words, "--features", "encoded")
    for (key, _), one in records(made).items():
        assert one["audio/encoded"] == (words / key).read_bytes()


def test_consecutive_clips_make_up_the_file(tmp_path, words):
    """They are in one split, whatever its number of clips."""
    whole = waveforms(made_of(tmp_path, words, *MONO))
    split = (*MONO, "--clip", "100ms", "--clip-mode", "split")
    made = make(tmp_path / "clips", "--input", words, *split, command="audio")
    found: dict[str, dict[int, np.ndarray]] = {}
    splits: dict[str, set[str]] = {}
    for name in made.manifest.splits:
        for (key, _), one in records(made, name).items():
            file, _, start = key.rpartition("#")
            assert one["audio/filename"] == file.encode()
            assert one["audio/start/timestamp"] == int(start) * 10**6 // 16000
            real = one["audio/samples"]
            assert not one["audio/waveform"][real:].any()
            found.setdefault(file, {})[int(start)] = one["audio/waveform"][:real]
            splits.setdefault(file, set()).add(name)
    assert {len(names) for names in splits.values()} == {1}
    assert len(made.manifest.splits) > 1
    assert found.keys() == whole.keys()
    for file, clips in found.items():
        joined = np.concatenate([clip for _, clip in sorted(clips.items())])
        np.testing.assert_array_equal(joined, whole[file])
    ledger = json.loads((made.folder / "dataset.json").read_bytes())["ledger"]
    assert ledger["inputs"]["read"] == 9
    assert ledger["records"]["made"] == sum(map(len, found.values()))


def test_the_end_of_a_file_is_dropped(tmp_path):
    write(tmp_path / "in" / "a.wav", chirp(16000, 3500))
    write(tmp_path / "in" / "short.wav", chirp(16000, 999))
    split = ("--clip", "0.0625s", "--clip-mode", "split", "--clip-rest", "drop")
    made = made_of(tmp_path, tmp_path / "in", *MONO, *split, "--max-reject-fraction", 1)
    assert made.keys("train") == {"a.wav#0", "a.wav#1000", "a.wav#2000"}
    assert made.rejects == {"short.wav": "bad_value"}


def test_clips_start_where_they_do_in_the_file_before_it_is_trimmed(tmp_path):
    samples = np.pad(chirp(16000, 6400), (8000, 4000))
    write(tmp_path / "in" / "a.wav", samples)
    split = ("--clip", "100ms", "--clip-mode", "split", "--trim-silence", 30)
    made = made_of(tmp_path, tmp_path / "in", *MONO, *split)
    found = records(made)
    assert len(found) > 3
    for one in found.values():
        start, real = one["audio/start/timestamp"] * 16000 // 10**6, one["audio/samples"]
        expected = samples[start : start + real]
        np.testing.assert_allclose(one["audio/waveform"][:real], expected, atol=1e-4)


def test_copies_are_augmented(tmp_path, words):
    (excluded,) = (words / "go").glob("1-0.*")
    (tmp_path / "keys.txt").write_text(f"go/{excluded.name}\n")
    fewer = (*MONO, "--clip", "300ms", "--exclude-keys", tmp_path / "keys.txt")
    augment = ("--balance", "oversample", "--augment", "gain,shift,noise")
    found = records(made_of(tmp_path, words, *fewer, *augment))
    (copied,) = [key for key, copy in found if copy]
    copy, record = (found[copied, number]["audio/waveform"] for number in (1, 0))
    assert copy.shape == record.shape
    assert (copy != record).any()
    plain = waveforms(made_of(tmp_path, words, *fewer, name="plain"))
    np.testing.assert_array_equal(record, plain[copied])


def test_segments_of_a_listing(tmp_path, words):
    """Segments of a file are in one split; columns become features."""
    rows = [
        {"path": f"{word}/{name}", "label": word, "start": start, "end": end, "note": start}
        for word in WORDS
        for name in sorted(file.name for file in (words / word).iterdir())
        for start, end in (("", 0.1), (0.1, 0.15), (0.1, ""))
    ]
    rows.append(rows[0] | {"start": "x", "end": ""})
    rows.append(rows[0] | {"start": 0.3, "end": 0.2})
    table = rows_of(tmp_path / "words.csv", rows)
    segments = ("--input-root", words, "--start-column", "start", "--end-column", "end")
    made = make(
        tmp_path / "out",
        *("--input", table, *segments, *MONO, "--max-reject-fraction", 1),
        command="audio",
    )
    assert sorted(made.rejects.values()) == ["bad_value", "bad_value"]
    whole = waveforms(made_of(tmp_path, words, "--mono", name="whole"))
    splits: dict[bytes, set[str]] = {}
    for name in made.manifest.splits:
        for (key, _), one in records(made, name).items():
            splits.setdefault(one["audio/filename"], set()).add(name)
            assert "start" not in one
            if key.endswith("wav@0.1-0.15") and len(whole[key.partition("@")[0]]) < 8000:
                file = key.partition("@")[0]
                rate = soundfile.info(words / file).samplerate
                start, stop = round(0.1 * rate), round(0.15 * rate)
                expected = soxr.resample(whole[file][start:stop], rate, 16000)
                np.testing.assert_array_equal(one["audio/waveform"], expected)
                assert one["audio/start/timestamp"] == 100_000
    assert len(splits) == 9
    assert {len(names) for names in splits.values()} == {1}


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.ogg"])
def test_segments_of_a_file_that_ends_early_are_rejected(tmp_path, name):
    """Also segments before the end: the file is not complete."""
    whole = write(tmp_path / name, chirp(16000, 48000))
    cut = tmp_path / f"cut-{name}"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size * 9 // 10])
    rows = [f"{path.name},{start},{start + 1}" for path in (whole, cut) for start in (0, 1)]
    (tmp_path / "in.csv").write_text("\n".join(["path,start,end", *rows]))
    segments = ("--start-column", "start", "--end-column", "end", "--max-reject-fraction", "1")
    fixed = ("--input", tmp_path / "in.csv", "--splits", "train=1")
    made = make(tmp_path / "out", *fixed, *segments, command="audio")
    assert made.keys("train") == {f"{name}@0-1", f"{name}@1-2"}
    assert {*made.rejects} == {f"cut-{name}@0-1", f"cut-{name}@1-2"}
    assert {*made.rejects.values()} <= {"truncated", "corrupt"}


def test_segments_in_milliseconds(tmp_path, words, capsys):
    """Their keys and samples are those of seconds; a name in ms asks for the option."""
    name = f"go/{min(file.name for file in (words / 'go').iterdir())}"
    digests = set()
    for unit, ends in (("s", (0.05, 0.15)), ("ms", (50, 150))):
        rows = [{"path": name, "label": "go", "fromMs": 0, "to_ms": end} for end in ends]
        argv = ("--input", rows_of(tmp_path / f"{unit}.csv", rows), "--input-root", words, *MONO)
        argv = (*argv, "--start-column", "fromMs", "--end-column", "to_ms", "--splits", "train=1")
        assert run("audio", *argv, "--output", tmp_path / "none") == 2
        assert "pass --segment-unit ms, or s if the column holds seconds" in capsys.readouterr().err
        made = make(tmp_path / unit, *argv, "--segment-unit", unit, command="audio")
        digests.add(made.manifest.digest)
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--start-column", "from", "--end-column", "from"],
            "--start-column and --end-column: expected two columns, got 'from' for both",
        ),
        (
            ["--start-column", "from", "--end-column", "word"],
            "--end-column: the listing has no column 'word', or another option uses it",
        ),
        (
            ["--start-column", "from", "--weight-column", "from"],
            "--weight-column from: the column is the start, the end or the duration of segments",
        ),
    ],
)
def test_columns_that_give_no_segments_are_errors(tmp_path, capfd, options, message):
    write(tmp_path / "a.wav", chirp(16000, 4000))
    listing = rows_of(tmp_path / "a.csv", [{"path": "a.wav", "from": 0, "word": "go"}])
    options = ["--splits", "train=1", "--label-column", "word", *options]
    assert run("audio", "--input", listing, "--output", tmp_path / "out", *options) == 2
    assert message in capfd.readouterr().err


def test_speakers_never_span_splits(tmp_path):
    speech(tmp_path / "in", speakers=8)
    rows = [
        {"path": str(path.relative_to(tmp_path / "in")), "speaker": path.name[0], "label": word}
        for word in WORDS
        for path in sorted((tmp_path / "in" / word).iterdir())
    ]
    table = rows_of(tmp_path / "in" / "words.csv", rows)
    by_speaker = ("--group-column", "speaker", *MONO, "--clip", "200ms", "--balance", "oversample")
    made = make(tmp_path / "out", "--input", table, *by_speaker, command="audio")
    speakers = [{key.split("/")[1][0] for key in made.keys(one)} for one in made.manifest.splits]
    assert sum(map(len, speakers)) == len(set().union(*speakers)) == 8
    assert len(speakers) > 1


def test_archives_are_read_as_folders(tmp_path, words):
    with tarfile.open(tmp_path / "words.tar", "w") as archive:
        archive.add(words, "speech")
    for mode in ("start", "split"):
        options = (*MONO, "--clip", "200ms", "--clip-mode", mode)
        folder = made_of(tmp_path, words, *options, name=f"folder-{mode}")
        packed = made_of(tmp_path, tmp_path / "words.tar", *options, name=f"tar-{mode}")
        assert packed.manifest.digest == folder.manifest.digest


def test_files_in_tables_and_datasets_are_read(tmp_path, words):
    """As dataset hubs export audio, and as recordmill writes it with --features encoded."""
    whole = made_of(tmp_path, words, *MONO)
    paths = sorted(path for path in words.rglob("*.*"))
    values = [{"bytes": path.read_bytes(), "path": path.name} for path in paths]
    labels = [path.parent.name for path in paths]
    pq.write_table(pa.table({"audio": values, "label": labels}), tmp_path / "hub.parquet")
    table = made_of(tmp_path, tmp_path / "hub.parquet", *MONO, name="table")
    expected = sorted(one.tobytes() for one in waveforms(whole).values())
    assert sorted(one.tobytes() for one in waveforms(table).values()) == expected
    encoded = made_of(tmp_path, words, "--features", "encoded", name="encoded")
    again = made_of(tmp_path, encoded.folder, *MONO, "--split-from", "none", name="again")
    assert again.manifest.digest == whole.manifest.digest


@pytest.mark.parametrize("options", [MONO, (), ("--dtype", "int16"), (*MONO, "--clip", "1s")])
def test_datasets_of_waveforms_are_read(tmp_path, words, options):
    """The same options make the same waveforms, whatever rate and channels the files had."""
    write(tmp_path / "long" / "aye" / "1.wav", chirp(16000, 1_200_000))  # more than 4 MB
    words = tmp_path / "long" if options == MONO else words
    first = made_of(tmp_path, words, *options, name="first")
    again = make(
        tmp_path / "again", "--input", first.folder, *options, "--seed", 7, command="audio"
    )
    for split in first.manifest.splits:
        assert again.keys(split) == first.keys(split)
        before, after = records(first, split), records(again, split)
        for key, one in before.items():
            other = after[key]
            assert other.pop("audio/format") == b"wav"
            if "--clip" in options:  # padding is audio of the first dataset
                assert other.pop("audio/samples") == 16000
            for name, value in other.items():
                np.testing.assert_array_equal(value, one[name], err_msg=name)


def test_datasets_of_other_numbers_are_refused(tmp_path, words, capfd):
    made_of(tmp_path, words, *MONO, "--features", "melspectrogram", name="first")
    argv = ("--input", tmp_path / "first", "--output", tmp_path / "second")
    assert run("audio", *argv) == 2
    said = capfd.readouterr().err
    assert "'audio/melspectrogram' holds numbers (float32) that are no waveforms: make" in said
    assert run("video", *argv, "--clip-frames", "4", "--size", "16") == 2
    assert "holds numbers in 'audio/melspectrogram', not files" in capfd.readouterr().err
    assert run("arrays", *argv) == 0


def test_clips_of_files_in_tables_are_those_of_the_files(tmp_path, words):
    files = {str(path.relative_to(words)): path.read_bytes() for path in words.rglob("*.*")}
    labels = [name.partition("/")[0] for name in files]
    rows = {
        "key": [*files, "x.wav"],
        "audio": [*files.values(), b"no sound"],
        "label": [*labels, labels[0]],
    }
    pq.write_table(pa.table(rows), tmp_path / "x.parquet")
    split = (*MONO, "--clip", "100ms", "--clip-mode", "split", "--max-reject-fraction", 1)
    folder = made_of(tmp_path, words, *split, name="folder")
    table = made_of(tmp_path, tmp_path / "x.parquet", *split, "--key-column", "key", name="table")
    assert table.manifest.digest == folder.manifest.digest
    assert table.rejects == {"x.wav": "unsupported"}
    assert {made.manifest.ledger.inputs.read for made in (folder, table)} == {len(files)}


def test_clips_of_segments_of_files_in_a_table(tmp_path):
    sound = write(tmp_path / "a.wav", chirp(1000, 1000), 1000).read_bytes()
    rows = {"key": ["one", "two"], "from": [0.0, 0.5], "to": [0.5, 1.0], "label": ["a", "b"]}
    table = pa.table(rows | {"audio": pa.array([sound, sound], pa.binary())})
    pq.write_table(table, tmp_path / "x.parquet")
    options = ("--key-column", "key", "--start-column", "from", "--end-column", "to")
    split = ("--sample-rate", 1000, "--clip", "100ms", "--clip-mode", "split")
    made = made_of(tmp_path, tmp_path / "x.parquet", *options, *split)
    starts = range(0, 500, 100)
    segments = ("one@0-0.5", "two@0.5-1")
    assert made.keys("train") == {f"{key}#{n}" for key in segments for n in starts}
    assert not {"from", "to"} & set(made.manifest.features)


def test_equal_audio_is_found_whatever_its_format(tmp_path):
    for name in ("a.wav", "b.flac", "c.wav"):
        sound = say("go", speaker=int(name.startswith("c")))
        write(tmp_path / "in" / name, (sound * 32767).astype(np.int16))
    made = made_of(tmp_path, tmp_path / "in", *MONO, "--dedup", "drop")
    assert made.keys("train") == {"a.wav", "c.wav"}


def test_files_that_did_not_change_are_reused(tmp_path, words):
    options = (*MONO, "--features", "melspectrogram", "--balance", "oversample")
    first = made_of(tmp_path, words, *options, "--augment", "noise", name="first")
    more = ("--augment", "noise", "--reuse", first.folder, "--reuse-required")
    again = made_of(tmp_path, words, *options, *more, name="again")
    assert again.manifest.digest == first.manifest.digest
    assert json.loads((again.folder / "job.json").read_bytes())["reused"] == 9


@pytest.mark.parametrize("balance", ["none", "oversample"])
def test_bad_files_are_rejected(tmp_path, balance):
    """With balancing, most of them before planning."""
    place = tmp_path / "in"
    sound = chirp(16000, 4000)
    for number in range(4):
        write(place / "x" / f"{number}.wav", say("go", speaker=number))
    write(place / "x" / "empty.wav", sound[:0])
    write(place / "x" / "nan.wav", np.full(100, np.nan, np.float32), subtype="FLOAT")
    write(place / "x" / "long.flac", np.tile(sound, 12))
    cut = write(place / "x" / "cut.wav", sound)
    cut.write_bytes(cut.read_bytes()[:-200])
    (place / "x" / "text.mp3").write_text("no audio " * 99)
    (place / "x" / "nothing.ogg").write_bytes(b"")
    (place / "x" / "notes.txt").write_text("skipped")
    options = (*MONO, "--max-seconds", 2, "--balance", balance, "--max-reject-fraction", 1)
    made = made_of(tmp_path, place, *options)
    assert made.rejects == {
        "x/cut.wav": "truncated",
        "x/empty.wav": "empty",
        "x/long.flac": "too_large",
        "x/nan.wav": "bad_value",
        "x/nothing.ogg": "empty",
        "x/text.mp3": "unsupported",
    }
    assert len(made.keys("train")) == 4


@pytest.mark.parametrize("balance", ["none", "oversample"])
def test_mp3_files_that_end_early_are_rejected(tmp_path, balance):
    place = tmp_path / "in" / "x"
    write(place / "whole.mp3", chirp(16000, 16000))
    whole = (place / "whole.mp3").read_bytes()
    (place / "tagged.mp3").write_bytes(whole + b"TAG" + bytes(125))
    (place / "cut.mp3").write_bytes(whole[: len(whole) * 3 // 5])
    (place / "short.mp3").write_bytes(whole[:-7])
    at = whole.index(b"Xing")
    undeclared = whole[:at] + b"none" + whole[at + 4 :]
    (place / "undeclared.mp3").write_bytes(undeclared[:-7])
    made = made_of(tmp_path, place.parent, "--balance", balance, "--max-reject-fraction", 1)
    early = ("cut.mp3", "short.mp3", "undeclared.mp3")
    assert made.rejects == {f"x/{name}": "truncated" for name in early}
    lines = (made.folder / "rejects.jsonl").read_text().splitlines()
    details = {line["key"]: line["detail"] for line in map(json.loads, lines)}
    assert details["x/short.mp3"] == "it ends within a frame"
    assert details["x/cut.mp3"] == (
        f"its header declares {len(whole)} bytes of audio, but the file has {len(whole) * 3 // 5}"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--clip", "1s"], "--clip: needs --sample-rate"),
        (["--hop", "fast"], "expected a number of samples, or a duration such as 25ms"),
        (
            ["--features", "encoded", "--augment", "gain", "--augment-all"],
            "--augment: has no effect with --features encoded",
        ),
        (
            ["--features", "melspectrogram", "--sample-rate", "16000", "--mel-bins", "300"],
            "--mel-bins 300: .* of the bins hold no frequency",
        ),
    ],
)
def test_options_without_sense_are_errors(tmp_path, words, capfd, options, message):
    assert run("audio", "--input", words, "--output", tmp_path / "out", *options) == 2
    assert re.search(message, capfd.readouterr().err)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "options",
    [
        ("--dtype", "int16"),
        ("--sample-rate", 8000),
        ("--sample-rate", 16000, "--clip", "1s", "--clip-mode", "split"),
    ],
)
def test_samples_far_beyond_the_full_scale_are_noted(tmp_path, options):
    """Levels of 16 bits that are stored as floats are not mistaken for samples in [-1, 1]."""
    source = tmp_path / "in"
    sound = say("yes", speaker=1)
    for name, scale in (("levels", 32768), ("loud", 1.9 / np.abs(sound).max())):
        write(source / f"{name}.wav", (sound * scale).astype(np.float32), subtype="FLOAT")
    made = made_of(tmp_path, source, "--mono", *options)
    (text,) = [str(note) for note in made.manifest.notes if note.code == "full-scale"]
    assert "1 record has samples beyond twice the full scale, such as levels.wav" in text


@pytest.mark.parametrize(
    "options", [(), ("--sample-rate", 16000, "--clip", "1s", "--clip-mode", "split")]
)
def test_copies_far_beyond_the_full_scale_are_not_counted(tmp_path, options):
    """As where the records of an earlier dataset are reused."""
    source = tmp_path / "in"
    for number in range(4):
        scale, label = (1, "quiet") if number else (32768, "levels")
        sound = say("yes", speaker=number) * np.float32(scale)
        write(source / label / f"{number}.wav", sound, subtype="FLOAT")
    made = made_of(tmp_path, source, "--mono", "--balance", "oversample", *options)
    assert len(records(made)) == 6
    (text,) = [str(note) for note in made.manifest.notes if note.code == "full-scale"]
    assert "1 record has samples beyond" in text
