"""Files as bytes, those that gzip has packed unpacked while they are read."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import BinaryIO

from labeled_traces.trace import TraceError

SUFFIX = ".gz"
_GZIP = b"\x1f\x8b"
_OTHERS = {b"PK\x03\x04": "zip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}
"""First bytes -> what packed the file."""


def is_gzip(path: Path) -> bool:
    """By its first bytes. Raises: OSError."""
    return path.is_file() and _start(path).startswith(_GZIP)


def open_bytes(path: Path, buffering: int) -> gzip.GzipFile | BinaryIO:
    """The file to read, without its packing by gzip. Raises: OSError; TraceError, for one that something else packed.

    What is read of damaged gzip raises EOFError, OSError or zlib.error.
    """
    start = _start(path) if path.is_file() else b""
    if other := next((name for mark, name in _OTHERS.items() if start.startswith(mark)), None):
        raise TraceError(
            f"{path}: is compressed ({other}): accepted are plain files and those of gzip; unpack it first"
        )
    return gzip.open(path, "rb") if start.startswith(_GZIP) else path.open("rb", buffering=buffering)


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(6)
