"""Source of the files that several listings name."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError
from recordmill.job.input_facts import NO_FACTS, InputFacts
from recordmill.option_checks import list_item
from recordmill.option_names import option_name
from recordmill.transforms.model import batch
from recordmill.transforms.model.label_spelling import LabelSpelling
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import key_prefixes
from recordmill.transforms.sources.files.path_layout import (
    LaidOutInput,
    LayoutRules,
    lay_out,
    split_source,
)
from recordmill.transforms.sources.files.skipped_names import skipped_among_media
from recordmill.transforms.sources.rows.column_checks import alike_name, class_loss
from recordmill.transforms.sources.rows.file_list import FileList


@dataclasses.dataclass(frozen=True, kw_only=True)
class JoinedListings:
    """Lists the files of several listings, which have the same columns.

    inputs: the listings. `train=a.csv` gives the split, and so do names such as train.csv if all
      listings have names of splits.
    lists: a source per listing. If they lie in different folders, keys begin with the names of the
      folders.
    """

    inputs: Inputs
    lists: tuple[FileList, ...]

    @property
    def unique_keys(self) -> bool:
        """False, because listings may repeat a path or a key."""
        return False

    @functools.cached_property
    def _laid_out(self) -> tuple[LaidOutInput, ...]:
        rules = LayoutRules(skip=skipped_among_media, file_names=lambda root: [root.place.name])
        return lay_out(self.inputs, rules)

    def scan(self) -> Iterator[ListingPart]:
        """Yield the files as references.

        Raises:
          ConfigError: as in `FileList`, the listings have different columns, or both a listing and
            its name give the split.
        """
        prefixes = key_prefixes([one.root for one in self.lists])
        schemas: dict[str, pa.Schema] = {}
        spelling = functools.reduce(
            LabelSpelling.plus, [one.label_spelling() for one in self.lists]
        )
        facts = NO_FACTS
        for one, laid_out in zip(self.lists, self._laid_out, strict=True):
            prefix = "" if one.key_column else prefixes[one.root]
            for listed in one.scan(spelling):
                rows = listed.rows
                if rows is not None:
                    _refuse_others(rows.schema, schemas, one.path)
                    rows = self._with_split(rows, laid_out)
                    keys = pc.binary_join_element_wise(prefix, rows[batch.KEY], "")
                    rows = batch.set_column(rows, batch.KEY, keys)
                rejects = [
                    dataclasses.replace(reject, key=prefix + reject.key)
                    for reject in listed.rejects
                ]
                facts = listed.facts.plus(facts)  # the first listing has precedence
                yield dataclasses.replace(listed, rows=rows, rejects=rejects)
        by_path = split_source(self._laid_out)
        yield ListingPart(facts=facts.plus(InputFacts(split_source=by_path)))

    def _with_split(self, rows: pa.RecordBatch, laid_out: LaidOutInput) -> pa.RecordBatch:
        if laid_out.split is None:
            return rows
        if rows[batch.SPLIT].null_count < len(rows):
            raise ConfigError(
                f"both {option_name('input', laid_out.root.given)} and a column of it name the"
                f" split: pass {option_name('split_from')} none to ignore the column, or leave the"
                f" split out of {option_name('input')}"
            )
        return batch.set_column(rows, batch.SPLIT, pa.repeat(laid_out.split, len(rows)))


def _refuse_others(schema: pa.Schema, schemas: dict[str, pa.Schema], path: str) -> None:
    """Raise ConfigError for columns that differ from those of the first listing."""
    schemas.setdefault(path, schema)
    where, first = next(iter(schemas.items()))
    if schema == first:
        return
    for names, here, there in (
        (first.names, where, path),
        (schema.names, path, where),
    ):
        other = schema if there == path else first
        for name in names:
            if name not in other.names and name == batch.LABELS:
                raise ConfigError(
                    f"the label column has lists in {here}, but not in {there}: give all listings"
                    f" lists, or texts with {option_name('label_separator')}"
                )
            if name not in other.names and (like := alike_name(name, other.names)) is not None:
                raise ConfigError(
                    f"{here} has a column {name!r}, and {there} has {like!r}, which differs only"
                    " by case, spaces or Unicode form: give the column one name in all listings"
                )
            if name not in other.names:
                raise ConfigError(
                    f"{there} has no column {name!r}, but {here} has it: give all listings the same"
                    f" columns, or pass {option_name('drop_columns', list_item(name))}, which"
                    f" leaves it out of all records{class_loss([name])}"
                )
    for name in first.names:
        if schema.field(name).type != first.field(name).type:
            raise ConfigError(
                f"the column {name!r} is {first.field(name).type} in {where}, but"
                f" {schema.field(name).type} in {path}: use one type in all listings, or pass"
                f" {option_name('drop_columns', list_item(name))}, which leaves it out of all"
                " records"
            )
