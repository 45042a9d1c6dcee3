"""RunSpec: each option out of its range is a ConfigError that names it."""

import re

import numpy as np
import pytest

from recordmill.errors import ConfigError
from recordmill.transforms import RunSpec
from tests.tiny import TinyEncoder

WHOLE = ("shard_bytes", "label_offset", "workers", "worker_memory", "spill_above")
SPLITS = "splits: expected {name: fraction}, such as {'train': 0.9, 'test': 0.1}, got"
LABELS = "labels: expected names of classes, such as ('cat', 'dog'), got"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder": "jpeg"}, "encoder: expected an encoder, such as ImageEncoder(options="),
        ({"encoder": TinyEncoder}, "encoder: expected an encoder, such as ImageEncoder(options="),
        ({"splits": ["train"]}, f"{SPLITS} ['train']"),
        ({"splits": {"train": "1"}}, f"{SPLITS} {{'train': '1'}}"),
        ({"splits": {"train": True}}, f"{SPLITS} {{'train': True}}"),
        ({"splits": {"tr/ain": 1.0}}, "splits: expected names of letters, digits, _ and -, got"),
        ({"splits": {1: 1.0}}, "splits: expected names of letters, digits, _ and -, got 1"),
        ({"seed": "7"}, "seed: expected an integer, got '7'"),
        ({"num_shards": 0}, "num_shards: expected 1 or more, got 0"),
        ({"num_shards": True}, "num_shards: expected 1 or more, got True"),
        ({"num_shards": 2.5}, "num_shards: expected a whole number, got 2.5"),
        ({"num_shards": "2"}, "num_shards: expected a whole number, got '2'"),
        ({"num_shards": {"test": 0}}, "num_shards test: expected 1 or more, got 0"),
        ({"num_shards": {"test": "2"}}, "num_shards test: expected a whole number, got '2'"),
        ({"shard_bytes": 0}, "shard_bytes: expected 1 or more, got 0"),
        ({"shard_bytes": -5}, "shard_bytes: expected 1 or more, got -5"),
        ({"label_offset": -2}, "label_offset: expected 0 or more, got -2"),
        ({"workers": -3}, "workers: expected 0 or more, got -3"),
        ({"worker_memory": -1}, "worker_memory: expected 0 or more, got -1"),
        ({"worker_seconds": -1}, "worker_seconds: expected 0 or more seconds, got -1"),
        ({"spill_above": -1}, "spill_above: expected 0 or more, got -1"),
        *(({name: None}, f"{name}: expected a whole number, got None") for name in WHOLE),
        ({"compression": "zip"}, "compression: expected one of none, gzip, got 'zip'"),
        ({"fingerprint": "xx"}, "fingerprint: expected one of stat, content, got 'xx'"),
        ({"max_reject_fraction": 5}, "max_reject_fraction: expected 0 to 1, got 5"),
        ({"max_reject_fraction": "1"}, "max_reject_fraction: expected 0 to 1, got '1'"),
        ({"fail_on": ("nonsense",)}, "fail_on: expected some of annotations, archives, audio, "),
        ({"fail_on": ("tfds",)}, "fail_on: expected some of annotations, archives, audio, "),
        ({"fail_on": "leak"}, "fail_on: expected several values, such as ['annotations'], got"),
        ({"labels": ("a", "a", "b")}, "labels: expected each class once, got 'a' twice or more"),
        ({"labels": "ab"}, f"{LABELS} 'ab'"),
        ({"labels": (1, 2)}, f"{LABELS} (1, 2)"),
        ({"labels": {"a"}}, f"{LABELS} {{'a'}}"),
        ({"rename": {"a": 1}}, "rename: expected {feature: new name}, got {'a': 1}"),
        ({"rename": "a=b"}, "rename: expected {feature: new name}, got 'a=b'"),
        ({"rename": {"a": "c", "b": "c"}}, "rename: both 'a' and 'b' would become 'c'"),
    ],
    ids=str,
)
def test_options_out_of_range(options, message):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        RunSpec(**{"output": "out", "encoder": TinyEncoder(), **options})


def test_a_mistyped_code_of_a_note_is_corrected():
    with pytest.raises(ConfigError, match=r"got 'leek' \(did you mean 'leak'\?\)$"):
        RunSpec(fail_on=("leek",))


def test_an_encoder_that_no_process_could_import():
    of_script = type("Mine", (TinyEncoder,), {"__module__": "__main__"})
    with pytest.raises(ConfigError, match="Mine is defined in the script itself"):
        RunSpec(encoder=of_script())


def test_the_ends_of_the_ranges():
    for fraction in (0, 1, np.float32(0.5)):
        RunSpec(max_reject_fraction=fraction)
    zeros = dict.fromkeys(set(WHOLE) - {"shard_bytes"}, 0)
    assert RunSpec(shard_bytes=1, num_shards=1, labels=[], fail_on=["leak"], **zeros).workers == 0


def test_integers_of_numpy():
    """They were a TypeError once the options became JSON."""
    one = np.int64(1)
    run = RunSpec(
        output="out", num_shards={"test": one}, encoder=TinyEncoder(), **dict.fromkeys(WHOLE, one)
    )
    assert run.num_shards == {"test": 1}
    assert run.staging
