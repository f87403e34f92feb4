"""The files of a directory of vectors: any of them may be left out, and a cassette may be packed."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cassette_lab.jsonio import parse


def vectors(path: Path) -> list[dict[str, Any]]:
    """The vectors of one JSON file; none where there is no such file."""
    found: list[dict[str, Any]] = parse(path.read_bytes()) if path.is_file() else []
    return found


def file_bytes(path: Path) -> bytes:
    """The bytes of ``path``, or of ``path`` packed as ``path.gz``."""
    packed = path.with_name(f"{path.name}.gz")
    return gzip.decompress(packed.read_bytes()) if packed.is_file() and not path.exists() else path.read_bytes()


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """``path``, or an unpacked copy where there is only ``path.gz``; ``path``, too, where there is neither."""
    if path.exists() or not path.with_name(f"{path.name}.gz").is_file():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="cassette-unpacked-") as folder:
        copy = Path(folder, path.name)
        copy.write_bytes(file_bytes(path))
        yield copy
