"""The statistics and schema options of a job, turned into its checks and its profiling."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from recordmill.errors import ConfigError
from recordmill.job.staging import Staging
from recordmill.notes import Note
from recordmill.pipelines.earlier.learned_from import LearnedDataset
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.profile import schema_rules
from recordmill.profile.schema_rules import DistanceLimit, SchemaRules
from recordmill.profile.statistics_file import STATISTICS, load_compared
from recordmill.storage.files import Location
from recordmill.transforms.checks.schema_check import SchemaCheck
from recordmill.transforms.checks.schema_columns import check_columns, profiled_fields
from recordmill.transforms.model.data_type import DataType, Headers, RowCheck
from recordmill.transforms.model.source import Layout
from recordmill.transforms.planning.part_task import DataProfiler
from recordmill.transforms.windowing.window_layout import fields_of_rows

if TYPE_CHECKING:
    from recordmill.transforms.planning.profiling import Profiling


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchemaRequest:
    """The statistics and schema options of a job.

    rules: the content of --schema. compared: the statistics file of the dataset to compare with.
    """

    config: CommonConfig
    data_type: DataType
    rules: SchemaRules | None
    compared: bytes | None

    @classmethod
    def of(
        cls, config: CommonConfig, data_type: DataType, learned: LearnedDataset | None = None
    ) -> SchemaRequest:
        """Read the files that the options name.

        learned: the dataset of --learned-from, which is compared with unless another one is.

        Raises:
          ConfigError: a file cannot be read, or --infer-schema exists.
        """
        if config.infer_schema is not None and Location.parse(config.infer_schema).exists():
            raise ConfigError(  # the user may have edited it
                f"--infer-schema {config.infer_schema}: the file exists: name another one, or"
                " remove it"
            )
        rules = None if config.schema is None else schema_rules.load(config.schema)
        compared = None
        if config.compare_with is not None:
            compared = load_compared(config.compare_with)
        elif learned is not None and config.statistics:
            compared = learned.statistics
        if config.max_drift and compared is None:
            raise ConfigError(
                f"--max-drift: the dataset of --learned-from {config.learned_from} has no"
                f" {STATISTICS} to compare with: write it again with --statistics, or name another"
                " one with --compare-with"
            )
        limited = _limits_drift(rules)
        if limited and compared is None and config.on_violation == "fail":
            raise ConfigError(
                f"--on-violation fail: the schema limits the drift of {limited}, and there is no"
                " dataset to compare with: name one with --compare-with, or remove"
                " drift_comparator from the schema"
            )
        return cls(
            config=config,
            data_type=data_type,
            rules=rules,
            compared=compared,
        )

    @property
    def infers(self) -> bool:
        """True if the job only writes a schema."""
        return self.config.infer_schema is not None

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes on parts of the schema that this run does not check."""
        limited = _limits_drift(self.rules)
        if not limited or self.compared is not None:
            return ()
        text = (
            f"the schema limits the drift of {limited}, but drift is only checked with"
            " --compare-with, which names the dataset to compare with"
        )
        return (Note("schema", text),)

    def refuse(self, layout: Layout) -> None:
        """Raise ConfigError for columns that the schema lacks, and for those that it misses."""
        made = None if self.data_type.headers is None else self.data_type.headers.fields
        if self.rules is not None:
            check_columns(self.rules, layout, made)
        elif self.config.statistics or self.infers:
            profiled_fields(layout, made)

    def check(self, layout: Layout) -> RowCheck | None:
        """Return the data type's check, followed by the schema's.

        In this order a record that both would reject keeps the reason of the data type.
        """
        if self.rules is None or self.config.on_violation != "reject":
            return self.data_type.check
        return SchemaCheck(
            rules=self.rules,
            labelled=layout.labelled,
            first=self.data_type.check,
            headers=self._headers() if self._is_about_headers else None,
        )

    def profiling(self, layout: Layout, staging: Staging) -> Profiling | None:
        """Return the profiling of all records, or of rows and windows; None without one.

        layout: of the rows, before windows are cut.
        """
        config = self.config
        if not (config.statistics or self.infers or self.rules is not None):
            return None
        from recordmill.transforms.planning.profiling import Profiling  # it imports Beam

        profiler = DataProfiler(
            labelled=layout.labelled,
            headers=self._headers(),
            rules=self.rules,
        )
        windows = None
        if self.data_type.windows is not None:
            inside = fields_of_rows(layout.columns, self.data_type.windows)
            labelled = layout.labelled and config.number_type is None
            windows = dataclasses.replace(profiler, rules=None, inside=inside, labelled=labelled)
        return Profiling(
            staging=staging,
            workers=config.workers,
            profiler=profiler,
            windows=windows,
            on_violation=config.on_violation,
            published=config.statistics,
            compared=self.compared,
            max_drift=config.max_drift,
            infer=self.infers,
        )

    def keep_schema(self, staging: Staging) -> None:
        """Copy the inferred schema from staging to the file of --infer-schema."""
        from recordmill.transforms.planning.profiling import INFERRED

        assert self.config.infer_schema is not None
        content = staging.place(INFERRED).read_bytes()
        Location.parse(self.config.infer_schema).write_bytes(content)

    def _headers(self) -> Headers | None:
        """Return the reader of file headers if statistics or the schema need their fields."""
        needed = self.config.statistics or self.infers or self._is_about_headers
        return self.data_type.headers if needed else None

    @property
    def _is_about_headers(self) -> bool:
        if self.rules is None or self.data_type.headers is None:
            return False
        return any(name in self.rules.columns for name in self.data_type.headers.fields.names)


def _limits_drift(rules: SchemaRules | None) -> str:
    """Return the columns whose drift the schema limits, as a list for a message."""
    columns = {} if rules is None else rules.columns
    return ", ".join(repr(name) for name, one in columns.items() if one.drift != DistanceLimit())
