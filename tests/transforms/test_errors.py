"""Mistakes in custom pipelines: each is a ConfigError that names step, option, expected and got.

`python -m tests.transforms.test_errors` prints the table.
"""

import dataclasses
import pathlib
import re
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest

import recordmill
from recordmill import transforms
from recordmill.errors import ConfigError, RunError
from recordmill.transforms import (
    Analyze,
    AssignSplits,
    BatchRecords,
    DecodeAndResizeImages,
    EncodeExamples,
    ImageEncoder,
    ImageOptions,
    Read,
    ReadImages,
    ReadTable,
    Rebalance,
    RunSpec,
    TokenizeText,
    WriteToTFRecord,
)
from recordmill.transforms.audio.audio_options import AudioOptions
from recordmill.transforms.encoders.object_options import ObjectOptions
from recordmill.transforms.encoders.table_options import TableOptions
from recordmill.transforms.encoders.tables import TableEncoder
from recordmill.transforms.encoders.text.text import TextEncoder
from recordmill.transforms.encoders.tokenization.text_options import TextOptions
from recordmill.transforms.imaging.mask_options import MaskOptions
from recordmill.transforms.sources.row_formats.reading.row_format import RowFormat
from tests.folders import make_folder
from tests.tiny import TinyEncoder, TinySource, tiny_rows

ROWS = [{"a": 1}]


class Mistake(NamedTuple):
    """A mistake, as it is written, and its message."""

    step: str
    code: str
    message: str
    make: Callable[[], Any]


class Pet(NamedTuple):
    """A record with types that Beam knows."""

    name: str
    born: int


def names() -> dict[str, Any]:
    """The names that the code of mistakes uses."""
    public = {name: getattr(transforms, name) for name in transforms.__all__}
    options = (AudioOptions, MaskOptions, ObjectOptions, TableEncoder, TableOptions, TextOptions)
    return {
        **public,
        **{one.__name__: one for one in (*options, Dates, Pet, TinySource, staged, run, tiny_rows)},
        **{"ROWS": ROWS, "beam": beam, "pa": pa},
    }


def made(step: str, code: str, message: str) -> Mistake:
    """A mistake in the options of a step."""
    return Mistake(step, code, f"{step}: {message}", lambda: eval(code, names()))


def built(step: str, code: str, message: str) -> Mistake:
    """A mistake in the order of steps, after `p |`."""
    return Mistake(
        step, code, f"{step}: {message}", lambda: eval(f"beam.Pipeline() | {code}", names())
    )


