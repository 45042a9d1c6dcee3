"""`recordmill export-index` writes what DALI's tfrecord2idx would."""

import struct

from recordmill.pipelines.cli import main
from tests.make_dataset import flowers, make_dataset


def scanned(shard) -> str:
    """The lines that tfrecord2idx writes for a shard, by reading it."""
    content, at, lines = shard.read_bytes(), 0, []
    while at < len(content):
        size = 8 + 4 + struct.unpack_from("<Q", content, at)[0] + 4
        lines.append(f"{at} {size}\n")
        at += size
    return "".join(lines)


def export(dataset, output) -> int:
    return main(
        ["export-index", "--dataset", str(dataset), "--format", "dali", "--output", str(output)]
    )


def test_indexes_are_those_of_tfrecord2idx(tmp_path, capsys) -> None:
    make_dataset(tmp_path / "out", flowers())
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert export(tmp_path / "out", tmp_path / "new" / "idx") == 0
    shards = sorted((tmp_path / "out").glob("*.tfrecord-*"))
    found = sorted((tmp_path / "new" / "idx").iterdir())
    assert [path.name for path in found] == [f"{shard.name}.idx" for shard in shards]
    assert [path.read_text() for path in found] == [scanned(shard) for shard in shards]
    assert any(path.stat().st_size for path in found)
    assert f"the index of {len(shards)} shards was written to" in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["idx"]
    after = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert after == before


def test_what_cannot_be_exported(tmp_path, capsys) -> None:
    make_dataset(tmp_path / "out", flowers())
    make_dataset(tmp_path / "gzip", flowers(), compression="gzip")
    (tmp_path / "there").mkdir()
    index = next((tmp_path / "out" / "index").glob("train-*"))
    index.write_bytes(index.read_bytes()[:-9])
    for dataset, output, code, message in [
        ("gzip", "idx", 2, "DALI does not read gzip"),
        ("out", "there", 2, "exists already; name a new folder"),
        ("out", "s3://bucket/idx", 2, "expected a local folder"),
        ("out", "idx", 1, f"no index was exported: index/{index.name}: "),
        ("none", "idx", 1, "no dataset"),
    ]:
        place = output if "://" in output else tmp_path / output
        assert export(tmp_path / dataset, place) == code, message
        assert message in capsys.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "idx").exists()


def test_an_unknown_format(tmp_path, capsys) -> None:
    argv = ["export-index", "--dataset", "out", "--format", "webdataset", "--output", "idx"]
    assert main(argv) == 2
    assert "--format: expected one of dali; got 'webdataset'" in capsys.readouterr().err
