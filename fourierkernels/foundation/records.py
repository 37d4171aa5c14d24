"""Records of finished work: JSON lines with checksums, each whole and on the disk, or absent.

What a crash leaves half written is cut off when a file is read again; a line that was damaged later
is known by its checksum.
"""

import json
import os
import zlib
from typing import Any


def record_line(record: dict[str, Any], *, nan: bool = False) -> bytes:
    """Return a record as one JSON line that ends with the checksum of the rest.

    Parameters
    ----------
    nan : bool
        Whether it may have numbers that JSON does not have; Python reads them.

    Raises
    ------
    ValueError
        If it has some and may not.

    Examples
    --------
    >>> read_record(record_line({"key": 1})[:-1])["key"]
    1
    """
    text = json.dumps(record, allow_nan=nan)
    return f'{text[:-1]}, "crc32": "{zlib.crc32(text.encode()):08x}"}}\n'.encode()


def read_record(line: bytes) -> dict[str, Any] | None:
    """Return the record of a line without its end, or None if it is none or damaged."""
    text, mark, check = line.rpartition(b', "crc32": "')
    if not mark or check != f'{zlib.crc32(text + b"}"):08x}"}}'.encode():
        return None
    record = json.loads(text + b"}")
    return record if isinstance(record, dict) else None


def whole_lines(content: bytes) -> bytes:
    """Return content without what follows its last end of line."""
    return content[: content.rfind(b"\n") + 1]


def append_line(file: int, line: bytes) -> None:
    """Append a line to an open file and force it to the disk; the file is as it was on failure.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    size = os.fstat(file).st_size
    try:
        written = 0
        while written < len(line):
            written += os.write(file, line[written:])
        os.fsync(file)
    except OSError:
        os.ftruncate(file, size)
        raise
