"""Words of many voices: a dataset split by speaker, from which a small model learns the words.

    python -m tests.soak.speech                     synthetic vowels of 24 speakers
    python -m tests.soak.speech --voices espeak     ten words of eSpeak's 26 voices

The latter needs espeakng-loader, which is no dependency: pip install espeakng-loader.

One word has a third of the takes of the others, and is balanced by augmented copies. No speaker may
be in two splits; all records must be verified; the model must know words of speakers that it never
heard, and must not if its labels were shuffled.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import importlib
import itertools
import pathlib
import tempfile

import numpy as np
import soundfile
from sklearn.linear_model import LogisticRegression

import recordmill
from benchmarks.measure import machine, python, run
from recordmill.format.manifest import load
from recordmill.reading.reader import RecordPlace
from recordmill.storage.files import Location
from tests.soak.command import DifferenceError
from tests.sounds import WORDS, say

_SPOKEN = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_VARIANTS = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "f1", "f2", "f3", "f4", "f5", "croak")
_ACCENTS = ("en-us", "en-gb")
_TAKES = 6
_RETRIEVAL = 1  # AUDIO_OUTPUT_RETRIEVAL of speak_lib.h: samples go to a callback
_UTF8 = 1
_RATE, _PITCH = 1, 3  # espeak_PARAMETER
_LEAST = 0.8  # accuracy for words of unknown speakers
_MOST = 0.5  # accuracy with shuffled labels


class _Espeak:
    """eSpeak NG through its C interface, speak_lib.h."""

    def __init__(self) -> None:
        package = importlib.import_module("espeakng_loader")
        self._library = ctypes.CDLL(package.get_library_path())
        place = str(package.get_data_path()).encode()
        self.rate = self._library.espeak_Initialize(_RETRIEVAL, 0, place, 0)
        self._blocks: list[np.ndarray] = []
        kind = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
        )
        self._callback = kind(self._take)
        self._library.espeak_SetSynthCallback(self._callback)

    def _take(self, samples: ctypes._Pointer[ctypes.c_short], count: int, _: object) -> int:
        if samples and count:
            self._blocks.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    def say(self, word: str, *, voice: str, speed: int, pitch: int) -> np.ndarray:
        """A word, int16[n]."""
        self._blocks = []
        self._library.espeak_SetVoiceByName(voice.encode())
        self._library.espeak_SetParameter(_RATE, speed, 0)
        self._library.espeak_SetParameter(_PITCH, pitch, 0)
        text = word.encode()
        self._library.espeak_Synth(text, len(text) + 1, 0, 1, 0, _UTF8, None, None)
        self._library.espeak_Synchronize()
        return np.concatenate(self._blocks)


def write_words(folder: pathlib.Path, voices: str) -> list[str]:
    """Write WAV and FLAC files and their listing; returns the words."""
    spoken = voices == "espeak"
    words = list(_SPOKEN if spoken else WORDS)
    speakers = [f"{one}+{two}" for one in _ACCENTS for two in _VARIANTS]
    if not spoken:
        speakers = [f"{number:02d}" for number in range(24)]
    engine = _Espeak() if spoken else None
    draw = np.random.default_rng(3)
    rows = []
    for number, speaker in enumerate(speakers):
        for word in words:
            for take in range(_TAKES if word != words[0] else _TAKES // 3):
                if engine is None:
                    rate = (16000, 22050)[take % 2]
                    sound = say(word, speaker=number, take=take, rate=rate)
                else:
                    rate = engine.rate
                    speed, pitch = int(draw.integers(130, 200)), int(draw.integers(35, 65))
                    sound = engine.say(word, voice=speaker, speed=speed, pitch=pitch)
                name = f"{word}/{speaker}-{take}.{('wav', 'flac')[take % 2]}"
                (folder / word).mkdir(exist_ok=True)
                soundfile.write(folder / name, sound, rate)
                rows.append({"path": name, "label": word, "speaker": speaker})
    with (folder / "words.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return words


def learn(dataset: pathlib.Path, *, shuffled: bool) -> float:
    """Return the accuracy of a model of the spectrograms of train for the other splits."""
    splits = load(Location.parse(str(dataset))).splits
    found = {
        name: [
            (one["audio/melspectrogram"].ravel(), int(one["audio/class/label"]))
            for one in recordmill.read(dataset, name)
        ]
        for name in splits
    }
    inputs, labels = map(np.array, zip(*found.pop("train"), strict=True))
    others, expected = map(np.array, zip(*itertools.chain(*found.values()), strict=True))
    mean, scale = inputs.mean(axis=0), inputs.std(axis=0) + 1
    if shuffled:
        labels = np.random.default_rng(5).permutation(labels)
    model = LogisticRegression(C=0.01, max_iter=300).fit((inputs - mean) / scale, labels)
    return float(model.score((others - mean) / scale, expected))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--voices", choices=["formants", "espeak"], default="formants")
    arguments = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="recordmill-soak-") as name:
        folder = pathlib.Path(name)
        words = write_words(folder, arguments.voices)
        out = folder / "out"
        command = python(
            *("recordmill", "audio", "--input", folder / "words.csv", "--output", out, "--quiet"),
            *("--group-column", "speaker", "--splits", "train=0.6,test=0.4", "--verify"),
            *("--sample-rate", 16000, "--trim-silence", 35, "--clip", "600ms"),
            *("--features", "melspectrogram", "--mel-bins", 40, "--hop", "20ms"),
            *("--balance", "oversample", "--augment", "shift,gain,noise"),
        )
        measured = run(command, memory=True)
        manifest = load(Location.parse(str(out)))
        speakers = {
            split: {place.key.partition("/")[2].rpartition("-")[0] for place in places(out, split)}
            for split in manifest.splits
        }
        for split, found in speakers.items():
            print(f"{split}: {manifest.splits[split].records} records of {len(found)} speakers")
        if set.intersection(*speakers.values()):
            raise DifferenceError(f"speakers are in two splits: {speakers}")
        counts = manifest.splits["train"].classes
        if set(counts) != set(words) or len(set(counts.values())) > 1:
            raise DifferenceError(f"the classes of train are not balanced: {counts}")
        accuracy, chance = (learn(out, shuffled=shuffled) for shuffled in (False, True))
        print(f"{measured.wall:.1f} s; accuracy {accuracy:.3f}, with shuffled labels {chance:.3f}")
        if accuracy < _LEAST or chance > _MOST:
            raise DifferenceError(f"accuracy {accuracy:.3f}, with shuffled labels {chance:.3f}")


def places(dataset: pathlib.Path, split: str) -> list[RecordPlace]:
    return list(recordmill.open(dataset, split).places())


if __name__ == "__main__":
    main()
