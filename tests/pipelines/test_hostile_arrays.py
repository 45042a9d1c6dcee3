"""Arrays whose files claim more than they hold: rejects, and the same bytes in each run."""

import io
import shutil
import zlib

import h5py
import numpy as np
import pytest

from tests.hostile_runs import run_limited
from tests.paths import HOSTILE
from tests.soak.mutations import mutate

pytestmark = pytest.mark.long

CLAIMS = HOSTILE / "hdf5" / "claims_2_to_40_records.h5"
MUTATED = 120
# What malloc returns is filled with other bytes in each run, so that reads of it show.
FILLS = ({"MALLOC_PERTURB_": "85"}, {"MALLOC_PERTURB_": "170"})


def hdf5(**options) -> bytes:
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        data = np.arange(64, dtype="f4").reshape(8, 8)
        file.create_dataset("x", data=data, chunks=(2, 8), **options)
    return stream.getvalue()


def saved(save) -> bytes:
    stream = io.BytesIO()
    save(stream, np.arange(64, dtype="f4").reshape(8, 8))
    return stream.getvalue()


def sources() -> list[bytes]:
    return [
        saved(np.save),
        saved(lambda stream, array: np.savez(stream, x=array)),
        saved(lambda stream, array: np.savez_compressed(stream, x=array)),
        hdf5(),
        hdf5(compression="gzip"),
        hdf5(compression="lzf"),
        hdf5(compression="gzip", shuffle=True, fletcher32=True),
    ]


def write_short(path, content: bytes, **options) -> None:
    """Write an HDF5 file of one chunk of 4,096 bytes that is stored as `content`."""
    with h5py.File(path, "w") as file:
        data = file.create_dataset("x", (4096,), "u1", chunks=(4096,), **options)
        data.id.write_direct_chunk((0,), content)


def test_broken_arrays_are_rejects_and_the_rest_has_one_digest(tmp_path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    good = sources()
    for number, content in enumerate(good):
        (root / f"good-{number}").write_bytes(content)
    for path in sorted((HOSTILE / "hdf5").iterdir()):
        shutil.copy(path, root)
    write_short(root / "gzip-more.h5", zlib.compress(bytes(5000)), compression="gzip")
    write_short(
        root / "gzip-cut.h5", zlib.compress(bytes(range(256)) * 16)[:90], compression="gzip"
    )
    write_short(root / "lzf-less.h5", b"\x01ab", compression="lzf")
    write_short(root / "lzf-cut.h5", b"\x05ab", compression="lzf")
    write_short(root / "raw-less.h5", bytes(100))
    forged = {path.name for path in root.glob("*.h5")}
    random = np.random.default_rng(5)
    for number in range(MUTATED):
        data, _ = mutate(good[number % len(good)], good[random.integers(len(good))], random)
        (root / f"mutated-{number:03d}").write_bytes(data)
    options = ("--unlabelled", "keep", "--dtype", "float32", "--cast", "same-kind")
    runs = [
        run_limited(
            ("arrays", "--input", root, *options, "--workers", number + 1, tmp_path / f"{number}"),
            environment=fill,
        )[0]
        for number, fill in enumerate(FILLS)
    ]
    assert [run.code for run in runs] == [0, 0], runs[0].errors
    assert runs[0].digest == runs[1].digest
    assert runs[0].made is not None
    assert forged <= runs[0].made.rejects.keys()
    written = set().union(*map(runs[0].made.keys, ("train", "validation", "test")))
    assert {f"good-{number}" for number in range(len(good))} <= written


def empty_items() -> bytes:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 0), }\n"
    return np.lib.format.MAGIC_PREFIX + b"\1\0" + len(header).to_bytes(2, "little") + header


def large_chunk(path) -> None:
    with h5py.File(path, "w") as file:
        data = file.create_dataset(
            "x", (3 << 20, 1024), "u1", chunks=(3 << 20, 1024), compression="gzip"
        )
        data.id.write_direct_chunk((0, 0), bytes(8 << 10))


def filtered(path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(100), scaleoffset=0)


def deep_groups(path) -> None:
    with h5py.File(path, "w") as file:
        group = file
        for _ in range(3000):
            group = group.create_group("g")
        group["x"] = np.arange(3)


def test_claims_of_a_file_are_compared_with_its_size(tmp_path) -> None:
    claims = {
        "items": (lambda path: shutil.copy(CLAIMS, path), "declares 1099511627776 records"),
        "empty": (lambda path: path.write_bytes(empty_items()), "1099511627776x0, which has no"),
        "chunk": (large_chunk, "chunks have 3221225472 bytes each"),
        "groups": (deep_groups, "groups are nested more than 100 deep"),
        "filter": (filtered, "filter 'scaleoffset': expected gzip"),
    }
    for name, (make, _) in claims.items():
        make(tmp_path / name)
    runs = run_limited(
        *(
            ("arrays", "--input", tmp_path / name, "--per-item", tmp_path / f"{name}-out")
            for name in claims
        )
    )
    for (name, (_, message)), result in zip(claims.items(), runs, strict=True):
        assert result.code == 2, name
        assert message in result.errors, name
