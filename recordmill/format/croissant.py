"""croissant.json: the description of a dataset in the format of MLCommons, Croissant 1.1.

Source: http://mlcommons.org/croissant/1.1 and, for the fields of responsible AI,
http://mlcommons.org/croissant/RAI/1.0. Croissant has no type for TFRecord files: the fields of the
records' features name the shards as their source, but tools cannot read them. They can read the
indexes. Ids are IRIs, so names are escaped in them as in URLs.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from recordmill import strict_json
from recordmill.format.dataset_card import Creator, DatasetCard
from recordmill.format.file_info import FileInfo
from recordmill.format.file_names import INDEX, index_name, number_globs
from recordmill.format.manifest import Manifest, SplitInfo
from recordmill.format.shard_index import REQUIRED
from recordmill.format.split_names import in_order
from recordmill.tfrecord.features import Feature

CROISSANT = "croissant.json"

_CONFORMS = "http://mlcommons.org/croissant/1.1"
_CONFORMS_RAI = "http://mlcommons.org/croissant/RAI/1.0"

# That of the specification, as mlcroissant 1.1.1 writes it.
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    **{
        name: f"cr:{name}"
        for name in (
            *("arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract"),
            *("field", "fileObject", "fileProperty", "fileSet", "format", "includes", "isArray"),
            *("isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet"),
            *("references", "regex", "repeated", "replace", "samplingRate", "separator", "source"),
            *("subField", "transform"),
        )
    },
}

_TFRECORD = "https://www.tensorflow.org/tutorials/load_data/tfrecord"  # it has no media type
_FORMATS: Mapping[str, str | Sequence[str]] = {
    ".gz": [_TFRECORD, "application/gzip"],
    ".json": "application/json",
    ".jsonl": "application/jsonlines",
    ".md": "text/markdown",
    ".parquet": "application/x-parquet",
    ".pbtxt": "text/plain",
    ".txt": "text/plain",
}
_BYTES = "application/octet-stream"

_SHARDS, _INDEXES = "shards", "index-files"  # ids of file sets
_SPLITS = {"train": "TrainingSplit", "validation": "ValidationSplit", "test": "TestSplit"}
_TYPES: Mapping[str, Sequence[str]] = {
    "string": ["sc:Text"],
    "bool": ["sc:Boolean"],
    **{name: ["sc:Integer", f"cr:{name.title()}"] for name in ("int8", "int16", "int32", "int64")},
    **{f"uint{bits}": ["sc:Integer", f"cr:UInt{bits}"] for bits in (8, 16, 32, 64)},
    **{f"float{bits}": ["sc:Float", f"cr:Float{bits}"] for bits in (16, 32, 64)},
}
_INDEX_TYPES = {"copy": "int32", "width": "int32", "height": "int32", "offset": "int64"}
_INDEX_TYPES |= {"length": "int64"}
_MEANINGS = {
    "key": "unique name of the record",
    "label": "its class",
    "labels": "all of its classes, of which label is the one that the fewest records hold",
    "copy": "0 for the record itself, 1 and up for its copies",
    "group": "its group",
    "source": "file and row that it was made of",
    "content": "16 bytes that are equal for records of equal content",
    "width": "width of its image, in pixels",
    "height": "height of its image, in pixels",
    "offset": "start of its TFRecord frame in the shard, in bytes of the uncompressed file",
    "length": "length of its TFRecord frame, in bytes",
}

Json = dict[str, Any]


def croissant_json(manifest: Manifest, index_columns: Sequence[str] = REQUIRED) -> bytes:
    """Return croissant.json as canonical JSON, which follows from the manifest alone.

    manifest: without croissant.json. index_columns: the columns of all indexes.
    """
    card = manifest.card or DatasetCard()
    conforms = [_CONFORMS, _CONFORMS_RAI] if card.rai else _CONFORMS
    given = {
        "license": card.license_url,
        "citeAs": card.citation,
        "creator": [_creator(one) for one in card.creators],
        "url": card.url,
        "version": card.version,
        "datePublished": card.date_published,
        "keywords": list(card.keywords),
        "inLanguage": list(card.languages),
        **{f"rai:{name}": value for name, value in card.rai.items()},
    }
    data = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": conforms,
        "name": card.name or f"recordmill-{manifest.digest[:16]}",
        "description": card.description or _description(manifest),
        **{name: value for name, value in given.items() if value},
        "distribution": [*_files(manifest), *_file_sets(manifest)],
        "recordSet": [*_record_sets(manifest, index_columns)],
    }
    text = strict_json.to_text(data, sort_keys=True, indent=1)
    return f"{text}\n".encode()


def _description(manifest: Manifest) -> str:
    counts = [f"{manifest.splits[name].records:,} in {name}" for name in in_order(manifest.splits)]
    return f"Records as TFRecord files: {', '.join(counts)}."


def _creator(creator: Creator) -> Json:
    given = {"name": creator.name, "url": creator.url, "email": creator.email}
    kind = {"@type": f"sc:{creator.type.title()}"}
    return kind | {name: value for name, value in given.items() if value}


def _files(manifest: Manifest) -> Iterator[Json]:
    """Yield all files but dataset.json, which names this one, job.json and recipes.parquet.

    The last two may differ between equal datasets.
    """
    for name, split in sorted(manifest.splits.items()):
        for number, shard in enumerate(split.shards):
            yield _file(shard.file, FileInfo(bytes=shard.bytes, sha256=shard.sha256))
            yield _file(index_name(name, number, len(split.shards)), shard.index)
    for name, info in sorted(manifest.files.items()):
        yield _file(name, info)


def _file(name: str, info: FileInfo) -> Json:
    return {
        "@type": "cr:FileObject",
        "@id": _escaped(name),
        "name": name,
        "contentUrl": name,
        "contentSize": f"{info.bytes} B",
        "encodingFormat": _format(name),
        "sha256": info.sha256,
    }


def _format(name: str) -> str | Sequence[str]:
    if ".tfrecord-" in name and "/" not in name:
        return _FORMATS[".gz"] if name.endswith(".gz") else _TFRECORD
    return _FORMATS.get(pathlib.PurePosixPath(name).suffix, _BYTES)


def _file_sets(manifest: Manifest) -> Iterator[Json]:
    """Yield the shards of each split, all shards, and all indexes."""
    gz = ".gz" if manifest.compression == "gzip" else ""
    every, indexes = [], []
    for name, split in _with_shards(manifest).items():
        numbers = number_globs(len(split.shards))
        globs = [f"{name}.tfrecord-{one}{gz}" for one in numbers]
        yield _file_set(f"{name}-shards", globs, f"The shards of {name}.")
        every += globs
        indexes += [f"{INDEX}/{name}-{one}.parquet" for one in numbers]
    yield _file_set(_SHARDS, every, "The shards of all splits.")
    yield _file_set(_INDEXES, indexes, "The indexes of all shards.")


def _file_set(name: str, globs: Sequence[str], description: str) -> Json:
    return {
        "@type": "cr:FileSet",
        "@id": name,
        "name": name,
        "description": description,
        "encodingFormat": _format(globs[0]),
        "includes": globs,
    }


def _with_shards(manifest: Manifest) -> dict[str, SplitInfo]:
    found = {name: manifest.splits[name] for name in in_order(manifest.splits)}
    return {name: split for name, split in found.items() if split.shards}


def _record_sets(manifest: Manifest, index_columns: Sequence[str]) -> Iterator[Json]:
    splits = _with_shards(manifest)
    yield {
        "@type": "cr:RecordSet",
        "@id": "splits",
        "name": "splits",
        "dataType": "cr:Split",
        "key": {"@id": "splits/name"},
        "field": [
            _field("splits", "name", ["sc:Text"]),
            _field("splits", "url", ["sc:URL", "cr:Split"]),
            _field("splits", "records", _TYPES["int64"]),
        ],
        "data": [
            {
                "splits/name": name,
                "splits/url": f"cr:{_SPLITS[name]}" if name in _SPLITS else None,
                "splits/records": split.records,
            }
            for name, split in splits.items()
        ],
    }
    if manifest.labels:
        yield {
            "@type": "cr:RecordSet",
            "@id": "labels",
            "name": "labels",
            "dataType": "sc:Enumeration",
            "key": {"@id": "labels/number"},
            "field": [
                _field("labels", "number", _TYPES["int64"]),
                _field("labels", "name", ["sc:Text"]),
            ],
            "data": [
                {"labels/number": number, "labels/name": name}
                for number, name in enumerate(manifest.labels, start=manifest.label_offset)
            ],
        }
    yield {
        "@type": "cr:RecordSet",
        "@id": INDEX,
        "name": INDEX,
        "description": "A row per record, in the order of the shards.",
        "key": [{"@id": f"{INDEX}/key"}, {"@id": f"{INDEX}/copy"}],
        "field": [_split_field(INDEX, splits, _INDEXES), *map(_index_field, index_columns)],
    }
    yield {
        "@type": "cr:RecordSet",
        "@id": "records",
        "name": "records",
        "description": "The features of the records, which are Examples or SequenceExamples in"
        " TFRecord files. Croissant cannot express how these are read.",
        "field": [
            _split_field(_SHARDS, splits, _SHARDS),  # a feature may be called split
            *(_feature_field(name, feature) for name, feature in sorted(manifest.features.items())),
        ],
    }


def _field(record_set: str, name: str, types: Sequence[str], **more: Any) -> Json:
    return {
        "@type": "cr:Field",
        "@id": f"{record_set}/{_escaped(name)}",
        "name": name,
        "dataType": types[0] if len(types) == 1 else list(types),
        **more,
    }


def _split_field(record_set: str, splits: Iterable[str], file_set: str) -> Json:
    """Return the field of a record's split, which the name of its file says."""
    # The longest first, as one name may begin like another. mlcroissant selects a split by making
    # globs of this expression, of which it understands no more, and applies it a second time to the
    # name of the split.
    names = "|".join(sorted(splits, key=lambda name: (-len(name), name)))
    before, after = (
        ("(?:index/)?", "-.+\\.parquet") if file_set == _INDEXES else ("", "\\.tfrecord-.+")
    )
    source = {
        "fileSet": {"@id": file_set},
        "extract": {"fileProperty": "fullpath"},
        "transform": {"regex": f"{before}({names})(?:{after})?$"},
    }
    # As mlcroissant 1.1.1 and dataset hubs write references; the specification leaves out `field`.
    splits_name = {"field": {"@id": "splits/name"}}
    return _field(record_set, "split", ["sc:Text"], source=source, references=splits_name)


