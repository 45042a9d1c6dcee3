"""Files with captions and the names of their images: lines of text, or a field of JSON.

They are beside the images, or in a folder such as `captions` beside a folder of images.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from recordmill.errors import ConfigError, RecordError
from recordmill.option_names import option_name
from recordmill.storage.input_files import read_ahead, read_file
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import CAPTIONS_FIELD, Annotated, Indices
from recordmill.transforms.sources.annotations.formats.annotation_table import AnnotationReader
from recordmill.transforms.sources.annotations.formats.captions import SCHEMA, with_sides
from recordmill.transforms.sources.archives.label_files import field_of
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import is_utf8
from recordmill.transforms.sources.folders.folders import NOT_IMAGES, FileTree
from recordmill.transforms.sources.folders.path_matcher import path_to_match
from recordmill.transforms.sources.folders.role_folders import folder_of_captions, folder_of_masks
from recordmill.transforms.sources.folders.split_lists import SplitLists

_REFERENCE = (batch.PATH, batch.SIZE, batch.MTIME)
_LONGEST = 1 << 20  # most bytes of a file
_SHOWN = 60  # characters of a value in a message


@dataclasses.dataclass(frozen=True, kw_only=True)
class CaptionFiles:
    """Files of captions, beside the images or in other folders; calling it lists them.

    Attributes:
      inputs: The inputs that hold images and captions: folders, patterns or archives.
      extension: Extension of the files, in lower case.
      field: Field of JSON; None if lines of text are captions.
      optional: Whether a file may have no caption.
    """

    inputs: Inputs
    extension: str
    field: str | None
    optional: bool

    @property
    def where(self) -> str:
        """The files, for messages."""
        return f".{self.extension} files"

    def __call__(self) -> AnnotationReader:
        """List the files.

        Raises:
          ConfigError: There are none.
        """
        lists = SplitLists.of(self.inputs)
        inputs = dataclasses.replace(
            self.inputs,
            label_from="top",
            group_from=None,
            key_from=None,
            column_from={},
            split_files={},
        )
        tree = FileTree(
            input=dataclasses.replace(inputs, split_from="none", split_map={}),
            unlabelled="keep",
            leave_out=tuple(one for one in NOT_IMAGES if one != self.extension),
            labelled=False,
        )
        if tree.has_archives:  # names may repeat in those of several splits
            tree = dataclasses.replace(tree, input=inputs)
        files: list[tuple[str, int, int]] = []
        inside: set[str] = set()  # names of folders in the inputs
        for part in tree.scan():
            if part.rows is not None:
                columns = (part.rows[name].to_pylist() for name in (batch.KEY, *_REFERENCE))
                for key, path, size, mtime in zip(*columns, strict=True):
                    if not path.lower().endswith(f".{self.extension}"):
                        continue
                    if lists is None or not lists.is_list(path):
                        files.append((path, size, mtime))
                        inside.update(key.split("/")[:-1])
        if not files:
            raise ConfigError(
                f"{option_name('captions_from')}: found no .{self.extension} file in {self.inputs};"
                " files of captions have the names of the images, and are beside them or in a"
                " folder such as captions beside images: pass the folder that holds both"
            )
        names = [path_to_match(path)[: -len(self.extension) - 1] for path, _, _ in files]
        folders = _folders_of_captions(inside)
        common = posixpath.commonpath(names).split("/")[: -1 if len(names) == 1 else None]
        alone = next((n for n, one in enumerate(common) if folders.get(one) == ""), None)
        return _CaptionReader(
            names=["/".join(name.split("/")[alone:]) for name in names],
            folders=folders,
            folder=None if alone is None else common[alone],
            folder_is_known=True,
            files=files,
            field=self.field,
            optional=self.optional,
        )


def _folders_of_captions(names: Iterable[str]) -> Mapping[str, str]:
    """Return {folder of captions: folder of its images}, as `AnnotationReader.folders`.

    These folders have usual names for captions; if there are none, usual names for labels.
    """
    names = sorted(names)
    for folder_of in (folder_of_captions, folder_of_masks):
        found = {name: of for name in names if (of := folder_of(name)) is not None}
        if found:
            return found
    return {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _CaptionReader(AnnotationReader):
    """Reader of files of captions.

    Attributes:
      files: Path, size and time of each.
      field: As in `CaptionFiles`.
      optional: As in `CaptionFiles`.
    """

    files: Sequence[tuple[str, int, int]]
    field: str | None
    optional: bool

    @property
    def fields(self) -> pa.Schema:
        return SCHEMA

    def read(self, which: Indices) -> Annotated:
        found: list[list[str]] = []
        faults: dict[int, str] = {}
        files = [self.files[at] for at in which.tolist()]
        short = [(path if size <= _LONGEST else None, size, mtime) for path, size, mtime in files]
        for row, (path, size, mtime) in enumerate(read_ahead(files, short)):
            name = path_to_match(path).rpartition("/")[2]
            found.append([])
            try:
                if size > _LONGEST:
                    limit = f"more than the limit of {_LONGEST:,} for captions"
                    raise ValueError(f"it has {size:,} bytes, {limit}")
                found[row] = self._captions(read_file(path, size=size, mtime=mtime))
                if not found[row] and not self.optional:
                    where = f" in the field {self.field!r}" if self.field else ""
                    raise ValueError(f"no caption{where}")
            except RecordError as error:
                faults[row] = f"{name}: {error.detail}"
            except ValueError as error:
                faults[row] = f"{name}: {error}"
        return Annotated(columns=with_sides(pa.array(found, CAPTIONS_FIELD.type)), faults=faults)

    def _captions(self, content: bytes) -> list[str]:
        """Return the captions in a file: its lines, or a text or texts in a field of JSON.

        Raises:
          ValueError: It is not UTF-8 or JSON, or the field holds something else.
        """
        try:
            text = content.decode("utf-8-sig")
            document = None if self.field is None else json.loads(text)
        except UnicodeDecodeError as error:
            raise ValueError("not UTF-8") from error
        except (ValueError, RecursionError) as error:
            raise ValueError("not JSON") from error
        if self.field is None:
            return [line.strip() for line in text.splitlines() if line.strip()]
        value = field_of(document, self.field)
        texts = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(one, str) and is_utf8(one) for one in texts):
            shown = repr(value)[:_SHOWN]
            raise ValueError(
                f"expected a text or a list of texts in the field {self.field!r}, got {shown}"
            )
        return [one.strip() for one in texts if one.strip()]
