"""Datasets that another may have written: commands name the file and the field that is invalid."""

import hashlib
import io
import json
import pathlib
import shutil
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2

import recordmill
from recordmill.errors import DamageError, RunError
from recordmill.pipelines.cli import main
from recordmill.tfrecord.framing import frame
from tests.soak import fuzz_datasets

KINDS = ("images", "table", "text")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("made")
    fuzz_datasets.make_datasets(folder, KINDS)
    return folder


@pytest.fixture
def given(made, tmp_path) -> Callable[[str], pathlib.Path]:
    """Returns a copy of the dataset of a data type."""

    def copy(kind: str) -> pathlib.Path:
        return pathlib.Path(shutil.copytree(made / kind / "out", tmp_path / f"given-{kind}"))

    return copy


@pytest.fixture
def says(capsys) -> Callable[..., tuple[int, str]]:
    """Runs a command; returns its exit code and all that it prints."""

    def run(*command: object) -> tuple[int, str]:
        capsys.readouterr()
        code = main([str(one) for one in command])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return run


def forge(dataset: pathlib.Path, file: str, content: bytes) -> None:
    """Replace a file, and state its hash in the manifest."""
    (dataset / file).write_bytes(content)
    fuzz_datasets.seal(dataset, file)


def again(made: pathlib.Path, kind: str, output: pathlib.Path) -> list[str]:
    """Return the command that made a dataset, with another output, and with all messages."""
    return [one for one in fuzz_datasets.arguments(made, kind, output) if one != "--quiet"]


def changed_json(place: pathlib.Path, change: Callable[[Any], object]) -> bytes:
    data = json.loads(place.read_bytes())
    change(data)
    return json.dumps(data).encode()


def changed_column(place: pathlib.Path, name: str, values: Callable[[int], list[Any]]) -> bytes:
    table = pq.read_table(place)
    at, kind = table.column_names.index(name), table[name].type
    table = table.set_column(at, name, pa.array(values(len(table)), kind))
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=len(table))
    return sink.getvalue()


TRAIN_INDEX = "index/train-00000-of-00001.parquet"


def test_facts_in_recipes_are_checked(given, made, says, tmp_path):
    out = given("images")
    recipes = pq.ParquetFile(out / "recipes.parquet")
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, recipes.schema_arrow) as writer:
        for number in range(recipes.num_row_groups):
            group = recipes.read_row_group(number)
            facts = pa.array(['{"objects": ["x", -1]}'] * len(group))
            writer.write_table(group.set_column(3, "facts", facts), row_group_size=len(group))
    (out / "recipes.parquet").write_bytes(sink.getvalue())
    message = 'recipes.parquet is damaged: facts: objects[0]: expected an integer, got "x"'
    assert says("verify", "--dataset", out)[0] == 1
    assert message in says("verify", "--dataset", out)[1]
    command = again(made, "images", tmp_path / "new")
    assert message in says(*command, "--reuse", out)[1].replace("\n", " ")


def test_lengths_in_an_index_are_checked(given, made, says, tmp_path):
    out = given("images")
    forge(out, TRAIN_INDEX, changed_column(out / TRAIN_INDEX, "length", lambda n: [2**45] * n))
    message = f"{TRAIN_INDEX}: expected the column length to hold 16 to 2147483663, got"
    reuse = again(made, "images", tmp_path / "new")
    for command in (
        ("verify", "--dataset", out),
        ("inspect", "--dataset", out, "--record", 1),
        ("report", "--dataset", out, "--output", tmp_path / "page.html"),
        (*reuse, "--reuse", out),
        ("images", "--input", out, "--output", tmp_path / "other", "--splits", "train=1"),
    ):
        code, said = says(*command)
        assert message in said.replace("\n", " "), command[0]
        assert code in ((0,) if "--reuse" in command else (1, 2)), command[0]
    with pytest.raises(DamageError, match="expected the column length to hold"):
        recordmill.open(out)[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: one.update(boundaries=7), "number.boundaries: expected a list, got 7"),
        (lambda one: one.update(mean="x"), 'number.mean: expected a number, got "x"'),
        (lambda one: one.update(deviation=-1), "number.deviation: expected a number >= 0"),
        (lambda one: one.update(boundaries=[2, 1]), "number.boundaries: expected ascending"),
        (lambda one: one.pop("mean"), "number.mean: it is missing"),
        (lambda one: one.update({"-0": 1}), "number['-0']: the name is unknown"),
    ],
)
def test_learned_numbers_are_checked(given, made, says, tmp_path, change, message):
    out = given("table")
    learned = changed_json(out / "learned.json", lambda data: change(data["number"]))
    forge(out, "learned.json", learned)
    command = again(made, "table", tmp_path / "new")
    code, said = says(*command, "--learned-from", out)
    assert code == 1
    assert f"learned.json is damaged: {message}" in said.replace("\n", " ")
    assert not (tmp_path / "new" / "dataset.json").exists()