MADE = [
    made("DecodeAndResizeImages", "DecodeAndResizeImages(size='224')",
         "size: expected (height, width) in pixels, such as (224, 224), or None, got '224'"),
    made("DecodeAndResizeImages", "DecodeAndResizeImages(size=0)",
         "size: expected height and width from 1 to 65500, such as 224 or 480x640, got 0x0"),
    made("DecodeAndResizeImages", "DecodeAndResizeImages(quality=300)",
         "quality: expected 1 to 95, got 300"),
    made("DecodeAndResizeImages", "DecodeAndResizeImages(siez=224)",
         "unknown option 'siez' (did you mean 'size'?)"),
    made("DecodeAndResizeImages", "DecodeAndResizeImages(ImageOptions(), size=224)",
         "size: expected ImageOptions or their fields, got both"),
    made("DecodeAndResizeImages", "DecodeAndResizeImages({'size': 224})",
         "options: expected ImageOptions, got {'size': 224}"),
    made("DecodeAndResizeImages", "DecodeAndResizeImages(labels='cat')",
         "labels: expected a list of strings or AsSideInput, got 'cat'"),
    made("DecodeAndResizeImages", "DecodeAndResizeImages(augment=('flipp',))",
         "augment: expected some of crop, flip, rotate, brightness, contrast, got 'flipp'"),
    made("DecodeAndResizeImages", "DecodeAndResizeImages(workers=-1)",
         "workers: expected 0 or more, got -1"),
    made("ImageOptions", "ImageOptions(size='224')",
         "size: expected (height, width) in pixels, such as (224, 224), or None, got '224'"),
    made("ImageOptions", "ImageOptions(resize_mode='cropp')",
         "resize_mode: expected one of crop, pad, stretch, fit, none, got 'cropp' (did you mean"
         " 'crop'?)"),
    made("ImageOptions", "ImageOptions(resize_mode='pad')", "resize_mode='pad': requires size"),
    made("ImageOptions", "ImageOptions(depth=16)",
         "depth: expected one of auto, 8, 16, got 16 (did you mean '16'?)"),
    made("ImageOptions", "ImageOptions(normalize='unit')",
         "normalize='unit': only image_format='raw' can hold floats, got jpeg"),
    made("ImageEncoder", "ImageEncoder(options=None)", "options: expected ImageOptions, got None"),
    made("HeaderCheck", "HeaderCheck(options=224)", "options: expected ImageOptions, got 224"),
    made("TextOptions", "TextOptions(tokenizer='word')",
         "tokenizer: expected one of words, whitespace, chars, bytes, bpe, huggingface,"
         " sentencepiece, got 'word' (did you mean 'words'?)"),
    made("TextOptions", "TextOptions(max_length=0)",
         "max_length: expected 1 to 2147483647, got 0"),
    made("TextOptions", "TextOptions(end_token='<end>')", "end_token: requires pack"),
    made("TableOptions", "TableOptions(zscore='age')",
         "zscore: expected a tuple of strings, got 'age'"),
    made("TableOptions", "TableOptions(zscore=('age',), minmax=('age',))",
         "minmax age: conflicts with zscore age; use only one of them"),
    made("AudioOptions", "AudioOptions(sample_rate='16k')",
         "sample_rate: expected a whole number, got '16k'"),
    made("AudioOptions", "AudioOptions(features='melspectrogram')",
         "features='melspectrogram': needs sample_rate"),
    made("MaskOptions", "MaskOptions(ignore=300)",
         "ignore: expected an id from 0 to 255 with depth=8, got 300"),
    made("ObjectOptions", "ObjectOptions(min_box=-1)", "min_box: expected 0 or more, got -1"),
    made("TableEncoder", "TableEncoder(options={'zscore': ('age',)})",
         "options: expected TableOptions, got {'zscore': ('age',)}"),
    made("FileTree", "FileTree(input=3)", "input: expected a string or Inputs, got 3"),
    made("FileTree", "FileTree(input='photos/', unlabelled='drop')",
         "unlabelled: expected one of reject, keep, got 'drop'"),
    made("FileList", "FileList(path=3)", "path: expected a string or Inputs, got 3"),
    made("ReadImages", "ReadImages(3)",
         "input: expected a string or a path or a list of strings or a Source (an object with"),
    made("Read.from_source", "Read.from_source('photos/', RunSpec(output='o'))",
         "source: expected a source, such as FileTree(input='photos/'), got 'photos/'"),
    made("Read.from_source", "Read.from_source(TinySource(rows=()), 'out/')",
         "run: expected RunSpec, got 'out/'"),
    made("StageBatches", "StageBatches('out/')", "run: expected RunSpec, got 'out/'"),
    made("Check", "Check(check=ImageOptions())",
         "check: expected a RowCheck (an object with check), got ImageOptions("),
    made("Check", "Check(check=HeaderCheck)",
         "check: expected a RowCheck (an object with check), got the class HeaderCheck"),
    made("Check", "Check(duplicates='drop')",
         "duplicates: expected a Duplicates (an object with mode, names), got 'drop'"),
    made("Check", "Check(conflicts='frist')",
         "conflicts: expected one of reject, first, error, got 'frist' (did you mean 'first'?)"),
    made("AssignSplits", "AssignSplits({'train': 0.8, 'test': 0.4})",
         "splits: expected fractions that sum to 1, got {'train': 0.8, 'test': 0.4}"),
    made("AssignSplits", "AssignSplits({'train': 'a'})",
         "splits: expected {name: fraction}, such as {'train': 0.9, 'test': 0.1}, got"
         " {'train': 'a'}"),
    made("AssignSplits", "AssignSplits({'my train': 1.0})",
         "splits: expected names of letters, digits, _ and -, got 'my train'"),
    made("AssignSplits", "AssignSplits(seed='x')",
         "seed: expected a whole number, got 'x'"),
    made("AssignSplits", "AssignSplits(stratify='yes')",
         "stratify: expected True or False, got 'yes'"),
    made("Analyze", "Analyze(analysis='vocabulary')", "analysis: expected an Analysis (an object"),
    made("Rebalance", "Rebalance('oversampel')",
         "balance: expected one of none, oversample, undersample, weights, got 'oversampel' (did"
         " you mean 'oversample'?)"),
    made("Rebalance", "Rebalance('oversample', target='mean')",
         "target: expected a number of records from 1, 'median' or RepeatFactors, got"
         " 'mean'"),
    made("Rebalance", "Rebalance('oversample', target=0)",
         "target: expected a number of records from 1, 'median' or RepeatFactors, got 0"),
    made("Rebalance", "Rebalance(target='median')",
         "target: has no effect with balance='none'; use 'oversample' or 'undersample'"),
    made("EncodeExamples", "EncodeExamples(ImageEncoder)",
         "encoder: expected an encoder, such as ImageEncoder(options=ImageOptions()), got the class"
         " ImageEncoder"),
    made("EncodeExamples", "EncodeExamples(rename={'a': 'c', 'b': 'c'})",
         "rename: both 'a' and 'b' would become 'c'"),
    made("BatchRecords", "BatchRecords(key_column=3)",
         "key_column: expected a string, got 3"),
    made("BatchRecords", "BatchRecords(key_column='a', label_column='a')",
         "expected a different column for each option"),
    made("BatchRecords", "BatchRecords(key_column='b', schema=pa.schema([('a', pa.int64())]))",
         "key_column: expected a column of the schema, got 'b': it has a"),
    made("WriteToTFRecord", "WriteToTFRecord('out/', num_shards=0)",
         "num_shards: expected 1 or more, or {split: 1 or more}, got 0"),
    made("WriteToTFRecord", "WriteToTFRecord('out/', compression_type='bz2')",
         "compression_type: expected none or gzip, got 'bz2'"),
    made("WriteToTFRecord", "WriteToTFRecord('out/', num_shard=8)",
         "unknown option 'num_shard' (did you mean 'num_shards'?)"),
    made("WriteToTFRecord", "WriteToTFRecord('out/', max_reject_fraction=2)",
         "max_reject_fraction: expected 0 to 1, got 2"),
    made("WriteToTFRecord", "WriteToTFRecord('out/', labels=('cat', 'cat'))",
         "labels: expected each class once, got 'cat' 2 times"),
    made("RunSpec", "RunSpec(output=3)", "output: expected a string, got 3"),
    made("RunSpec", "RunSpec(encoder=None)", "encoder: expected an encoder, such as ImageEncoder("),
    made("RunSpec", "RunSpec(shard_bytes=1.5)", "shard_bytes: expected a whole number, got 1.5"),
    made("TokenizeText", "TokenizeText('word')",
         "tokenizer: expected one of words, whitespace, chars, bytes, bpe, or the path of a"
         " tokenizer file, got 'word' (did you mean 'words'?)"),
    made("ReadVideo", "ReadVideo('videos/', clip_frames=0)",
         "clip_frames: expected 1 or more, got 0"),
    made("ReadVideo", "ReadVideo('videos/', frame_step=0)",
         "frame_step: expected 1 or more, got 0"),
    made("ReadImages", "ReadImages('photos/', labl_column='a')",
         "unknown option 'labl_column' (did you mean 'label_column'?); it takes input, workers,"),
    made("ReadText", "ReadText('a.csv', tokenizer='words')", "unknown option 'tokenizer'; it"),
    made("Check", "Check(duplicate=None)",
         "unknown option 'duplicate' (did you mean 'duplicates'?); it takes check, duplicates,"),
    made("Check", "Check(HeaderCheck(options=ImageOptions()))", "too many positional arguments"),
    made("Rebalance", "Rebalance('oversample', targets=3)",
         "unknown option 'targets' (did you mean 'target'?); it takes balance, target, plan_only"),
    made("Publish", "Publish(at_most='all')",
         "at_most: expected a whole number, got 'all'"),
]  # fmt: skip

