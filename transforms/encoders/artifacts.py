"""Artifacts: written into staging by the submitter or a stage, read by encoders."""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from recordmill.errors import RunError
from recordmill.job.staging import Staging
from recordmill.storage.files import Location, shown
from recordmill.transforms.model.data_type import Artifact, Prepared
from recordmill.transforms.sources.arrays.npy import INVALID_HEADER


def read_artifact(artifact: Artifact) -> bytes:
    """Return the content of an artifact.

    Raises:
        RunError: the file has changed since the job began.
    """
    place = Location.parse(artifact.path)
    content = place.read_bytes()
    if hashlib.sha256(content).hexdigest() != artifact.sha256:
        raise RunError(f"{shown(place)} changed while the job ran: run the same command again")
    return content


def vocabulary_lines(content: bytes) -> list[str]:
    """Return the lines of a vocabulary file.

    Raises:
        ValueError: it is not UTF-8, or a line is repeated.
    """
    try:
        lines = content.decode().split("\n")[:-1]
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not UTF-8") from error
    if len({*lines}) < len(lines):
        raise ValueError(f"the line {Counter(lines).most_common(1)[0][0][:80]!r} is repeated")
    return lines


def parse_frequencies(content: bytes) -> npt.NDArray[np.float64]:
    """Return the inverse document frequencies of a vocabulary in a file: float64[lines].

    Raises:
        ValueError: the content is invalid.
    """
    try:
        found = np.load(io.BytesIO(content), allow_pickle=False)
    except (OSError, *INVALID_HEADER) as error:
        raise ValueError("it is not a NumPy array") from error
    if not isinstance(found, np.ndarray) or found.dtype != np.float64 or found.ndim != 1:
        raise ValueError("expected an array of float64 with one dimension")
    if not np.isfinite(found).all():
        raise ValueError("expected finite numbers")
    return found


def store_artifacts(
    contents: Mapping[str, bytes | Prepared], staging: Staging
) -> dict[str, Artifact]:
    """Write artifacts into staging, for encoders to read.

    contents: {name in the dataset: content, or a `Prepared` that writes it}.
    """
    stored = {}
    for name, content in contents.items():
        if not isinstance(content, bytes):
            place = staging.place(f"artifacts/{content.sha256[:16]}/{name}")
            content.write(place)
            stored[name] = Artifact(path=str(place), sha256=content.sha256, published=False)
            continue
        sha256 = hashlib.sha256(content).hexdigest()
        place = staging.place(f"artifacts/{sha256[:16]}/{name.rpartition('/')[2]}")
        if not place.is_file():
            place.parent.make_dirs()
            place.write_bytes(content)
        stored[name] = Artifact(path=str(place), sha256=sha256)
    return stored
