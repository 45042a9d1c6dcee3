"""The members of tars and zips, against tarfile and zipfile, and hostile archives."""

import io
import json
import pathlib
import random
import re
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.errors import ConfigError, Reason, RecordError, Reject
from recordmill.storage.input_files import InputFile, open_file, read_file
from recordmill.storage.members import Member
from recordmill.storage.redaction import shown
from recordmill.storage.storage_errors import ChangedInputError
from recordmill.transforms.sources.archives import zip_members
from recordmill.transforms.sources.archives.archive_file import ListedMember, MemberProblem
from recordmill.transforms.sources.archives.archive_tree import LabelledMember, MisplacedMember
from recordmill.transforms.sources.archives.label_files import LabelFiles, with_labels
from recordmill.transforms.sources.archives.tar_members import tar_members
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.skipped_names import skipped_among_media
from recordmill.transforms.sources.files.walks import File, WalkItem
from recordmill.transforms.sources.folders.folders import list_files
from recordmill.transforms.sources.folders.path_layout import LayoutRules, lay_out
from tests.archive_files import tar_of, zip_of

FORMS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
TWO = {"a/1": b"one", "b/2": b"two"}


def every(name: str) -> bool:
    return bool(name)


def found_in(path: pathlib.Path) -> list[WalkItem | LabelledMember]:
    (one,) = lay_out(Inputs.of(str(path)), LayoutRules(skip=skipped_among_media, archived=every))
    listed = list_files(one.root, depth=0)
    items = listed if one.archives is None else one.archives.expand(listed)
    return [one.reject if isinstance(one, MisplacedMember) else one for one in items]


def contents(path: pathlib.Path) -> dict[str, bytes]:
    """{key: content}, read in the three ways in which encoders read files"""
    read = {}
    for one in found_in(path):
        assert isinstance(one, File), one
        read[one.key] = read_file(one.path, size=one.size, mtime=one.mtime)
        with open_file(one.path, size=one.size, mtime=one.mtime) as stream:
            assert stream.read() == read[one.key]
            stream.seek(-1, 2)
            assert stream.read() == read[one.key][-1:]
        with InputFile(one.path, size=one.size, mtime=one.mtime) as file:
            assert file.read(1, one.size - 1) == read[one.key][1:]
    return read


def rejects(path: pathlib.Path) -> dict[str, tuple[Reason, str]]:
    found = [one for one in found_in(path) if isinstance(one, Reject)]
    return {one.key: (one.reason, one.detail) for one in found}


@pytest.mark.parametrize("form", FORMS)
def test_a_tar_of_each_form(form, tmp_path):
    names = ["a/short", f"b/{'long/' * 19}x"]
    names += [] if form == "ustar" else [f"b/{'é' * 120}/{'n' * 90}"]
    members = {name: f"content of {name}".encode() * 99 for name in names}
    assert contents(tar_of(tmp_path / "x.tar", members, form=FORMS[form])) == members


@given(
    st.dictionaries(st.text("abé/", min_size=1, max_size=120), st.binary(min_size=1), max_size=9)
)
def test_tars_are_listed_as_tarfile_lists_them(members):
    stream = io.BytesIO()
    members = {f"x/{name}z".replace("//", "/"): data for name, data in members.items()}
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in members.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        expected = [(one.name, one.offset_data, one.size) for one in archive]
    assert listed(stream.getvalue()) == expected


def listed(data: bytes) -> list[tuple[str, int, int]]:
    class Reader:
        size = len(data)
        name = "x.tar"

        def read(self, offset: int, length: int) -> bytes:
            return data[offset : offset + length]

    found: Iterator = tar_members(Reader())
    return [(one.name, one.offset, one.size) for one in found if isinstance(one, ListedMember)]


def test_a_size_of_8_gib_and_more_is_binary(tmp_path):
    header = tarfile.TarInfo("a/large")
    header.size = 1 << 35
    (tmp_path / "x.tar").write_bytes(header.tobuf(tarfile.GNU_FORMAT) + bytes(512))
    found = rejects(tmp_path / "x.tar")
    assert found["a/large"] == (Reason.TRUNCATED, "the archive ends inside the file")


@pytest.mark.parametrize("kind", [b"0", b"x", b"L"])
def test_a_negative_size_leads_to_no_loop(kind):
    header = bytearray(tarfile.TarInfo("a").tobuf(tarfile.GNU_FORMAT))
    header[124:136], header[156:157] = b"-0000001000\0", kind
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    assert listed(bytes(header) * 3) == []


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_of_each_method(method, tmp_path):
    members = {"a/1": bytes(70_000), "b/é": random.Random(1).randbytes(70_000)}
    path = zip_of(tmp_path / "x.zip", members, method=method)
    assert contents(path) == members
    path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())  # a program that unpacks itself
    assert contents(path) == members


