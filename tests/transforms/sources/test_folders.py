import collections
import errno
import os
import pathlib
import pickle
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from recordmill.errors import ConfigError, Reason
from recordmill.storage import storage_errors
from recordmill.storage.files import Location, StorageError
from recordmill.storage.input_files import read_file
from recordmill.transforms.model import batch, limits
from recordmill.transforms.sources.folders import references
from recordmill.transforms.sources.folders.folders import (
    NOT_IMAGES,
    FileTree,
    has_extension,
)
from tests.paths import CLOTHING

KEPT = "; --unlabelled keep allows records without"


def scan(root: str | pathlib.Path | Location, **options: Any) -> tuple[Any, Any, Any]:
    """({key: row}, {key: reject}, filtered) of a tree, put together from its parts."""
    rows, rejects = {}, {}
    filtered: collections.Counter[str] = collections.Counter()
    for listed in FileTree(input=str(root), **options).scan():
        if listed.rows is not None:
            assert listed.rows.schema == references.COLUMNS
            listed.rows.validate(full=True)
            rows.update({row[batch.KEY]: row for row in listed.rows.to_pylist()})
        rejects.update({reject.key: reject for reject in listed.rejects})
        filtered.update(listed.filtered)
    return rows, rejects, dict(filtered)


def fill(root: pathlib.Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("a.txt", True),
        ("a.JSON", True),
        ("a.b.Csv", True),
        ("a.jpg", False),
        ("a.xyz", False),
        ("txt", False),
        (".txt", False),
        ("a.", False),
    ],
)
def test_extensions_in_any_case(name: str, known: bool) -> None:
    assert has_extension(name, NOT_IMAGES) is known


def test_vector_images_are_counted_apart(tmp_path: pathlib.Path) -> None:
    fill(tmp_path, "roses/1.jpg", "roses/2.SVG", "roses/notes.txt")
    rows, rejects, filtered = scan(tmp_path)
    assert (set(rows), rejects) == ({"roses/1.jpg"}, {})
    assert filtered == {"vector image": 1, "extension": 1}
    fill(tmp_path / "all", "a/1.svg", "b/2.svgz")
    with pytest.raises(
        ConfigError, match=r"\(2 left out as vector image\).*SVG is not a raster image"
    ):
        scan(tmp_path / "all")


def test_labels(tmp_path: pathlib.Path) -> None:
    fill(tmp_path, "roses/1.jpg", "roses/deep/er/2", "tulips/3.xyz", "4.jpg", "tulips/notes.txt")
    rows, rejects, filtered = scan(tmp_path)
    assert {key: row[batch.LABEL] for key, row in rows.items()} == {
        "roses/1.jpg": "roses",
        "roses/deep/er/2": "roses",
        "tulips/3.xyz": "tulips",
    }
    assert {row[batch.SPLIT] for row in rows.values()} == {None}
    assert filtered == {"extension": 1}
    assert rejects["4.jpg"].reason == Reason.UNLABELLED
    assert rejects["4.jpg"].detail == f"no label: expected LABEL/FILE{KEPT}"
    status = (tmp_path / "roses/1.jpg").stat()
    row = rows["roses/1.jpg"]
    assert (row[batch.SIZE], row[batch.MTIME]) == (1, status.st_mtime_ns)
    assert read_file(row[batch.PATH], size=1, mtime=status.st_mtime_ns) == b"x"


def test_splits(tmp_path: pathlib.Path) -> None:
    fill(tmp_path, "Train/roses/1", "valid/roses/2", "test/3", ".cache/x/4", "readme.md")
    rows, rejects, filtered = scan(tmp_path)
    found = {key: (row[batch.SPLIT], row[batch.LABEL]) for key, row in rows.items()}
    assert found == {"Train/roses/1": ("train", "roses"), "valid/roses/2": ("validation", "roses")}
    assert rejects["test/3"].detail == f"no label: expected SPLIT/LABEL/FILE{KEPT}"
    assert filtered == {"hidden": 1, "extension": 1}


def test_unlabelled_can_be_kept(tmp_path: pathlib.Path) -> None:
    fill(tmp_path, "test/1", "train/roses/2")
    rows, rejects, _ = scan(tmp_path, unlabelled="keep")
    assert (rows["test/1"][batch.SPLIT], rows["test/1"][batch.LABEL]) == ("test", None)
    assert not rejects


def test_a_flat_folder_has_no_labels(tmp_path: pathlib.Path) -> None:
    fill(tmp_path, "1.jpg", "2.png", ".thumbs/1.jpg")
    rows, rejects, _ = scan(tmp_path)
    assert [row[batch.LABEL] for row in rows.values()] == [None, None]
    assert not rejects


