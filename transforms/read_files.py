"""ReadImages, ReadAudio, ReadVideo and ReadArrays: files, clips and arrays in memory."""

import dataclasses
from collections.abc import Collection, Sequence
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.format.ledger import INPUT
from recordmill.storage.files import from_here
from recordmill.transforms.audio.audio_options import AudioOptions
from recordmill.transforms.encoders.array_options import ArrayOptions
from recordmill.transforms.encoders.arrays import ArrayEncoder
from recordmill.transforms.encoders.audio import audio_encoder
from recordmill.transforms.encoders.clips import ClipEncoder
from recordmill.transforms.encoders.images import ImageEncoder
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.model.source import RowSource, Source
from recordmill.transforms.read_values import ReadStep
from recordmill.transforms.sources.arrays.array_headers import ArrayProbe
from recordmill.transforms.sources.arrays.array_splitter import NOT_ARRAYS, ArraySplitter
from recordmill.transforms.sources.arrays.chunking import ArraySlicing
from recordmill.transforms.sources.audio.audio_splitter import AudioSplitter
from recordmill.transforms.sources.folders.folders import NOT_AUDIO, NOT_IMAGES, NOT_VIDEOS
from recordmill.transforms.sources.folders.references import Unlabelled
from recordmill.transforms.sources.media.file_sources import source_of_files
from recordmill.transforms.sources.media.input_shape import shape_of_media
from recordmill.transforms.sources.media.media_rows import MediaRows
from recordmill.transforms.sources.row_formats.reading.row_format import RowFormat
from recordmill.transforms.sources.rows.columns.row_options import options_in
from recordmill.transforms.sources.splitters.segments import SegmentColumns, SegmentedFiles
from recordmill.transforms.sources.splitters.split_files import split_files
from recordmill.transforms.sources.video.clip_plan import ClipSampling
from recordmill.transforms.sources.video.video_splitter import VideoSplitter
from recordmill.transforms.staged.records import ValueOptions

Rest = Literal["drop", "pad"]


@dataclasses.dataclass(eq=False)
class _ReadFiles(ReadStep):
    """The base of the steps that read files, such as images.

    The input is a folder with `class/...` or `split/class/...`, a glob pattern, a file, an archive,
    a listing (a table, such as a CSV or Parquet file, that names files), or tables that hold files.

    Args:
      label_column: Column of a listing or table with the class of a file. Default: `label` or
        `class`, if there is such a column.
      key_column: Column with the unique key of a file. Default: the path in a listing, and the hash
        of the bytes in tables that hold files.
      group_column: Column that identifies a group, such as a patient; a group never spans two
        splits.
      split_column: Column with the split of a file. Default: `split`, if there is such a column.
      path_column: Column of a listing with the path of a file. Default: a usual name, such as
        `path`.
      path_template: Path of a file with columns of a listing in braces, such as `{id}.jpg`.
      bytes_column: Column of tables that hold the bytes of files. Default: a column of bytes.
      drop_columns: Columns to ignore, by names or patterns such as `Unnamed*`.
      label_columns: Columns of 0 and 1, one for each class, by names or patterns such as `is_*`.
      input_root: Folder that paths in a listing are relative to. Default: the folder of the
        listing.
      unlabelled: Whether files without a label are rejected, or kept without label features.
      format: Format of the rows of a listing or table. Default: by the extension.
    """

    source_options = ReadStep.source_options | {
        *("label_column", "key_column", "group_column", "split_column", "path_column"),
        *("path_template", "bytes_column", "drop_columns", "label_columns", "input_root", "format"),
    }

    _: dataclasses.KW_ONLY
    label_column: str | None = None
    key_column: str | None = None
    group_column: str | None = None
    split_column: str | None = None
    path_column: str | None = None
    path_template: str | None = None
    bytes_column: str | None = None
    drop_columns: Sequence[str] = ()
    label_columns: Sequence[str] = ()
    input_root: str | None = None
    unlabelled: Unlabelled = "reject"
    format: RowFormat = RowFormat()  # noqa: RUF009, it is frozen

    def _check_together(self) -> None:
        if self.input_root is not None:
            self.input_root = from_here(self.input_root)
        super()._check_together()

    def source(self) -> Source:
        """Return the source to list, for files of this data type."""
        files = super().source()
        if isinstance(files, RowSource) and not isinstance(files, MediaRows):
            return files  # it reads records of this data type itself
        return self._of_files(files)

    def _of_files(self, files: Source) -> Source:
        """Return the source of records, given the source of their files."""
        return files

    def _files(
        self,
        leave_out: Collection[str],
        *,
        segments: tuple[str, ...] | None = None,
        labelled: bool = True,
    ) -> Source:
        """Return the source of the files.

        Args:
          leave_out: Extensions of files to skip.
          segments: Columns of segments; None if rows cannot be segments.
          labelled: Whether the paths or rows give labels.
        """
        inputs = self.inputs()
        unlabelled: Unlabelled = self.unlabelled if labelled else "keep"
        columns = options_in(self) | {
            "input_root": self.input_root,
            "unlabelled": unlabelled,
            "label_type": None if labelled else "none",
        }
        shape = shape_of_media(
            inputs,
            leave_out=leave_out,
            format=self.format,
            path_column=self.path_column or self.path_template,
            bytes_column=self.bytes_column,
            dropped=self.drop_columns,
        )
        if shape.payload == "placed":
            raise ConfigError(
                f"{type(self).__name__}: {inputs} holds TFRecord files: ReadRows reads their"
                " features, and the command of this data type reads the files in them"
            )
        if shape.payload == "self":
            paths = {"path_column": self.path_column, "path_template": self.path_template}
            for name, value in {**columns, **paths}.items():
                given = name not in ("unlabelled", "label_type") and value not in (None, ())
                if given:
                    raise ConfigError(
                        f"{type(self).__name__}: {name}: expected a listing (CSV, TSV, JSONL,"
                        f" Parquet) as input, got {inputs}: leave the option out"
                    )
        return source_of_files(
            shape,
            inputs,
            columns | {"format": self.format},
            leave_out=leave_out,
            labelled=labelled,
            segments=segments,
            path_column=self.path_column,
            path_template=self.path_template,
            conflicts="reject",
        )


