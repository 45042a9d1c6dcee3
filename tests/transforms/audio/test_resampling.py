import numpy as np
import pytest
import soxr

from recordmill.errors import Reason, RecordError
from recordmill.transforms.audio.audio_options import AudioOptions
from recordmill.transforms.audio.resampling import resample, resample_all
from recordmill.transforms.sources.audio import audio_reading
from recordmill.transforms.sources.audio.audio_reading import AudioReference, read_records
from tests.sounds import chirp, write

RATES = [(22050, 16000), (44100, 22050), (8000, 44100), (12345, 16000), (96000, 8000)]


@pytest.mark.parametrize(("rate", "wanted"), RATES)
def test_waveforms_do_not_depend_on_those_resampled_with_them(rate, wanted):
    draw = np.random.default_rng(rate)
    sizes = [1, 2, 7, *draw.integers(1, 300, 9).tolist(), *draw.integers(1, 30_000, 9).tolist()]
    waveforms = [draw.normal(size=(size, 1)).astype(np.float32) for size in sizes]
    found = resample_all(waveforms, [rate] * len(sizes), wanted)
    for one, samples in zip(found, waveforms, strict=True):
        np.testing.assert_array_equal(one, soxr.resample(samples, rate, wanted))
        np.testing.assert_array_equal(one, resample(samples, rate, wanted))


def test_waveforms_of_several_rates_keep_their_order():
    waveforms = [chirp(rate, 3000)[:, None] for rate, _ in RATES]
    rates = [rate for rate, _ in RATES]
    found = resample_all(waveforms, rates, 16000)
    for one, samples, rate in zip(found, waveforms, rates, strict=True):
        np.testing.assert_array_equal(one, soxr.resample(samples, rate, 16000))


@pytest.mark.parametrize("most", [1, 20_000, 1 << 22])
def test_records_keep_their_order_when_some_wait_for_others(tmp_path, monkeypatch, most):
    monkeypatch.setattr(audio_reading, "_MOST_WAITING", most)
    made = [(8000, 1), (22050, 1), (16000, 1), (0, 0), (22050, 2), (8000, 1), (16000, 1)]
    places = []
    for number, (rate, channels) in enumerate(made):
        path = tmp_path / f"{number}.wav"
        if rate:
            sound = np.stack([chirp(rate, 2000 + 100 * number)] * channels, axis=1)
            write(path, sound, rate, subtype="PCM_16")
        else:
            path.write_bytes(b"no audio")
        status = path.stat()
        place = AudioReference(str(path), status.st_size, status.st_mtime_ns, None, None)
        places.append(place)
    options = AudioOptions(sample_rate=16000)
    together = [*read_records(places, options)]
    for place, one, (rate, channels) in zip(places, together, made, strict=True):
        (alone,) = read_records([place], options)
        if not rate:
            assert isinstance(one, RecordError)
            assert one.reason == Reason.UNSUPPORTED
            continue
        np.testing.assert_array_equal(one.samples, alone.samples)
        assert one.samples.shape == (one.real, channels)