def test_skipped_extensions_are_an_option(tmp_path: pathlib.Path) -> None:
    fill(tmp_path, "1.jpg", "2.mp4")
    assert list(scan(tmp_path)[0]) == ["1.jpg"]
    assert list(scan(tmp_path, leave_out=("jpg",))[0]) == ["2.mp4"]


NAMES = [
    "a b",
    "new\nline",
    "😀",
    "עברית",
    "e\u0301",
    "\u00e9",
    "'\"\\",
    "-rf",
    "%41",
    "a?b=c",
    "*",
]


def test_unusual_names(tmp_path: pathlib.Path) -> None:
    folders = {name: name.replace("\n", " ") for name in NAMES}
    fill(tmp_path, *(f"{folder}/{name}.jpg" for name, folder in folders.items()))
    rows, rejects, filtered = scan(tmp_path)
    assert sorted(rows) == sorted(f"{folder}/{name}.jpg" for name, folder in folders.items())
    assert {row[batch.LABEL] for row in rows.values()} == set(folders.values())
    assert (rejects, filtered) == ({}, {})
    for row in rows.values():
        assert read_file(row[batch.PATH], size=1, mtime=row[batch.MTIME]) == b"x"


@pytest.mark.parametrize("label", ["new\nline", "return\r", "\nx"])
def test_a_class_folder_with_a_line_break_is_rejected(label: str, tmp_path: pathlib.Path) -> None:
    fill(tmp_path, "roses/1.jpg", "roses/new\nline/1.jpg", f"{label}/1.jpg")
    rows, rejects, _ = scan(tmp_path)
    assert sorted(rows) == ["roses/1.jpg", "roses/new\nline/1.jpg"]
    assert {key: (r.reason, r.detail) for key, r in rejects.items()} == {
        f"{label}/1.jpg": (
            Reason.BAD_NAME,
            f"the class name {label!r} contains a line break, but labels.txt has one name per "
            "line: rename the class",
        )
    }


def _bad_name(root: bytes) -> None:
    with open(os.path.join(root, b"roses", b"\xff.jpg"), "wb") as file:
        file.write(b"x")


def _bad_folder_name(root: bytes) -> None:
    os.mkdir(os.path.join(root, b"\xe9t\xe9"))
    with open(os.path.join(root, b"\xe9t\xe9", b"1.jpg"), "wb") as file:
        file.write(b"x")


