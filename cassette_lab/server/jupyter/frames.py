"""Frames: JSON and bytes behind their lengths. The worker writes them, the server hands them on, a client reads them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, BinaryIO, Final, TypeAlias

Event: TypeAlias = dict[str, Any]

Tell: TypeAlias = Callable[[Event, bytes], object]
"""Sends one event, with its data."""

_LENGTHS: Final = struct.Struct("<II")


def frame(event: Event, data: bytes = b"") -> bytes:
    """One frame."""
    text = json.dumps(event, separators=(",", ":")).encode("ascii")  # lone surrogates stay escapes
    return _LENGTHS.pack(len(text), len(data)) + text + data


def read_frame(stream: BinaryIO) -> tuple[Event, bytes] | None:
    """The next frame; None where the stream ends, in the middle of one, too."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    text_length, data_length = _LENGTHS.unpack(lengths)
    text, data = stream.read(text_length), stream.read(data_length)
    if len(text) < text_length or len(data) < data_length:
        return None
    event: Event = json.loads(text)
    return event, data
