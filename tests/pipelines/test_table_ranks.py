"""Buckets and imputed medians of `recordmill table`, against NumPy over all rows of train."""

import json
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2

from tests.image_runs import Made, make, run

pytestmark = pytest.mark.usefixtures("encoders")

ROWS = 12_000
BUCKETS = 7
CHANCE = np.random.default_rng(5)
COLUMNS = {
    "narrow": 41.87 + 0.04 * CHANCE.random(ROWS),
    "heavy": CHANCE.standard_cauchy(ROWS) ** 3,
    "integers": CHANCE.integers(1_700_000_000, 1_700_400_000, ROWS).astype(float),
    "ties": CHANCE.choice([1.5, 2.5, 2.75, 300.0, 301.0], ROWS, p=[0.4, 0.1, 0.1, 0.35, 0.05]),
    "same": np.full(ROWS, 7.0),
    "missing": np.where(CHANCE.random(ROWS) < 0.35, np.nan, CHANCE.normal(1013, 0.3, ROWS)),
    "negative": -CHANCE.lognormal(2, 0.01, ROWS),
    "tiny": CHANCE.normal(0, 1e-310, ROWS),
    "infinite": np.where(CHANCE.random(ROWS) < 0.01, np.inf, CHANCE.normal(size=ROWS)),
    "clusters": np.where(CHANCE.random(ROWS) < 0.5, -1e9, 1e-3) * (1 + CHANCE.random(ROWS) / 1e4),
    "ascending": np.sort(CHANCE.gamma(2, 3, ROWS)),
    "random": CHANCE.random(ROWS),
}
OPTIONS = (
    *("--bucketize", ",".join(f"{name}={BUCKETS}" for name in COLUMNS)),
    *("--clip", "infinite=-2:2", "--impute", "missing=median", "--num-shards", 1),
)


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("columns")
    columns = {n: pa.array(values, from_pandas=True) for n, values in COLUMNS.items()}
    whole = pa.table({"row": pa.array(range(ROWS), pa.int64()), **columns})
    for file in range(3):
        pq.write_table(whole.slice(file * ROWS // 3, ROWS // 3), folder / f"{file}.parquet")
    return folder


@pytest.fixture(scope="module")
def made(source, tmp_path_factory) -> Made:
    out = tmp_path_factory.mktemp("made") / "out"
    return make(out, "--input", source, *OPTIONS, "--workers", 1, command="table")


@pytest.fixture(scope="module")
def train(made) -> list[dict]:
    """Examples of train, which take half a second to decode."""
    return [*made.examples("train").values()]


def values_of(train: list[dict]) -> dict[str, np.ndarray]:
    """Values of records, with missing ones, as they are put into buckets."""
    rows = [int(example["row"][0]) for example in train]
    assert 0.7 * ROWS < len(rows) < 0.9 * ROWS
    values = {name: np.array(column[rows]) for name, column in COLUMNS.items()}
    values["infinite"] = np.clip(values["infinite"], -2, 2)
    return values


def learned(made: Made) -> dict[str, dict]:
    return json.loads((made.folder / "learned.json").read_bytes())


def best_boundaries(values: np.ndarray, parts: int) -> list[float]:
    """The boundaries with the numbers of values below them nearest to the wanted ones."""
    different, counts = np.unique(values, return_counts=True)
    below = np.cumsum(counts)[:-1]
    wanted = np.arange(1, parts) * len(values)
    places = {int(np.abs(below * parts - one).argmin()) + 1 for one in wanted} if len(below) else ()
    return different[sorted(places)].tolist()


@pytest.mark.parametrize("name", COLUMNS)
def test_every_boundary_has_its_rank(made, train, name):
    values = values_of(train)[name]
    values[np.isnan(values)] = np.nanquantile(values, 0.5, method="inverted_cdf")
    found = learned(made)[name]["boundaries"]
    assert found == best_boundaries(values, BUCKETS)
    if len(np.unique(values)) == len(values):
        np.testing.assert_array_equal(
            [(values < one).sum() for one in found],
            np.rint(np.arange(1, BUCKETS) * len(values) / BUCKETS),
        )


def test_records_get_the_number_of_their_bucket(made, train):
    values, boundaries = values_of(train)["narrow"], learned(made)["narrow"]["boundaries"]
    ids = [int(example["narrow"][0]) for example in train]
    assert ids == np.searchsorted(boundaries, values, side="right").tolist()
    assert np.ptp(np.bincount(ids)) <= 1


def test_missing_values_become_the_median(made, train):
    values = values_of(train)["missing"]
    median = np.quantile(values[~np.isnan(values)], 0.5, method="inverted_cdf")
    assert learned(made)["missing"]["fill"] == median


def test_columns_with_fewer_buckets_are_noted(made):
    notes = [str(note) for note in made.manifest.notes if note.code == "few-buckets"]
    why = "in train are equal, and equal values are in one bucket"
    assert notes == [
        f"--bucketize same=7 makes 1 bucket, because many values of 'same' {why}",
        f"--bucketize ties=7 makes 4 buckets, because many values of 'ties' {why}",
    ]


def test_few_buckets_can_be_an_error(source, tmp_path, capsys):
    argv = ("--input", source, "--output", tmp_path / "out", "--bucketize", "same=2")
    assert run("table", *argv, "--fail-on", "few-buckets") == 1
    assert "--bucketize same=2 makes 1 bucket, because" in capsys.readouterr().err
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_two_workers_write_the_same_bytes(made, source, tmp_path):
    out = tmp_path / "out"
    other = make(out, "--input", source, *OPTIONS, "--workers", 2, command="table")
    assert other.manifest.digest == made.manifest.digest
    for name in ("learned.json", "statistics.pb"):
        assert (out / name).read_bytes() == (made.folder / name).read_bytes()


def test_medians_and_quantiles_of_statistics_have_their_ranks(made, train):
    message = statistics_pb2.DatasetFeatureStatisticsList()
    message.ParseFromString((made.folder / "statistics.pb").read_bytes())
    statistics = next(one for one in message.datasets if one.name == "train")
    rows = [int(example["row"][0]) for example in train]
    for feature in statistics.features:
        if feature.name not in COLUMNS:
            continue
        values = COLUMNS[feature.name][rows]
        values = np.sort(values[np.isfinite(values)])
        stats = feature.num_stats
        ends = [bucket.high_value for bucket in stats.histograms[1].buckets]
        found, shares = np.array([stats.median, *ends]), np.array([0.5, *np.arange(1, 11) / 10])
        below = np.searchsorted(values, found) / len(values)
        through = np.searchsorted(values, found, side="right") / len(values)
        assert np.maximum(below - shares, shares - through).max() <= 0.001, feature.name


@pytest.mark.parametrize("fill", ["mean", "-999", "1013.001"])
def test_imputed_values_have_ranks_too(source, tmp_path, fill):
    made = make(
        *(tmp_path / "out", "--input", source, "--bucketize", "missing=3,narrow=400"),
        *("--impute", f"missing={fill}"),
        command="table",
    )
    values, numbers = values_of([*made.examples("train").values()]), learned(made)
    missing = values["missing"]
    mean = np.nanmean(missing)
    np.testing.assert_allclose(numbers["missing"]["fill"], mean if fill == "mean" else float(fill))
    missing[np.isnan(missing)] = numbers["missing"]["fill"]
    assert numbers["missing"]["boundaries"] == best_boundaries(missing, 3)
    assert numbers["narrow"]["boundaries"] == best_boundaries(values["narrow"], 400)
