"""The bytes of a cassette file, line by line in blocks: what can go wrong before any rule of the format is looked at."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

from cassette_lab.errors import FormatError
from cassette_lab.looking import open_regular, unreadable

FIRST_BLOCK_BYTES: Final = 1 << 14
"""Enough for a header, which many readers only want."""
BLOCK_BYTES: Final = 1 << 20
LINE_LIMIT_BYTES: Final = 1 << 29
"""No line may be longer: the format's other readers cannot hold such a text either."""
_HINTS: Final = {
    "missing": "check the name, or record it first",
    "folder": "name a cassette file in it",
    "other": "save the cassette to a file first",
}
CHANGED_WHILE_READ: Final = "the file changed while it was read; read it again when whoever writes it has finished"


class Source:
    r"""Lines split at ``\r?\n``, with their physical numbers from 1, of a regular file or of bytes.

    A file is read up to the size it had when it was opened, and must not have changed when its end is reached. Iterate
    once. Raises ``FormatError`` for a missing file, a folder, a device, one that may not be read, and a line beyond
    ``LINE_LIMIT_BYTES``. Also closed when it is dropped.
    """

    _descriptor: int | None = None

    def __init__(self, source: str | Path | bytes, *, path: str | Path | None = None) -> None:
        self.line_end = 0
        self.lines = 0
        self.size_bytes = 0
        self.ends_with_newline = False
        self._sha256 = hashlib.sha256()
        self._data = b""
        if isinstance(source, bytes):
            self.path = None if path is None else str(path)
            self._data = source
            return
        self.path = str(source if path is None else path)
        self._descriptor, self._facts = open_regular(source, self.path, **_HINTS)

    @property
    def sha256(self) -> str:
        """Digest of the bytes read so far."""
        return "sha256:" + self._sha256.hexdigest()

    def close(self) -> None:
        """Close the file; harmless when it is closed."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:  # whoever stops in the middle and forgets to close
        self.close()

    def refuse(self, sentence: str) -> NoReturn:
        """Raise a ``FormatError`` about the file as a whole."""
        raise FormatError(sentence, path=self.path)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        carried: list[bytes] = []
        carried_bytes = 0
        for block in self._blocks():
            *whole, rest = block.split(b"\n")
            for part in whole:
                if carried:
                    carried.append(part)
                    part = b"".join(carried)  # noqa: PLW2901 - the line of which this part is the end
                    carried, carried_bytes = [], 0
                self.lines += 1
                self.line_end += len(part) + 1
                yield self.lines, part[:-1] if part.endswith(b"\r") else part
            if rest:
                carried.append(rest)
                carried_bytes += len(rest)
                if carried_bytes > LINE_LIMIT_BYTES:
                    raise FormatError(
                        "the line is longer than 512 MiB; no cassette has such a line", path=self.path, line=self.lines + 1
                    )
        last = b"".join(carried)
        self.ends_with_newline = self.lines > 0 and not last
        if last:
            self.lines += 1
            self.line_end += len(last)
            yield self.lines, last

    def _blocks(self) -> Iterator[bytes]:
        if self._descriptor is None:
            self._sha256.update(self._data)
            self.size_bytes = len(self._data)
            yield self._data
            return
        left = self._facts.st_size
        while left:
            try:
                block = os.read(self._descriptor, min(left, BLOCK_BYTES if self.size_bytes else FIRST_BLOCK_BYTES))
            except OSError as error:
                raise FormatError(unreadable(error), path=self.path) from error
            if not block:
                break
            left -= len(block)
            self._sha256.update(block)
            self.size_bytes += len(block)
            yield block
        facts = os.fstat(self._descriptor)
        if (facts.st_size, facts.st_mtime_ns) != (self._facts.st_size, self._facts.st_mtime_ns):
            self.refuse(CHANGED_WHILE_READ)


def blocks_of(path: Path, size_bytes: int) -> Iterator[bytes]:
    """The first ``size_bytes`` of a file in blocks (fewer where it has become shorter)."""
    descriptor, _ = open_regular(path, **_HINTS)
    try:
        left = size_bytes
        while left and (block := os.read(descriptor, min(left, BLOCK_BYTES))):
            left -= len(block)
            yield block
    finally:
        os.close(descriptor)
