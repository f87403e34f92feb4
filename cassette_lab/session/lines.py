"""The lines of a session log, whatever it is packed in: raw text or zstd frames, in blocks, with its torn end told apart.

Source: session logs, Files and bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cassette_lab.errors import FormatError
from cassette_lab.jsonio.text import decode_utf8, is_blank
from cassette_lab.looking import open_regular, unreadable
from cassette_lab.session.frames import MAGIC, FrameError, decode_frame, is_zstd, walk_frame
from cassette_lab.session.locking import held_descriptor
from cassette_lab.session.model import Physical

LINE_LIMIT_BYTES: Final = 1 << 28
"""No line may be longer."""
_SMALLEST_BOMB_BYTES: Final = 1 << 28
_MOST_EXPANSION: Final = 2_000
"""Logs compress 5- to 50-fold."""
_MOST_BLANK_LINES: Final = 1 << 20
_MOST_TRIES: Final = 1 << 10
_MOST_TRIED_BLOCKS: Final = 1 << 12
_MOST_TRIED_BYTES: Final = 1 << 30
_SEARCHED_BYTES: Final = 1 << 16
_WINDOW_BYTES: Final = 1 << 17
_READ_BYTES: Final = 1 << 17
"""Of raw text at once: so much, with what is made of it, stays in a processor's cache."""