def _socket(root: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        folder = os.open(os.path.join(root, b"roses"), os.O_RDONLY)
        made.bind(f"/proc/self/fd/{folder}/socket")  # sun_path holds just 108 bytes
        os.close(folder)


def _link(target: str, name: str) -> Callable[[bytes], None]:
    return lambda root: os.symlink(os.fsencode(target), os.path.join(root, name.encode()))


@pytest.mark.parametrize(
    ("make", "key", "reason", "detail"),
    [
        (_bad_name, "roses/\\xff.jpg", Reason.BAD_NAME, "the name is not UTF-8: rename it"),
        (_bad_folder_name, "\\xe9t\\xe9/1.jpg", Reason.BAD_NAME, "the name is not UTF-8: rename"),
        (lambda r: open(r + b"/roses/0", "wb").close(), "roses/0", Reason.EMPTY, "0 bytes"),
        (lambda r: os.mkfifo(r + b"/roses/p"), "roses/p", Reason.UNSUPPORTED, "a pipe: expected"),
        (_socket, "roses/socket", Reason.UNSUPPORTED, "a socket: expected a regular file"),
        (_link("/dev/null", "roses/null"), "roses/null", Reason.UNSUPPORTED, "a device: expected"),
        (_link("gone", "roses/l"), "roses/l", Reason.MISSING, "a symbolic link to a missing file"),
        (_link("self", "roses/self"), "roses/self", Reason.SYMLINK_LOOP, "leads back to itself"),
        (_link("..", "roses/up"), "roses/up", Reason.SYMLINK_LOOP, "leads back to itself"),
        (_link(".", "here"), "here", Reason.SYMLINK_LOOP, "leads back to itself"),
        (_link("..", "above"), "above", Reason.SYMLINK_LOOP, "leads back to itself"),
        (_link("/", "all"), "all", Reason.SYMLINK_LOOP, "leads back to itself"),
    ],
)
def test_unusable_files_are_rejected_once(
    make: Callable[[bytes], None], key: str, reason: Reason, detail: str, tmp_path: pathlib.Path
) -> None:
    fill(tmp_path, "roses/1.jpg")
    make(os.fsencode(tmp_path))
    rows, rejects, filtered = scan(tmp_path)
    assert list(rows) == ["roses/1.jpg"]
    assert [(r.key, r.stage, r.reason) for r in rejects.values()] == [(key, "read", reason)]
    assert detail in rejects[key].detail
    assert filtered == {}


def test_symbolic_links_are_followed(tmp_path: pathlib.Path) -> None:
    fill(tmp_path, "in/roses/1.jpg", "out/2.jpg", "out/3.jpg")
    (tmp_path / "in/tulips").symlink_to(tmp_path / "out")
    (tmp_path / "in/roses/4.jpg").symlink_to("1.jpg")
    rows, rejects, _ = scan(tmp_path / "in")
    assert sorted(rows) == ["roses/1.jpg", "roses/4.jpg", "tulips/2.jpg", "tulips/3.jpg"]
    assert not rejects


def test_a_denied_folder_fails_the_listing_by_name() -> None:
    """Lists as the user nobody, in another process, because root may read everything."""
    script = (
        "import os, sys\n"
        "from recordmill.transforms.sources.folders.folders import FileTree\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "from recordmill.storage.files import PathError\n"
        "try: list(FileTree(input=sys.argv[1]).scan())\n"
        "except PathError as error: print(error)\n"
    )
    with tempfile.TemporaryDirectory() as folder:  # pytest's own can be entered by its owner only
        root = pathlib.Path(folder)
        root.chmod(0o755)
        fill(root, "roses/1.jpg", "secret/2.jpg")
        (root / "secret").chmod(0)
        command = [sys.executable, "-c", script, folder]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        (root / "secret").chmod(0o700)
    assert done.stdout == (
        f"cannot access {root}/secret: permission denied; check its owner, mode or access policy,"
        " then run the same command again\n"
    )


def _fail_listing(monkeypatch: pytest.MonkeyPatch, folder: pathlib.Path, code: int) -> None:
    list_dir = os.listdir

    def listdir(path: str) -> list[str]:
        if path == str(folder):
            raise OSError(code, "whatever")
        return list_dir(path)

    monkeypatch.setattr(os, "listdir", listdir)


@pytest.mark.parametrize(
    ("code", "reason", "detail"),
    [
        (errno.ENOENT, Reason.MISSING, "no such file"),
        (errno.ENAMETOOLONG, Reason.BAD_NAME, "the name is too long for that filesystem"),
    ],
)
def test_a_folder_that_fails_is_rejected(
    code: int, reason: Reason, detail: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, "roses/1.jpg", "bad/2.jpg")
    _fail_listing(monkeypatch, tmp_path / "bad", code)
    rows, rejects, _ = scan(tmp_path)
    assert list(rows) == ["roses/1.jpg"]
    assert (rejects["bad"].reason, rejects["bad"].detail) == (reason, detail)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (errno.EMFILE, "too many open files"),
        (errno.EIO, "input/output error"),
        (errno.ENXIO, "no such device or address"),
    ],
)
def test_a_fault_fails_the_listing(
    code: int, why: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_errors, "PAUSES", ())
    fill(tmp_path, "roses/1.jpg")
    _fail_listing(monkeypatch, tmp_path / "roses", code)
    with pytest.raises(StorageError, match=f"cannot access {tmp_path}/roses: {why}"):
        scan(tmp_path)


def test_bad_options() -> None:
    with pytest.raises(ConfigError, match="--unlabelled: expected one of reject, keep, got 'no'"):
        FileTree(input="/x", unlabelled="no")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="unknown scheme 'ftp'"):
        FileTree(input="ftp://x")


@pytest.mark.parametrize(
    ("names", "root", "message"),
    [
        ((), "gone", "the input {} does not exist: check the path"),
        ((), ".", "found no usable file in {} (it is empty): expected LABEL/FILE"),
        (
            (".x", ".y", "a.txt", "b.CSV", "c.json"),
            ".",
            "found no usable file in {} (3 left out as extension, 2 left out as hidden): expected",
        ),
        (("a.jpg",), "*.png", "no usable file matches {} (no file matches)"),
        (("train/1", "test/2"), ".", "; to use files without label, pass --unlabelled keep"),
    ],
)
def test_unusable_input(
    names: tuple[str, ...], root: str, message: str, tmp_path: pathlib.Path
) -> None:
    fill(tmp_path, *names)
    root = os.path.normpath(tmp_path / root)
    with pytest.raises(ConfigError) as caught:
        scan(root)
    assert message.format(root) in str(caught.value)


