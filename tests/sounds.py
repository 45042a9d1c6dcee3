"""Sounds: seeded speakers that say words of vowels, and files of them in every format."""

import pathlib

import av
import numpy as np
import soundfile

VOWELS = {"a": (730, 1090), "e": (530, 1840), "i": (270, 2290), "o": (570, 840), "u": (300, 870)}
WORDS = {"aye": "ai", "go": "ou", "yes": "ie"}
FORMATS = ("wav", "flac", "ogg", "mp3", "m4a")


def chirp(rate: int, samples: int) -> np.ndarray:
    """A falling tone in noise, float32[samples]; the same for the script of librosa's values."""
    time = np.arange(samples) / rate
    noise = np.random.default_rng(1).normal(size=samples)
    tone = 0.4 * np.sin(2 * np.pi * 300 * time * (1 + time)) * np.exp(-2 * time)
    return (tone + 0.02 * noise * (time > 0.3)).astype(np.float32)


def say(word: str, *, speaker: int, take: int = 0, rate: int = 16000) -> np.ndarray:
    """A word as harmonics of the speaker's pitch at the formants of its vowels, float32[n]."""
    voice = np.random.default_rng(speaker)
    pitch, tract = voice.uniform(90, 240), voice.uniform(0.85, 1.2)
    draw = np.random.default_rng((speaker, take, *word.encode()))
    parts = []
    for vowel in WORDS[word]:
        time = np.arange(int(rate * draw.uniform(0.1, 0.2))) / rate
        tones = pitch * draw.uniform(0.95, 1.05) * np.arange(1, int(3500 / pitch))[:, None]
        gains = sum(np.exp(-(((tones - one * tract) / 120) ** 2)) for one in VOWELS[vowel])
        phases = draw.uniform(0, 6, len(tones))[:, None]
        waves = (gains + 0.02) * np.sin(2 * np.pi * tones * time + phases)
        parts.append(waves.sum(axis=0) * np.hanning(len(time)))
    whole = np.concatenate([np.zeros(rate // 20), *parts, np.zeros(rate // 20)])
    return (0.5 * whole / np.abs(whole).max() + 0.003 * draw.normal(size=len(whole))).astype("f4")


def write(path: pathlib.Path, samples: np.ndarray, rate: int = 16000, **more: str) -> pathlib.Path:
    """Write float32[n] or [n, channels] in the format of the extension."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".m4a":
        return encode(path, samples, rate, codec="aac")
    soundfile.write(path, samples, rate, **more)
    return path


def encode(
    path: pathlib.Path, samples: np.ndarray, rate: int = 16000, *, codec: str, form: str = ""
) -> pathlib.Path:
    """Write float32[n] or [n, channels] with FFmpeg. form: its name, by default the extension."""
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = np.ascontiguousarray(samples.reshape(len(samples), -1).T)
    layout = "mono" if len(samples) == 1 else "stereo"
    with av.open(str(path), "w", format=form or None) as file:
        stream = file.add_stream(codec, rate=rate, layout=layout)
        whole = av.AudioFrame.from_ndarray(samples, format="fltp", layout=layout)
        whole.sample_rate = rate
        blocks = av.AudioFifo()
        context = stream.codec_context
        context.open()
        for frame in av.AudioResampler(context.format, layout, rate).resample(whole):
            blocks.write(frame)
        size = context.frame_size or 1024
        for number, frame in enumerate(blocks.read_many(size, partial=True)):
            frame.pts = number * size
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return path


def decode(path: pathlib.Path) -> np.ndarray:
    """Return all that FFmpeg decodes, float32[n, channels]."""
    divisors = {"s16": 32768, "s32": 2147483648, "flt": 1}
    blocks = []
    with av.open(str(path)) as file:
        for frame in file.decode(audio=0):
            values = frame.to_ndarray().astype(np.float64)
            values = values.T if frame.format.is_planar else values.reshape(frame.samples, -1)
            blocks.append(values / divisors[frame.format.name.removesuffix("p")])
    return np.concatenate(blocks).astype(np.float32)


def speech(folder: pathlib.Path, *, speakers: int = 3, takes: int = 1) -> pathlib.Path:
    """Write WORD/SPEAKER-TAKE files of all formats and of several sample rates."""
    number = 0
    for speaker in range(speakers):
        for word in WORDS:
            for take in range(takes):
                rate = (16000, 22050)[number % 2]
                name = f"{speaker}-{take}.{FORMATS[number % len(FORMATS)]}"
                write(folder / word / name, say(word, speaker=speaker, take=take, rate=rate), rate)
                number += 1
    return folder
