"""Messages on inputs whose files hold several records, or whose tables hold the files."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.image_runs import make, run
from tests.media_tables import STRUCT
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


@pytest.mark.parametrize("kind", ["bytes", "struct"])
@pytest.mark.parametrize("option", ["start", "end", "duration"])
def test_segments_of_files_in_a_table_are_an_error(tmp_path, capsys, kind, option):
    content = write(tmp_path / "a.wav", chirp(16000, 8000)).read_bytes()
    value = content if kind == "bytes" else {"bytes": content, "path": "a.wav"}
    column = pa.array([value], pa.binary() if kind == "bytes" else STRUCT)
    pq.write_table(pa.table({"audio": column, option: [0.1]}), tmp_path / "aud.parquet")
    given = ("--input", tmp_path / "aud.parquet", "--output", tmp_path / "out")
    assert run("audio", *given, f"--{option}-column", option) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert f"--{option}-column: applies only to listings" in error
    assert f"--input {tmp_path / 'aud.parquet'} is read as tables that hold files" in error
    assert "or add --clip-mode split" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["images", "image"])  # the second is a usual name of paths, too
@pytest.mark.parametrize("kind", [STRUCT, pa.binary()], ids=["struct", "bytes"])
@pytest.mark.parametrize("list_of", [pa.list_, pa.large_list], ids=["list", "large_list"])
def test_lists_of_files_in_parquet_are_an_error(tmp_path, capsys, name, kind, list_of):
    value = b"x" if kind == pa.binary() else {"bytes": b"x", "path": "a.jpg"}
    column = pa.array([[value, value]], list_of(kind))
    pq.write_table(pa.table({name: column, "label": ["a"]}), tmp_path / "list.parquet")
    given = ("--input", tmp_path / "list.parquet", "--output", tmp_path / "out")
    assert run("images", *given) == 2
    assert (
        f"list.parquet holds files in lists, in '{name}', but a list of files per row is not"
        f" supported: write one row for each file, or leave them out, with --drop-columns {name}"
    ) in capsys.readouterr().err


@pytest.mark.parametrize("root", ["", "--input-root"])
def test_a_listing_of_wrong_names_shows_each_cause_and_no_useless_advice(root, tmp_path, capsys):
    (tmp_path / "in" / "ant").mkdir(parents=True)
    (tmp_path / "in" / "ant" / "one.png").write_bytes(b"x")
    names = ("ant/One.png", "ant/One.png", "bee\\one.png", " ant/one.png", "/no/such/one.png")
    lines = [f"{name},{n % 2}" for n, name in enumerate(names)]
    listing = tmp_path / "in" / "list.csv"
    listing.write_text("\n".join(["path,label", *lines]))
    given = ("--input", listing, "--output", tmp_path / "out")
    given = (*given, root, tmp_path / "in") if root else given
    assert run("images", *given) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert (
        "; the first of each cause: ant/One.png: no such file, but"
        " 'one.png' exists, which differs in case: correct the listing, or rename the file;"
        " bee\\one.png: no such file; its path has backslashes, which were also read as /;"
        " ant/one.png: no such file, but 'ant/one.png' exists"
    ) in said
    assert said.endswith("its path begins or ends with a space (--trim strips spaces)")
    listing.write_text("\n".join(["path,label", *lines, "two.png,a", "ant,b"]))
    assert run("images", *given) == 2
    assert ("with --input-root" in (err := capsys.readouterr().err)) != bool(root)
    assert "relative paths were resolved in" in err