BUILT = [
    built("WriteToTFRecord", "beam.Create(ROWS) | WriteToTFRecord()",
          "output: expected the folder of the dataset, got none"),
    built("WriteToTFRecord", "beam.Create([1]) | WriteToTFRecord('out/')",
          "expected the output of Reshuffle, or a PCollection of pyarrow.RecordBatch, dict,"
          " beam.Row, bytes, got a PCollection of int: apply Reshuffle before it, or make dicts"),
    built("WriteToTFRecord", "beam.Create(ROWS) | AssignSplits() | WriteToTFRecord('o', seed=2)",
          "seed: AssignSplits already has this option: leave it out here"),
    built("Rebalance", "beam.Create(['photo.jpg']) | Rebalance('oversample')",
          "expected the output of Analyze, or a PCollection of"),
    built("Check", "beam.Create(ROWS) | Check()",
          "expected the output of Read or StageBatches, got a PCollection of dict: apply Read or"
          " StageBatches before it"),
    built("Analyze", "beam.Create(ROWS) | AssignSplits() | Analyze()",
          "expected the output of AssignSplits, got RecordValues"),
    built("Analyze", "Read.from_source(TinySource(rows=tiny_rows(9)), run()) | Analyze()",
          "expected the output of AssignSplits, got the output of Read or StageBatches: apply"
          " AssignSplits before it"),
    built("AssignSplits", "beam.Create(ROWS) | AssignSplits() | 'Again' >> AssignSplits(seed=2)",
          "it was already applied to these records: apply it once"),
    built("Rebalance", "beam.Create(ROWS) | Rebalance('oversample') | 'Again' >> Rebalance()",
          "it was already applied to these records: apply it once"),
    built("Rebalance", "Read.from_source(TinySource(rows=tiny_rows(9)), run()) | Rebalance()",
          "expected the output of Analyze, got StagedRecords: apply Analyze before it"),
    built("Publish", "beam.Create(ROWS) | Publish()",
          "expected the output of WriteToTFRecord, got a PCollection of dict"),
    built("Reshuffle", "staged(encoder=None) | Rebalance() | Reshuffle()",
          "encoder: expected one in the RunSpec, which makes the Examples, such as"),
    built("Rebalance", "staged(rename={'valeu': 'x'}) | Rebalance()",
          "TinyEncoder: rename valeu=x: there is no feature 'valeu' (did you mean 'value'?)"),
    built("Rebalance",
          "staged(Dates(rows=tiny_rows(9)), encoder=TableEncoder()) | Rebalance()",
          "TableEncoder: column 'born' has type"),
    built("Rebalance", "staged(encoder=ImageEncoder(options=ImageOptions())) | Rebalance()",
          "ImageEncoder: expected records with __path__, __size__, __mtime__, got none with"
          " __path__, __size__, __mtime__: their columns are value"),
    built("Rebalance", "staged(splits={'a': 0.5, 'b': 0.5}) | Rebalance('oversample')",
          "balance='oversample' applies to the split train, and the splits are a, b: name one of"
          " them train"),
    built("DecodeAndResizeImages", "ReadTable('a.csv') | DecodeAndResizeImages(size=9)",
          "expected references to images, such as those of ReadImages, got records for"
          " TableEncoder"),
    built("DecodeAndResizeImages", "ReadText('a.csv') | DecodeAndResizeImages(size=9)",
          "expected references to images, such as those of ReadImages, got records for"
          " TextEncoder"),
    built("WriteToTFRecord",
          "ReadImages('a/') | DecodeAndResizeImages(labels=('a', 'b'))"
          " | WriteToTFRecord('o', labels=('b', 'a'))",
          "labels: expected ('a', 'b'), which DecodeAndResizeImages has, got ('b', 'a'): leave it"
          " out here"),
    built("WriteToTFRecord",
          "ReadImages('a/') | DecodeAndResizeImages(label_offset=1)"
          " | WriteToTFRecord('o', label_offset=2)",
          "label_offset: expected 1, which DecodeAndResizeImages has, got 2"),
    Mistake("WriteToTFRecord", "DecodeAndResizeImages(labels=beam.pvalue.AsList(...))",
            "WriteToTFRecord: labels: expected class names, got none, and those of"
            " DecodeAndResizeImages are a side input: name them here, too",
            lambda: write_with_side_input(beam.Pipeline())),
    built("Map(print)", "beam.Create(ROWS) | AssignSplits() | beam.Map(print)",
          "expected a PCollection, got RecordValues: apply it to .batches"),
    built("BatchRecords", "beam.Create([Pet('a', 1)]) | BatchRecords(label_column='kind')",
          "label_column: expected a column of the records, got 'kind': they have name, born"),
]  # fmt: skip


