"""Concatenated zstd frames, walked by their structure: where each ends, what a torn one still yields.

Decoders that stop after the first frame lose everything but the header of a log, and looking for magic bytes finds them
inside blocks; the block headers say where a frame really ends. Source: RFC 8878; session logs, Files and bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from backports.zstd import ZstdDecompressor

MAGIC: Final = b"\x28\xb5\x2f\xfd"
BLOCK_BYTES: Final = 1 << 20
"""No more is read or decoded at once."""

_SKIPPABLE_LOW, _SKIPPABLE_HIGH = 0x184D2A50, 0x184D2A5F
_DICTIONARY_BYTES: Final = (0, 1, 2, 4)
_SIZE_BYTES: Final = (0, 2, 4, 8)
_RLE, _RESERVED = 1, 3
_LEVEL: Final = 3


class Bytes(Protocol):
    """Random access to a file of known size."""

    @property
    def size(self) -> int:
        """In bytes."""

    def at(self, offset: int, count: int) -> bytes:
        """``count`` bytes from ``offset``; fewer at the end."""


class FrameError(ValueError):
    """A frame that is no zstd, or whose content does not decode."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame's place: ``end`` is the offset behind it, None where the file ends before the frame does."""

    start: int
    end: int | None
    skippable: bool = False


def is_zstd(start: bytes) -> bool:
    """Whether a file that begins so consists of zstd frames."""
    return start.startswith(MAGIC) or (len(start) >= 4 and _is_skippable(start))


def walk_frame(source: Bytes, start: int, most_blocks: int | None = None) -> Frame:
    """The frame at ``start``, without decoding it. Raises ``FrameError`` where there is none (of at most so many blocks)."""
    head = source.at(start, 18)
    if len(head) < 4:
        if not (MAGIC.startswith(head) or head[1:] == b"\x2a\x4d\x18"[: len(head) - 1]):
            raise FrameError("these bytes begin no zstd frame")
        return Frame(start, None)
    if _is_skippable(head):
        end = start + 8 + int.from_bytes(head[4:8], "little")
        return Frame(start, end if len(head) >= 8 and end <= source.size else None, skippable=True)
    if not head.startswith(MAGIC):
        raise FrameError("these bytes begin no zstd frame")
    if len(head) < 5:
        return Frame(start, None)
    flags = head[4]
    single_segment = flags >> 5 & 1
    size_bytes = _SIZE_BYTES[flags >> 6] or single_segment
    at = start + 5 + (1 - single_segment) + _DICTIONARY_BYTES[flags & 3] + size_bytes
    checksum_bytes = 4 if flags & 4 else 0
    blocks = 0
    while True:
        blocks += 1
        if blocks == most_blocks:
            raise FrameError("the zstd frame has too many blocks")
        block = source.at(at, 3)
        if len(block) < 3:
            return Frame(start, None)
        value = int.from_bytes(block, "little")
        kind = value >> 1 & 3
        if kind == _RESERVED:
            raise FrameError("a block of the zstd frame has no known type")
        at += 3 + (1 if kind == _RLE else value >> 3)
        if value & 1:
            at += checksum_bytes
            break
        if at > source.size:
            return Frame(start, None)
    return Frame(start, at if at <= source.size else None)


def decode_frame(source: Bytes, frame: Frame) -> Iterator[bytes]:
    """What a frame holds, in blocks; of a torn one what can still be had.

    Raises ``FrameError`` where a whole frame does not decode (a wrong checksum, too); what came before is given out.
    """
    if frame.skippable:
        return
    decoder, error = _decoder()
    at, end = frame.start, source.size if frame.end is None else frame.end
    try:
        while at < end and not decoder.eof:
            piece = source.at(at, min(BLOCK_BYTES, end - at))
            if not piece:
                break
            at += len(piece)
            text = decoder.decompress(piece, BLOCK_BYTES)
            while True:
                if text:
                    yield text
                if decoder.needs_input or decoder.eof:
                    break
                text = decoder.decompress(b"", BLOCK_BYTES)
    except error as problem:
        if frame.end is None:  # torn: there is no more to be had
            return
        raise FrameError(f"the zstd frame does not decode ({_reason(problem)})") from None
    if frame.end is not None and not decoder.eof:
        raise FrameError("the zstd frame does not decode (it ends too early)")


def decode_one(data: bytes, limit_bytes: int) -> bytes:
    """What the one frame that ``data`` is holds. Raises ``FrameError``, also beyond ``limit_bytes``."""
    decoder, error = _decoder()
    try:
        text = decoder.decompress(data, limit_bytes + 1)
    except error as problem:
        raise FrameError(f"the zstd frame does not decode ({_reason(problem)})") from None
    if len(text) > limit_bytes:
        raise FrameError(f"the zstd frame holds more than {limit_bytes:,} bytes")
    if not decoder.eof or decoder.unused_data:
        raise FrameError("this is not exactly one zstd frame")
    return text


def compress_frame(text: bytes) -> bytes:
    """One frame with a checksum and its content's size, as a batch of lines is written."""
    return FrameWriter().frame(text)


class FrameWriter:
    """Makes a frame of every batch as ``compress_frame`` does, with one context for all of them. For one thread at a time."""

    def __init__(self) -> None:
        zstd = _library()
        options = {zstd.CompressionParameter.checksum_flag: 1, zstd.CompressionParameter.compression_level: _LEVEL}
        self._compressor = zstd.ZstdCompressor(options=options)

    def frame(self, text: bytes) -> bytes:
        """One frame with a checksum and its content's size, which is known as all of it comes at once."""
        frame: bytes = self._compressor.compress(text, self._compressor.FLUSH_FRAME)
        return frame


def _is_skippable(start: bytes) -> bool:
    return _SKIPPABLE_LOW <= int.from_bytes(start[:4], "little") <= _SKIPPABLE_HIGH


def _decoder() -> tuple[ZstdDecompressor, type[Exception]]:
    zstd = _library()
    return zstd.ZstdDecompressor(), zstd.ZstdError


def _library() -> Any:
    """The standard library's zstd where there is one (Python 3.14), else its backport."""
    if sys.version_info >= (3, 14):
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]
    else:
        from backports import zstd
    return zstd


def _reason(error: Exception) -> str:
    """What the library says, without its introduction."""
    return str(error).rpartition(": ")[2] or type(error).__name__
