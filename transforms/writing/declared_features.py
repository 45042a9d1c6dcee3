"""The check that an encoder writes the features that it declares."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from recordmill.checking.conformance import Conformance, NonconformingError
from recordmill.format.manifest import Manifest
from recordmill.format.typed_json import damage_of
from recordmill.job.staging import ShardInfo, advice_on
from recordmill.storage.files import Location, MissingError, results_of_each, shown
from recordmill.tfrecord.framing import Compression, read_frames
from recordmill.transforms.model.run_spec import RunSpec


def expect_declared_features(
    manifest: Manifest, infos: Sequence[ShardInfo], *, run: RunSpec
) -> None:
    """Check the first record of each split.

    Raises:
      DamageError: a staged shard is damaged.
      TypeError: it is not as declared, which is an error in the code of the encoder. All shards
        will be written again.
    """
    conformance = Conformance(
        manifest.features,
        labels=manifest.labels,
        label_offset=manifest.label_offset,
        deep=False,
    )
    first = {info.split: info for info in reversed(infos) if info.shard.records}
    places = [run.staging.place(found.staged_shard) for found in first.values()]
    read = functools.partial(_first_payload, compression=run.compression)
    for payload in results_of_each(read, places, at=run.staging.root):
        if payload is None:
            continue
        try:
            conformance.check(conformance.decode(payload))
        except NonconformingError as error:
            for info in infos:
                run.staging.place(f"info/{info.shard.file}.json").delete(missing_ok=True)
            raise TypeError(
                f"{type(run.encoder).__name__}: `encode` returned a record that `features` does not"
                f" declare: {error}"
            ) from error


def _first_payload(shard: Location, *, compression: Compression) -> bytes | None:
    """Return the first record of a staged shard.

    None if the shard is missing: an earlier attempt has checked it and begun to publish.
    """
    try:
        with damage_of(shown(shard), advice=advice_on(shard)), shard.open_input() as stream:
            frame = next(read_frames(stream, compression=compression), None)
            if frame is None:
                raise ValueError("it has no records")
            return bytes(frame.payload)
    except MissingError:
        return None