class LogFile:
    """Random access to a regular file (or bytes) as large as it was when it was opened. Close it.

    Raises ``FormatError`` for a missing file, a folder, a device, and one that may not be read.
    """

    _descriptor: int | None = None
    _is_borrowed = False
    identity: tuple[int, int] | None = None

    def __init__(self, source: str | Path | bytes, path: str | None = None) -> None:
        self._start, self._window = 0, b""
        if isinstance(source, bytes):
            self.path = path
            self._window = source
            self.size = len(source)
            return
        self.path = str(source) if path is None else path
        borrowed = held_descriptor(source)
        if borrowed is None:
            self._descriptor, facts = open_regular(source, self.path, folder="name a session log in it")
        else:
            self._descriptor, self._is_borrowed, facts = borrowed, True, os.fstat(borrowed)
        self.size = facts.st_size
        self.identity = (facts.st_dev, facts.st_ino)

    def at(self, offset: int, count: int) -> bytes:
        """``count`` bytes from ``offset``; fewer at the end of the file."""
        begin = offset - self._start
        if begin >= 0 and begin + count <= len(self._window):
            return self._window[begin : begin + count]
        if self._descriptor is None:
            return self._window[max(0, begin) : max(0, begin + count)]
        count = max(0, min(count, self.size - offset))
        if count >= _WINDOW_BYTES:
            return self._read(offset, count)
        self._start, self._window = offset, self._read(offset, min(_WINDOW_BYTES, self.size - offset))
        return self._window[:count]

    def close(self) -> None:
        """Close the file; harmless when it is closed."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None and not self._is_borrowed:
            os.close(descriptor)

    def __del__(self) -> None:  # whoever stops in the middle and forgets to close
        self.close()

    def _read(self, offset: int, count: int) -> bytes:
        if self._descriptor is None or count <= 0:
            return b""
        try:
            if self._is_borrowed:  # its position is not ours to move
                return os.pread(self._descriptor, count, offset)
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            parts = []
            while count and (part := os.read(self._descriptor, count)):
                parts.append(part)
                count -= len(part)
        except OSError as error:
            raise FormatError(unreadable(error), path=self.path) from error
        return parts[0] if len(parts) == 1 else b"".join(parts)


class LogLines:
    """The whole lines of a log that are not blank, in order; iterate once. What is behind the last line feed is none.

    ``number`` (from 1), ``frame`` (from 1, None for raw text) and ``end`` say where the last line given stands; ``end`` is
    the offset behind it in the text. After the iteration ``physical`` and ``torn_bytes`` are those of the file, and
    ``broken`` says what is wrong with a frame that is not just torn (the text of the frames before it is
    ``whole_text_bytes`` long).

    Reading can begin at ``start``, an offset in the file where a frame or line begins: ``resume_at`` says where it could
    go on another time (``resume_number`` is the line before that). ``whole_frames_only`` leaves a torn frame alone, for it may
    still be growing.
    """

    def __init__(self, file: LogFile, start: int = 0, *, whole_frames_only: bool = False) -> None:
        self._file = file
        self._at = self.resume_at = start
        self.resume_number = 0
        self._whole_frames_only = whole_frames_only
        self.is_zstd = is_zstd(file.at(0, 4))
        self.number = 0
        self.end = 0
        self.frame: int | None = 0 if self.is_zstd else None
        self.whole_frames = 0
        self.whole_frames_end = start
        self.text_bytes = self.whole_text_bytes = 0
        self.broken: FrameError | None = None
        self._torn_line_bytes = 0
        self._blank_lines = 0
        self._batches = self._read()
        self._given_back: list[bytes] = []

    @property
    def physical(self) -> Physical:
        """The file's physical facts, as far as it has been read."""
        if not self.is_zstd:
            return Physical("jsonl", self._file.size, self.text_bytes, self._torn_line_bytes)
        torn = self._file.size - self.whole_frames_end
        return Physical("zstd", self._file.size, self.text_bytes, self._torn_line_bytes, self.whole_frames, torn)

    @property
    def position(self) -> int:
        """How far the file has been read, in its own bytes; within a zstd frame where that begins."""
        return self._at

    def __iter__(self) -> Iterator[bytes]:
        for batch in self.batches():
            self._step(-len(batch), batch)
            for line in batch:
                self.number += 1
                self.end += len(line) + 1
                if not self.is_blank(line):
                    yield line

    def batches(self) -> Iterator[list[bytes]]:
        """The lines some at a time, blank ones among them; the last one of a batch is then the last line given.

        ``give_back`` what is not used.
        """
        while batch := self._given_back or next(self._batches, []):
            if self._given_back:
                self._given_back = []
                self._step(len(batch), batch)
            yield batch

    def give_back(self, lines: list[bytes]) -> None:
        """The last lines of the batch that was given last: they are the next ones again."""
        self._given_back = lines
        self._step(-len(lines), lines)

    def _step(self, count: int, lines: list[bytes]) -> None:
        self.number += count
        self.end += (sum(map(len, lines)) + len(lines)) * (1 if count > 0 else -1)

    def _read(self) -> Iterator[list[bytes]]:
        carried: list[bytes] = []
        carried_bytes = 0
        for block in self._blocks():
            batch = block.split(b"\n")
            rest = batch.pop()
            if batch:
                if carried:
                    batch[0] = b"".join([*carried, batch[0]])
                    carried, carried_bytes = [], 0
                self.number += len(batch)
                self.end = self.text_bytes - len(rest)
                yield batch
            if rest:
                carried.append(rest)
                carried_bytes += len(rest)
            self._torn_line_bytes = carried_bytes
            if carried_bytes > LINE_LIMIT_BYTES:
                raise FormatError(
                    f"the line is longer than {LINE_LIMIT_BYTES >> 20} MiB; no session log has such a line",
                    path=self._file.path,
                    line=self.number + 1,
                )

    def is_blank(self, line: bytes) -> bool:
        """Whether a line of a batch is blank. Raises ``FormatError`` for a file that is full of such lines."""
        if line[:1] == b"{" or not is_blank(decode_utf8(line)):
            return False
        self._blank_lines += 1
        if self._blank_lines > _MOST_BLANK_LINES:
            raise FormatError("the file is full of blank lines; no session log is", path=self._file.path, line=self.number)
        return True

    def _blocks(self) -> Iterator[bytes]:
        if self.is_zstd:
            yield from self._frame_blocks()
            return
        while self._at < self._file.size and (block := self._file.at(self._at, _READ_BYTES)):
            self._at += len(block)
            self.text_bytes += len(block)
            yield block
            self.resume_at, self.resume_number = self._at - self._torn_line_bytes, self.number

    def _frame_blocks(self) -> Iterator[bytes]:
        while self._at < self._file.size:
            self.frame = self.whole_frames + 1
            try:
                frame = walk_frame(self._file, self._at)
                if frame.end is None and self._whole_frames_only:
                    return
                for block in decode_frame(self._file, frame):
                    self.text_bytes += len(block)
                    self._check_expansion(frame.end or self._file.size)
                    yield block
            except FrameError as error:
                self.broken = error
                return
            if frame.end is None:
                return
            self._at = self.whole_frames_end = frame.end
            self.whole_frames += 1
            self.whole_text_bytes = self.text_bytes
            if not self._torn_line_bytes:
                self.resume_at, self.resume_number = frame.end, self.number

    def _check_expansion(self, compressed_bytes: int) -> None:
        if self.text_bytes > _SMALLEST_BOMB_BYTES and self.text_bytes > compressed_bytes * _MOST_EXPANSION:
            raise FormatError(
                f"the file expands more than {_MOST_EXPANSION:,}-fold; no session log does, so it is not read further",
                path=self._file.path,
            )

    def behind_the_break(self) -> Iterator[bytes]:
        """The lines of whole frames that stand behind the one where the iteration ended: found by their magic bytes.

        Only frames that decode in full count, and only so many places are tried: enough to tell damage from a torn end.
        """
        if not self.is_zstd:
            return
        left = _MOST_TRIED_BYTES
        at = self._at + 1
        for _ in range(_MOST_TRIES):
            found = _find(self._file, MAGIC, at)
            if found is None or left <= 0:
                return
            text, end = self._frame_at(found)
            left -= len(text)
            if end is None:
                at = found + 1
            else:
                at = end
                yield from bytes(text).split(b"\n")[:-1]

    def _frame_at(self, offset: int) -> tuple[bytearray, int | None]:
        """What the bytes at ``offset`` hold, and the end of their frame: None where no whole frame decodes there."""
        text = bytearray()
        try:
            frame = walk_frame(self._file, offset, _MOST_TRIED_BLOCKS)
            if frame.end is not None:
                for block in decode_frame(self._file, frame):
                    text += block
                    if len(text) > LINE_LIMIT_BYTES:
                        return text, None
        except FrameError:
            return text, None
        return text, frame.end


def _find(file: LogFile, needle: bytes, start: int) -> int | None:
    at = start
    while at < file.size:
        block = file.at(at, _SEARCHED_BYTES)
        found = block.find(needle)
        if found >= 0:
            return at + found
        if len(block) < len(needle):
            return None
        at += len(block) - len(needle) + 1
    return None