class Dates(TinySource):
    """A source with a column that no feature can hold."""

    def scan(self):
        for listed in super().scan():
            dates = pa.array([1] * len(listed.rows), pa.duration("s"))
            yield dataclasses.replace(listed, rows=listed.rows.append_column("born", dates))


def run(**options: Any) -> RunSpec:
    """A run into a new folder."""
    given = {name: value for name, value in options.items() if value is not None}
    return RunSpec(**{"output": tempfile.mkdtemp(), "encoder": TinyEncoder(), **given})


def staged(source: Any = None, **options: Any) -> "Staged":
    """The steps up to Analyze, of a source that is listed."""
    spec = run(**options)
    if options.get("encoder", spec) is None:
        spec = RunSpec(output=spec.output)
    return Staged(source or TinySource(rows=tiny_rows(9)), spec)


class Staged:
    """The steps up to Analyze, of a source that is listed."""

    def __init__(self, source: Any, spec: RunSpec) -> None:
        self.source, self.spec = source, spec

    def __ror__(self, pipeline: beam.Pipeline) -> Any:
        return pipeline | Read.from_source(self.source, self.spec) | AssignSplits() | Analyze()


@pytest.mark.parametrize("mistake", [*MADE, *BUILT], ids=lambda one: one.code)
def test_a_mistake_is_an_error_before_the_run(mistake):
    with pytest.raises(ConfigError, match=f"^{re.escape(mistake.message)}") as raised:
        mistake.make()
    assert "--" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quoting": "no"}, "quoting: expected one of auto, on, off, got 'no'"),
        (
            {"format": "jsonl", "skip_rows": 1},
            "skip_rows applies to csv, tsv, but the input is read as jsonl: leave it out, or pass"
            " format='csv'",
        ),
    ],
)
def test_errors_of_a_row_format_name_its_fields(options, message):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        RowFormat(**options)


