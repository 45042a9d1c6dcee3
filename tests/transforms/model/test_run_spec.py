"""RunSpec: each option out of its range is a ConfigError that names it."""

import math
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

from recordmill.errors import ConfigError
from recordmill.transforms import RunSpec
from tests.tiny import TinyEncoder

WHOLE = ("shard_bytes", "label_offset", "workers", "worker_memory", "spill_above")
SHARDS = "num_shards: expected 1 or more, or {split: 1 or more}, got"
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
        ({"splits": {1: 1.0}}, f"{SPLITS} {{1: 1.0}}"),
        ({"seed": "7"}, "seed: expected a whole number, got '7'"),
        ({"num_shards": 0}, f"{SHARDS} 0"),
        ({"num_shards": True}, f"{SHARDS} True"),
        ({"num_shards": 2.5}, f"{SHARDS} 2.5"),
        ({"num_shards": "2"}, f"{SHARDS} '2'"),
        ({"num_shards": {"test": 0}}, f"{SHARDS} {{'test': 0}}"),
        ({"num_shards": {"test": "2"}}, f"{SHARDS} {{'test': '2'}}"),
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
        ({"max_reject_fraction": "1"}, "max_reject_fraction: expected a number, got '1'"),
        ({"fail_on": ("nonsense",)}, "fail_on: expected some of annotations, archives, audio, "),
        ({"fail_on": ("tfds",)}, "fail_on: expected some of annotations, archives, audio, "),
        ({"fail_on": "leak"}, "fail_on: expected a list of values, such as ['annotations'], got"),
        ({"labels": ("a", "a", "b")}, "labels: expected each class once, got 'a' 2 times"),
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
    with pytest.raises(ConfigError, match=f"^RunSpec: {re.escape(message)}"):
        RunSpec(**{"output": "out", "encoder": TinyEncoder(), **options})


def test_a_mistyped_code_of_a_note_is_corrected():
    with pytest.raises(ConfigError, match=r"got 'leek' \(did you mean 'leak'\?\)$"):
        RunSpec(fail_on=("leek",))


class Plain(TinyEncoder):
    """An encoder without a repr of its own."""

    __repr__ = object.__repr__

    def __init__(self, **fields: object) -> None:
        vars(self).update(fields)


def of_script(**methods) -> type:
    """A class as the script that is run defines it."""
    return type("Mine", (Plain,), {"__module__": "__main__", **methods})


def test_an_encoder_that_cannot_be_pickled():
    with pytest.raises(
        ConfigError, match=r"can be pickled for encoder processes, got .*Mine.*lock"
    ):
        RunSpec(encoder=of_script()(lock=threading.Lock()))


def test_the_staging_folder_depends_on_fields_and_not_on_addresses():
    folders = [
        RunSpec(output="out", encoder=Plain(size=size, turn=math.sin)).staging.root.spelling
        for size in (1, 1, 2)
    ]
    assert folders[0] == folders[1] != folders[2]
    options = RunSpec(encoder=Plain(size=1, turn=len, of=Plain())).manifest_options
    assert options["encoder"] == "Plain(of=Plain(), size=1, turn=<built-in function len>)"


def local_function(factor: int):
    def scaled(value):
        return value * factor

    return scaled


def test_a_changed_script_gets_another_staging_folder():
    """The shards of an interrupted run are of the code before the change."""

    def folder(**methods) -> str:
        return RunSpec(output="out", encoder=of_script(**methods)()).staging.root.spelling

    assert folder(turn=local_function(1)) == folder(turn=local_function(1))
    assert folder(turn=local_function(1)) != folder(turn=local_function(2))
    assert folder(turn=local_function(1)) != folder(turn=lambda value: value + 1)
    assert folder(size=1) != folder(size=2)


def test_the_code_of_a_script_has_the_same_hash_in_another_process(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(HASHED)
    here, there = subprocess.run(
        [sys.executable, script], check=True, capture_output=True, text=True
    ).stdout.split()
    assert here == there != "None"


HASHED = """
import dataclasses
import threading
from recordmill.processes import pool
from recordmill.transforms.model.identity import code_hash

filter = {"not used": 1}
NAMES = {"a", "b", "c"}

def used(rows):
    return rows.filter(NAMES)

class Base:
    _private = 5

@dataclasses.dataclass(frozen=True)
class Mine(Base):
    size: int = 1

    @property
    def area(self):
        return [used(size) for size in range(self.size)]

if __name__ == "__main__":
    threading.Thread(target=threading.Event().wait, daemon=True).start()  # so it is not forked
    children = pool.ProcessPool(1)
    print(code_hash(Mine()), children.submit(code_hash, Mine()).result())
    children.close()
"""


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