@dataclasses.dataclass(eq=False)
class ReadImages(_ReadFiles):
    """List images: a pipeline in, `RecordValues` with a reference per image out.

    Image files are not opened by this step. `DecodeAndResizeImages` decodes them; without it, the
    encoder of the records, `ImageEncoder`, decodes them when shards are written.

    Args:
      options: Size and encoding of the images, if `DecodeAndResizeImages` does not follow.

    Raises:
      ConfigError: An option is invalid.

    Example::

        pipeline | ReadImages("photos/") | DecodeAndResizeImages(ImageOptions(size=(224, 224)))
    """

    groups_by_column = True

    _: dataclasses.KW_ONLY
    options: ImageOptions = dataclasses.field(default_factory=ImageOptions)

    def source_of_paths(self) -> Source:
        return self._files(NOT_IMAGES)

    def noted(self) -> ValueOptions:
        unlabelled = self.keeps_unlabelled(self.unlabelled)
        return ValueOptions(encoder=ImageEncoder(options=self.options, unlabelled=unlabelled))


@dataclasses.dataclass(eq=False)
class ReadAudio(_ReadFiles):
    """List audio files, or cut them into clips: a pipeline in, `RecordValues` out.

    The encoder of the records decodes the files when shards are written. Files that are split into
    clips are decoded by this step.

    Args:
      options: Form of the written audio: sample rate, clips, waveforms or spectrograms.
      start_column: Column of a listing with the start of a segment of a file.
      end_column: Column with the end of a segment.
      segment_unit: Unit of `start_column` and `end_column`: `s` or `ms`.

    Raises:
      ConfigError: An option is invalid.

    Example::

        options = AudioOptions(sample_rate=16_000, mono=True, clip=1_000_000)
        pipeline | ReadAudio("speech/", options=options) | WriteToTFRecord("out/")
    """

    _: dataclasses.KW_ONLY
    options: AudioOptions = dataclasses.field(default_factory=AudioOptions)
    start_column: str | None = None
    end_column: str | None = None
    segment_unit: Literal["s", "ms"] | None = None

    def source_of_paths(self) -> Source:
        return self._files(NOT_AUDIO, segments=_given(self.start_column, self.end_column))

    def _of_files(self, files: Source) -> Source:
        columns = SegmentColumns.of(
            files, start=self.start_column, end=self.end_column, unit=self.segment_unit
        )
        if self.options.splits:
            return split_files(files, AudioSplitter(options=self.options), segments=columns)
        return SegmentedFiles(files=files, columns=columns) if columns.given else files

    def noted(self) -> ValueOptions:
        encoder = audio_encoder(self.options, unlabelled=self.keeps_unlabelled(self.unlabelled))
        return ValueOptions(encoder=encoder, unit="clip" if self.options.splits else INPUT)