@pytest.mark.parametrize(
    ("kind", "file", "content", "message"),
    [
        ("text", "vocabulary/tokens.txt", b"a\n\xff\n", "line 2 is not UTF-8"),
        ("table", "vocabulary/text.txt", b"a\nb\n\xff\n", "line 3 is not UTF-8"),
        ("text", "vocabulary/tokens.txt", b"a\nb\na\n", "the line 'a' is repeated"),
        ("text", "vocabulary/idf.npy", b"\x93NUMPY", "it is not a NumPy array"),
        ("text", "vocabulary/idf.npy", b"\x93NUMPY\1\0\2\0{\n", "it is not a NumPy array"),
    ],
)
def test_vocabularies_are_checked(given, made, says, tmp_path, kind, file, content, message):
    out = given(kind)
    forge(out, file, content)
    command = again(made, kind, tmp_path / "new")
    code, said = says(*command, "--learned-from", out)
    assert code == 1
    assert f"{file} is damaged: {message}" in said.replace("\n", " ")
    code, said = says("export-transform", "--dataset", out, "--output", tmp_path / "model")
    assert code == 1
    assert f"{file} is damaged: {message}" in said.replace("\n", " ")
    assert not (tmp_path / "model").exists()


def test_frequencies_have_the_length_of_their_vocabulary(given, made, says, tmp_path):
    out = given("text")
    sink = io.BytesIO()
    np.save(sink, np.arange(3.0))
    forge(out, "vocabulary/idf.npy", sink.getvalue())
    command = again(made, "text", tmp_path / "new")
    code, said = says(*command, "--learned-from", out)
    assert code == 1
    assert "idf.npy is damaged: it has 3 numbers, but vocabulary/tokens.txt has" in said
    code, said = says("export-transform", "--dataset", out, "--output", tmp_path / "model")
    assert code == 1
    assert "idf.npy is damaged: it has another length than vocabulary/tokens.txt" in said


def unordered(statistics: bytes) -> bytes:
    message = statistics_pb2.DatasetFeatureStatisticsList.FromString(statistics)
    [number] = [one for one in message.datasets[0].features if one.name == "number"]
    for one in number.custom_stats:
        for bucket in one.histogram.buckets[:1]:
            bucket.low_value = bucket.high_value = 1e12
    return message.SerializeToString()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda content: content[:-9], "expected a DatasetFeatureStatisticsList"),
        (unordered, "column 'number': expected ascending finite boundaries of buckets, got"),
    ],
)
def test_statistics_are_checked(given, made, says, tmp_path, change, what):
    out = given("table")
    forge(out, "statistics.pb", change((out / "statistics.pb").read_bytes()))
    message = f"statistics.pb is damaged: {what}"
    code, said = says("inspect", "--dataset", made / "table/out", "--compare-with", out)
    assert (code, message in said) == (2, True)
    code, said = says("inspect", "--dataset", out)
    assert (code, message in said) == (1, True)
    command = again(made, "table", tmp_path / "new")
    code, said = says(*command, "--learned-from", out)
    assert (code, message in said) == (1, True)


def test_the_ledger_is_checked(given, made, says, tmp_path):
    out = given("table")
    place = out / "dataset.json"
    place.write_bytes(changed_json(place, lambda data: data["ledger"].update(filtered=7)))
    message = "dataset.json is invalid: ledger.filtered: expected an object, got 7"
    commands = {
        ("verify", "--dataset", out): 1,
        ("inspect", "--dataset", out): 1,
        ("report", "--dataset", out): 1,
        ("diff", out, made / "table/out"): 1,
        ("export-transform", "--dataset", out, "--output", tmp_path / "model"): 1,
        ("table", "--input", out, "--output", tmp_path / "new"): 2,
    }
    for command, expected in commands.items():
        code, said = says(*command)
        assert message in said.replace("\n", " "), command[0]
        assert code == expected, command[0]


def test_names_of_columns_that_are_not_utf8(says, tmp_path):
    place = tmp_path / "rows.arrow"
    table = pa.table({"aaaa": [1, 2], "b": [3, 4]})
    with pa.ipc.new_file(str(place), table.schema) as writer:
        writer.write_table(table)
    place.write_bytes(place.read_bytes().replace(b"aaaa", b"\xffaaa"))
    code, said = says("table", "--input", place, "--output", tmp_path / "out")
    assert code == 2
    assert "the name of column 1, or of a field in it, is not UTF-8: rename it" in said
    place = tmp_path / "rows.parquet"
    pq.write_table(table, place, store_schema=False)
    place.write_bytes(place.read_bytes().replace(b"aaaa", b"\xffaaa"))
    code, said = says("table", "--input", place, "--output", tmp_path / "out")
    assert code == 2
    assert "the name of a column is not UTF-8: rename it" in said


