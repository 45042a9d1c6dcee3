import dataclasses
import math
import pickle
import re
from typing import Any

import pytest

from recordmill.errors import ConfigError
from recordmill.options.declaration import options_of
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.pipelines.sensor import SensorConfig
from recordmill.pipelines.text import TextConfig
from recordmill.transforms.sources.files.input_paths import InputPath


def common(**given: Any) -> CommonConfig:
    return CommonConfig(**{"input": (InputPath("in"),), "output": "out", **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"splits": {"train": 0.8}}, "--splits: expected fractions that sum to 1, got 0.8 = 0.8"),
        ({"splits": {}}, "--splits: expected fractions that sum to 1, got none = 0"),
        (
            {"splits": {"train": 0.7, "test": 0.1}},
            "--splits: expected fractions that sum to 1, got 0.7 + 0.1 = 0.8",
        ),
        (
            {"splits": {"train": 1.0, "test": 0.0}},
            "--splits: expected fractions above 0, got test=0; leave test out",
        ),
        ({"splits": {"train": math.nan}}, "--splits: expected fractions above 0, got train=nan"),
        ({"splits": {"a/b": 1.0}}, "expected names of letters, digits, _ and -"),
        ({"splits": {"": 1.0}}, "got ''"),
        ({"seed": -1}, "--seed: expected 0 to 9223372036854775807, got -1"),
        ({"seed": 2**63}, "--seed: expected 0 to 9223372036854775807, got 9223372036854775808"),
        ({"label_offset": -1}, "--label-offset: expected 0 or more, got -1"),
        ({"workers": -1}, "--workers: expected 0 or more, got -1"),
        ({"shard_size": 0}, "--shard-size: expected 1 or more, got 0"),
        ({"num_shards": 0}, "--num-shards: expected 1 or more, got 0"),
        ({"num_shards": {"train": 0}}, "--num-shards train: expected 1 or more, got 0"),
        ({"num_shards": {"../x": 1}}, "--num-shards: expected names of letters"),
        ({"max_reject_fraction": 1.5}, "--max-reject-fraction: expected 0 to 1, got 1.5"),
        ({"max_reject_fraction": math.nan}, "--max-reject-fraction: expected 0 to 1, got nan"),
        (
            {"balance_target": 0, "balance": "oversample"},
            "--balance-target: expected 1 or more, got 0",
        ),
        (
            {"balance": "oversample", "splits": {"all": 1.0}},
            "--balance oversample applies to the split train; expected it in --splits, got all",
        ),
        (
            {"rename": {"a": "c", "b": "c"}},
            "--rename: both 'a' and 'b' would become 'c'",
        ),
    ],
)
def test_bad_values(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        common(**given)


def test_the_order_of_splits_shows_nowhere() -> None:
    given = {"holdout": 0.1, "test": 0.2, "train": 0.7}
    assert list(common(splits=given).splits) == ["train", "test", "holdout"]
    assert type(common(splits={"train": 1}).splits["train"]) is float


def test_thirds_sum_to_one() -> None:
    assert len(common(splits={"a": 0.1, "b": 0.2, "train": 0.7}).splits) == 3


def test_shards_by_name_leave_the_size_to_the_rest() -> None:
    assert common(num_shards={"train": 4}, shard_size=10**9).shard_size == 10**9


def test_a_config_travels_to_workers() -> None:
    given = common(num_shards={"train": 4}, rename={"a": "b"})
    assert pickle.loads(pickle.dumps(given)) == given


def test_what_shapes_bytes() -> None:
    # Whatever stands here makes another job of the same input: see `<job>` in the design.
    shaping = {name for name, one in options_of(CommonConfig).items() if one.shapes_bytes}
    fields = {field.name for field in dataclasses.fields(CommonConfig)}
    assert fields - shaping == {
        "input", "output", "max_reject_fraction", "overwrite", "dry_run", "quiet",
        "runner", "scratch", "spill_above", "workers", "max_worker_memory", "max_worker_seconds",
        "infer_schema", "compare_with",
        "max_drift", "learned_from",  # its content counts, not its path
        "report", "verify", "reuse", "reuse_required", "no_reuse", "fingerprint",
        "flink_master", "environment", "environment_config", "parallelism", "job_name", "detach",
        "stall_timeout", "retries", "flink_job_server_jar", "flink_job_server_sha256", "json",
        "flink_token_file", "flink_ca_file", "worker_secret_file", "flink_whole_jar",
        "exclude_keys", "fail_on",
        "exclude_like", "label_map", "split_files",  # their content counts, not their path
        "card",  # it shapes files beside the shards, which are replaced if it changes
    }  # fmt: skip


def test_what_shapes_bytes_of_windows_and_texts() -> None:
    """Files that options name count by content, not by path."""
    fields = {field.name for field in dataclasses.fields(CommonConfig)}
    for kind, files in (
        (SensorConfig, {"intervals"}),
        (
            TextConfig,
            {"tokenizer", "embeddings", "embedding_words", "max_unknown", "chat_template"}
            | {"input_root", "confine", "allow_store"},
        ),
    ):
        others = {name for name, one in options_of(kind).items() if not one.shapes_bytes}
        assert others - fields == {*files, "preprocessing_fn", "trust_transform"}