def _index_field(column: str) -> Json:
    source = {"fileSet": {"@id": _INDEXES}, "extract": {"column": column}}
    types = _TYPES[_INDEX_TYPES.get(column, "string")]
    more: Json = {"isArray": True, "arrayShape": "-1"} if column == "labels" else {}
    return _field(INDEX, column, types, source=source, description=_MEANINGS[column], **more)


def _feature_field(name: str, feature: Feature) -> Json:
    types, shape, meaning = _TYPES[feature.dtype], feature.shape, None
    match feature.kind:
        case "label":
            types = [*types, "cr:Label"]
        case "image":
            types = ["sc:ImageObject"]
        case "mask":
            types, meaning = ["sc:ImageObject"], "masks of class ids or of objects, as gray PNG"
        case "raw" if feature.raw_dtype is not None and feature.raw_shape is not None:
            types = _TYPES.get(feature.raw_dtype, ["sc:Text"])
            shape = (*shape, *feature.raw_shape)
            meaning = f"an array of {feature.raw_dtype}, as bytes, little-endian, in C order"
    if feature.sequence:
        meaning = "a feature list of SequenceExamples"
    more: Json = {"source": {"fileSet": {"@id": _SHARDS}, "extract": {"column": name}}}
    if meaning is not None:
        more["description"] = meaning
    if shape:
        sizes = ",".join("-1" if size is None else str(size) for size in shape)
        more |= {"isArray": True, "arrayShape": sizes}
    return _field("records", name, types, **more)


def _escaped(name: str) -> str:
    """Return a name as part of an IRI. Different names have different results."""
    if {"", ".", ".."} & set(name.split("/")):  # these would be resolved as in a path
        return quote(name, safe="").replace(".", "%2E")
    return quote(name, safe="/")
