"""Datasets that someone changed on purpose: reported as damage, without harm or much memory."""

import dataclasses
import hashlib
import io
import json
import pathlib
import tracemalloc
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from recordmill.checking import inspection, record_inspection
from recordmill.checking.verify import verify
from recordmill.errors import DamageError
from recordmill.format import shard_index
from recordmill.format.file_info import file_info
from recordmill.format.manifest import Manifest, ManifestError
from recordmill.format.shard_index import IndexDamagedError, read_index
from recordmill.job.staging import Staging
from recordmill.pipelines.cli import main
from recordmill.storage.files import Location
from recordmill.tfrecord.framing import FrameError, frame, read_frames
from tests.hostile_files import deep_columns
from tests.make_dataset import make_dataset
from tests.soak.mutations import change_json


@pytest.fixture
def out(tmp_path) -> pathlib.Path:
    make_dataset(tmp_path / "out")
    return tmp_path / "out"


def damages(out: pathlib.Path) -> list[str]:
    return [str(damage) for damage in verify(Location.parse(str(out))).damages]


def test_a_dataset_without_its_job(out):
    (out / "job.json").unlink()
    assert damages(out) == ["job.json: the file is missing"]
    (out / "job.json").write_bytes(b"[" * 100_000)
    assert damages(out) == ["job.json: it is invalid: it is nested too deeply"]


def test_an_index_of_other_keys(out):
    place = out / "index/train-00000-of-00002.parquet"
    table = pq.read_table(place)
    forged = table.set_column(0, "key", pa.array([f"{n}" for n in range(len(table))]))
    place.write_bytes(shard_index.index_bytes(forged))
    [damage] = damages(out)
    assert damage.startswith("index/train-00000-of-00002.parquet: ")
    assert damage.endswith("it changed after it was written")


def index_bomb(rows: int) -> bytes:
    """A small file that stands for many rows with a long key."""
    key = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["k" * 100_000])
    columns = {"key": key, "label": pa.nulls(rows, pa.string())}
    columns |= {name: pa.array([0] * rows, pa.int64()) for name in ("offset", "length")}
    columns["copy"] = pa.array([0] * rows, pa.int32())
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def test_an_index_with_more_rows_than_records_is_not_read(out):
    place = out / "index/train-00000-of-00002.parquet"
    bomb = index_bomb(20_000)  # 2 GB of keys
    place.write_bytes(bomb)
    before = pa.total_allocated_bytes()
    with pytest.raises(IndexDamagedError, match="has 20000 rows, the manifest says 3 records"):
        read_index(Location.parse(str(place)), records=3)
    with pytest.raises(DamageError, match=r"index/train-0.*20000 rows, the manifest says 3"):
        inspection.inspect(Location.parse(str(out)))
    # With its hash in the manifest, too.
    data = json.loads((out / "dataset.json").read_bytes())
    shard = data["splits"]["train"]["shards"][0]
    shard["index"] = dataclasses.asdict(file_info(bomb))
    (out / "dataset.json").write_text(json.dumps(data))
    assert damages(out) == [
        "index/train-00000-of-00002.parquet: has 20000 rows, the manifest says 3 records"
    ]
    shard["records"] = 1 << 40
    data["splits"]["train"]["records"] += (1 << 40) - 3
    (out / "dataset.json").write_text(json.dumps(data))
    with pytest.raises(ManifestError, match=r"shards\[0\]\.records: .* do not fit into its"):
        damages(out)
    assert pa.total_allocated_bytes() - before < 50 << 20


def test_an_index_of_deep_columns_is_damage(out):
    """The process that read it ended by signal 11."""
    place = out / "index/train-00000-of-00002.parquet"
    deep_columns(place)
    with pytest.raises(IndexDamagedError, match="cannot be read as Parquet"):
        read_index(Location.parse(str(place)))


