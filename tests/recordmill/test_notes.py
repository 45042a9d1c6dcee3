import pickle
import re

import pytest

from recordmill.notes import CODES, FAILABLE, Note, first_failing, notes_of
from tests.paths import ROOT


def test_a_note_survives_pickle_and_json():
    note = Note("quotes", "a quote")
    for again in (pickle.loads(pickle.dumps(note)), Note.from_json(note.to_json())):
        assert (again, again.code) == ("a quote", "quotes")


def test_a_code_is_one_of_the_table_but_for_those_of_later_versions():
    with pytest.raises(
        ValueError, match=r"expected a code of recordmill\.notes\.CODES, got 'quote'"
    ):
        Note("quote", "a quote")
    assert Note.from_json({"code": "later", "text": "t"}).code == "later"
    for data in ({"code": 1, "text": "t"}, {"code": "quotes", "text": None}):
        with pytest.raises(ValueError, match="expected a note with a code and a text, of strings"):
            Note.from_json(data)


def test_the_codes_are_documented():
    page = (ROOT / "docs" / "options.md").read_text().partition("## Notes")[2]
    rows = re.findall(
        r"^\| `([a-z-]+)` \| ([^|]+?)(; not a code of `--fail-on`)? \|$", page, re.MULTILINE
    )
    assert [(code, meaning) for code, meaning, _ in rows] == sorted(CODES.items())
    assert {code for code, _, excluded in rows if not excluded} == set(FAILABLE)


def test_the_first_note_with_a_code_fails():
    notes = [*notes_of("quotes", ["a", "b"]), Note("schema", "c")]
    because = "(an error because of --fail-on"
    assert first_failing(notes, ("schema",)) == f"c {because} schema); nothing was published"
    assert first_failing(notes, ("quotes", "schema")) == (
        f"a {because} quotes); there are also notes on schema; nothing was published"
    )
    assert first_failing(notes, ("audio",)) is None
    assert set(FAILABLE) < set(CODES)
