"""Classes of windows by intervals of time (--intervals), against loops over rows."""

import collections
import csv
import json
import pathlib
import re

import pytest

from recordmill.pipelines.cli import main
from tests.image_runs import Made, run
from tests.image_runs import make as make_any
from tests.pipelines.test_forecasts import notes_of
from tests.pipelines.test_sensor import rejects, windows

pytestmark = pytest.mark.usefixtures("encoders")

ROWS = 40  # minutes of each series
INTERVALS = [
    ("a", 5, 11, "jam"), ("a", 9, 14, "jam"), ("a", 14, 20, "stop"), ("b", 30, 99, "stop"),
    ("absent", 0, 9, "jam"),
]  # fmt: skip


def stamp(minute: int) -> str:
    return f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00"


@pytest.fixture
def plant(tmp_path: pathlib.Path) -> pathlib.Path:
    source = tmp_path / "plant.csv"
    lines = [f"{stamp(n)},{name},{n}.5,x" for name in "abc" for n in range(ROWS)]
    source.write_text("\n".join(["time,machine,heat,class", *lines]) + "\n")
    return source


def make(source: pathlib.Path, intervals: pathlib.Path, *options: object) -> Made:
    made = make_any(
        intervals.with_suffix(".out"),
        *("--input", source, "--time-column", "time", "--series-column", "machine"),
        *("--splits", "train=1", "--window", 4, "--max-reject-fraction", 1),
        *("--intervals", intervals, *options),
        command="sensor",
    )
    assert main(["verify", "--dataset", str(made.folder), "--deep", "--quiet"]) == 0
    return made


def as_csv(path: pathlib.Path, delimiter: str = ",") -> pathlib.Path:
    with path.open("w", newline="") as sink:
        writer = csv.writer(sink, delimiter=delimiter)
        writer.writerow(["label", "series", "start", "end", "by"])
        writer.writerows(
            [n, s, stamp(b), stamp(e).replace("T", " "), ""] for s, b, e, n in INTERVALS
        )
    return path


def as_json(path: pathlib.Path) -> pathlib.Path:
    begin = 1767225600
    found = [
        {"series": series, "start": begin + 60 * start, "end": begin + 60 * end, "label": label}
        for series, start, end, label in INTERVALS
    ]
    path.write_text(json.dumps(found))
    return path


def class_of(series: str, minute: int, outside: str | None) -> str | None:
    """If intervals meet in one row, the later one counts."""
    for name, start, end, label in reversed(INTERVALS):
        if name == series and start <= minute <= end:
            return label
    return outside


@pytest.mark.parametrize("rule", ["last", "majority", "any:stop"])
def test_a_window_has_the_class_of_the_interval_of_its_rows(rule, plant, tmp_path):
    made = make(plant, as_csv(tmp_path / "i.csv"), "--window-label", rule, "--outside-label", "ok")
    found = windows(made)
    assert len(found) == 3 * ROWS // 4
    for key, example in found.items():
        series, first = key[0], int(example["heat"][0])
        classes = [class_of(series, minute, "ok") for minute in range(first, first + 4)]
        wanted = classes[-1]
        if rule == "majority":
            counts = collections.Counter(classes)
            wanted = min(counts, key=lambda name: (-counts[name], str(name)))
        elif rule == "any:stop" and "stop" in classes:
            wanted = "stop"
        assert made.manifest.labels[example["label"][0]] == wanted
        assert example["class"] == [b"x"] * 4  # a column that would give the classes otherwise
    assert notes_of(made)["intervals"] == (
        "1 of the 3 series of --intervals is not in the input: 'absent'; series there have names"
        " such as 'a'"
    )


def test_windows_outside_of_all_intervals_are_rejected(plant, tmp_path):
    made = make(plant, as_json(tmp_path / "i.json"))
    ends = {f"{name}@{stamp(at)}": (name, at + 3) for name in "abc" for at in range(0, ROWS, 4)}
    classes = {key: class_of(*row, None) for key, row in ends.items()}
    assert windows(made).keys() == {key for key, label in classes.items() if label}
    assert rejects(made) == {
        key: "expected a class in the rows that decide the label (--window-label), got none;"
        " --outside-label gives rows outside of all --intervals a class"
        for key, label in classes.items()
        if not label
    }
    same = make(plant, as_csv(tmp_path / "other.csv", delimiter=";"))
    assert (same.folder / "dataset.json").read_bytes() == (
        made.folder / "dataset.json"
    ).read_bytes()


