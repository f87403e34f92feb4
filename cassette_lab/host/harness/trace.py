"""What the plugin tells, kept in a file: events without content, one JSON document a line.

The events are those of a flight recorder's three points of observation (``assemble``, ``request``, ``stream``) and of each
stream (``chunk``, ``done``, ``threw``, ``return``, ``throw-in``). A text is its length; chunks of one type that follow each
other are one event with a ``count``. ``t`` is the runtime's monotonic clock and ``at`` its time of day, both in ms.
``digests`` of a stream's request tell whether another run asked the same.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cassette_lab.errors import FormatError, MissingFileError
from cassette_lab.host.harness.channel import TICK
from cassette_lab.jsonio import JsonObject, JsonSyntaxError, parse

FIRST_LINE: Final[JsonObject] = {"format": "cassette-lab/harness-trace", "version": 1}


class TraceWriter:
    """Appends events; each is in the file when ``add`` returns. Any thread may call it."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._file = path.open("x", encoding="ascii")
        self.add(FIRST_LINE)

    def hear(self, event: JsonObject) -> None:
        """A channel's handler: everything that is told is kept."""
        if event != TICK:
            self.add(event)

    def add(self, event: JsonObject) -> None:
        """One more line; nothing once it is closed."""
        line = json.dumps(event, separators=(",", ":")) + "\n"
        with self._lock:
            if not self._file.closed:
                self._file.write(line)
                self._file.flush()

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            self._file.close()


def read_trace(path: str | Path) -> Iterator[JsonObject]:
    """The events of a trace, in order. A last line without its end is left out: it was being written.

    Raises ``FormatError`` with path and line.
    """
    try:
        with Path(path).open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    return
                event = _event(line, path, number)
                if number == 1 and (event.get("format"), event.get("version")) != (FIRST_LINE["format"], FIRST_LINE["version"]):
                    raise FormatError("this is no trace of a harness that this version reads", path=path, line=1)
                if number > 1:
                    yield event
    except FileNotFoundError:
        raise MissingFileError("there is no such trace", path=path) from None


def _event(line: bytes, path: str | Path, number: int) -> JsonObject:
    try:
        event: Any = parse(line)
    except JsonSyntaxError as error:
        raise FormatError(f"a line of a trace is no JSON ({error})", path=path, line=number) from None
    if not isinstance(event, dict):
        raise FormatError("a line of a trace is no JSON object", path=path, line=number)
    return event
