"""Flight records in a file that only grows: one line each when a request begins and when it ends.

Whatever happens to the process, what was written before stays readable: lines are written whole, a torn last one does not
count. Files are bounded: a full one is renamed to ``NAME.1``, that one to ``NAME.2``, and the last one goes. Writing is put off
to the event loop's next turn, so that nobody who makes a request waits for a disk. Threads may share a writer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import stat
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from cassette_lab.errors import CassetteLabError, ConfigError, FormatError, LockedError
from cassette_lab.flight.model import FlightRecord, Outcome, RecordExtra
from cassette_lab.jsonio import JsonObject
from cassette_lab.jsonio.text import show

FORMAT: Final = "cassette_lab.flights"
VERSION: Final = 1
HEADER: Final = {"format": FORMAT, "version": VERSION}
DEFAULT_MAX_BYTES: Final = 16 * 1024 * 1024
DEFAULT_KEEP: Final = 3

_log: Final = logging.getLogger("cassette_lab.flight")


class FlightWriter:
    """Appends records to ``path``, which is made, or gone on with.

    ``max_bytes`` is how large a file may get before the next one is begun, ``keep`` how many full ones stay, ``fsync`` whether
    every write waits for the disk. Raises ``ConfigError`` for options that cannot be and a file that cannot be opened,
    ``FormatError`` for one that holds something else, ``LockedError`` where another writer is at it.
    A write that fails ends the writing, with a warning in the log ``cassette_lab.flight``; see ``failure``.
    """

    def __init__(
        self, path: str | Path, *, max_bytes: int = DEFAULT_MAX_BYTES, keep: int = DEFAULT_KEEP, fsync: bool = False
    ) -> None:
        if type(max_bytes) is not int or type(keep) is not int or max_bytes < 1 or keep < 0:
            raise ConfigError("max_bytes is a number of bytes from 1 on, keep a number of files from 0 on", path=path)
        self.path = Path(path)
        self.failure: OSError | CassetteLabError | None = None
        self._max_bytes, self._keep, self._fsync = max_bytes, keep, fsync
        self._lines: list[JsonObject | FlightRecord] = []
        self._due_on: asyncio.AbstractEventLoop | None = None
        self._file: int | None = None
        self._step = threading.RLock()
        try:
            self._open()
        except (OSError, ValueError) as error:  # the latter for a path with a null character
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"the flight log cannot be opened ({reason})", path=path) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether nothing is written any more."""
        return self._file is None

    def add(self, record: FlightRecord) -> None:
        """Write a record as it is now, soon."""
        self._later(record)

    def settle(self, record_id: str, outcome: Outcome, extra: RecordExtra) -> None:
        """Write how a record ended that is not at hand any more."""
        self._later({"settled": record_id, "outcome": outcome.to_json(), "extra": extra.to_json()})

    def flush(self) -> None:
        """Write what is to be written, now."""
        with self._step:
            self._due_on = None
            lines, self._lines = self._lines, []
            if self._file is not None:
                self._write_lines(lines)

    def close(self) -> None:
        """Write what is to be written, and let go of the file. Twice is once."""
        with self._step:
            self.flush()
            self._close()

    def _later(self, line: JsonObject | FlightRecord) -> None:
        with self._step:
            if self._file is None:
                return
            self._lines.append(line)
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                self.flush()
                return
            if self._due_on is not loop:
                self._due_on = loop
                loop.call_soon(self.flush)

    def _write_lines(self, lines: list[JsonObject | FlightRecord]) -> None:
        batch = b""
        try:
            for line in lines:
                data = _encoded(line)
                if self._size + len(batch) + len(data) > self._max_bytes and self._size + len(batch) > self._empty:
                    self._write(batch)
                    batch = b""
                    self._rotate()
                batch += data
            self._write(batch)
        except (OSError, CassetteLabError) as error:
            self.failure = error
            _log.warning("the flight log %s is not written any more: %s", show(str(self.path)), error)
            self._close()

    def _open(self) -> None:
        file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        try:
            _check_ordinary(file, self.path)
            _lock(file, self.path)
            self._size = _whole_lines(file, self.path)
            os.ftruncate(file, self._size)
        except BaseException:
            os.close(file)
            raise
        self._file = file
        header = _encoded(HEADER)
        self._empty = len(header)
        if not self._size:
            self._write(header)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left and self._file is not None:
            left = left[os.write(self._file, left) :]
        self._size += len(data)
        if self._fsync and self._file is not None:
            os.fsync(self._file)

    def _rotate(self) -> None:
        self._close()
        for number in range(self._keep, 0, -1):
            older = rotated(self.path, number - 1)
            with contextlib.suppress(FileNotFoundError):
                older.replace(rotated(self.path, number))
        self.path.unlink(missing_ok=True)
        self._open()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def rotated(path: Path, number: int) -> Path:
    """The ``number``-th full file of a log, 1 the newest; 0 is the log itself."""
    return path.with_name(f"{path.name}.{number}") if number else path


def _encoded(line: JsonObject | FlightRecord) -> bytes:
    """One line. Everything beyond ASCII is escaped: there are no lone surrogates on disk."""
    if isinstance(line, FlightRecord):
        extra = {"extra": line.extra.to_json()} if line.extra else {}
        line = {"record": line.to_json(), **extra}
    return json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"


def _whole_lines(file: int, path: Path) -> int:
    """How many bytes of a log are whole lines, after a look at its first one."""
    data = bytearray()
    while piece := os.read(file, 1 << 20):
        data += piece
    end = data.rfind(b"\n") + 1
    if end:
        first = bytes(data[: data.find(b"\n")])
        if first != _encoded(HEADER)[:-1]:
            raise FormatError("this is not the log of a flight recorder; choose another file", path=path, line=1)
    elif data and not _encoded(HEADER).startswith(data):  # not even a header that was cut short
        raise FormatError("this is not the log of a flight recorder; choose another file", path=path, line=1)
    return end


def _check_ordinary(file: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(file).st_mode):  # a pipe or a device may never come to an end
        raise ConfigError("a flight log is an ordinary file; choose another path", path=path)


def _lock(file: int, path: Path) -> None:
    """Take the operating system's lock of an open file, where there is such a thing; it ends with the file."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise LockedError("another writer holds this flight log; give every recorder a file of its own", path=path) from None
