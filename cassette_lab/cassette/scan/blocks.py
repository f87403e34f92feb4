r"""Bytes of a file in blocks of whole lines, and the structure of a block: lines, quotes, and lines out of the ordinary.

All of it is found by a few passes over the whole block, none of them per line. A structural quote is one that opens or
closes a JSON string, so not behind a backslash. A line is *odd* when it holds something that canonical JSON does not
(or that this tier does not judge): broken UTF-8, a control character, an escape other than the short ones and ``\u00``.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cassette_lab.cassette.source import LINE_LIMIT_BYTES

BLOCK_BYTES: Final = 4 << 20
"""Small enough for the processor's caches, large enough that a pass costs more than its call."""

MARGIN_BYTES: Final = 128
"""Bytes behind a block that may be read (never judged), so that no comparison runs over the end of the buffer."""

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class DoubtError(Exception):
    """Something the fast load may not judge: the exact reader has to say what this file is."""


class Block:
    """A run of lines that are not empty, in a buffer that the next block will use again.

    ``starts`` and ``stops`` are their byte positions (line breaks excluded), ``lines`` their numbers within the block
    from 1, ``odd`` which ones this tier leaves to the next, ``quotes`` the positions of all structural quotes,
    ``first_quotes`` the index there of each line's first one. ``line_count`` counts empty lines too.
    """

    def __init__(self, buffer: bytearray, size: int, scratch: Mask | None = None) -> None:
        """``buffer[:size]`` ends with a line feed; at least ``MARGIN_BYTES`` follow. ``scratch`` is as long, for reuse."""
        self.buffer = buffer
        self.size = size
        self.bytes = np.frombuffer(buffer, np.uint8)
        content = self.bytes[:size]
        mask = np.empty(size, np.bool_) if scratch is None else scratch[:size]
        controls = np.flatnonzero(np.less(content, 0x20, out=mask))
        kinds = content[controls]
        breaks = controls if (kinds == _LF).all() else controls[kinds == _LF]
        self.line_count = len(breaks)
        starts = np.concatenate(([0], breaks[:-1] + 1))
        stops = breaks
        odd = np.zeros(len(breaks), np.bool_)
        if len(breaks) < len(controls):
            before_break = content[np.maximum(breaks - 1, 0)] == _CR
            before_break &= breaks > starts
            stops = breaks - before_break
            stray = controls[(kinds != _LF) & ~((kinds == _CR) & (content[controls + (controls + 1 < size)] == _LF))]
            odd[np.searchsorted(breaks, stray)] = True
        if not buffer.isascii():
            self._mark_broken_utf8(starts, stops, odd)
        self.has_escapes = b"\\" in buffer
        escapes = self._escapes(breaks, odd, mask) if self.has_escapes else breaks[:0]
        np.equal(content, _QUOTE, out=mask)
        mask[escapes + 1] = False
        mask[size - 1] = True  # a last one, so that there is always a next quote
        self.quotes: Positions = np.flatnonzero(mask)
        lines = np.flatnonzero(stops > starts)
        self.lines: Positions = lines + 1
        self.starts: Positions = starts[lines]
        self.stops: Positions = stops[lines]
        self.odd: Mask = odd[lines]
        self.first_quotes: Positions = np.searchsorted(self.quotes, self.starts)

    def fixed(self, width: int) -> npt.NDArray[np.bytes_]:
        """Every ``width`` bytes of the buffer as one array element, by their start; no copy."""
        return np.ndarray((len(self.buffer) - width + 1,), f"S{width}", self.buffer, 0, (1,))

    def equal(self, text: bytes, at: Positions) -> Mask:
        """At which of the positions ``text`` stands."""
        words, masks = _words(text)
        every = np.ndarray((len(self.buffer) - words.nbytes + 1,), f"V{words.nbytes}", self.buffer, 0, (1,))
        found = every[np.minimum(at, len(every) - 1)].view(np.uint64).reshape(-1, len(words))
        result: Mask = (found[:, 0] & masks[0]) == words[0]
        for number in range(1, len(words)):
            result &= (found[:, number] & masks[number]) == words[number]
        return result

    def line(self, row: int) -> bytes:
        """The bytes of one line."""
        return bytes(self.buffer[self.starts[row] : self.stops[row]])

    def _mark_broken_utf8(self, starts: Positions, stops: Positions, odd: Mask) -> None:
        offsets = pa.py_buffer(np.array([0, self.size], np.int64))
        try:
            pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, pa.py_buffer(self.buffer)]).cast(pa.large_string())
        except pa.ArrowInvalid:
            for row, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
                try:
                    self.buffer[start:stop].decode()
                except UnicodeDecodeError:
                    odd[row] = True

    def _escapes(self, breaks: Positions, odd: Mask, mask: Mask) -> Positions:
        """Where an escape begins. Lines with an escape that canonical JSON does not have are odd."""
        backslashes = np.flatnonzero(np.equal(self.bytes[: self.size], _BACKSLASH, out=mask))
        if not len(backslashes):
            return backslashes
        # Of a run of backslashes the first, third, … begin an escape.
        begins_run = np.empty(len(backslashes), np.bool_)
        begins_run[0] = True
        np.not_equal(backslashes[1:] - 1, backslashes[:-1], out=begins_run[1:])
        if not begins_run.all():
            number = np.arange(len(backslashes))
            in_run = number - np.maximum.accumulate(np.where(begins_run, number, 0))
            backslashes = backslashes[in_run & 1 == 0]
        unusual = backslashes[~_SHORT_ESCAPE[self.bytes[backslashes + 1]]]
        if len(unusual):
            right = self.equal(b"u00", unusual + 1) & _CONTROL_CODE[self.bytes[unusual + 4], self.bytes[unusual + 5]]
            odd[np.searchsorted(breaks, unusual[~right])] = True
        return backslashes