def write(build: Callable[[beam.Pipeline], Any]) -> None:
    recordmill.run(build, workers=1, progress=False)


def write_with_side_input(pipeline: beam.Pipeline) -> None:
    """A dataset whose classes are known only when the pipeline runs."""
    names = pipeline | "Names" >> beam.Create(["a", "b"])
    (
        pipeline
        | ReadImages("a/")
        | DecodeAndResizeImages(labels=beam.pvalue.AsList(names))
        | WriteToTFRecord("o")
    )


def write_people(*steps: beam.PTransform, rows: Any = None) -> None:
    """A dataset of dicts with a number and a text; `steps` precede the writer."""
    people = [{"age": n, "job": "abc"[n % 3]} for n in range(30)]

    def build(pipeline: beam.Pipeline) -> None:
        records = pipeline | beam.Create(people if rows is None else rows)
        for step in steps:
            records |= step
        records | WriteToTFRecord(tempfile.mkdtemp())

    write(build)


def transformed(**options: Any) -> EncodeExamples:
    """The step that transforms columns."""
    return EncodeExamples(TableEncoder(options=TableOptions(**options)))


def write_table(*steps: beam.PTransform) -> None:
    """A dataset of a table without classes; `steps` precede the writer."""
    path = pathlib.Path(tempfile.mkdtemp(), "people.csv")
    path.write_text("age,job\n" + "".join(f"{n},{'abc'[n % 3]}\n" for n in range(30)))

    def build(pipeline: beam.Pipeline) -> None:
        records = pipeline | ReadTable(str(path))
        for step in steps:
            records |= step
        records | WriteToTFRecord(tempfile.mkdtemp())

    write(build)


def write_folder_without_classes() -> None:
    """A dataset of references to images without classes, which are balanced."""
    folder = make_folder(pathlib.Path(tempfile.mkdtemp()), {"a": 6})
    write(
        lambda p: (
            p
            | ReadImages(f"{folder}/a", unlabelled="keep")
            | Rebalance("oversample")
            | WriteToTFRecord(tempfile.mkdtemp())
        )
    )


