import numpy as np
import pytest

from recordmill.errors import ConfigError, RecordError
from recordmill.transforms.audio.audio_augment import AUGMENTATIONS, augment_waveform
from recordmill.transforms.audio.audio_options import AudioOptions, MelOptions
from recordmill.transforms.audio.waveforms import RecordArrays, fit, loud_range, prepare
from recordmill.transforms.model.generators import generator_for
from tests.sounds import chirp
from tests.transforms.audio.librosa_values import FILE

VALUES = np.load(FILE)
STEREO = np.stack([chirp(16000, 4000), -0.5 * chirp(16000, 4000)], axis=1)


@pytest.mark.parametrize("decibels", [20, 60])
def test_silence_is_trimmed_as_by_librosa(decibels):
    samples = np.pad(chirp(16000, 8000), (3000, 5000))[:, None]
    start, stop = VALUES[f"trim-{decibels}"]
    assert loud_range(samples, decibels) == (start, stop)


def test_silence_alone_is_not_trimmed():
    silence = np.zeros((5000, 1), np.float32)
    assert loud_range(silence, 30) == (0, 5000)


def test_channels_are_mixed_then_resampled():
    options = AudioOptions(sample_rate=8000, mono=True)
    found, _ = prepare(STEREO, options, rate=16000)
    assert found.shape == (2000, 1)
    np.testing.assert_array_equal(found, prepare(STEREO[:, :1] / 4, options, rate=16000)[0])
    assert prepare(STEREO, AudioOptions(), rate=16000)[0] is STEREO


def test_a_tone_keeps_its_frequency_and_level():
    time = np.arange(44100) / 44100
    tone = (0.5 * np.sin(2 * np.pi * 440 * time)).astype(np.float32)[:, None]
    found = prepare(tone, AudioOptions(sample_rate=16000), rate=44100)[0][:, 0]
    assert len(found) == 16000
    spectrum = np.abs(np.fft.rfft(found * np.hanning(16000)))
    assert spectrum.argmax() == 440
    assert abs(found[4000:12000]).max() == pytest.approx(0.5, abs=1e-3)


def test_samples_that_vanish_are_a_reject():
    with pytest.raises(RecordError, match="empty: no samples are left after resampling"):
        prepare(np.ones((1, 1), np.float32), AudioOptions(sample_rate=1000), rate=768_000)


@pytest.mark.parametrize(
    ("count", "mode", "expected", "real"),
    [
        (6, "start", [0, 1, 2, 3], 4),
        (6, "centre", [1, 2, 3, 4], 4),
        (2, "start", [0, 1, 0, 0], 2),
        (2, "centre", [0, 0, 1, 0], 2),
        (4, "centre", [0, 1, 2, 3], 4),
    ],
)
def test_records_have_the_length_of_a_clip(count, mode, expected, real):
    samples = np.arange(count, dtype=np.float32)[:, None]
    found, kept = fit(samples, 4, mode)
    assert found[:, 0].tolist() == expected
    assert kept == real


def test_records_have_at_most_a_gibibyte():
    samples = np.zeros((500_000, 1), np.float32)
    for options in (
        AudioOptions(sample_rate=768_000),
        AudioOptions(
            sample_rate=1000, features="melspectrogram", mel=MelOptions(bins=600, window=99, hop=1)
        ),
    ):
        with pytest.raises(RecordError, match=r"too_large: .*more than 268435456"):
            prepare(samples, options, rate=1000)


def test_int16_is_rounded_and_saturates():
    samples = np.array([[0.5, -1], [2, -2], [0.6 / 32768, 0]], np.float32)
    arrays = RecordArrays(AudioOptions(dtype="int16"))
    arrays.add(samples)
    arrays.add(samples[:, :1])
    assert arrays.shapes.tolist() == [[3, 2], [3, 1]]
    both, first = (np.frombuffer(one, "<i2").tolist() for one in arrays.column().to_pylist())
    assert both == [16384, -32768, 32767, -32768, 1, 0]
    assert first == [16384, 32767, 1]


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_augmentations_follow_from_key_and_copy(name):
    def augmented(copy: int) -> np.ndarray:
        return augment_waveform(STEREO, [name], generator_for(7, key="a.wav", copy=copy))

    assert augmented(1).dtype == np.float32
    assert augmented(1).shape == STEREO.shape
    np.testing.assert_array_equal(augmented(1), augmented(1))
    assert (augmented(1) != augmented(2)).any()
    assert (augmented(1) != STEREO).any()


def test_noise_is_10_to_30_decibels_below_the_sound():
    for copy in range(20):
        generator = generator_for(0, key="x", copy=copy)
        noise = augment_waveform(STEREO, ["noise"], generator) - STEREO
        ratio = 20 * np.log10(np.sqrt((STEREO**2).mean()) / np.sqrt((noise**2).mean()))
        assert 9.5 < ratio < 30.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sample_rate": 999}, "--sample-rate: expected 1000 to 768000 samples a second, got 999"),
        ({"clip": 10**6}, "--clip: needs --sample-rate"),
        ({"clip": 1, "sample_rate": 8000}, "--clip: expected one sample or more"),
        ({"clip": 10**6, "sample_rate": 8000, "max_seconds": 0.5}, "at most the 0.5 seconds"),
        ({"clip_mode": "split"}, "--clip-mode: has no effect without --clip"),
        (
            {"clip": 10**6, "sample_rate": 8000, "clip_rest": "drop"},
            "--clip-rest drop: has no effect without --clip-mode split",
        ),
        ({"features": "melspectrogram"}, "--features melspectrogram: needs --sample-rate"),
        ({"features": "encoded", "mono": True}, "as they are, so that --mono has no effect"),
        ({"features": "encoded", "clip": 10**6}, "as they are, so that --clip has no effect"),
        (
            {"clip": 6 * 10**8, "sample_rate": 768_000},
            "--clip: a record would have 460800000 values",
        ),
        ({"trim_silence": -3.0}, "--trim-silence: expected more than 0"),
        ({"max_seconds": 0.0}, "--max-seconds: expected more than 0"),
        ({"dtype": "int8"}, "--dtype: expected one of float32, int16, got 'int8'"),
    ],
)
def test_contradicting_options_are_errors(given, message):
    with pytest.raises(ConfigError, match=message):
        AudioOptions(**given)
