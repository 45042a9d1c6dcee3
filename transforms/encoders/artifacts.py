"""Reading of artifacts in encoders."""

from __future__ import annotations

import hashlib

from recordmill.errors import RunError
from recordmill.storage.files import Location, shown
from recordmill.transforms.model.data_type import Artifact


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
