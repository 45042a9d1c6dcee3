"""Long films, made of the two of the tests by joining their packets: nothing is coded anew."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterator
from typing import Any

import av

from benchmarks.measure import DATA

SOURCES = tuple(DATA / "video" / f"{name}.mp4" for name in ("wide", "qcif"))


def make_film(path: pathlib.Path, source: pathlib.Path, *, times: int) -> int:
    """The film again and again in one file; returns how many frames it has."""
    frames = 0
    with av.open(str(path), "w") as out, av.open(str(source)) as first:
        stream = out.add_stream_from_template(first.streams.video[0])
        for packet, shift in itertools.chain.from_iterable(_again(source, times)):
            packet.pts += shift
            packet.dts += shift
            packet.stream = stream
            out.mux(packet)
            frames += 1
    return frames


def _again(source: pathlib.Path, times: int) -> Iterator[Iterator[tuple[Any, int]]]:
    for number in range(times):
        with av.open(str(source)) as film:
            stream = film.streams.video[0]
            length = stream.duration
            packets = [packet for packet in film.demux(stream) if packet.size]
            yield ((packet, number * length) for packet in packets)