@dataclasses.dataclass(eq=False)
class ReadVideo(_ReadFiles):
    """Cut videos into clips: a pipeline in, `RecordValues` with encoded frames out.

    The clips of a video form a group, which never spans two splits. The encoder of the records is
    `ClipEncoder`.

    Args:
      options: Size and encoding of the frames.
      clip_frames: Number of frames of a clip.
      clip_stride: Number of frames from the start of a clip to the start of the next. Default:
        clips follow each other without a gap.
      frame_step: Take every n-th frame of the video.
      fps: Frame rate to resample to. Default: all frames.
      clip_rest: Whether frames at the end that do not fill a clip are dropped, or padded to a clip.
      start_column: Column of a listing with the start of a segment of a video.
      end_column: Column with the end of a segment.
      segment_unit: Unit of `start_column` and `end_column`: `s` or `ms`.
      max_clip_bytes: Maximum size of the encoded frames of a clip; larger clips are rejected.

    Raises:
      ConfigError: An option is invalid.

    Example::

        pipeline | ReadVideo("videos/", clip_frames=16) | WriteToTFRecord("out/")
    """

    _: dataclasses.KW_ONLY
    options: ImageOptions = dataclasses.field(default_factory=ImageOptions)
    clip_frames: int = 16
    clip_stride: int | None = None
    frame_step: int = 1
    fps: float | None = None
    clip_rest: Rest = "drop"
    start_column: str | None = None
    end_column: str | None = None
    segment_unit: Literal["s", "ms"] | None = None
    max_clip_bytes: int = 256 << 20

    @property
    def _cut(self) -> ClipSampling:
        return ClipSampling(
            frames=self.clip_frames,
            stride=self.clip_stride,
            step=self.frame_step,
            fps=self.fps,
            rest=self.clip_rest,
        )

    def source_of_paths(self) -> Source:
        return self._files(NOT_VIDEOS, segments=_given(self.start_column, self.end_column))

    def _of_files(self, files: Source) -> Source:
        splitter = VideoSplitter(
            images=self.options, cut=self._cut, max_clip_bytes=self.max_clip_bytes
        )
        columns = SegmentColumns.of(
            files, start=self.start_column, end=self.end_column, unit=self.segment_unit
        )
        return split_files(files, splitter, segments=columns)

    def noted(self) -> ValueOptions:
        encoder = ClipEncoder(
            frame_options=self.options,
            frames=self._cut.frames,
            unlabelled=self.keeps_unlabelled(self.unlabelled),
        )
        return ValueOptions(encoder=encoder, unit="clip")


@dataclasses.dataclass(eq=False)
class ReadArrays(_ReadFiles):
    """List arrays in .npy, .npz and HDF5 files: a pipeline in, `RecordValues` out.

    This step reads only headers. The encoder of the records, `ArrayEncoder`, reads the values when
    shards are written.

    Args:
      options: Format, dtype and NaN policy of the written arrays.
      array: Name of the array in files that hold several. Default: the only one.
      label_array: Name of the array with the labels in each file.
      per_item: Whether each item along the first axis is a record.
      chunk: Length of a record along `chunk_axis`. Default: arrays are not cut.
      chunk_axis: Axis that is cut; negative numbers count from the last axis.
      chunk_stride: Distance from the start of a chunk to the start of the next. Default: `chunk`.
      chunk_rest: Whether a shorter last chunk is kept, or dropped.

    Raises:
      ConfigError: An option is invalid.

    Example::

        pipeline | ReadArrays("volumes/*.npy", chunk=16) | WriteToTFRecord("out/")
    """

    _: dataclasses.KW_ONLY
    options: ArrayOptions = dataclasses.field(default_factory=ArrayOptions)
    array: str | None = None
    label_array: str | None = None
    per_item: bool = False
    chunk: int | None = None
    chunk_axis: int = 0
    chunk_stride: int | None = None
    chunk_rest: Literal["keep", "drop"] = "keep"

    def _check_together(self) -> None:
        if self.per_item and self.chunk is not None:
            raise ConfigError("ReadArrays: expected only one of per_item and chunk, got both")
        super()._check_together()

    @property
    def _cut(self) -> ArraySlicing:
        return ArraySlicing.of(
            per_item=self.per_item,
            chunk=self.chunk,
            axis=self.chunk_axis,
            stride=self.chunk_stride,
            rest=self.chunk_rest,
        )

    def source_of_paths(self) -> Source:
        return self._files(NOT_ARRAYS, labelled=self.label_array is None)

    def _of_files(self, files: Source) -> Source:
        probe = ArrayProbe(
            cut=self._cut,
            array=self.array,
            label_array=self.label_array,
            unlabelled=self.unlabelled,
        )
        dtype, cast = self.options.dtype, self.options.cast
        return split_files(files, ArraySplitter(probe=probe, dtype=dtype, cast=cast))

    def noted(self) -> ValueOptions:
        encoder = ArrayEncoder(
            options=self.options, cut=self._cut, unlabelled=self.keeps_unlabelled(self.unlabelled)
        )
        return ValueOptions(encoder=encoder, unit=INPUT if self.chunk is None else "chunk")


def _given(*columns: str | None) -> tuple[str, ...]:
    return tuple(column for column in columns if column is not None)