RUN = [
    Mistake(
        "StageBatches", "columns that no feature can hold",
        "Rebalance: TableEncoder: column 'a' has type duration[s]",
        lambda: write(lambda p: p | beam.Create([pa.RecordBatch.from_pydict(
            {"a": pa.array([1], pa.duration("s"))})]) | WriteToTFRecord(tempfile.mkdtemp())),
    ),
    Mistake(
        "BatchRecords", "dicts without the column of the class",
        "BatchRecords: label_column: expected a column",
        lambda: write(lambda p: p | beam.Create(ROWS) | BatchRecords(label_column="kind")),
    ),
    Mistake(
        "BatchRecords", "values of one column with several types",
        "BatchRecords: column 'a': ",
        lambda: write(lambda p: p | beam.Create([{"a": 1}, {"a": "x"}])
                      | WriteToTFRecord(tempfile.mkdtemp())),
    ),
    Mistake(
        "StageBatches", "keys that are numbers",
        "StageBatches: expected strings in the column __key__, got int64",
        lambda: write(lambda p: p | beam.Create([pa.RecordBatch.from_pydict({"__key__": [1]})])
                      | WriteToTFRecord(tempfile.mkdtemp())),
    ),
    Mistake(
        "WriteToTFRecord", "a text encoder for records without texts",
        "Rebalance: TextEncoder: expected records with text, got none with text: their columns are"
        " a",
        lambda: write(lambda p: p | beam.Create(ROWS)
                      | EncodeExamples(TextEncoder(options=TextOptions()))
                      | WriteToTFRecord(tempfile.mkdtemp())),
    ),
    Mistake(
        "Rebalance", "dicts without a class",
        "Rebalance: balance='oversample' needs classes, and the input has none: name the column of"
        " the class with label_column (the columns are 'age', 'job'), or leave the option out",
        lambda: write_people(Rebalance("oversample")),
    ),
    Mistake(
        "Rebalance", "a table without a class",
        "Rebalance: balance='undersample' needs classes, and the input has none: name the column"
        " of the class with label_column (the columns are 'age', 'job')",
        lambda: write_table(Rebalance("undersample")),
    ),
    Mistake(
        "Rebalance", "images without a class",
        "Rebalance: balance='oversample' needs classes, and the input has none",
        write_folder_without_classes,
    ),
    Mistake(
        "Rebalance", "splits without train",
        "Rebalance: balance='oversample' applies to the split train, and the splits are a, b",
        lambda: write_people(BatchRecords(label_column="job"), AssignSplits({"a": 0.7, "b": 0.3}),
                             Rebalance("oversample")),
    ),
    Mistake(
        "EncodeExamples", "the transform of a column that does not exist",
        "zscore: expected a column of the records, got 'agee' (did you mean 'age'?): they have"
        " age, job",
        lambda: write_table(transformed(zscore=("agee",))),
    ),
    Mistake(
        "EncodeExamples", "the transform of a column that does not exist, without statistics",
        "log: expected a column of the records, got 'agee' (did you mean 'age'?): they have age",
        lambda: write_people(transformed(log=("agee",))),
    ),
    Mistake(
        "EncodeExamples", "statistics of a column of text",
        "zscore job: expected a column of numbers, got string",
        lambda: write_table(transformed(zscore=("job",))),
    ),
    Mistake(
        "TokenizeText", "records without texts",
        "Analyze: expected records with text, got none: their columns are age, job",
        lambda: write_people(TokenizeText("words")),
    ),
    Mistake(
        "EncodeExamples", "the logarithm of a column of text",
        "log job: expected a column of numbers, got string",
        lambda: write_people(transformed(log=("job",))),
    ),
    Mistake(
        "DecodeAndResizeImages", "records without images",
        "DecodeAndResizeImages: expected records with __path__, as of ReadImages, got none: their"
        " columns are age, job",
        lambda: write_people(DecodeAndResizeImages(size=9)),
    ),
    Mistake(
        "WriteToTFRecord", "an encoder of files for records without files",
        "Rebalance: ImageEncoder: expected records with __path__",
        lambda: write(lambda p: p | beam.Create(ROWS)
                      | EncodeExamples(ImageEncoder(options=ImageOptions()))
                      | WriteToTFRecord(tempfile.mkdtemp())),
    ),
]  # fmt: skip


@pytest.mark.parametrize("mistake", RUN, ids=lambda one: one.code)
def test_a_mistake_that_only_the_data_shows_is_an_error_of_the_run(mistake):
    with pytest.raises((ConfigError, RunError), match=re.escape(mistake.message)) as raised:
        mistake.make()
    assert "--" not in str(raised.value)


if __name__ == "__main__":
    print("| step | mistake | message | raised |\n| --- | --- | --- | --- |")
    for when, mistakes in (("made", MADE), ("applied", BUILT), ("the pipeline runs", RUN)):
        for one in mistakes:
            try:
                one.make()
            except (ConfigError, RunError) as error:
                print(f"| {one.step} | `{one.code}` | {error} | when {when} |")
