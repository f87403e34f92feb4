"""Ranges of a cassette's lines: where a file is cut, how rows of ranges become rows of the file, and that it stays the same."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from cassette_lab.cassette.scan.blocks import BLOCK_BYTES
from cassette_lab.cassette.scan.part import Part
from cassette_lab.cassette.source import CHANGED_WHILE_READ
from cassette_lab.errors import FormatError

_PIECE_BYTES: Final = 1 << 16


@contextmanager
def unchanged(file: io.FileIO, path: str | Path) -> Iterator[int]:
    """The file's size; on the way out ``FormatError`` if the file is no longer the same."""
    before = os.fstat(file.fileno())
    try:
        yield before.st_size
    finally:
        after = os.fstat(file.fileno())
        if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise FormatError(CHANGED_WHILE_READ, path=path) from None


def cuts(file: io.FileIO, start: int, stop: int, *, first_bytes: int | None = None) -> list[int]:
    """``start``, ``stop`` and between them positions where lines begin, at most a block apart unless a line is long.

    ``first_bytes`` makes the first range about as short as that.
    """
    found = [start]
    size = BLOCK_BYTES if first_bytes is None else first_bytes
    while found[-1] + size < stop:
        at = found[-1] + max(size - _PIECE_BYTES, 1)
        file.seek(at)
        while (line_end := (piece := file.read(_PIECE_BYTES)).find(b"\n")) < 0 and piece:
            at += len(piece)
        found.append(at + line_end + 1 if piece else stop)
        size = BLOCK_BYTES
    return found if found[-1] == stop else [*found, stop]


def numbered(part: Part, first_line: int) -> pa.Table:
    """The part's rows, with lines numbered from the file's start."""
    table = pa.Table.from_batches(part.batches)
    line = table.schema.get_field_index("line")
    return table.set_column(line, table.field(line), pc.add(table.column(line), first_line - 1))
