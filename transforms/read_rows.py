"""ReadText, ReadTable and ReadSeries: texts, rows of tables and rows of series in memory."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.format.ledger import WINDOW
from recordmill.options.durations import duration
from recordmill.processes.task_watch import DEFAULT_LIMITS
from recordmill.storage.files import from_here
from recordmill.transforms.encoders.tables import TableEncoder
from recordmill.transforms.encoders.text.text import TextEncoder
from recordmill.transforms.encoders.tokenization.text_options import TextOptions
from recordmill.transforms.model.source import Source
from recordmill.transforms.model.window_options import LabelRule, SplitBy, WindowOptions
from recordmill.transforms.read_values import ReadStep
from recordmill.transforms.sources.folders.number_labels import LabelType, NumberLabels
from recordmill.transforms.sources.folders.references import Unlabelled
from recordmill.transforms.sources.media.input_shape import shape_of_texts
from recordmill.transforms.sources.row_formats.reading.row_format import RowFormat
from recordmill.transforms.sources.rows.columns.path_columns import path_column
from recordmill.transforms.sources.rows.columns.row_options import named_columns, options_in
from recordmill.transforms.sources.rows.series.sensor_rows import SensorRows
from recordmill.transforms.sources.rows.values.table_rows import TYPES, TableRows
from recordmill.transforms.sources.rows.values.text_folders import Documents, TextFolder
from recordmill.transforms.sources.rows.values.text_rows import TextRows
from recordmill.transforms.sources.splitters.listed_documents import listed_documents
from recordmill.transforms.staged.records import ValueOptions
from recordmill.transforms.windowing.complete_windows import CompleteWindows
from recordmill.transforms.windowing.window_layout import AHEAD
from recordmill.transforms.windowing.window_tasks import Windowing


@dataclasses.dataclass(eq=False)
class _ReadRows(ReadStep):
    """The base of the steps that read rows of tables.

    Args:
      label_column: Column with the class of a record. Default: `label`, `class`, `category` or
        `target`, if there is such a column.
      group_column: Column that identifies a group, such as a patient; a group never spans two
        splits.
      split_column: Column with the split of a record. Default: `split`, if there is such a column.
      drop_columns: Columns to ignore, by names or patterns such as `Unnamed*`.
      label_columns: Columns of 0 and 1, one for each class, by names or patterns such as `is_*`.
      label_type: Reading of the label column: `class`, `int` or `float` for numbers to predict, or
        `none` for an ordinary column. Default: classes; decimal numbers are an error.
      unlabelled: Whether records without a label are rejected, or kept without label features.
      format: Format of the rows. Default: by the extension of each file; CSV and TSV have a header.
    """

    source_options = ReadStep.source_options | {
        *("label_column", "group_column", "split_column", "drop_columns", "format", "key_column"),
        *("text_column", "documents", "types", "where", "series_column", "join_files"),
        *("time_format", "time_unit", "time_zone", "label_columns"),
        *("path_column", "path_template", "input_root"),
    }

    _: dataclasses.KW_ONLY
    label_column: str | None = None
    group_column: str | None = None
    split_column: str | None = None
    drop_columns: Sequence[str] = ()
    label_columns: Sequence[str] = ()
    label_type: LabelType | None = None
    unlabelled: Unlabelled = "reject"
    format: RowFormat = RowFormat()  # noqa: RUF009, it is frozen

    def _check_together(self) -> None:
        if self.label_type in ("int", "float") and self._numbers_from is None:
            raise ConfigError(
                f"{type(self).__name__}: label_type={self.label_type!r} needs label_column, the"
                " column with the numbers to predict, got none"
            )
        super()._check_together()

    @property
    def _numbers_from(self) -> str | None:
        """The column with the numbers to predict, which may hold a fact of paths."""
        in_paths = None if self.label_from is None else path_column("label", self.label_from)
        return self.label_column or in_paths

    @property
    def _implied_names(self) -> dict[str, str]:
        """{column: feature name} of the columns with numbers to predict and with weights."""
        named = {"label": self._numbers_from} if self.label_type in ("int", "float") else {}
        named["weight"] = getattr(self, "weight_column", None)
        return {old: new for new, old in named.items() if old not in (None, new)}


@dataclasses.dataclass(eq=False)
class ReadTable(_ReadRows):
    """Read rows of tables: a pipeline in, `RecordValues` with a column per feature out.

    The encoder of the records is `TableEncoder`. To scale columns, select a `TableEncoder` with
    other options by `EncodeExamples`.

    Args:
      key_column: Column with the unique key of a row, or several with commas between. Default: keys
        follow from content.
      weight_column: Column with the weight of a row in training; it becomes the feature `weight`.
      where: Condition of the rows to read, such as `age >= 18 and job != ''`; the ledger counts the
        other rows. It may name dropped columns.
      types: {column: type}, of `int`, `float`, `bool`, `string`, `date` and `timestamp`. Default:
        the narrowest type that fits all values of a column.
      time_format: {column: format} of dates and times as for `datetime.strptime`; others are
        rejected.

    Raises:
      ConfigError: An option is invalid.

    Example::

        pipeline | ReadTable("adult.csv", label_column="income") | WriteToTFRecord("out/")
    """

    groups_by_column = True

    _: dataclasses.KW_ONLY
    key_column: str | None = None
    weight_column: str | None = None
    where: str | None = None
    types: dict[str, str] = dataclasses.field(default_factory=dict)
    time_format: dict[str, str] = dataclasses.field(default_factory=dict)

    def _check_together(self) -> None:
        for column, name in self.types.items():
            if name not in TYPES:
                raise ConfigError(
                    f"ReadTable: types: expected one of {', '.join(TYPES)} for {column!r}, got"
                    f" {name!r}"
                )
        super()._check_together()

    def source_of_paths(self) -> Source:
        return TableRows(
            input=self.inputs(),
            format=self.format,
            **options_in(self),
            types=tuple(self.types.items()),
            time_formats=tuple(self.time_format.items()),
        )

    def noted(self) -> ValueOptions:
        encoder = TableEncoder(unlabelled=self.keeps_unlabelled(self.unlabelled))
        return ValueOptions(encoder=encoder, implied_names=self._implied_names)


@dataclasses.dataclass(eq=False)
class ReadText(_ReadRows):
    """Read texts: a pipeline in, `RecordValues` with the column `text` out.

    The input is files of rows with a column of texts, text files in folders whose names give label
    and split, or a listing: a table, such as a CSV file, that names text files. Without
    `TokenizeText` the texts are written as they are.

    Args:
      text_column: Column with the text. Default: a column with a usual name, such as `text`, or the
        only column without another role.
      text_columns: Columns with the texts of a record, if it has several; they keep their names.
      path_column: Column of a listing with the path of a text file. Default: a column with a usual
        name, such as `path`, if most of its first values are paths of text files.
      path_template: Path of a text file with columns of a listing in braces, such as `{id}.txt`.
      input_root: Folder that paths in a listing are relative to. Default: the folder of the
        listing.
      key_column: Column with the unique key of a row, or several with commas between. Default: keys
        follow from content; in a listing they are the paths.
      weight_column: Column with the weight of a row in training; it becomes the feature `weight`.
      where: Condition of the rows to read, such as `age >= 18 and job != ''`; the ledger counts the
        other rows. It may name dropped columns.
      documents: In folders of text files: whether a record is a `file` or a `line`.

    Raises:
      ConfigError: An option is invalid.

    Example::

        pipeline | ReadText("reviews.jsonl") | TokenizeText("words") | WriteToTFRecord("out/")
    """

    groups_by_column = True

    _: dataclasses.KW_ONLY
    text_column: str | None = None
    text_columns: Sequence[str] = ()
    path_column: str | None = None
    path_template: str | None = None
    input_root: str | None = None
    key_column: str | None = None
    weight_column: str | None = None
    where: str | None = None
    documents: Documents = "file"

    def _check_together(self) -> None:
        if self.text_columns and self.text_column is not None:
            raise ConfigError(
                "ReadText: expected only one of text_column and text_columns, got both"
            )
        if self.input_root is not None:
            self.input_root = from_here(self.input_root)
        super()._check_together()

    def source_of_paths(self) -> Source:
        inputs = self.inputs()
        options = options_in(self)
        of_texts = self.text_column is not None or bool(self.text_columns)
        by_path = (self.path_column, self.path_template, self.input_root) != (None,) * 3
        shape = shape_of_texts(
            inputs,
            self.format,
            by_line=self.documents == "line",
            by_path=by_path,
            of_texts=of_texts,
            others=named_columns(options),
        )
        if shape.payload == "named":
            if of_texts:
                raise ConfigError(
                    "ReadText: expected columns of texts or of paths, got both: leave one out"
                )
            return listed_documents(
                inputs,
                self.format,
                worker_limits=DEFAULT_LIMITS,
                path_column=self.path_column or shape.column,
                path_template=self.path_template,
                input_root=self.input_root,
                conflicts="reject",
                **options,
            )
        if shape.payload == "document":
            applicable = ("drop_columns", "label_type", "unlabelled")
            for name, value in {**options, "text_column": self.text_column}.items():
                if name not in applicable and value not in (None, ()):
                    raise ConfigError(
                        f"ReadText: {name}: expected files of rows as input, got the text files of"
                        f" {inputs}: leave the option out"
                    )
            if self.label_type in ("int", "float"):
                raise ConfigError(
                    f"ReadText: label_type={self.label_type!r}: expected files of rows as input,"
                    f" got the text files of {inputs}, whose paths give classes: leave the option"
                    " out"
                )
            return TextFolder(
                input=inputs,
                documents=self.documents,
                encoding=self.format.encoding,
                unlabelled=self.unlabelled,
                max_row_bytes=self.format.max_row_bytes,
                labelled=self.label_type != "none",
            )
        return TextRows(
            input=inputs,
            format=self.format,
            text_column=self.text_column,
            text_columns=tuple(self.text_columns),
            **options,
        )

    def noted(self) -> ValueOptions:
        options = TextOptions(
            text_columns=tuple(self.text_columns), features=("text",) if self.text_columns else ()
        )
        return ValueOptions(
            encoder=TextEncoder(options=options, unlabelled=self.keeps_unlabelled(self.unlabelled)),
            implied_names=self._implied_names,
        )


@dataclasses.dataclass(eq=False)
class ReadSeries(_ReadRows):
    """Read time series that are cut into windows: a pipeline in, `RecordValues` of rows out.

    A row is one time step of a series. `WriteToTFRecord` cuts the windows, because series and
    splits in time need all rows. Windows have a list of `window` values per column, and the
    features `window/series` and `window/start`. The encoder of the windows is `TableEncoder`.

    Args:
      time_column: Column with the time of a row, or several columns, which are joined by a space.
      window: Number of rows of a window.
      stride: Number of rows from the start of a window to the start of the next. Default: `window`.
      series_column: Column with the name of the series. Default: each file is a series.
      join_files: Whether all files are one series.
      time_format: Format of times as for `datetime.strptime`. Default: ISO 8601, or numbers since
        1970 in `time_unit`.
      time_unit: Unit of times that are numbers: `s`, `ms`, `us`, `ns`, `excel` or `matlab`.
      time_zone: Time zone of times without one, such as `Europe/Berlin`. Default: UTC.
      types: {column: type} as for `ReadTable`.
      step: Duration such as `10s` to resample to. Default: rows are kept as they are.
      gap_policy: Whether windows end at a gap (`split`), gaps are filled (`fill`), or series with
        gaps are rejected (`reject`).
      window_label: Rule for the class of a window: the class of the `last` or `first` row, or of
        the `majority` of the rows; `any:CLASS`, `all:CLASS`; or `ahead:ROWS`, the class of the row
        that comes so many rows after the window.
      horizon: Number of rows after a window that are its target.
      target: Columns of the target; requires `horizon`.
      static_columns: Columns with one value per series, which a window has once.
      split_by: Whether splits are whole series (`series`) or ranges of time, beginning with train:
        the same ranges for all series (`time`), or ranges for each series (`series-time`).

    Raises:
      ConfigError: An option is invalid.

    Example::

        pipeline | ReadSeries("sensors/*.csv", time_column="t", window=64) | WriteToTFRecord("out/")
    """

    _: dataclasses.KW_ONLY
    time_column: str | Sequence[str] = ()
    window: int
    stride: int | None = None
    series_column: str | None = None
    join_files: bool = False
    time_format: str | None = None
    time_unit: Literal["s", "ms", "us", "ns", "excel", "matlab"] | None = None
    time_zone: str | None = None
    types: dict[str, str] = dataclasses.field(default_factory=dict)
    step: str | None = None
    gap_policy: Literal["split", "fill", "reject"] = "split"
    window_label: str = "last"
    horizon: int = 0
    target: Sequence[str] = ()
    static_columns: Sequence[str] = ()
    split_by: SplitBy = "series"

    def _check_together(self) -> None:
        if not self.time_column and not self._is_source:
            raise ConfigError("ReadSeries: expected time_column, the column with times, got none")
        if self.label_columns:
            raise ConfigError(
                "ReadSeries: label_columns gives rows several classes, and windows have one: leave"
                " it out"
            )
        super()._check_together()

    @property
    def _times(self) -> tuple[str, ...]:
        given = self.time_column
        return (given,) if isinstance(given, str) else tuple(given)

    def source_of_paths(self) -> Source:
        numbers = self.label_type in ("int", "float")
        options = options_in(self) | {"unlabelled": "keep"}  # windows are rejected, not rows
        options["label_type"] = "class" if numbers else self.label_type
        return SensorRows(
            input=self.inputs(),
            format=self.format,
            **options,
            number_labels=numbers,
            types=tuple(self.types.items()),
            used=(),
            time_columns=self._times,
            time_format=self.time_format,
            time_unit=self.time_unit,
            time_zone=self.time_zone,
            series_column=self.series_column,
            joined=self.join_files,
        )

    def noted(self) -> ValueOptions:
        options = WindowOptions(
            window=self.window,
            stride=self.window if self.stride is None else self.stride,
            step=None if self.step is None else _step(self.step),
            gap_policy=self.gap_policy,
            label=LabelRule.parse(self.window_label),
            split_by=self.split_by,
            horizon=self.horizon,
            targets=tuple(self.target),
            static_columns=tuple(self.static_columns),
            zone_unknown=self.time_zone is None and "%z" not in (self.time_format or "").lower(),
        )
        by_series, rejects = self.split_by == "series", self.unlabelled == "reject"
        numbers = None
        if self.label_type in ("int", "float"):
            parser = self.format.value_parser
            numbers = NumberLabels(
                label_type=self.label_type, unlabelled=self.unlabelled, parser=parser
            )
        windowing = functools.partial(
            Windowing,
            schema=None,
            by_series=by_series and self.split_column is None,
            by_group=by_series and (self.group_column or self.group_from) is not None,
            complete=CompleteWindows(
                labelled=rejects, numbers=numbers, targets=options.targets if rejects else ()
            ),
        )
        encoder = TableEncoder(unlabelled=not rejects, not_steps=(AHEAD,))
        return ValueOptions(encoder=encoder, windows=options, windowing=windowing, unit=WINDOW)


def _step(text: str) -> int:
    """Return a duration in microseconds."""
    try:
        return duration(text)
    except ValueError as error:
        raise ConfigError(f"ReadSeries: step: {error}") from error
