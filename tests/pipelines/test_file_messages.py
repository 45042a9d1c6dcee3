"""Messages on inputs whose files hold several records, or whose tables hold the files."""

import pytest

from tests.image_runs import make
from tests.sounds import chirp, write

pytestmark = pytest.mark.usefixtures("encoders")


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (("--start-column", "start", "--end-column", "end"), "in.csv"),
        (("--sample-rate", 16000, "--clip", "100ms", "--clip-mode", "split"), ""),
    ],
    ids=["segments", "clips"],
)
def test_the_note_on_an_empty_split_counts_files(tmp_path, options, name):
    rows = ["path,start,end"]
    for number in range(3):
        write(tmp_path / "in" / f"{number}.wav", chirp(16000, 8000 + number))
        rows += [f"{number}.wav,{n / 10},{n / 10 + 0.1}" for n in range(5)]
    if name:
        (tmp_path / "in" / name).write_text("\n".join(rows))
    given = ("--input", tmp_path / "in" / name, "--splits", "train=0.999,test=0.001", *options)
    made = make(tmp_path / "out", *given, "--unlabelled", "keep", command="audio")
    assert [str(note) for note in made.manifest.notes if note.code == "empty-split"] == [
        "no record is in the split 'test', because all records of a file share a split, and there"
        " are too few files (3 for a fraction of 0.001)"
    ]
