"""Server-sent events from bytes that arrive in pieces of any size. Source: WHATWG HTML, Server-sent events, Parsing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_EVENT_BYTES: Final = 8 << 20


class EventTooLargeError(ValueError):
    """An event, or a line, has more bytes than it may."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its name (``message`` where it has none), and its data, the lines joined by a line feed."""

    name: str
    data: str


class EventParser:
    """Takes the bytes of a stream, gives its events. An event without its empty line at the end is none.

    Lines end with LF, CR or CRLF, wherever the pieces are cut; comments (``: ping``) and unknown fields are passed over.
    """

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._is_start = True
        self._after_cr = False
        self._line = bytearray()
        self._name = ""
        self._data: list[bytes] = []
        self._data_bytes = 0

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """The events that this piece completes. Raises ``EventTooLargeError``; the parser is of no use after that."""
        events: list[ServerEvent] = []
        if not piece:
            return events
        if self._after_cr and piece[:1] == b"\n":  # the second half of a line end
            piece = piece[1:]
        start = 0
        for end in _LINE_END.finditer(piece):
            self._extend(piece[start : end.start()])
            start = end.end()
            line = bytes(self._line)
            self._line.clear()
            self._take(line, events)
        self._after_cr = piece[-1:] == b"\r"
        self._extend(piece[start:])
        return events

    def _extend(self, part: bytes) -> None:
        if len(self._line) + len(part) + self._data_bytes > self._max_event_bytes:
            raise EventTooLargeError(f"an event has more than {self._max_event_bytes} bytes")
        self._line += part

    def _take(self, line: bytes, events: list[ServerEvent]) -> None:
        if self._is_start:
            self._is_start = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            if self._data:
                events.append(ServerEvent(self._name or "message", b"\n".join(self._data).decode("utf-8", "replace")))
            self._name, self._data, self._data_bytes = "", [], 0
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._data_bytes += len(value) + 1
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")


_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