def test_the_file_of_the_anomaly_benchmark(tmp_path):
    """As in NAB: labels/combined_windows.json, and a file per series below data/."""
    files = {
        "realKnown/a.csv": [[5, 9], [20, 30]],
        "artificial/b.csv": [],
        "artificial/c.csv": [[0, 1]],
    }
    for name in files:
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{stamp(n).replace('T', ' ')},{n}" for n in range(ROWS)]
        path.write_text("\n".join(["timestamp,value", *lines]) + "\n")
    labels = tmp_path / "combined_windows.json"
    written = {
        name: [[f"{stamp(at).replace('T', ' ')}.000000" for at in pair] for pair in pairs]
        for name, pairs in files.items()
    }
    labels.write_text(json.dumps(written, indent=4))
    made = make_any(
        tmp_path / "out",
        *("--input", tmp_path / "data", "--time-column", "timestamp", "--window", 2),
        *("--splits", "train=1", "--intervals", labels),
        command="sensor",
    )
    assert made.manifest.labels == ("anomaly", "normal")
    for example in windows(made).values():
        pairs = files[example["window/series"][0].decode()]
        inside = any(start <= example["value"][-1] <= end for start, end in pairs)
        assert made.manifest.labels[example["label"][0]] == ("anomaly" if inside else "normal")
    assert "intervals" not in notes_of(made)


def test_other_intervals_make_another_dataset(plant, tmp_path, capsys):
    path = as_csv(tmp_path / "i.csv")
    made = make(plant, path, "--outside-label", "ok")
    argv = ("--input", plant, "--time-column", "time", "--series-column", "machine", "--splits")
    argv += ("train=1", "--window", 4, "--max-reject-fraction", 1, "--outside-label", "ok")
    argv += ("--output", made.folder, "--intervals")
    assert run("sensor", *argv, as_json(tmp_path / "same.json")) == 0
    path.write_text(path.read_text().replace("stop", "halt"))
    assert run("sensor", *argv, path) == 2
    assert "intervals" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "expected a first line with series, start, end, label, or JSON; got no 'series' in"),
        ("series,start,end\na,1,2\n", "got no 'label' in 'series', 'start', 'end'"),
        ("series,start,end,label\n", "expected at least one interval, got none"),
        ("series,start,end,label\na,1\n", "line 2: expected 4 values, got 2"),
        ("series,start,end,label\na,soon,2,x\n", "line 2: expected times such as 2026-01-31 18:00"),
        ("series,start,end,label\na,3,2,x\n", "line 2: ends at 2, before its start at 3"),
        ("series,start,end,label\na,1,2,\n", "line 2: expected a series and a label, got 'a' and"),
        (
            "series,start,end,label\na,1,9,x\na,5,6,y\n",
            "series 'a' is 'x' until 1970-01-01 00:00:09, and 'y' from 1970-01-01 00:00:05 on",
        ),
        ('series,start,end,label\na,1,2,"x\ny"\n', "line 3: the class name .* contains a line br"),
        ('series,start,end,label\na,1,2,"x', "line 2: expected CSV"),
        ("series,start,end,label,label\na,1,2,x,y\n", "expected one column .label., got 2"),
        ("[1]", "interval 1: expected an object with series, start, end, label, got 1"),
        ('[{"series": "a"}]', "interval 1: expected series, start, end, label, got no 'start'"),
        ('[{"series": "a", "start": [], "end": 1, "label": "x"}]', "text or a number, got \\[\\]"),
        ('{"a": 1}', "'a': expected a list of .start, end., got 1"),
        ('{"a": [[1]]}', "'a': expected .start, end., got \\[1\\]"),
        ("[" * 100_000, "expected JSON"),
        ("{,", "expected JSON"),
        (
            "series,start,end,label\nA,1,2,x\n",
            "no series of the file is in the input; expected names such as 'a', got 'A'",
        ),
    ],
)  # fmt: skip
def test_files_that_are_no_intervals(content, words, plant, tmp_path, capsys):
    path = tmp_path / "intervals"
    path.write_text(content)
    argv = ("--input", plant, "--time-column", "time", "--series-column", "machine", "--window", 4)
    argv += ("--splits", "train=1", "--outside-label", "ok")
    argv += ("--output", tmp_path / "out", "--intervals", path)
    assert run("sensor", *argv) in (1, 2)
    message = " ".join(capsys.readouterr().err.split())
    assert re.search(f"--intervals.*{words}", message), message
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_intervals_that_do_not_exist(plant, tmp_path, capsys):
    argv = ("--input", plant, "--time-column", "time", "--window", 4, "--output", tmp_path / "out")
    assert run("sensor", *argv, "--intervals", "absent.csv") == 2
    assert "--intervals" in capsys.readouterr().err


def test_a_note_names_classes_that_no_window_has(plant, tmp_path):
    """Such as those of milliseconds that are read as seconds."""
    path = tmp_path / "i.csv"
    path.write_text("series,start,end,label\na,120000,240000,jam\na,2026-01-01,2026-01-02,ok\n")
    made = make(plant, path, "--outside-label", "ok")
    assert made.manifest.labels == ("ok",)
    assert notes_of(made)["intervals"] == (
        "no window has the class 'jam' of --intervals (such as 1970-01-02 09:20:00 to"
        " 1970-01-03 18:40:00 of series 'a'): check the unit and the time zone of these times, and"
        " the rows that --window-label takes"
    )
    path = as_csv(tmp_path / "j.csv")
    path.write_text(path.read_text().replace("absent", "c"))
    other = make(plant, path, "--label-map", "jam=", "--unlabelled", "keep")
    assert "intervals" not in notes_of(other)
