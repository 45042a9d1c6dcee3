"""Identification of the content of a file by its first bytes, for messages.

Errors and rejects name the content of a file that cannot be read as its name or an option says.
Readers do not depend on this module: they recognize the formats that they read.

Sources: the specifications of the formats, and the signatures of file(1),
https://github.com/file/file/tree/master/magic/Magdir.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from recordmill.errors import Reason, RecordError

HEAD = 4096  # bytes of a file that `identify` needs at most
_TEXT_HEAD = 512  # bytes that are searched for control characters, which text does not have
_DISTINCT = 5  # bytes of a signature from which on text does not begin with it by chance
_BLANK = b"\xef\xbb\xbf \t\r\n"
_CONTROL = frozenset(range(9)) | frozenset(range(14, 27)) | frozenset(range(28, 32))

LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_HTML = re.compile(rb"(<\?xml[^>]*>\s*)?(?><!--.*?-->\s*)*+<(!doctype html|html)\b", re.I | re.S)
_SVG = re.compile(rb"<(svg|!DOCTYPE svg|(\?xml|!).*<svg)\b", re.DOTALL)
_XML = re.compile(rb"<\?xml\b")
_ARFF = re.compile(rb"([ \t\r]*(%[^\n]*)?\n)*+[ \t]*@relation\b", re.IGNORECASE)
_JSON = re.compile(rb"\[\s*[\[{]|\{\s*[\"}]")
_OFFICE = re.compile(rb"PK\x03\x04.{26}(\[Content_Types\]\.xml|_rels/|docProps/|xl/|word/)", re.S)
_OPEN_DOCUMENT = b"mimetypeapplication/vnd.oasis.opendocument."
_NUMPY = re.compile(rb"PK\x03\x04.{26}[^/\0]{0,200}\.npy", re.DOTALL)

TAR = "a tar archive"
_JSON_DOCUMENT = "a JSON document"
_XML_DOCUMENT = "an XML document, such as an error response of a server"
_DECOMPRESS = "decompress it"
_AS_ROWS = "export it as CSV or Parquet"
_AS_IMAGE = "convert it to JPEG or PNG"
_AS_SOUND = "convert it to WAV or FLAC"
# Extensions of the content that readers of rows support, by its noun.
_EXTENSIONS = {
    "gzip-compressed data": (".gz", ".tgz"),
    "bzip2-compressed data": (".bz2",),
    "xz-compressed data": (".xz",),
    "zstd-compressed data": (".zst",),
    "a zip archive": (".zip",),
    "a Parquet file": (".parquet", ".pq"),
    "an Arrow file": (".arrow", ".feather", ".ipc"),
    "an Avro file": (".avro",),
    _JSON_DOCUMENT: (".json", ".jsonl", ".ndjson"),
    _XML_DOCUMENT: (".xml",),
}
_COMPRESSED = (
    "gzip-compressed data",
    "bzip2-compressed data",
    "xz-compressed data",
    "zstd-compressed data",
)


class Content(NamedTuple):
    """Content of a file.

    Attributes:
      noun: Name with an article, such as "a PDF".
      advice: What to do if the file cannot be read; "" if there is no advice.
      kind: `text` if a reader of plain text may accept it, `image` for raster images, `media` for
        audio and video, `compressed` for a file that is compressed as a whole.
    """

    noun: str
    advice: str = ""
    kind: Literal["text", "image", "media", "compressed", "other"] = "other"

    @property
    def is_json(self) -> bool:
        """True if it begins as JSON does, of which some is rows, lists or annotations."""
        return self.noun == _JSON_DOCUMENT

    def is_named(self, name: str) -> bool:
        """Return whether the name of a file has the extension of this content."""
        return name.lower().endswith(_EXTENSIONS.get(self.noun, ()))

    def __str__(self) -> str:
        return self.noun + (f": {self.advice}" if self.advice else "")


HEIC = Content(
    "a HEIC image, which is not supported",
    f"{_AS_IMAGE}, for example with heif-convert",
    kind="image",
)
_JPEG_XL = Content("a JPEG XL image", f"{_AS_IMAGE}, for example with djxl", kind="image")
_RAW = Content("a raw image of a camera", _AS_IMAGE, kind="image")
_SIGNATURES: dict[bytes, Content] = {
    b"\x1f\x8b": Content("gzip-compressed data", _DECOMPRESS, "compressed"),
    b"BZh": Content("bzip2-compressed data", _DECOMPRESS, "compressed"),
    b"\xfd7zXZ\0": Content("xz-compressed data", _DECOMPRESS, "compressed"),
    b"\x28\xb5\x2f\xfd": Content("zstd-compressed data", _DECOMPRESS, "compressed"),
    b"\x04\x22\x4d\x18": Content("lz4-compressed data", _DECOMPRESS, "compressed"),
    b"\xff\x06\0\0sNaPpY": Content("snappy-compressed data", _DECOMPRESS, "compressed"),
    b"7z\xbc\xaf\x27\x1c": Content("a 7z archive", "unpack it"),
    b"Rar!\x1a\x07": Content("a RAR archive", "unpack it"),
    b"PK\x03\x04": Content("a zip archive", "unpack it"),
    b"PK\x05\x06": Content("a zip archive without files"),
    # Tables
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": Content("a file of Microsoft Office 97", _AS_ROWS),
    b"PAR1": Content("a Parquet file", "name it .parquet"),
    b"ARROW1": Content("an Arrow file", "name it .arrow"),
    b"FEA1": Content("a Feather file of version 1", "write it as version 2"),
    b"Obj\x01": Content("an Avro file", "name it .avro"),
    b"ORC": Content("an ORC file", "write it as Parquet"),
    b"SQLite format 3\0": Content("an SQLite database", _AS_ROWS),
    b"<stata_dta>": Content("a Stata file", _AS_ROWS),
    b"$FL2@(#)": Content("an SPSS file", _AS_ROWS),
    b"$FL3@(#)": Content("an SPSS file", _AS_ROWS),
    bytes(12) + b"\xc2\xea\x81\x60": Content("a SAS file", _AS_ROWS),
    b"RDX": Content("an R data file", _AS_ROWS),
    # Arrays
    b"\x93NUMPY": Content("a NumPy array", "name it .npy"),
    b"\x89HDF\r\n\x1a\n": Content("an HDF5 file", "name it .h5"),
    b"CDF\x01": Content("a classic NetCDF file", "convert it to NetCDF-4 with nccopy -k nc4"),
    b"CDF\x02": Content("a classic NetCDF file", "convert it to NetCDF-4 with nccopy -k nc4"),
    b"CDF\x05": Content("a classic NetCDF file", "convert it to NetCDF-4 with nccopy -k nc4"),
    b"MATLAB 5.0 MAT-file": Content("a MATLAB file older than version 7.3", "save it with -v7.3"),
    # Documents
    b"%PDF-": Content("a PDF"),
    b"{\\rtf": Content("a document in RTF"),
    # Images
    b"\xff\xd8\xff": Content("a JPEG image", kind="image"),
    b"\x89PNG\r\n\x1a\n": Content("a PNG image", kind="image"),
    b"GIF87a": Content("a GIF image", kind="image"),
    b"GIF89a": Content("a GIF image", kind="image"),
    b"BM": Content("a BMP image", kind="image"),
    b"II*\0": Content("a TIFF image", kind="image"),
    b"MM\0*": Content("a TIFF image", kind="image"),
    b"\xff\x0a": _JPEG_XL,
    b"\0\0\0\x0cJXL \r\n\x87\n": _JPEG_XL,
    b"8BPS": Content("a Photoshop document", _AS_IMAGE, kind="image"),
    b"gimp xcf": Content("a GIMP document", _AS_IMAGE, kind="image"),
    b"\x76\x2f\x31\x01": Content("an OpenEXR image", _AS_IMAGE, kind="image"),
    b"#?RADIANCE": Content("a Radiance HDR image", _AS_IMAGE, kind="image"),
    b"SIMPLE  =": Content("a FITS file", _AS_IMAGE, kind="image"),
    b"DDS ": Content("a DDS texture", _AS_IMAGE, kind="image"),
    b"FUJIFILMCCD-RAW": _RAW,
    # Audio and video
    b"NIST_1A": Content(
        "a NIST SPHERE file", f"{_AS_SOUND}, for example with sph2pipe", kind="media"
    ),
    b"fLaC": Content("a FLAC file", kind="media"),
    b"OggS": Content("an Ogg file", kind="media"),
    b"ID3": Content("an MP3 file", kind="media"),
    b".snd": Content("an AU file", kind="media"),
    b"caff": Content("a CAF file", kind="media"),
    b"MThd": Content("a MIDI file, which holds notes instead of samples", kind="media"),
    b"#!AMR": Content("an AMR file", _AS_SOUND, kind="media"),
    b"\x1a\x45\xdf\xa3": Content("a Matroska or WebM video", kind="media"),
    b"FLV\x01": Content("an FLV video", kind="media"),
}
_FIRST_BYTES = {signature[:1] for signature in _SIGNATURES}
_RIFF = {b"WAVE": "a WAV file", b"AVI ": "an AVI video", b"WEBP": "a WebP image"}
_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx")  # brands of files with HEVC


def identify(head: bytes) -> Content | None:
    """Return the content of a file by its first bytes (`HEAD` are enough), None if unknown."""
    return _text_kind(head.lstrip(_BLANK)) or _package(head) or _signed(head) or _marked(head)


def not_compressed(name: str, head: bytes) -> Content | None:
    """Return the content of a file that is not compressed as its name says; None for others.

    Args:
      name: Name of the file.
      head: First bytes of the file.
    """
    noun = next((one for one in _COMPRESSED if name.lower().endswith(_EXTENSIONS[one])), None)
    content = identify(head)
    if noun is None or not head or (content is not None and content.noun == noun):
        return None
    stem, _, extension = name.rpartition(".")
    if content is not None and not content.is_named(stem):
        return None
    is_text = _CONTROL.isdisjoint(head[:_TEXT_HEAD])
    return Content(f"not {noun}", f"name it without .{extension}" if is_text else "")


def unknown_media(expected: str, head: bytes) -> RecordError:
    """Return the error for a file that no decoder can open.

    Args:
      expected: "audio" or "a video".
      head: First bytes of the file.
    """
    content = identify(head)
    if content is None:
        why = f"not {expected}: the format is unknown or not allowed"
    elif content.kind != "media":
        why = f"not {expected}, but {content}"
    else:
        why = str(content) if content.advice else f"{content} that cannot be opened"
    return RecordError(Reason.UNSUPPORTED, why)


def _text_kind(text: bytes) -> Content | None:
    """Return the content of a text. text: without leading white space."""
    if text.startswith(LFS_POINTER):
        return Content("a Git LFS pointer instead of the file itself", "run git lfs pull")
    if _HTML.match(text):
        advice = "download the file again"
        return Content("an HTML page, such as an error page of a server", advice, kind="text")
    if _SVG.match(text):
        advice = "convert it to pixels, for example to PNG"
        return Content("an SVG, which is not a raster image", advice, kind="text")
    if _XML.match(text):
        return Content(_XML_DOCUMENT, kind="text")
    if _ARFF.match(text):
        return Content("an ARFF file", _AS_ROWS, kind="text")
    if _JSON.match(text):
        return Content(_JSON_DOCUMENT, kind="text")
    return None


def _signed(head: bytes) -> Content | None:
    """Return the content of a file that begins with a signature."""
    if head[:1] not in _FIRST_BYTES:
        return None
    has_control = not _CONTROL.isdisjoint(head[:_TEXT_HEAD])
    for signature, content in _SIGNATURES.items():
        if head.startswith(signature) and (has_control or len(signature) >= _DISTINCT):
            return content
    return None


def _package(head: bytes) -> Content | None:
    """Return the content of a zip archive that is a document or holds arrays."""
    if not head.startswith(b"PK\x03\x04"):
        return None
    if _OFFICE.match(head):
        excel = "an Excel workbook" if b"xl/" in head else "a document of Microsoft Office"
        return Content(excel, _AS_ROWS)
    if head.startswith(_OPEN_DOCUMENT, 30):
        return Content("an OpenDocument file", _AS_ROWS)
    return Content("a NumPy archive", "name it .npz") if _NUMPY.match(head) else None


def _marked(head: bytes) -> Content | None:
    """Return the content of a file whose signature is not at its beginning, or not fixed."""
    if head[:4] in (b"RIFF", b"RF64"):
        return Content(_RIFF[head[8:12]], kind="media") if head[8:12] in _RIFF else None
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return Content("an AIFF file", kind="media")
    if head[4:8] == b"ftyp":
        brands = {head[at : at + 4] for at in range(8, min(int.from_bytes(head[:4]), 64), 4)}
        if b"avif" in brands:
            return Content("an AVIF image", kind="image")
        if not brands.isdisjoint(_HEIC_BRANDS):
            return HEIC
        if b"crx " in brands:
            return _RAW
        return Content("an MP4 or QuickTime file", kind="media")
    if head[257:262] == b"ustar":
        return Content(TAR, "unpack it")
    if head[128:132] == b"DICM":
        return Content("a DICOM file", _AS_IMAGE)
    if head[:1] == b"\x80" and head[1:2] in b"\2\3\4\5" and len(head) > 2:
        return Content("probably a pickle, which is never read")
    if head and not any(head):
        return Content("nothing but zero bytes, as after an interrupted copy", "copy it again")
    return None