def test_a_zip_of_64_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    members = {f"a/{n}": bytes([n]) * 300 for n in range(5)}
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(content)
    assert b"PK\x06\x06" in path.read_bytes()
    assert contents(path) == members


def test_names_from_windows_and_absolute_ones(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("a/1", "/b/2"):
            archive.writestr(name, name)
        header = zipfile.ZipInfo("x")
        header.filename, header.create_system = "c\\3", 0
        archive.writestr(header, "c3")
    assert sorted(contents(path)) == ["a/1", "b/2", "c/3"]


def zip_by_backslash(path: pathlib.Path, members: dict[str, bytes]) -> pathlib.Path:
    """A zip whose names are kept as they are, as of a program that is not for DOS."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            header = zipfile.ZipInfo("x")
            header.filename, header.create_system = name, 3
            archive.writestr(header, content)
    return path


def test_backslashes_separate_folders_if_no_name_has_a_slash(tmp_path):
    members = {"a\\": b"", "a\\1": b"one", "b\\c\\2": b"two", "C:\\d\\3": b"three", "4": b"four"}
    path = zip_by_backslash(tmp_path / "x.zip", members)
    assert contents(path) == {"a/1": b"one", "b/c/2": b"two", "C:/d/3": b"three", "4": b"four"}
    path = zip_by_backslash(tmp_path / "y.zip", {"a/": b"", "a\\1": b"one"})
    assert contents(path) == {"a/1": b"one"}
    path = zip_by_backslash(tmp_path / "z.zip", {"a\\1": b"one", "b/2": b"two"})
    assert contents(path) == {"a\\1": b"one", "b/2": b"two"}


def test_backslashes_lead_out_of_no_archive(tmp_path):
    path = zip_by_backslash(tmp_path / "x.zip", {"a\\1": b"one", "..\\..\\etc\\passwd": b"x"})
    key = "x.zip: ../../etc/passwd"
    assert rejects(path) == {
        key: (Reason.BAD_NAME, "the name has a part '..', which may lead out of the archive")
    }
    path = zip_by_backslash(tmp_path / "y.zip", {"a\\1": b"one", "b\\..\\a\\1": b"x"})
    assert [*rejects(path)] == ["y.zip: b/../a/1"]
    path = zip_by_backslash(tmp_path / "z.zip", {"a\\1": b"one", "\\a\\1": b"x", "\\\\b\\2": b"y"})
    assert {key: reason for key, (reason, _) in rejects(path).items()} == {"a/1": Reason.BAD_NAME}


def test_names_that_lead_out_are_rejected(tmp_path):
    for path in (
        tar_of(tmp_path / "x.tar", {**TWO, "../../etc/passwd": b"x"}),
        zip_of(tmp_path / "x.zip", {**TWO, "../../etc/passwd": b"x"}),
    ):
        key = f"{path.name}: ../../etc/passwd"
        assert rejects(path) == {
            key: (Reason.BAD_NAME, "the name has a part '..', which may lead out of the archive")
        }


def test_names_that_are_none(tmp_path):
    path = tar_of(tmp_path / "x.tar", {**TWO, "": b"x", ".": b"y"})
    assert {one.key for one in found_in(path) if isinstance(one, File)} == {*TWO}
    assert {reason for reason, _ in rejects(path).values()} == {Reason.BAD_NAME}


def special(name: str, kind: bytes) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, "/etc/passwd"
    return header


def test_links_and_devices_are_rejected_and_never_followed(tmp_path):
    kinds = {"s": b"2", "h": b"1", "c": b"3", "b": b"4", "p": b"6", "rest": b"M", "sparse": b"S"}
    others = [special(f"a/{name}", kind) for name, kind in kinds.items()]
    found = rejects(tar_of(tmp_path / "x.tar", TWO, others=[*others, special("b/dir", b"5")]))
    assert {key: reason for key, (reason, _) in found.items()} == {
        f"a/{name}": Reason.UNSUPPORTED for name in kinds
    }
    assert found["a/s"][1] == "a symbolic link, which is not followed"


def test_labels_of_volumes_and_lists_of_folders_are_no_files(tmp_path):
    """`tar -V` writes such a label, and `tar -g` such lists, which have data."""
    with tarfile.open(tmp_path / "x.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(special("label", b"V"))
        header = special("a/", b"D")
        header.size = 7
        archive.addfile(header, io.BytesIO(b"Y1\0Y2\0\0"))
        for name, content in TWO.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    assert contents(tmp_path / "x.tar") == TWO


def test_a_link_in_a_zip(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a/1", "x")
        header = zipfile.ZipInfo("a/link")
        header.create_system, header.external_attr = 3, 0o120777 << 16
        archive.writestr(header, "/etc/passwd")
    assert rejects(tmp_path / "x.zip") == {
        "a/link": (Reason.UNSUPPORTED, "a link or a device, which is not followed")
    }


def test_each_file_of_a_repeated_name_is_rejected(tmp_path):
    tar_of(tmp_path / "1.tar", TWO)
    tar_of(tmp_path / "2.tar", {"./b//2": b"other", "c/3": b"x"})
    found = [one for one in found_in(tmp_path) if isinstance(one, Reject)]
    assert [(one.key, one.reason) for one in found] == [("b/2", Reason.BAD_NAME)] * 2
    said = "several files in the archives have this path, this one at byte {} of {}: keep one of"
    for one, place in zip(found, ((1536, "1.tar"), (512, "2.tar")), strict=True):
        assert said.format(*place) in one.detail


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_cut_archive(kind, tmp_path):
    write = tar_of if kind == "tar" else zip_of
    data = write(tmp_path / f"x.{kind}", {"a/1": b"1" * 600, "b/2": b"2" * 600}).read_bytes()
    whole = {"a/1", "b/2"}
    for length in range(0, 3500 if kind == "tar" else len(data), 97):
        (tmp_path / f"x.{kind}").write_bytes(data[:length])
        try:
            found = found_in(tmp_path / f"x.{kind}")
        except ConfigError:
            continue
        assert any(isinstance(one, Reject) for one in found)
        assert {one.key for one in found if isinstance(one, File)} <= whole


@given(st.data())
def test_a_damaged_archive_gives_rejects_or_an_error(data):
    kind = data.draw(st.sampled_from(["tar", "zip"]))
    stream = io.BytesIO()
    if kind == "tar":
        with tarfile.open(fileobj=stream, mode="w") as tar:
            for name in ("a/1", "b/é"):
                header = tarfile.TarInfo(name)
                header.size = 9
                tar.addfile(header, io.BytesIO(b"123456789"))
    else:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a/1", "1" * 99)
            archive.writestr("b/é", "2" * 99)
    raw = bytearray(stream.getvalue()[:4096])
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"x.{kind}"
        path.write_bytes(raw)
        try:
            found = found_in(path)
        except ConfigError:
            return
        for one in found:
            if isinstance(one, File):
                try:
                    got = read_file(one.path, size=one.size, mtime=one.mtime)
                except RecordError:
                    continue
                assert len(got) == one.size


def changed(path: pathlib.Path, old: bytes, new: bytes) -> pathlib.Path:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))
    return path


def read_all(path: pathlib.Path) -> list[str]:
    """The messages of members that cannot be read."""
    said = []
    for one in found_in(path):
        assert isinstance(one, File)
        for read in (read_file, lambda *a, **k: open_file(*a, **k).close()):
            try:
                read(one.path, size=one.size, mtime=one.mtime)
            except RecordError as error:
                said.append(error.detail)
    return said


def test_a_wrong_crc_is_a_reject(tmp_path):
    path = zip_of(tmp_path / "x.zip", {"a/1": b"content", "b/2": b"x"})
    assert (
        read_all(changed(path, b"content", b"cOntent"))
        == ["its CRC-32 is not the one that the archive declares"] * 2
    )


def test_a_member_never_inflates_beyond_its_declared_size(tmp_path):
    """A bomb that declares 9 bytes for 64 MiB."""
    bomb = bytes(64 << 20)
    path = zip_of(tmp_path / "x.zip", {"a/1": bomb, "b/2": b"x"}, method=zipfile.ZIP_DEFLATED)
    changed(path, struct.pack("<L", len(bomb)), struct.pack("<L", 9))
    assert read_all(path) == ["its size is not the 9 bytes that the archive declares"] * 2


def test_a_large_compressed_member_is_rejected_by_its_header(tmp_path, monkeypatch):
    monkeypatch.setattr(zip_members, "MOST_INFLATED", 1000)
    members = {"a/1": bytes(1001), "b/2": b"x"}
    path = zip_of(tmp_path / "x.zip", members, method=zipfile.ZIP_DEFLATED)
    reason, said = rejects(path)["a/1"]
    assert reason == Reason.TOO_LARGE
    assert said.startswith("1001 bytes, and compressed files of more than 1000 are not inflated")
    assert not rejects(zip_of(path, members))


def test_members_that_overlap_are_refused(tmp_path):
    """Many entries of a directory that all name the same bytes."""
    path = zip_of(tmp_path / "x.zip", {"a/1": random.Random(1).randbytes(5000)})
    data = path.read_bytes()
    place = data.index(b"PK\x01\x02")
    entry = data[place : data.index(b"PK\x05\x06")]
    end = struct.pack("<4sHHHHLLH", b"PK\x05\x06", 0, 0, 50, 50, 50 * len(entry), place, 0)
    path.write_bytes(data[:place] + 50 * entry + end)
    assert (
        all_rejects(path)[-49:]
        == [("x.zip", "the archive is damaged: its files overlap; 49 files are not listed")] * 49
    )


def all_rejects(path: pathlib.Path) -> list[tuple[str, str]]:
    """Return key and reason of every reject of an archive."""
    return [(one.key, one.detail) for one in found_in(path) if isinstance(one, Reject)]


def test_every_file_that_the_directory_of_a_zip_does_not_show_is_a_reject(tmp_path):
    path = zip_of(tmp_path / "x.zip", {f"a/{number}": b"x" for number in range(9)})
    data = path.read_bytes()
    starts = [one.start() for one in re.finditer(rb"PK\x01\x02", data)]
    at = starts[4]
    path.write_bytes(data[:at] + b"XXXX" + data[at + 4 :])
    text = f"the archive is damaged: its directory is damaged at byte {at}; 5 files are not listed"
    assert all_rejects(path) == [("x.zip", text)] * 5
    # An entry whose place is outside of the archive.
    path.write_bytes(data[: at + 42] + struct.pack("<L", 1 << 30) + data[at + 46 :])
    assert all_rejects(path) == [
        ("a/4", "its place is outside of the archive: the directory is damaged")
    ]
    for declared, lost in ((11, 2), (8, 1)):
        changed = bytearray(data)
        end = data.index(b"PK\x05\x06")
        changed[end + 8 : end + 12] = struct.pack("<HH", declared, declared)
        path.write_bytes(changed)
        text = f"the archive is damaged: it declares {declared} files, its directory has 9"
        text += "; 2 files are not listed" if lost == 2 else ""
        assert all_rejects(path) == [("x.zip", text)] * lost


def test_encrypted_members_and_unknown_methods_are_rejected(tmp_path):
    path = zip_of(tmp_path / "x.zip", {"a/1": b"x", "b/2": b"y"})
    data = bytearray(path.read_bytes())
    first = data.index(b"PK\x01\x02")
    data[first + 8] |= 1
    second = data.index(b"PK\x01\x02", first + 1)
    data[second + 10] = 14
    path.write_bytes(data)
    assert rejects(path) == {
        "a/1": (Reason.UNSUPPORTED, "an encrypted file: pack it again without a password"),
        "b/2": (
            Reason.UNSUPPORTED,
            "compressed by method 14: pack it again, stored or deflated",
        ),
    }


def test_an_archive_that_changes_after_it_was_listed(tmp_path):
    path = tar_of(tmp_path / "x.tar", TWO)
    one, _ = found_in(path)
    assert isinstance(one, File)
    tar_of(path, {**TWO, "c/3": bytes(20_000)})
    for read in (read_file, open_file):
        with pytest.raises(ChangedInputError, match=r"x\.tar changed while the job ran"):
            read(one.path, size=one.size, mtime=one.mtime)


def test_references():
    member = Member("/a b/x.zip", 1 << 40, 1 << 33, 5, 9, "deflated", 7, "é/1,2.jpg")
    assert Member.of(member.reference) == member
    assert Member.of("/a b/x.zip") is None
    assert shown(member.reference) == "/a b/x.zip: é/1,2.jpg"


def test_inflating_checks_the_end_of_the_stream():
    data = zlib.compress(b"12345", wbits=-15)
    member = Member("x.zip", 99, 0, len(data), 5, "deflated", zlib.crc32(b"12345"), "a")
    assert member.content(data) == b"12345"
    with pytest.raises(RecordError, match=r"invalid deflate data|no end|not the 5 bytes"):
        member.content(data[:-2])


@pytest.mark.parametrize(
    ("rule", "content", "expected"),
    [
        (".cls", b"3\n", "3"),
        (".cls", b"\xef\xbb\xbf caf\xc3\xa9 ", "café"),
        (".cls", b" \n", None),
        (".cls", b"\xff", "its .cls is not UTF-8"),
        (".cls", b"a\0b", "its .cls has a class with a zero byte"),
        (".cls", b"x" * 4096, "x" * 4096),
        (".cls", b"x" * 5000, "its .cls has a class with 5000 characters: it is no name"),
        (".json:a", b'{"a": "\\u0000x"}', "its .json has a class with a zero byte"),
        (".json:a", b'{"a": "x", "b": 1}', "x"),
        (".json:a", b'{"a": 7}', "7"),
        (".json:a", b'{"b": 7}', None),
        (".json:a", b'{"a": null}', None),
        (".json:a", b'{"a": true}', "true"),
        (".json:a.b", b'{"a": {"b": "x"}, "c": 1}', "x"),
        (".json:a.b", b'{"a": {"b": "x"}, "a.b": "y"}', "y"),
        (".json:a.b.c", b'{"a": 1, "a.b": {"c": "x"}}', "x"),
        (".json:a.b", b'{"a": {"bytes": 1, "c": 2}}', None),
        (".json:a.b", b'{"a": {"b": null}}', None),
        (
            ".json:a",
            b'{"a": {"b": 1, "c": 2}}',
            "its .json has no text or number in the field 'a', but an object with 'a.b', 'a.c':"
            " name one of these",
        ),
        (".json:a", b"[1]", "its .json has no text or number in the field 'a'"),
        (".json:a", b"{", "its .json is not JSON"),
        (".json:a", '{"a": "bär"}'.encode("latin-1"), "its .json is not UTF-8"),
        (".json:a", b"[" * 100_000, "its .json is not JSON"),
        (".json:a", b'{"a": "\\ud800"}', "its .json has a class with an unpaired surrogate"),
    ],
)
def test_the_class_in_a_file_beside_a_record(rule, content, expected):
    files = LabelFiles.parse(rule)
    assert files is not None
    if expected is None or not expected.startswith("its"):
        assert files.read(content) == expected
    else:
        with pytest.raises(RecordError) as caught:
            files.read(content)
        assert caught.value.detail == expected


@pytest.mark.parametrize(
    ("rule", "content", "expected"),
    [
        (".cls", b" ", "a class in its .cls, which is blank"),
        (".json:a", b'{"a": ""}', "a class in the field 'a' of its .json, which is blank or null"),
        (".json:a.b", b"{}", "a class in the field 'a.b' of its .json, which has no fields"),
        (
            ".json:nosuch",
            b'{"label": 1, "meta": {"q": 2, "r": {"s": 1}}}',
            "a class in the field 'nosuch' of its .json, which has 'label', 'meta.q', 'meta.r'",
        ),
    ],
)
def test_the_missing_class_of_a_file_beside_a_record(rule, content, expected):
    files = LabelFiles.parse(rule)
    assert files is not None
    assert files.read(content) is None
    assert files.expected(content) == expected


def test_other_values_of_label_from_are_no_files():
    assert [LabelFiles.parse(one) for one in ("top", "parent", r"(\w+)", ".(x)", ".")] == [None] * 5


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("1.jpg", "1.json"), "1.json"),
        (("1.jpg", "1.json", "1.meta.json"), "1.json"),
        (("1.meta.json", "1.jpg"), "1.meta.json"),
        (("1.JSON", "1.a.json", "1.jpg"), "1.JSON"),
        (("1.jpg", "1.json", "1.json"), "such as '1.json' and '1.json'"),
        (("1.jpg", "1.json", "1.JSON"), "such as '1.json' and '1.JSON'"),
        (("1.a.jpg", "1.a.json", "1.b.jpg", "1.b.json"), "such as '1.a.json' and '1.b.json'"),
    ],
)
def test_a_record_takes_its_class_from_one_file(names, expected):
    """With several files nothing says which class is meant: all files of the record have none."""
    rule = LabelFiles("json", "a")
    members = [ListedMember(name, 0, 9, 9, "tar", 0) for name in names]
    read = {name: json.dumps({"a": name}).encode() for name in names}
    found = with_labels(
        iter(members),
        rule,
        read=lambda one: read[one.name],
        usable=lambda name: name.endswith("jpg"),
    )
    images = [one for one in found if one.name.endswith("jpg")]
    if expected in names:
        assert [one.label for one in images if isinstance(one, ListedMember)] == [expected]
        return
    assert len(images) == sum(name.endswith("jpg") for name in names)
    for one in images:
        assert isinstance(one, MemberProblem)
        assert one.reason == Reason.BAD_VALUE
        assert "several .json files belong to it" in one.detail
        assert expected in one.detail
