import numpy as np
import pytest

from recordmill.errors import ConfigError
from recordmill.transforms.audio.audio_options import MelOptions
from recordmill.transforms.audio.mel_filters import check_filters, mel_filters
from recordmill.transforms.audio.spectrogram import LogMel, decibels, frames_of, log_mel
from tests.sounds import chirp
from tests.transforms.audio.librosa_values import CASES, FILE

VALUES = np.load(FILE)


def options_of(name: str) -> MelOptions:
    given = CASES[name][2]
    return MelOptions(
        bins=given["n_mels"],
        window=given["n_fft"],
        hop=given["hop_length"],
        f_min=given.get("fmin", 0),
        f_max=given.get("fmax"),
    )


@pytest.mark.parametrize("name", CASES)
def test_spectrograms_equal_those_of_librosa(name):
    rate, samples, _ = CASES[name]
    options = options_of(name)
    found = log_mel(chirp(rate, samples), options, rate=rate)
    assert found.dtype == np.float32
    assert found.shape == VALUES[name].shape
    assert len(found) == frames_of(samples, options, rate=rate)
    np.testing.assert_allclose(found, VALUES[name], rtol=0, atol=1e-4)


@pytest.mark.parametrize("window", [400, 401])
@pytest.mark.parametrize("samples", [1, 2, 159, 160, 161, 400])
def test_short_waveforms_have_the_frames_of_librosa(samples, window):
    options = MelOptions(bins=4, window=window, hop=160)
    found = log_mel(chirp(16000, samples), options, rate=16000)
    assert found.shape == (frames_of(samples, options, rate=16000), 4)


@pytest.mark.parametrize(
    "options",
    [
        MelOptions(),
        MelOptions(bins=13, window=1024, hop=100, f_min=20, f_max=7000),
        MelOptions(bins=4, window=401, hop=401),
    ],
)
def test_spectrograms_do_not_depend_on_what_is_transformed_with_them(options):
    draw = np.random.default_rng(0)
    sizes = [1, 399, 16000, 9000, *draw.integers(1, 30_000, 20).tolist()]
    waveforms = [chirp(16000, size) for size in sizes]
    silent_from = [None, *draw.integers(0, sizes[1:]).tolist()]
    for waveform, stop in zip(waveforms[1:], silent_from[1:], strict=True):
        waveform[stop:] = 0
    transform = LogMel(options, rate=16000)
    for _ in range(2):
        counts = [
            transform.add(waveform, silent_from=stop)
            for waveform, stop in zip(waveforms, silent_from, strict=True)
        ]
        found = np.split(np.concatenate(transform.take()), np.cumsum(counts)[:-1])
        for waveform, one in zip(waveforms, found, strict=True):
            np.testing.assert_array_equal(one, log_mel(waveform, options, rate=16000))


def filtered(power: np.ndarray, bins: int) -> np.ndarray:
    """Sums of the filters of power spectra, [frequencies, frames]."""
    filters = mel_filters(MelOptions(bins=bins, window=2 * len(power) - 2), 16000)
    rows = np.append(power, np.zeros((1, power.shape[1])), axis=0).astype(np.float32)
    found = np.empty((bins, power.shape[1]), np.float32)
    filters.apply(rows, found)
    return found


@pytest.mark.parametrize(("bins", "frequencies"), [(2, 257), (9, 257), (80, 201), (80, 1025)])
def test_a_frequency_adds_to_two_filters(bins, frequencies):
    matrix = filtered(np.eye(frequencies), bins)
    assert (np.count_nonzero(matrix, axis=0) <= 2).all()
    assert (matrix.sum(axis=1) > 0).all()
    power = np.random.default_rng(0).random((frequencies, 5))
    np.testing.assert_allclose(filtered(power, bins), matrix.astype(float) @ power, rtol=1e-5)
    power[100, 0] = np.inf
    with np.errstate(invalid="ignore"):  # of filters that do not exist
        found = filtered(power, bins)[:, 0]
    np.testing.assert_array_equal(np.isinf(found), matrix[:, 100] > 0)
    assert not np.isnan(found).any()


def test_decibels_are_those_of_the_logarithm():
    power = np.concatenate([10.0 ** np.linspace(-12, 12, 4001), [0, 0.5**0.5, 1, 2**0.5]])
    power = power.astype(np.float32)
    expected = 10 * np.log10(np.maximum(power.astype(np.float64), 1e-10))
    found = decibels(power[None].copy())
    assert found.shape == (len(power), 1)
    np.testing.assert_allclose(found[:, 0], expected, rtol=0, atol=1e-5)


def test_durations_are_rounded_to_samples():
    assert MelOptions().samples(22050) == (551, 220)
    assert MelOptions(window=2048, hop=512).samples(8000) == (2048, 512)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bins": 0}, "--mel-bins: expected 1 to 1024, got 0"),
        ({"window": 1}, "--window-size: expected 2 to 65536 samples, got 1"),
        ({"hop": 401}, "--hop: expected 1 sample to the 400 of --window-size, got 401"),
        ({"f_min": 9000}, "--f-min and --f-max: expected 0 to half the sample rate"),
        ({"f_max": 9000}, "--f-min and --f-max: expected 0 to half the sample rate"),
    ],
)
def test_impossible_spectrograms_are_errors(given, message):
    with pytest.raises(ConfigError, match=message):
        MelOptions(**given).check(16000)


def test_bins_that_are_always_empty_are_an_error():
    check_filters(MelOptions(), 16000)
    message = "--mel-bins 400: .* of the bins hold no frequency of a window of 400"
    with pytest.raises(ConfigError, match=message):
        check_filters(MelOptions(bins=400), 16000)
