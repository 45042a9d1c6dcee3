"""Random augmentations of waveforms that keep their class and their length.

Random numbers are a function of (seed, key, copy), not of the order of records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from recordmill.errors import ConfigError
from recordmill.option_names import option_name

Floats = npt.NDArray[np.float32]
Augmentation = Callable[[Floats, np.random.Generator], Floats]

MAX_SHIFT = 0.1  # of the length
MAX_GAIN = 6.0  # decibels
NOISE = (10.0, 30.0)  # decibels below the signal


def shift(samples: Floats, generator: np.random.Generator) -> Floats:
    """Move the waveform by up to a tenth of its length; silence follows."""
    most = int(len(samples) * MAX_SHIFT)
    steps = int(generator.integers(-most, most + 1))
    moved = np.zeros_like(samples)
    if steps >= 0:
        moved[steps:] = samples[: len(samples) - steps]
    else:
        moved[:steps] = samples[-steps:]
    return moved


def gain(samples: Floats, generator: np.random.Generator) -> Floats:
    """Make the waveform up to 6 dB louder or quieter."""
    return samples * np.float32(10 ** (generator.uniform(-MAX_GAIN, MAX_GAIN) / 20))


def noise(samples: Floats, generator: np.random.Generator) -> Floats:
    """Add white noise, 10 to 30 dB below the mean level of the waveform."""
    level = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
    below = 10 ** (-generator.uniform(*NOISE) / 20)
    return samples + generator.standard_normal(samples.shape, np.float32) * np.float32(
        level * below
    )


# In the order in which they are applied; the order in the option does not matter.
AUGMENTATIONS: Mapping[str, Augmentation] = {"shift": shift, "gain": gain, "noise": noise}


def check_augmentations(names: Iterable[str]) -> None:
    """Raise ConfigError if an augmentation does not exist."""
    for name in names:
        if name not in AUGMENTATIONS:
            raise ConfigError(
                f"{option_name('augment')}: expected some of {', '.join(AUGMENTATIONS)}, got"
                f" {name!r}"
            )


def augment_waveform(
    samples: Floats, names: Iterable[str], generator: np.random.Generator
) -> Floats:
    """Apply the named augmentations, each once, in the order of `AUGMENTATIONS`."""
    wanted = frozenset(names)
    for name, apply in AUGMENTATIONS.items():
        if name in wanted:
            samples = apply(samples, generator)
    return samples
