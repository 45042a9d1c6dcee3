"""Make librosa_values.npz: librosa's values for the tests, in an environment of its own.

pip install librosa==0.11.0 av soundfile && python -m tests.transforms.audio.librosa_values
"""

import pathlib

import numpy as np

from tests.sounds import chirp

FILE = pathlib.Path(__file__).with_suffix(".npz")
CASES = {
    "speech": (16000, 8000, {"n_mels": 80, "n_fft": 400, "hop_length": 160}),
    "default": (22050, 9000, {"n_mels": 128, "n_fft": 2048, "hop_length": 512}),
    "telephone": (
        8000,
        3001,
        {"n_mels": 40, "n_fft": 257, "hop_length": 100, "fmin": 50, "fmax": 3500},
    ),
}


def main() -> None:
    """Write the file beside this one."""
    import librosa  # not in the environment of the tests

    found = {}
    for name, (rate, samples, options) in CASES.items():
        sound = chirp(rate, samples).astype(np.float64)
        power = librosa.feature.melspectrogram(y=sound, sr=rate, **options)
        found[name] = librosa.power_to_db(power, top_db=None).T.astype(np.float32)
    sound = np.pad(chirp(16000, 8000), (3000, 5000)).astype(np.float32)
    for decibels in (20, 60):
        found[f"trim-{decibels}"] = librosa.effects.trim(sound, top_db=decibels)[1]
    np.savez_compressed(FILE, **found)


if __name__ == "__main__":
    main()
