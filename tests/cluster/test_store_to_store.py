"""Datasets from the store to the store are those that the local runner makes in a folder."""

import json

import pytest

from recordmill.pipelines.cli import main
from tests.cluster.machines import hashes
from tests.paths import AIR, DEMO, SMS

_ROWS = ("--delimiter", ";", "--decimal", ",", "--missing", "-200", "--max-reject-fraction", "1")
KINDS = {
    "images": (DEMO, ("--size", "96", "--balance", "oversample", "--augment", "flip,crop")),
    "text": (SMS, ("--format", "tsv", "--features", "text,tokens,tfidf", "--dedup", "drop")),
    "table": (AIR, (*_ROWS, "--zscore", "T,RH", "--impute", "AH=median", "--one-hot", "Date")),
    "sensor": (
        AIR,
        (
            *(*_ROWS, "--time-column", "Date,Time", "--time-format", "%d/%m/%Y %H.%M.%S"),
            *("--window", "24", "--split-by", "time", "--zscore", "T,RH"),
        ),
    ),
}
_OPTIONS = ("--seed", "7", "--num-shards", "train=4", "--spill-above", "1")


@pytest.mark.parametrize("kind", KINDS)
def test_the_cluster_makes_the_dataset_of_one_machine(sound, kind, tmp_path):
    source, options = KINDS[kind]
    options = (*options, *_OPTIONS)
    local = tmp_path / "out"
    assert main([kind, "--input", str(source), "--output", str(local), *options, "--quiet"]) == 0
    here = sound.fill(f"{kind}-in", source)
    ended = sound.submit(kind, *options, source=here, output=sound.uri(f"{kind}-out")).end()
    assert ended.code == 0, ended.err
    assert sound.objects(f"{kind}-out") == hashes(local)
    sound.runs.append(("digest", json.loads((local / "dataset.json").read_bytes())["digest"]))