def read_blocks(file: io.FileIO, start: int, stop: int) -> Iterator[Block]:
    """The blocks of ``file`` from ``start``, where a line begins, to ``stop``, where one ends. Use each before the next."""
    buffer, scratch = _spare.pop() if _spare else _new_buffer(BLOCK_BYTES)
    try:
        while start < stop:
            file.seek(start)
            got = _fill(file, buffer, min(len(buffer) - MARGIN_BYTES - 1, stop - start))
            if not got:
                raise DoubtError
            size = buffer.rfind(b"\n", 0, got) + 1
            if start + got == stop and size < got:
                buffer[got] = _LF
                size = got + 1
            if size:
                start += size
                yield Block(buffer, size, scratch)
            elif len(buffer) > LINE_LIMIT_BYTES:
                raise DoubtError
            else:
                buffer, scratch = _new_buffer(2 * len(buffer))
    finally:
        if not _spare and len(buffer) < 2 * BLOCK_BYTES:
            _spare.append((buffer, scratch))


_spare: list[tuple[bytearray, Mask]] = []
"""A buffer for the next file: making one takes about as long as looking at one."""


def _new_buffer(size: int) -> tuple[bytearray, Mask]:
    buffer = bytearray(size + 1 + MARGIN_BYTES)
    return buffer, np.empty(len(buffer), np.bool_)


def _fill(file: io.FileIO, buffer: bytearray, size: int) -> int:
    view = memoryview(buffer)[:size]
    got = 0
    while got < size and (more := file.readinto(view[got:])):
        got += more
    return got


@lru_cache(maxsize=256)
def _words(text: bytes) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """A text as eight-byte words, and masks of which bytes of the words count."""
    size = -(-len(text) // 8) * 8
    return np.frombuffer(text.ljust(size, b"\0"), np.uint64), np.frombuffer((b"\xff" * len(text)).ljust(size, b"\0"), np.uint64)


_LF, _CR, _QUOTE, _BACKSLASH = 0x0A, 0x0D, 0x22, 0x5C

_SHORT_ESCAPE = np.zeros(256, np.bool_)
_SHORT_ESCAPE[list(b'"\\bfnrt')] = True

_CONTROL_CODE = np.zeros((256, 256), np.bool_)
for _code in set(range(0x20)) - set(b"\b\f\n\r\t"):
    _CONTROL_CODE[tuple(b"%02x" % _code)] = True
