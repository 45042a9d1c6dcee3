"""TFX's ImportExampleGen imports each split of a dataset by the pattern of its shards."""

import sys
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from google.protobuf import json_format
from tfx.components.example_gen import utils
from tfx.components.example_gen.import_example_gen.executor import Executor
from tfx.proto import example_gen_pb2
from tfx.types import standard_component_specs

from tests.image_runs import make
from tests.paths import DEMO, ROOT

SPLITS = {"train": "train", "eval": "validation", "test": "test"}  # of TFX, of ours


@pytest.fixture
def documented(monkeypatch) -> dict[str, Any]:
    """The arguments of the component in the documentation."""
    components = sys.modules["tfx.components"]  # without its code, which imports all of TFX
    monkeypatch.setattr(components, "ImportExampleGen", dict, raising=False)
    page = (ROOT / "docs" / "other-programs.md").read_text()
    namespace: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0], namespace)
    return namespace["example_gen"]


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_every_split_is_imported(compression, documented, tmp_path):
    made = make(
        tmp_path / "out",
        *("--input", DEMO, "--size", 16, "--num-shards", 2, "--compression", compression),
        *("--splits", "train=0.6,validation=0.2,test=0.2"),
    )
    config = documented["input_config"]
    found, _, _ = utils.calculate_splits_fingerprint_span_and_version(
        str(made.folder), config.splits
    )
    for line, name in zip(found.split("\n"), SPLITS, strict=True):
        assert line.startswith(f"split:{name},num_files:2,")
    output = utils.make_default_output_config(config)
    properties = {
        standard_component_specs.INPUT_BASE_KEY: str(made.folder),
        standard_component_specs.INPUT_CONFIG_KEY: json_format.MessageToJson(config),
        standard_component_specs.OUTPUT_CONFIG_KEY: json_format.MessageToJson(output),
        standard_component_specs.OUTPUT_DATA_FORMAT_KEY: example_gen_pb2.FORMAT_TF_EXAMPLE,
    }
    with beam.Pipeline() as pipeline:
        imported = Executor().GenerateExamplesByBeam(pipeline, properties)
        assert list(imported) == list(SPLITS)
        for name, examples in imported.items():
            keys = made.keys(SPLITS[name])
            assert keys
            assert_that(
                examples
                | f"Keys of {name}"
                >> beam.Map(lambda one: one.features.feature["image/filename"].bytes_list.value[0]),
                equal_to([key.encode() for key in keys]),
                label=f"All of {name}",
            )
