"""Files that are made to harm the process that reads them."""

import pathlib


def deep_columns(path: pathlib.Path, levels: int = 20_000) -> None:
    """Write a Parquet file without rows, whose only column is nested deeply."""
    group, column = b"\x48\1a\x15\2\0", b"\x15\2\x25\2\x18\1a\0"
    schema = b"\x19\xfc" + _varint(levels + 1) + group * levels + column
    footer = b"\x15\2" + schema + b"\x16\0\x19\x0c\0"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def _varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])