def test_a_single_file(tmp_path: pathlib.Path) -> None:
    fill(tmp_path, "roses/a.txt")
    rows, rejects, filtered = scan(tmp_path / "roses/a.txt")
    assert [(key, row[batch.LABEL]) for key, row in rows.items()] == [("a.txt", None)]
    assert not rejects
    assert not filtered


@pytest.mark.parametrize(
    ("pattern", "labels", "left_out"),
    [
        ("*/*", {"roses/1.jpg": "roses", "roses/2.png": "roses", "tulips/3.jpg": "tulips"}, 1),
        ("*/*.jpg", {"roses/1.jpg": "roses", "tulips/3.jpg": "tulips"}, 0),
        ("ro*/*", {"roses/1.jpg": "roses", "roses/2.png": "roses"}, 1),
        ("roses/*", {"1.jpg": None, "2.png": None}, 1),
        ("roses/*.txt", {"notes.txt": None}, 0),
        ("**/?.jpg", {"roses/1.jpg": "roses", "tulips/3.jpg": "tulips"}, 0),
    ],
)
def test_patterns(
    pattern: str, labels: dict[str, str | None], left_out: int, tmp_path: pathlib.Path
) -> None:
    fill(tmp_path, "roses/1.jpg", "roses/2.png", "roses/notes.txt", "tulips/3.jpg")
    rows, rejects, filtered = scan(tmp_path / pattern)
    assert {key: row[batch.LABEL] for key, row in rows.items()} == labels
    assert filtered == ({"extension": left_out} if left_out else {})
    assert not rejects


def test_a_root_that_is_not_utf8(tmp_path: pathlib.Path) -> None:
    fill(tmp_path, "\udcff/1.jpg")
    with pytest.raises(ConfigError, match=r"whose path is UTF-8, got .*/\\xff: rename it"):
        scan(tmp_path / "\udcff")


def test_an_unreadable_root(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scandir(path: str) -> None:
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(ConfigError, match=r"cannot be used: cannot list .*: permission denied"):
        scan(tmp_path)


def test_parts_are_bounded(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REFERENCE_ROWS", 3)
    monkeypatch.setattr(references, "_BLOCK", 2)
    fill(tmp_path, *(f"roses/{i}" for i in range(5)), "loose1", "loose2")
    parts = list(FileTree(input=str(tmp_path)).scan())
    sizes = [(0 if p.rows is None else len(p.rows)) + len(p.rejects) for p in parts]
    assert (max(sizes), sum(sizes)) == (3, 7)
    rows, rejects, _ = scan(tmp_path)
    assert [*rows] == [f"roses/{i}" for i in range(5)]
    assert {*rejects} == {"loose1", "loose2"}


def test_the_source_can_be_pickled() -> None:
    source = FileTree(input="/x")
    assert pickle.loads(pickle.dumps(source)) == source
    assert source.unique_keys


@pytest.mark.parametrize(
    "names",
    [
        [
            "roses/1.jpg",
            "roses/deep/2",
            "4.jpg",
            "tulips/a.txt",
            ".git/a",
            ".git/b",
            "roses/.x/y/z",
        ],
        ["train/roses/1", "val/roses/deep/2", "test/3", "val/.x/1", "test/Thumbs.db", "a b/../c"],
        ["1.jpg", "2.txt", "who?.jpg", "a?b=c", ".x/1", ".x/2"],
    ],
)
def test_object_stores_list_the_same(names: list[str], tmp_path: pathlib.Path) -> None:
    remote = Location.parse(f"mock:///{uuid.uuid4().hex}")
    for name in map(os.path.normpath, names):
        fill(tmp_path, name)
        (remote / name).parent.make_dirs()
        (remote / name).write_bytes(b"x")
    here, there = scan(tmp_path), scan(remote)
    columns = (batch.KEY, batch.LABEL, batch.SPLIT, batch.SIZE)
    for local, stored in zip(here[0].values(), there[0].values(), strict=True):
        assert [local[c] for c in columns] == [stored[c] for c in columns]
    assert here[1:] == there[1:]
    for row in there[0].values():
        assert read_file(row[batch.PATH], size=1, mtime=row[batch.MTIME]) == b"x"


def test_real_images() -> None:
    rows, rejects, filtered = scan(CLOTHING)
    assert (len(rows), rejects, filtered) == (100, {}, {})
    assert len({row[batch.LABEL] for row in rows.values()}) == 10
