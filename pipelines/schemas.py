"""What a job is asked of statistics and schemas, from its options to its steps."""

from __future__ import annotations

import dataclasses

from recordmill.errors import ConfigError
from recordmill.job.staging import Staging
from recordmill.pipelines.options.config import CommonConfig
from recordmill.profile import schema_rules
from recordmill.profile.schema_rules import Limit, Rules
from recordmill.profile.statistics_file import load_compared
from recordmill.storage.files import Location
from recordmill.transforms.checks.schema_check import SchemaCheck
from recordmill.transforms.checks.schema_columns import described_fields, refuse_columns
from recordmill.transforms.model.data_type import Check, DataType, Headers, Layout
from recordmill.transforms.planning.examination import INFERRED, Examination
from recordmill.transforms.planning.examine import Examiner
from recordmill.transforms.windowing.windows import fields_of_rows


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchemaRequest:
    """rules: of --schema. compared: the statistics that --compare-with means."""

    config: CommonConfig
    kind: DataType
    rules: Rules | None
    compared: bytes | None

    @classmethod
    def of(cls, config: CommonConfig, kind: DataType) -> SchemaRequest:
        """Reads what the options name. Raises ConfigError."""
        if config.infer_schema is not None and Location.parse(config.infer_schema).exists():
            raise ConfigError(  # somebody may have edited it
                f"--infer-schema {config.infer_schema}: the file is there already: name another"
                " one, or remove it"
            )
        return cls(
            config=config,
            kind=kind,
            rules=None if config.schema is None else schema_rules.load(config.schema),
            compared=None if config.compare_with is None else load_compared(config.compare_with),
        )

    @property
    def infers(self) -> bool:
        """Whether a schema is all that is wanted."""
        return self.config.infer_schema is not None

    @property
    def notes(self) -> tuple[str, ...]:
        """What of the schema nobody looks at. Sentences without their end."""
        if self.rules is None or self.compared is not None:
            return ()
        limited = [name for name, one in self.rules.columns.items() if one.drift != Limit()]
        if not limited:
            return ()
        return (
            f"the schema limits the drift of {', '.join(map(repr, limited))}: nobody looks at it"
            " without --compare-with, which names a dataset to compare with",
        )

    def refuse(self, layout: Layout) -> None:
        """Raises ConfigError for columns that the schema does not expect, or lacks."""
        made = None if self.kind.headers is None else self.kind.headers.fields
        if self.rules is not None:
            refuse_columns(self.rules, layout, made)
        elif self.config.statistics or self.infers:
            described_fields(layout, made)

    def check(self, layout: Layout) -> Check | None:
        """That of the kind, and after it that of the schema: the reasons of rejects stay."""
        if self.rules is None or self.config.on_violation != "reject":
            return self.kind.check
        return SchemaCheck(
            rules=self.rules,
            labelled=layout.labelled,
            first=self.kind.check,
            headers=self._headers() if self._is_about_headers else None,
        )

    def examination(self, layout: Layout, staging: Staging) -> Examination | None:
        """What is asked of all records, or of rows and of windows; None where nothing is.

        layout: of the rows.
        """
        config = self.config
        if not (config.statistics or self.infers or self.rules is not None):
            return None
        examiner = Examiner(
            labelled=layout.labelled,
            headers=self._headers(),
            rules=self.rules,
        )
        windows = None
        if self.kind.windows is not None:
            inside = fields_of_rows(layout.columns, self.kind.windows)
            windows = dataclasses.replace(examiner, rules=None, inside=inside)
        return Examination(
            staging=staging,
            examiner=examiner,
            windows=windows,
            on_violation=config.on_violation,
            published=config.statistics,
            compared=self.compared if config.on_violation == "fail" else None,
            infer=self.infers,
        )

    def keep_schema(self, staging: Staging) -> None:
        """Writes the schema that was inferred to where it was wanted."""
        assert self.config.infer_schema is not None
        content = staging.place(INFERRED).read_bytes()
        Location.parse(self.config.infer_schema).write_bytes(content)

    def _headers(self) -> Headers | None:
        """What reads headers, where somebody asks for what they say."""
        asked = self.config.statistics or self.infers or self._is_about_headers
        return self.kind.headers if asked else None

    @property
    def _is_about_headers(self) -> bool:
        if self.rules is None or self.kind.headers is None:
            return False
        return any(name in self.rules.columns for name in self.kind.headers.fields.names)