@pytest.mark.long
def test_a_record_of_gigabytes_in_a_small_gzip_file():
    size = 300 << 20
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    content = packer.compress(frame(bytes(size))[:12])
    content += b"".join(packer.compress(bytes(1 << 20)) for _ in range(300)) + packer.flush()
    tracemalloc.start()
    with pytest.raises(FrameError, match=r"claims 314572800 bytes, but --max-record-bytes allows"):
        list(read_frames(io.BytesIO(content), compression="gzip", max_inflated=1 << 20))
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()


def test_an_eps_is_not_opened(out, monkeypatch, tmp_path):
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n"
    with Image.open(io.BytesIO(eps)) as image:
        assert image.format == "EPS"
    assert record_inspection._image_text(eps).startswith("not an image")
    features = Manifest.from_bytes((out / "dataset.json").read_bytes()).features
    [name] = [name for name, feature in features.items() if feature.kind == "image"][:1]
    with pytest.raises(ValueError, match="not in a format that Recordmill writes"):
        record_inspection.save_image({name: [eps]}, features, tmp_path / "x.png")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            b'{"key": "a", "stage": "read", "detail": ""}',
            "line 2 is damaged: reason: it is missing",
        ),
        (
            b'{"key": "a", "stage": "read", "reason": "empty"}',
            "line 2 is damaged: detail: it is missing",
        ),
        (b'{"reason": 1}', "line 2 is damaged: key: it is missing"),
        (b"[" * 100_000, "line 2 is damaged: it is nested too deeply"),
        (b'{"reason": ' + b"1" * 5000 + b"}", "line 2 is damaged: a number has thousands of"),
        (b"\xff", "line 2 is damaged: 'utf-8' codec can't decode"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "line",
)
def test_a_damaged_line_of_rejects(out, line, message):
    good = b'{"key": "a", "reason": "empty", "stage": "read", "detail": ""}'
    (out / "rejects.jsonl").write_bytes(good + b"\n" + line + b"\n")
    with pytest.raises(DamageError, match=f"^rejects.jsonl, {message}"):
        inspection.inspect(Location.parse(str(out)))


@pytest.mark.parametrize("name", ["listing.json", "verdict.json", "info/a.json", "rejects.jsonl"])
@pytest.mark.parametrize("content", [b"{", b"[" * 100_000, b'{"x": 1}', b"3", b'{"rejects": 3}'])
def test_a_damaged_file_of_staging(tmp_path, name, content):
    staging = Staging.of(Location.parse(str(tmp_path / "out")), "job")
    place = staging.place(name)
    place.parent.make_dirs()
    place.write_bytes(content)
    read = {
        "listing.json": staging.listing,
        "verdict.json": staging.verdict,
        "rejects.jsonl": staging.rejects,
        "info/a.json": lambda: staging.shard_info("a"),
    }
    with pytest.raises(DamageError, match=rf"{name}.* is damaged: .*; delete .*/job, then run the"):
        read[name]()


def test_a_manifest_whose_hash_is_known(out, capsys):
    known = hashlib.sha256((out / "dataset.json").read_bytes()).hexdigest()
    given = ["verify", "--dataset", str(out), "--quiet", "--workers", "1"]
    assert main([*given, "--manifest-sha256", known]) == 0
    assert main([*given, "--manifest-sha256", known.upper()]) == 0
    assert main([*given, "--manifest-sha256", "0" * 64]) == 1
    assert (
        f"dataset.json has the sha256 {known}, but expected {'0' * 64}" in capsys.readouterr().err
    )
    assert main([*given, "--manifest-sha256", "D"]) == 2
    assert "--manifest-sha256: expected 64 hexadecimal digits" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(8))
def test_a_changed_manifest_is_read_or_refused(out, seed):
    """A part of tests/soak/fuzz_datasets.py, which runs commands on such datasets."""
    content = (out / "dataset.json").read_bytes()
    for number in range(25):
        random = np.random.default_rng([seed, number])
        changed = change_json(content, random)
        try:
            read = Manifest.from_bytes(changed)
        except ManifestError:
            continue
        assert Manifest.from_bytes(read.to_bytes()) == read
