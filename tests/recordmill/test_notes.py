import itertools
import pickle
import re

import pytest

from recordmill.notes import (
    CODES,
    FAILABLE,
    LeftUnread,
    Note,
    first_failing,
    join_left_unread,
    notes_of,
)
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


def test_parts_left_unread_do_not_depend_on_the_order_in_which_they_are_counted():
    found = [("bands", "image", "b.tif"), ("alpha", "video", "c"), ("bands", "image", "a.tif")]
    texts = set()
    for order in itertools.permutations(found):
        unread, other = LeftUnread(), LeftUnread()
        for at, (part, noun, such_as) in enumerate(order):
            (unread if at else other).add(part, noun, such_as=such_as, names=[such_as[:1]])
        unread.merge(other)
        texts.update(unread.notes())
    assert texts == {
        "not read, or taken as stored: alpha (c) of 1 video, such as c; bands (a, b) of 2 images,"
        " such as a.tif"
    }
    assert LeftUnread().notes() == ()


def test_notes_on_parts_left_unread_become_one():
    one, other = LeftUnread(), LeftUnread()
    one.add("keypoints", "annotation", such_as="a")
    other.add("alpha", "video", such_as="b", count=2000)
    schema = Note("schema", "s")
    joined = join_left_unread((schema, *one.notes(), schema, *other.notes()))
    assert joined == (
        schema,
        "not read, or taken as stored: keypoints of 1 annotation, such as a; alpha of 2,000 videos,"
        " such as b",
        schema,
    )
    assert joined[1].code == "left-unread"
    assert join_left_unread(joined) == joined
    assert join_left_unread(()) == ()
