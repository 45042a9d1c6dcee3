"""Listings that an encoder process makes while this process imports Beam."""

import dataclasses
import functools
import os
import pickle
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.errors import ConfigError, Reject
from recordmill.job.input_facts import NO_FACTS, ColumnRoles, InputFacts
from recordmill.job.staging import Listing, Staging
from recordmill.pipelines.jobs.listing import list_input
from recordmill.processes.pool import close_shared_pool, shared_pool
from recordmill.storage.files import Location
from recordmill.transforms.model.label_rules import LabelRules
from recordmill.transforms.model.source import ListingPart, Source
from recordmill.transforms.sources.rows.references.file_list import FileList


class ListedBy:
    """A source that rejects one input, whose key is the id of the process that lists it."""

    unique_keys = True

    def __init__(self, *, error: str = "") -> None:
        self._error = error

    def scan(self) -> Iterator[ListingPart]:
        if self._error:
            raise ConfigError(f"{self._error} {os.getpid()}")
        yield ListingPart(rejects=[Reject(str(os.getpid()), "read", "empty", "")])


@pytest.fixture
def child() -> Iterator[int]:
    close_shared_pool()
    yield shared_pool(1).submit(os.getpid).result()
    close_shared_pool()


def listed(source: Source, folder: object, *, imports: bool = True) -> Listing:
    """Return the stored listing of a source, which equals the one that was made."""
    staging = Staging.of(Location.parse(str(folder)), "job")
    made = list_input(
        source,
        staging,
        rules=LabelRules(),
        on_rows=lambda rows: None,
        imports=imports,
    )
    stored = staging.listing()
    assert stored is not None
    assert stored == made
    return stored


def listed_by(source: ListedBy, folder: object, **options: bool) -> int:
    """Return the process that lists a source."""
    return int(listed(source, folder, **options).rejects[0].key)


def test_an_encoder_process_lists_what_it_can(child, tmp_path):
    assert listed_by(ListedBy(), tmp_path / "a") == child
    assert listed_by(ListedBy(), tmp_path / "c", imports=False) == os.getpid()


def test_this_process_lists_if_no_encoder_process_runs(tmp_path):
    close_shared_pool()
    assert listed_by(ListedBy(), tmp_path) == os.getpid()


def test_an_error_of_the_input_is_not_found_twice(child, tmp_path):
    """It may take long, such as a slow search in a path."""
    with pytest.raises(ConfigError, match=f"^no files {child}$") as error:
        listed_by(ListedBy(error="no files"), tmp_path)
    assert not hasattr(error.value, "__notes__")


def test_a_stored_listing_has_what_the_scan_learned(child, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.png").write_bytes(b"...")
    (tmp_path / "list.csv").write_text(
        "Unnamed: 0,file,kind,part\n0,a.png,cat,train\n1,b.png,dog,test\n"
    )
    source = FileList(path=f"{tmp_path}/list.csv", label_column="kind", split_column="part")
    stored = listed(source, tmp_path / "out")
    assert [note.code for note in stored.notes] == ["unnamed-column"]
    assert stored.facts == InputFacts(
        split_source="the column 'part'",
        roles=ColumnRoles(main="file", label="kind", split="part"),
    )
    assert source == pickle.loads(pickle.dumps(source))
    assert vars(source) == vars(dataclasses.replace(source))  # nothing was left in it


@given(
    st.lists(
        st.builds(
            InputFacts,
            split_source=st.none() | st.sampled_from("ab"),
            labels=st.none() | st.lists(st.sampled_from("xy"), max_size=2).map(tuple),
            class_numbers=st.dictionaries(st.sampled_from("xy"), st.integers(), max_size=1),
        ),
        max_size=4,
    )
)
def test_facts_of_later_parts_are_added(parts):
    found = functools.reduce(InputFacts.plus, parts, NO_FACTS)
    for name, default in vars(NO_FACTS).items():
        known = [value for one in parts if (value := getattr(one, name)) != default]
        assert getattr(found, name) == (known[-1] if known else default)
