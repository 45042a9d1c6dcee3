"""Tables whose rows hold files, for tests: Parquet, Arrow, JSON lines and CSV."""

import base64
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

Files = Mapping[str, bytes]  # {LABEL/NAME: content}
STRUCT = pa.struct({"bytes": pa.binary(), "path": pa.string()})


def labels_of(files: Files) -> list[str]:
    """The first folder of each path."""
    return [key.partition("/")[0] for key in files]


def bytes_table(files: Files, kind: pa.DataType = pa.binary()) -> pa.Table:  # noqa: B008
    """Columns key, label, image; image holds the bytes."""
    return pa.table(
        {
            "key": pa.array([*files], pa.string()),
            "label": pa.array(labels_of(files), pa.string()),
            "image": pa.array([*files.values()], kind),
        }
    )


def hub_table(files: Files, names: Sequence[str] | None = None) -> pa.Table:
    """Columns image, of bytes and path, and label, of numbers, as dataset hubs export them.

    names: of the classes in the metadata.
    """
    names = sorted({*labels_of(files)}) if names is None else names
    features = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": [*names]}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    images = [{"bytes": content, "path": key} for key, content in files.items()]
    numbers = [names.index(label) for label in labels_of(files)]
    table = pa.table({"image": pa.array(images, STRUCT), "label": pa.array(numbers, pa.int64())})
    return table.replace_schema_metadata(metadata)


def _parquet(files: Files, path: pathlib.Path) -> list[object]:
    pq.write_table(bytes_table(files), path / "a.parquet", row_group_size=3)
    return [path / "a.parquet", "--key-column", "key"]


def _hub(files: Files, path: pathlib.Path) -> list[object]:
    folder = path / "hub" / "data"
    folder.mkdir(parents=True)
    (path / "hub" / "README.md").write_text("a card")
    table = hub_table(files)
    for number in range(2):
        name = f"images-{number:05d}-of-00002.parquet"
        pq.write_table(table.slice(number * 3, 3 if number == 0 else None), folder / name)
    return [path / "hub", "--key-column", "image.path"]


def _arrow(files: Files, path: pathlib.Path) -> list[object]:
    table = bytes_table(files, pa.large_binary())
    pyarrow.feather.write_feather(table, str(path / "a.feather"), chunksize=2)
    return [path / "*.feather", "--key-column", "key"]


def _lines(files: Files, path: pathlib.Path) -> list[object]:
    lines = [
        json.dumps({"key": key, "label": label, "image": base64.b64encode(files[key]).decode()})
        for key, label in zip(files, labels_of(files), strict=True)
    ]
    (path / "a.jsonl").write_text("\n".join(lines))
    return [path / "a.jsonl", "--key-column", "key"]


def _csv(files: Files, path: pathlib.Path) -> list[object]:
    rows = [
        f"{key},{label},{base64.b64encode(files[key]).decode()}"
        for key, label in zip(files, labels_of(files), strict=True)
    ]
    (path / "a.csv").write_text("\n".join(["key,label,image", *rows]))
    return [path / "a.csv", "--key-column", "key", "--bytes-column", "image"]


def _objects(files: Files, path: pathlib.Path) -> list[object]:
    lines = [
        json.dumps(
            {
                "label": label,
                "image": {"path": f"./{key}", "bytes": base64.b64encode(files[key]).decode()},
            }
        )
        for key, label in zip(files, labels_of(files), strict=True)
    ]
    (path / "b.jsonl").write_text("\n".join(lines))
    return [path / "b.jsonl", "--key-column", "image.path"]


# {form: writes files into a folder, and returns --input and the options that give the same keys}
FORMS: Mapping[str, Callable[[Files, pathlib.Path], list[object]]] = {
    "parquet": _parquet,
    "hub": _hub,
    "arrow": _arrow,
    "lines": _lines,
    "objects": _objects,
    "csv": _csv,
}
