"""One spelling of each label in every format, and labels that look alike."""

import pytest

from tests.image_runs import make

pytestmark = pytest.mark.usefixtures("encoders")


def test_characters_that_cannot_be_seen_are_named(tmp_path):
    labels = ["cat", "cat\u200b", "dog", "dog\u00a0", "\u202adog\u202c"]
    rows = [f"hello world {n},{labels[n % 5]}" for n in range(20)]
    (tmp_path / "z.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    given = ("--input", tmp_path / "z.csv", "--splits", "train=1")
    made = make(tmp_path / "out", *given, command="text")
    alike, hidden = [str(one) for one in made.manifest.notes if one.code == "labels-alike"]
    assert alike.startswith("5 classes become 2 if case, surrounding spaces, Unicode form and")
    assert hidden == (
        "2 of 5 names hold characters that cannot be seen: 'cat\\u200b' (U+200B zero width space);"
        " '\\u202adog\\u202c' (U+202A left-to-right embedding, U+202C pop directional formatting);"
        " --fold-labels leaves them out"
    )
    folded = make(tmp_path / "folded", *given, "--fold-labels", command="text").manifest
    assert folded.labels == ("cat", "dog")
    assert not [one for one in folded.notes if one.code == "labels-alike"]
