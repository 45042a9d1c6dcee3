"""Decoders of other programs, imported, and datasets for them."""

import importlib
import os
import pathlib

# Read when FiftyOne is imported: it would start a MongoDB.
os.environ["FIFTYONE_DISABLE_SERVICES"] = "1"
os.environ["FIFTYONE_DO_NOT_TRACK"] = "1"

import pytest
import tensorflow as tf
from PIL import Image
from tensorflow.python.ops import control_flow_ops

from tests.image_runs import Made, encoders_kept, make
from tests.paths import BOXES
from tests.targets.partial_imports import placeholders, register_packages

register_packages(
    *("official", "official.core", "official.modeling", "official.vision"),
    *("official.vision.configs", "official.vision.dataloaders", "official.vision.ops"),
    *("tfx", "tfx.components", "tfx.components.example_gen"),
    "tfx.components.example_gen.import_example_gen",
)
with placeholders("gin"):
    for kind in ("maskrcnn_input", "retinanet_input", "segmentation_input"):
        importlib.import_module(f"official.vision.dataloaders.{kind}")
with placeholders("googleapiclient", "tensorflow_model_analysis", "tfx_bsl"):
    importlib.import_module("tfx.components.example_gen.import_example_gen.executor")
with placeholders(
    *("IPython", "cachetools", "cv2", "dacite", "dill", "exceptiongroup", "glob2", "jsonlines"),
    *("matplotlib", "motor", "plotly", "pprintpp", "py7zr", "pydash", "rarfile", "retrying"),
    *("skimage", "sse_starlette", "sseclient", "starlette", "strawberry", "tabulate"),
):
    importlib.import_module("fiftyone.utils.tf")

# The last tf-slim, 1.1.0, calls these where older TensorFlows have them.
control_flow_ops.case, control_flow_ops.cond = tf.compat.v1.case, tf.compat.v1.cond

FOR_DECODERS = ("--feature-set", "tf-object-detection", "--label-offset", 1)
NAMES = ('naïve "cat"', "a,b\\c")


@pytest.fixture(scope="session", autouse=True)
def encoders():
    with encoders_kept():
        yield


@pytest.fixture(scope="session")
def coco(tmp_path_factory) -> Made:
    """Boxes of COCO in padded images; some images have none."""
    return make(
        tmp_path_factory.mktemp("coco") / "out",
        *("--input", BOXES, "--annotations", BOXES / "annotations.json", "--limit", 40),
        *("--size", "96x128", "--resize-mode", "pad", "--num-shards", "train=2", *FOR_DECODERS),
    )


def _voc(width: int, height: int, *objects: str) -> str:
    size = f"<size><width>{width}</width><height>{height}</height></size>"
    return f"<annotation>{size}{''.join(objects)}</annotation>"


def _object(name: str, box: tuple[int, int, int, int], *, difficult: int) -> str:
    corners = zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
    edges = "".join(f"<{tag}>{value}</{tag}>" for tag, value in corners)
    name = name.replace("&", "&amp;")
    return (
        f"<object><name>{name}</name><difficult>{difficult}</difficult><truncated>0</truncated>"
        f"<pose>Left</pose><bndbox>{edges}</bndbox></object>"
    )


@pytest.fixture(scope="session")
def voc(tmp_path_factory) -> Made:
    """Boxes of Pascal VOC in gray PNGs of different sizes, with class names of odd characters."""
    place = tmp_path_factory.mktemp("voc")
    annotations = {
        "one": (64, 48, _object(NAMES[0], (1, 1, 32, 48), difficult=1)),
        "two": (
            *(30, 40),
            _object(NAMES[1], (11, 21, 20, 40), difficult=0),
            _object(NAMES[0], (1, 1, 30, 40), difficult=0),
        ),
        "none": (20, 20),
    }
    for folder in ("pictures", "boxes"):
        (place / folder).mkdir()
    for number, (stem, (width, height, *objects)) in enumerate(annotations.items()):
        picture = Image.linear_gradient("L").resize((width, height)).rotate(90 * number)
        picture.save(place / "pictures" / f"{stem}.png")
        (place / "boxes" / f"{stem}.xml").write_text(_voc(width, height, *objects))
    return make(
        place / "out",
        *("--input", place / "pictures", "--annotations", place / "boxes", "--splits", "train=1"),
        *("--mode", "gray", "--image-format", "png", *FOR_DECODERS),
    )


def records(made: Made) -> list[tuple[bytes, dict[str, list]]]:
    """Every record as it is stored, and as our own reader decodes it."""
    found = []
    for split, info in made.manifest.splits.items():
        files = [os.fspath(made.folder / shard.file) for shard in info.shards]
        stored = [record.numpy() for record in tf.data.TFRecordDataset(files)] if files else []
        found += zip(stored, made.examples(split).values(), strict=True)
    assert found
    return found


def shard_pattern(folder: pathlib.Path, split: str = "*") -> str:
    return os.fspath(folder / f"{split}.tfrecord-*")
