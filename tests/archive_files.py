"""Archives of folders for tests, and members that `tar` and `zip` do not write."""

import io
import pathlib
import tarfile
import zipfile
from collections.abc import Iterable, Mapping


def tar_of(
    path: pathlib.Path,
    members: Mapping[str, bytes],
    *,
    form: int = tarfile.PAX_FORMAT,
    others: Iterable[tarfile.TarInfo] = (),
) -> pathlib.Path:
    """others: members without content, such as links."""
    with tarfile.open(path, "w", format=form) as archive:
        for name, content in members.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
        for header in others:
            archive.addfile(header)
    return path


def zip_of(
    path: pathlib.Path, members: Mapping[str, bytes], *, method: int = zipfile.ZIP_STORED
) -> pathlib.Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def files_in(folder: pathlib.Path) -> dict[str, bytes]:
    """{path inside the folder: content}"""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
