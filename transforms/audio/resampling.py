"""Resampling by soxr: short mono waveforms of the same rate as the channels of one call.

soxr designs its filter for every call. Channels do not affect each other, and zeros after the end
of a waveform are what soxr adds itself, so the samples are those of a call for each waveform.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from recordmill.optional_packages import import_package

Floats = npt.NDArray[np.float32]

_CHANNELS = 8  # of a call; more save nothing
_SHORT = 1 << 17  # samples; the filter takes 0.02 of the time of longer waveforms


def versions() -> dict[str, str]:
    """Return {library: version} of the library that resamples."""
    soxr = _soxr()
    return {"soxr": soxr.__version__, "libsoxr": soxr.__libsoxr_version__}


@functools.cache
def _soxr() -> Any:
    return import_package("soxr", extra="audio", needed_for="resampling audio")


def joins_others(samples: Floats) -> bool:
    """Return whether it saves time to resample a waveform, float32[n, channels], with others."""
    return samples.shape[1] == 1 and len(samples) <= _SHORT


def resample(samples: Floats, rate: int, wanted: int) -> Floats:
    """Return float32[n, channels] at the wanted rate, with n rounded half up."""
    if samples.shape[1] == 1:
        return _resample_channels([samples], rate, wanted)[0]
    found: Floats = _soxr().resample(samples, rate, wanted)
    return found


def resample_all(waveforms: Sequence[Floats], rates: Sequence[int], wanted: int) -> list[Floats]:
    """Resample mono waveforms, float32[n, 1] each. rates: samples per second of each."""
    found = list(waveforms)
    order = sorted(range(len(waveforms)), key=lambda at: (rates[at], len(waveforms[at])))
    while order:
        rate = rates[order[0]]
        group = [at for at in order[:_CHANNELS] if rates[at] == rate]
        order = order[len(group) :]
        done = _resample_channels([waveforms[at] for at in group], rate, wanted)
        for at, samples in zip(group, done, strict=True):
            found[at] = samples
    return found


def _resample_channels(waveforms: Sequence[Floats], rate: int, wanted: int) -> list[Floats]:
    """Resample mono waveforms in one call."""
    channels = np.zeros((len(waveforms), max(map(len, waveforms))), np.float32)
    for channel, samples in zip(channels, waveforms, strict=True):
        channel[: len(samples)] = samples[:, 0]
    found = _soxr().resample(channels.T, rate, wanted)
    lengths = [(2 * len(samples) * wanted + rate) // (2 * rate) for samples in waveforms]
    return [found[:length, at : at + 1] for at, length in enumerate(lengths)]
