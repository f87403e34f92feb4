"""A picture in few bytes, for notebooks keep it, and charts have few colours: PNG with a palette instead of all colours."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, Final

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_COLOURS: Final = 64
_OPAQUE: Final = (8, 6)  # eight bits, red green blue alpha: what the drawing engine writes
_SUB: Final = 1
"""Each byte is stored as its difference to the one a pixel before; the only filter the engine uses."""


def with_palette(png: bytes) -> bytes:
    """The same picture with at most 64 colours: the most frequent ones, others by the nearest of them.

    What is not a picture as the drawing engine makes it (see-through, or filtered otherwise) comes back as it is.
    """
    import numpy as np

    chunks = list(_chunks(png))
    width, height, *kind = struct.unpack(">IIBB", chunks[0][1][:10])
    rows = np.frombuffer(zlib.decompress(b"".join(data for name, data in chunks if name == b"IDAT")), np.uint8)
    if tuple(kind) != _OPAQUE:
        return png
    rows = rows.reshape(height, -1)
    pixels = np.cumsum(rows[:, 1:].reshape(height, width, 4), axis=1, dtype=np.uint8)
    if (rows[:, 0] != _SUB).any() or (pixels[..., 3] != 255).any():
        return png
    palette, places = _palette(pixels)
    lines = np.concatenate([np.zeros((height, 1), np.uint8), places.reshape(height, width)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", header), (b"PLTE", palette.tobytes()), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(name, data) for name, data in parts)


def width_of(png: bytes) -> int:
    """How wide a PNG is, in pixels."""
    width: int = struct.unpack_from(">I", png, len(_SIGNATURE) + 8)[0]
    return width


def _palette(pixels: Any) -> tuple[Any, Any]:
    """Colours as rows of red, green, blue, and for every pixel the number of its colour."""
    import numpy as np

    wide = pixels.astype(np.uint32)
    packed = (wide[..., 0] << 16 | wide[..., 1] << 8 | wide[..., 2]).reshape(-1)
    colours, places, counts = np.unique(packed, return_inverse=True, return_counts=True)
    rgb = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1).astype(np.int32)
    kept = np.sort(np.argsort(-counts, kind="stable")[:_COLOURS])
    nearest = np.array([int(((rgb[kept] - each) ** 2).sum(axis=1).argmin()) for each in rgb], np.uint8)
    return rgb[kept].astype(np.uint8), nearest[places.reshape(-1)]


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += length + 12


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