def test_a_small_index_of_many_rows_is_not_read(given, says):
    out = given("images")
    rows = 3_000_000
    table = pq.read_table(out / TRAIN_INDEX)
    columns: dict[str, Any] = {field.name: pa.nulls(rows, field.type) for field in table.schema}
    columns["key"] = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["a"])
    for name in ("copy", "offset", "length"):
        columns[name] = pa.array(np.full(rows, 16), table.schema.field(name).type)
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    manifest = out / "dataset.json"

    def state(data: Any) -> None:
        split = data["splits"]["train"]
        split["records"] = split["shards"][0]["records"] = rows
        split["bytes"] = split["shards"][0]["bytes"] = 16 * rows

    manifest.write_bytes(changed_json(manifest, state))
    forge(out, TRAIN_INDEX, sink.getvalue())
    before = pa.total_allocated_bytes()
    with pytest.raises(DamageError, match=rf"{TRAIN_INDEX}: states 3000000 rows, but is only"):
        recordmill.open(out, "train")[7]
    code, said = says("verify", "--dataset", out)
    assert (code, "states 3000000 rows" in said) == (1, True)
    assert pa.total_allocated_bytes() - before < 20 << 20


def test_a_manifest_cannot_state_more_records_than_bytes(given, says):
    out = given("table")
    place = out / "dataset.json"
    place.write_bytes(
        changed_json(place, lambda data: data["splits"]["train"]["shards"][0].update(records=10**9))
    )
    code, said = says("inspect", "--dataset", out)
    assert code == 1
    assert "splits.train.shards[0].records: 1000000000 records do not fit into its" in said


def gzip_bomb(size: int) -> bytes:
    """A gzip file of one record that claims `size` bytes of zeros, of which few are stored."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(frame(bytes(size))[:12] + bytes(1 << 16)) + packer.flush()


def test_records_of_small_gzip_files_are_bounded(given, made, says, tmp_path):
    command = fuzz_datasets.arguments(made, "table", tmp_path / "zipped")
    assert says(*command, "--compression", "gzip")[0] == 0
    out = tmp_path / "zipped"
    [shard] = out.glob("train*.gz")
    forge(out, shard.name, gzip_bomb(300 << 20))
    message = "claims 314572800 bytes, but max_record_bytes allows 269484032"
    with pytest.raises(RunError, match=message):
        next(iter(recordmill.read(out, "train")))
    with pytest.raises(RunError, match=message):
        recordmill.open(out, "train")[0]
    with pytest.raises(RunError, match=message):
        next(iter(recordmill.read(shard)))
    with pytest.raises(RunError, match="the file ends inside a record"):
        next(iter(recordmill.read(out, "train", max_record_bytes=1 << 30)))


def test_records_of_small_gzip_files_are_bounded_for_tensorflow(given, made, says, tmp_path):
    command = fuzz_datasets.arguments(made, "table", tmp_path / "zipped")
    assert says(*command, "--compression", "gzip")[0] == 0
    out = tmp_path / "zipped"
    [shard] = out.glob("train*.gz")
    forge(out, shard.name, gzip_bomb(300 << 20))
    with pytest.raises(RunError, match="claims 314572800 bytes, but max_record_bytes allows"):
        recordmill.load(out, verify=True)
    index = changed_column(out / TRAIN_INDEX, "length", lambda n: [300 << 20] + [99] * (n - 1))
    forge(out, TRAIN_INDEX, index)
    with pytest.raises(RunError, match="a record has 314572800 bytes, but max_record_bytes"):
        recordmill.load(out)


@pytest.fixture(scope="module")
def every(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("every")
    fuzz_datasets.make_datasets(folder)
    return folder


@pytest.mark.parametrize(
    ("kind", "file", "old", "new", "said"),
    [
        ("images", "estimate.json", b'"train"', b'"tra\\nn"', "estimate.json is damaged: expected"),
        ("arrays", "listing/*/part-00000.arrow", b'["<f', b'[<"f', "header of an array is damaged"),
        ("audio", "shards/train*", b"audio", b"audiO", "payload checksum does not match"),
    ],
)  # fmt: skip
def test_changed_content_of_staging_is_damage(kind, file, old, new, said, every, says, tmp_path):
    out = pathlib.Path(shutil.copytree(every / kind / fuzz_datasets.STAGED, tmp_path / "out"))
    [place] = out.glob(f".recordmill/*/{file}")
    content = place.read_bytes()
    assert old in content
    place.write_bytes(content.replace(old, new))
    code, told = says(*fuzz_datasets.arguments(every, kind, out))
    assert (code, said in told) == (1, True), told


@pytest.mark.long
def test_changed_datasets_never_crash_a_command(every):
    """A part of tests/soak/fuzz_datasets.py."""
    with fuzz_datasets.fast_runs():
        for number in range(200):
            fuzz_datasets.run_case(every, 61, number, thorough=number % 10 == 0)


def test_cases_depend_on_their_number_alone(made):
    cases = [
        [fuzz_datasets.make_case(made, 1, number, KINDS) for number in range(9)] for _ in range(2)
    ]
    assert cases[0] == cases[1]
    contents = {hashlib.sha256(case.content).digest() for case in cases[0]}
    assert len(contents) == 9
