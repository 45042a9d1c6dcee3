"""Videos, sounds and arrays of the golden matrix, and the folders of odd and hostile files."""

from __future__ import annotations

import json
import pathlib
import shutil

import numpy as np
import pyarrow.parquet as pq

from tests.archive_files import files_in, tar_of
from tests.folders import make_picture
from tests.golden.inputs import lines_of, makes, put
from tests.media_tables import bytes_table
from tests.paths import HOSTILE, ODD, TFRECORDS, VIDEO
from tests.tfrecord_inputs import write_records


@makes("videos cameras scenes.csv odd-scenes.csv videos.tar videos.parquet odd-videos")
def _films(root: pathlib.Path) -> None:
    from tests.video_files import make_film

    for number in range(6):
        make_film(
            root / f"videos/{('run', 'walk')[number % 2]}/{number}.mp4",
            24 + number,
            offset=8 * number,
        )
    for camera in "ab":
        make_film(root / f"cameras/{camera}/1.mp4", 60, offset=ord(camera))
    rows = [
        (f"{('run', 'walk')[n % 2]}/{n}.mp4", b, e, ("sit", "go")[n % 2])
        for n in range(6)
        for b, e in ((0, 0.7), (0.2, 0.96))
    ]
    put(root / "scenes.csv", lines_of("file,from,to,action", *rows))
    put(
        root / "odd-scenes.csv",
        lines_of(
            "file,from,to,action", *rows, ("run/none.mp4", 0, 1, "sit"), ("run/0.mp4", 2, 1, "go")
        ),
    )
    files = files_in(root / "videos")
    tar_of(root / "videos.tar", files)
    pq.write_table(
        bytes_table(files).rename_columns(["key", "label", "video"]), root / "videos.parquet"
    )
    shutil.copytree(root / "videos" / "run", root / "odd-videos" / "run")
    put(root / "odd-videos/walk/empty.mp4", b"")
    put(root / "odd-videos/walk/text.mp4", "no video" * 20)
    put(root / "odd-videos/walk/short.mp4", (VIDEO / "qcif.mp4").read_bytes()[:3000])
    put(root / "odd-videos/walk/good.mp4", files["walk/1.mp4"])


