"""Listings that an encoder process makes while this process imports Beam."""

import os
from collections.abc import Iterator

import pytest

from recordmill.errors import ConfigError, Reject
from recordmill.job.staging import Staging
from recordmill.pipelines.listing import list_input
from recordmill.processes.pool import close_shared_pool, shared_pool
from recordmill.storage.files import Location
from recordmill.transforms.model.label_rules import LabelRules
from recordmill.transforms.model.source import ListingPart


class ListedBy:
    """A source that rejects one input, whose key is the id of the process that lists it."""

    unique_keys = True

    def __init__(self, *, is_movable: bool = True, error: str = "") -> None:
        self.is_movable = is_movable
        self._error = error

    def scan(self) -> Iterator[ListingPart]:
        if self._error:
            raise ConfigError(self._error)
        yield ListingPart(rejects=[Reject(str(os.getpid()), "read", "empty", "")])


@pytest.fixture
def child() -> Iterator[int]:
    close_shared_pool()
    yield shared_pool(1).submit(os.getpid).result()
    close_shared_pool()


def listed_by(source: ListedBy, folder: object, *, imports: bool = True) -> int:
    staging = Staging.of(Location.parse(str(folder)), "job")
    made = list_input(
        source, staging, rules=LabelRules(), on_rows=lambda rows: None, imports=imports
    )
    assert staging.listing() == made
    return int(made.rejects[0].key)


def test_an_encoder_process_lists_what_it_can(child, tmp_path):
    assert listed_by(ListedBy(), tmp_path / "a") == child
    assert listed_by(ListedBy(is_movable=False), tmp_path / "b") == os.getpid()
    assert listed_by(ListedBy(), tmp_path / "c", imports=False) == os.getpid()


def test_this_process_lists_if_no_encoder_process_runs(tmp_path):
    close_shared_pool()
    assert listed_by(ListedBy(), tmp_path) == os.getpid()


def test_an_error_of_the_input_is_raised_here(child, tmp_path):
    with pytest.raises(ConfigError, match=r"^no files$") as error:
        listed_by(ListedBy(error="no files"), tmp_path)
    assert not hasattr(error.value, "__notes__")
