"""The note on leaks: its advice, followed."""

import pathlib

import numpy as np
import pytest
from PIL import Image

from tests.image_runs import make
from tests.video_files import make_film

pytestmark = pytest.mark.usefixtures("encoders")

LEAKING = {
    "rows": ("--dedup drop", "--dedup group"),
    "rows with groups": ("--dedup drop",),
    "rows with splits": ("--dedup drop",),
    "images with groups": ("--dedup drop", "--near-duplicates group"),
    "videos": ("--dedup drop", "--near-duplicates group --near-distance 0"),
}


def leaking(case: str, folder: pathlib.Path) -> tuple[str, list[object]]:
    """Return the command and options of a run that has each content twice."""
    command, _, given = case.partition(" with ")
    argv: list[object] = ["--splits", "train=0.5,test=0.5", "--max-reject-fraction", "1"]
    if case == "videos":
        for number in range(8):
            make_film(folder / f"{number}.mp4", 4, offset=number // 2 * 40)
        return "video", ["--input", folder, *argv, "--clip-frames", "4", "--size", "16"]
    folder.mkdir()
    rows = ["name,x,patient,part"]
    for number in range(24):
        half = number // 2
        rows.append(f"{number}.png,{half}.5,p{number},{'train' if number % 2 else 'test'}")
        if command == "images":
            noise = np.random.default_rng(half).integers(0, 256, (32, 32, 3), np.uint8)
            Image.fromarray(noise).save(folder / f"{number}.png")
    (folder / "rows.csv").write_text("\n".join(rows))
    argv += ["--input", folder / "rows.csv"]
    argv += {
        "groups": ["--group-column", "patient"],
        "splits": ["--split-column", "part"],
        "": [],
    }[given]
    if command == "images":
        return command, [*argv, "--path-column", "name", "--size", "32"]
    dropped = {"groups": "part", "splits": "patient", "": "part,patient"}[given]
    return "table", [*argv, "--key-column", "name", "--drop-columns", dropped]


@pytest.mark.parametrize("case", LEAKING)
def test_a_leak_note_names_the_options_that_the_run_can_use(case, tmp_path) -> None:
    command, argv = leaking(case, tmp_path / "in")
    made = make(tmp_path / "out", *argv, command=command)
    [note] = [str(one) for one in made.manifest.notes if one.code == "leak"]
    advice = " prevents it, and so does ".join(LEAKING[case])
    advice += " prevents it" if len(LEAKING[case]) == 1 else ""
    assert note.endswith(f": leaks.jsonl lists them, {advice}")
    for number, remedy in enumerate(LEAKING[case]):
        made = make(tmp_path / str(number), *argv, *remedy.split(), command=command)
        assert "leak" not in {one.code for one in made.manifest.notes}
