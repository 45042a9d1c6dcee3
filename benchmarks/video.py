"""How long clips of films take, against the same work done in other ways.

    python -m benchmarks.video                          24 films, 43,920 frames, 5 runs of each
    python -m benchmarks.video --films 4 --runs 1 --only ours,pyav
    python -m benchmarks.video --references             what clips would take as references

Films are the two real ones, joined with themselves; every frame is decoded, resized to 112x112,
coded as JPEG of quality 90, and in two clips of 16. A first round, which is not timed, reads all of
them into the page cache, measures memory and checks that everybody wrote every clip. Then whole
processes run in alternation, on two cores, and the median of each counts.
"""

from __future__ import annotations

import argparse
import functools
import io
import pathlib
import sys
import tempfile
import time
from collections.abc import Mapping

import av
from PIL import Image

from benchmarks.contest import (
    Command,
    Contender,
    add_options,
    alternate,
    medians,
    payloads,
    table,
)
from benchmarks.films import SOURCES, make_film
from benchmarks.measure import PEERS, FailedError, bar, machine, python, two_cores
from recordmill.tfrecord.decode import decode_steps

_FRAMES, _STRIDE, _SIDE = 16, 8, 112
_TIMES = (6, 18)  # joined of each source, of 250 and 120 frames: a minute or more
_LEAST = 24  # films; with fewer, starting Python and its libraries is all there is to see
_BARE_BAR = 0.9  # our frames per second over those of the best bare loop, at least
_SIMPLE_BAR = 2.0  # and over those of the loop with to_image


def ours(source: pathlib.Path, output: pathlib.Path) -> list[str]:
    return python(
        *("recordmill", "video", "--input", source, "--output", output, "--quiet"),
        *("--size", _SIDE, "--resize-mode", "stretch", "--splits", "train=1"),
        *("--clip-frames", _FRAMES, "--clip-stride", _STRIDE),
    )


def _loop(road: str, interpreter: str | pathlib.Path = sys.executable) -> Command:
    def command(source: pathlib.Path, output: pathlib.Path) -> list[str]:
        module = "benchmarks.peers.video_loops"
        return python(module, source, output, road, interpreter=interpreter)

    return command


_CONTENDERS = (
    Contender(name="ours", what="recordmill video", command=ours),
    Contender(name="pyav", what="PyAV, bare loop, two processes", command=_loop("pyav")),
    Contender(
        name="opencv", what="OpenCV, bare loop, two processes", command=_loop("opencv", PEERS)
    ),
    Contender(name="simple", what="PyAV, to_image, two processes", command=_loop("to_image")),
)


def check(output: pathlib.Path, clips: int) -> None:
    """Raises FailedError unless all is there: every frame whole, and clips as they should be."""
    written = 0
    for payload in payloads(output):
        written += 1
        if written % 100 == 1:
            frames = decode_steps(payload)["image/encoded"]
            for frame in frames:
                assert isinstance(frame, list)
                with Image.open(io.BytesIO(frame[0])) as image:
                    image.load()
                    if (image.format, image.size) != ("JPEG", (_SIDE, _SIDE)):
                        raise FailedError(f"{output.name}: got a {image.format} of {image.size}")
            if len(frames) != _FRAMES:
                raise FailedError(f"{output.name}: a clip of {len(frames)} frames")
    if written != clips:
        raise FailedError(f"{output.name}: expected {clips} clips, got {written}")


def bars(found: Mapping[str, float], films: int) -> list[str]:
    """What was got, and what was asked for."""
    asked = films >= _LEAST
    mine = found.get("ours")
    bare = [found[name] for name in ("pyav", "opencv") if name in found]
    lines = []
    if mine is not None and bare:
        got = min(bare) / mine
        at_least = _BARE_BAR if asked else None
        lines.append(bar("frames/s: ours / best bare loop", got, at_least=at_least))
    if mine is not None and "simple" in found:
        got = found["simple"] / mine
        at_least = _SIMPLE_BAR if asked else None
        lines.append(bar("frames/s: ours / to_image loop", got, at_least=at_least))
    return lines


def references(clips: int = 40) -> None:
    """Prints how many frames a clip decodes that is read by itself, and how long it takes."""
    for source in SOURCES:
        with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as folder:
            path = pathlib.Path(folder, source.name)
            count = make_film(path, source, times=4)
            decoded, started = 0, time.perf_counter()
            with av.open(str(path)) as film:
                stream = film.streams.video[0]
                stream.thread_type = "NONE"
                times = sorted(p.pts for p in film.demux(stream) if p.size)
                for number in range(clips):
                    start = number * (count - _FRAMES) // clips
                    film.seek(times[start], stream=stream)
                    for frame in film.decode(stream):
                        decoded += 1
                        if frame.pts >= times[start + _FRAMES - 1]:
                            break
            seconds = time.perf_counter() - started
            started = time.perf_counter()
            with av.open(str(path)) as film:
                film.streams.video[0].thread_type = "NONE"
                whole = sum(1 for _ in film.decode(video=0))
            in_order = (time.perf_counter() - started) / whole
            print(
                f"{source.name}: {decoded / clips:.0f} frames decoded for a clip of {_FRAMES}"
                f" every {_STRIDE}, {seconds / clips / in_order / _STRIDE:.1f} times the work of"
                " decoding in order"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--films", type=int, default=_LEAST)
    add_options(parser, _CONTENDERS)
    parser.add_argument("--references", action="store_true")
    arguments = parser.parse_args()
    two_cores()
    print(machine())
    if arguments.references:
        references()
        return
    with tempfile.TemporaryDirectory(prefix="recordmill-bench-") as folder:
        source = pathlib.Path(folder, "input")
        source.mkdir()
        frames = clips = 0
        for number in range(arguments.films):
            which = number // 2 % 2  # each of two processes gets as many of both
            path = source / f"{number:03d}.mp4"
            count = make_film(path, SOURCES[which], times=_TIMES[which])
            frames += count
            clips += (count - _FRAMES) // _STRIDE + 1
        all_there = functools.partial(check, clips=clips)
        results = alternate(arguments.only, source=source, check=all_there, runs=arguments.runs)
    print(f"\n{arguments.films} films, {frames} frames, {arguments.runs} runs of each\n")
    print(table(arguments.only, results, records=frames, unit="frames"))
    print(*["", *bars(medians(results), arguments.films)], sep="\n", flush=True)


if __name__ == "__main__":
    main()