@makes(
    "speech recordings words.csv odd-words.csv calls.csv sounds.tar sounds.parquet odd-sounds "
    "sound-records"
)
def _sounds(root: pathlib.Path) -> None:
    from tests.sounds import WORDS, say, write

    rows, segments = [], []
    for number in range(12):
        word = [*WORDS][number % 3]
        samples = say(word, speaker=number // 3, take=number, rate=16000)
        write(root / f"speech/{word}/{number}.{('wav', 'flac')[number % 2]}", samples, 16000)
        write(root / f"recordings/{number}.wav", samples, 16000)
        rows.append((f"recordings/{number}.wav", word, f"s{number // 3}"))
        segments += [
            (f"{number}.wav", a / 10, a / 10 + 0.1, word, f"s{number // 3}") for a in (0, 1)
        ]
    put(root / "calls.csv", lines_of("path,label,speaker", *rows))
    put(root / "words.csv", lines_of("file,from,to,word,speaker", *segments))
    put(
        root / "odd-words.csv",
        lines_of("file,from,to,word,speaker", *segments, ("0.wav", 9, 10, "go", "s0")),
    )
    files = files_in(root / "speech")
    tar_of(root / "sounds.tar", files)
    table = bytes_table(files).rename_columns(["key", "label", "audio"])
    pq.write_table(table, root / "sounds.parquet")
    records = [
        {"audio": [one], "label": [name.partition("/")[0].encode()]} for name, one in files.items()
    ]
    write_records(root / "sound-records/a.tfrecord", records)
    shutil.copytree(root / "recordings", root / "odd-sounds" / "go")
    put(root / "odd-sounds/yes/empty.wav", b"")
    put(root / "odd-sounds/yes/text.wav", "no sound" * 20)
    put(root / "odd-sounds/yes/short.wav", (root / "recordings/3.wav").read_bytes()[:900])
    put(root / "odd-sounds/yes/header.wav", (root / "recordings/3.wav").read_bytes()[:44])


@makes("speech_commands esc50.csv audio")
def _collections(root: pathlib.Path) -> None:
    """The layouts of Speech Commands (lists of names per split) and of ESC-50 (folds)."""
    from tests.sounds import WORDS, say, write

    names, rows = [], []
    for number in range(24):
        word, speaker = [*WORDS][number % 3], number // 4
        samples = say(word, speaker=speaker, take=number, rate=16000)
        name = f"{word}/s{speaker:02}_nohash_{number % 4}.wav"
        write(root / "speech_commands" / name, samples, 16000)
        write(root / f"audio/{number % 5 + 1}-{number}-A.wav", samples, 16000)
        names.append(f"{name}\n")
        rows.append((f"{number % 5 + 1}-{number}-A.wav", number % 5 + 1, number % 3, word))
    put(root / "speech_commands/validation_list.txt", "".join(names[16:20]))
    put(root / "speech_commands/testing_list.txt", "".join(names[20:]))
    put(root / "esc50.csv", lines_of("filename,fold,target,category", *rows))


@makes(
    "volumes digits.npz images.npy labels.npy scans.npz arrays.tar array-list.csv "
    "arrays.parquet odd-arrays stack.h5 array-records series.npz"
)
def _arrays(root: pathlib.Path) -> None:
    import h5py

    draw = np.random.default_rng(3)
    files = {}
    (root / "volumes").mkdir()
    for number in range(8):
        array = draw.normal(size=(20 + 10 * (number % 3), 3, 2)).astype("<f4")
        np.save(root / f"volumes/{number}.npy", array)
        files[f"{'ab'[number % 2]}/{number}.npy"] = (root / f"volumes/{number}.npy").read_bytes()
    tar_of(root / "arrays.tar", files)
    pq.write_table(
        bytes_table(files).rename_columns(["key", "label", "array"]), root / "arrays.parquet"
    )
    rows = [(f"volumes/{n}.npy", "ab"[n % 3 == 0], f"p{n // 2}", n / 4) for n in range(8)]
    put(root / "array-list.csv", lines_of("path,label,patient,dose", *rows))
    stack = draw.integers(0, 255, (40, 4, 4)).astype(np.uint8)
    stack[20:24] = stack[:4]
    labels = np.array(["zero", "one", "two"])[np.arange(40) * np.arange(40) % 3]
    np.savez(root / "digits.npz", x=stack, y=labels)
    np.savez(root / "scans.npz", x=stack, age=np.arange(40) * 1.5)
    np.save(root / "images.npy", stack)
    np.save(root / "labels.npy", np.arange(40) % 3)
    np.savez(root / "series.npz", a=np.arange(5), b=np.arange(6), y=labels)
    with h5py.File(root / "stack.h5", "w", track_order=False) as file:
        file.create_dataset(
            "x", data=stack, chunks=(8, 4, 4), compression="gzip", track_times=False
        )
        file.create_dataset("y", data=np.arange(40) % 3, track_times=False)
    write_records(root / "array-records/a.tfrecord", [
        {"array": [one], "label": [name[:1].encode()]} for name, one in files.items()
    ])  # fmt: skip
    for name, content in files.items():
        put(root / "odd-arrays" / name, content)
    put(root / "odd-arrays/a/empty.npy", b"")
    put(root / "odd-arrays/a/text.npy", "no array" * 20)
    put(root / "odd-arrays/a/short.npy", files["a/0.npy"][:-9])
    np.save(root / "odd-arrays/b/other.npy", np.arange(6))
    np.save(root / "odd-arrays/b/objects.npy", np.array([{}, 1], object))
    np.save(root / "odd-arrays/b/nan.npy", np.full((20, 3, 2), np.nan, "<f4"))


@makes("talkies loud high-labels.npy numbered")
def _noted(root: pathlib.Path) -> None:
    """Videos with sound, loud sounds, high numbers of classes, and shards without one of them."""
    from tests.sounds import write
    from tests.video_files import make_film

    for number in range(3):
        make_film(root / f"talkies/{number}.mp4", 9, size=(32, 48), offset=number, sound=True)
        samples = np.sin(np.arange(900) / 9).astype("f4") * 50
        write(root / f"loud/{number}.wav", samples, 8000, subtype="FLOAT")
        if number != 1:
            name = f"numbered/train-{number:05}-of-00003.tfrecord"
            write_records(root / name, [{"x": [float(n)]} for n in range(4)])
    np.save(root / "high-labels.npy", np.arange(40) % 3 + 5)


@makes("odd-images junk turned")
def _odd_images(root: pathlib.Path) -> None:
    shutil.copytree(ODD / "pillow", root / "odd-images")
    shutil.copytree(ODD / "exif", root / "turned")
    for n, label in enumerate("ab"):
        for name in ("0.JPG", "1.jpg", ".hidden.jpg", "@eaDir/0.jpg", "__MACOSX/._0.jpg"):
            make_picture(root / "junk" / label / name, n)
        for name in (
            "0.xmp",
            "Thumbs.db",
            "x.url",
            "notes.txt",
            "a.svg",
            "table.csv",
            "film.mp4",
            "empty.png",
        ):
            put(root / "junk" / label / name, b"" if name == "empty.png" else b"junk")


@makes("hostile-arrow hostile-avro hostile-hdf5 hostile-parquet foreign-records")
def _hostile(root: pathlib.Path) -> None:
    for name in ("arrow", "avro", "hdf5", "parquet"):
        shutil.copytree(HOSTILE / name, root / f"hostile-{name}")
    for number in range(3):
        np.save(root / f"hostile-hdf5/{number}.npy", np.full((4, 4), number, np.uint8))
    shutil.copytree(TFRECORDS, root / "foreign-records")


@makes(
    "card.yaml job.yaml schema.pbtxt not-utf8.csv empty.csv header-only.csv truncated.csv.gz "
    "bad.parquet empty-folder fifty photos.tar.gz"
)
def _others(root: pathlib.Path) -> None:
    put(root / "card.yaml", "license: CC0-1.0\ncitation: A, B (2026)\ndescription: some\n")
    put(
        root / "job.yaml",
        "command: images\ninput: photos/\noutput: out/\nsize: 16\nbalance: oversample\n"
        "splits:\n  train: 0.9\n  test: 0.1\n",
    )
    put(
        root / "schema.pbtxt",
        'feature { name: "income" type: FLOAT }\nfeature { name: "city" type: BYTES }\n'
        'feature { name: "visits" type: INT int_domain { min: 0 max: 6 } }\n',
    )
    put(root / "not-utf8.csv", b"x,label\n1,caf\xe9\n2,b\n")
    put(root / "empty.csv", "")
    put(root / "header-only.csv", "x,label\n")
    put(root / "truncated.csv.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\3abc")
    put(root / "bad.parquet", b"PAR1 no parquet PAR1")
    put(root / "photos.tar.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\3abc")
    (root / "empty-folder").mkdir()
    put(root / "fifty", json.dumps(list(range(50))))
