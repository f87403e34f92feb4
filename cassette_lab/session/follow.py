"""Follows a log that is still being written: each reading goes on where the last one stopped.

Only what is whole counts: lines that end, zstd frames that are complete, transactions of a database. A log can also become
shorter, when a crash is repaired: then it is read anew, and what it still shares with what was told before is not told again.
Source: session logs, Files and bytes; Resume, crash, migration; SQLite.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from cassette_lab.errors import FormatError
from cassette_lab.jsonio.text import show
from cassette_lab.looking import exists
from cassette_lab.session.chunks import RowError
from cassette_lab.session.finding import is_store
from cassette_lab.session.header import read_header
from cassette_lab.session.lines import LogFile, LogLines
from cassette_lab.session.model import Physical, Problem, Row, SessionHeader, SessionLog, events_of, rows_from
from cassette_lab.session.places import check_id, locate
from cassette_lab.session.reader import ends_a_turn, finish_log
from cassette_lab.session.rows import GapError, Rows, read_json
from cassette_lab.session.sqlite import SqliteStore
from cassette_lab.words import plural

_COMPARED_BYTES: Final = 1 << 12
_SHOWN_CHARACTERS: Final = 80


@dataclass(frozen=True, slots=True)
class Update:
    """What one reading found. ``rows`` are those from seq ``from_seq`` on; they take the place of any told before from there.

    ``rewound``: some were told before and are no longer so. ``event_count`` counts the events of the whole log now,
    ``waiting_bytes`` of the file are behind them: not whole yet, or torn. ``problem`` is what reading waits for, where that
    is not just an end that is not whole.
    """

    from_seq: int
    rows: list[Row]
    event_count: int
    rewound: bool = False
    waiting_bytes: int = 0
    problem: Problem | None = None

    def __repr__(self) -> str:
        """A line, without anything that was said."""
        told = [
            f"{plural(self.event_count - self.from_seq, 'event')} from seq {self.from_seq:,} on",
            f"{self.event_count:,} in the log",
        ]
        told += ["rewound"] * self.rewound + [f"{self.waiting_bytes:,} bytes waiting"] * bool(self.waiting_bytes)
        told += [] if self.problem is None else [self.problem.message]
        return show(f"<Update: {', '.join(told)}>")


def follow(path: str | Path, session_id: str | None = None) -> Follower:
    """Follow a log, which is named as for ``open_session``; nothing of it is read yet.

    A log that is a file need not be there yet, nor the folder of ``FOLDER#ID``. Raises ``FormatError`` for a folder
    that has none.
    """
    place = locate(path, session_id)
    return StoreFollower(*place) if is_store(place.path) else FileFollower(*place)


class Follower(ABC):
    """A log that grows. ``read`` tells what is new, ``log`` gives all that was read so far.

    ``header`` is None until it could be read. Nothing stays open between two readings.
    """

    def __init__(self, path: str | Path, session_id: str | None = None) -> None:
        self.path = str(path)
        self.header: SessionHeader | None = None
        self._session_id = session_id
        self._told: list[Row] = []
        self._rows = Rows(0)
        self._physical = Physical("jsonl", 0)
        self._waiting_bytes = 0
        self._failed = False

    def __repr__(self) -> str:
        """A line: what is followed, and how far it was read."""
        header = self.header
        told = (
            "nothing read yet"
            if header is None
            else f"session {header.id[:_SHOWN_CHARACTERS]}, {plural(self._rows.position, 'event')}"
        )
        waiting = f", {self._waiting_bytes:,} bytes waiting" if self._waiting_bytes else ""
        return show(f"<{type(self).__name__} {self.path}: {told}{waiting}>")

    @abstractmethod
    def read(self) -> Update:
        """Read on. Raises ``FormatError`` for a file that is not there, has no proper header, or is damaged."""

    def log(self) -> SessionLog:
        """The log as far as it was read. Raises ``FormatError`` before the header is there and where ``read`` just did."""
        if self._failed:
            raise FormatError("the last reading of this log failed; read it again first", path=self.path)
        if self.header is None:
            raise FormatError("nothing of this log was read yet, or its first line is not whole", path=self.path)
        told, waiting = list(self._told), self._waiting_bytes
        return finish_log(self.header, told, self._rows, self._physical, path=self.path, torn_bytes=waiting)


class StoreFollower(Follower):
    """One log of a SQLite store, looked into again by seq."""

    _last: tuple[Any, ...] | None = None
    _told_events = 0

    def read(self) -> Update:
        """See ``Follower``."""
        before = self._told_events
        failed, self._failed = self._failed, True  # unless the end is reached in good order
        with SqliteStore(self.path) as store:
            session_id = store.choose(self._session_id)
            header = store.header(session_id)
            anew = failed or header != self.header or self._is_another(store, session_id)
            state, last = (Rows(header.version), None) if anew else (self._rows, self._last)
            for row in store.stored_rows(session_id, state.position):
                store.add(row, state, session_id)
                last = row
            state.close()
            self._physical = store.finish(header, [], state).physical
        self._failed = False
        rows, shared = state.take(), before
        if anew:
            shared = _shared(self._told, rows) if header == self.header else 0
            self._told = []
        self._told += rows
        self.header, self._rows, self._last, self._told_events = header, state, last, state.position
        return Update(shared, list(rows_from(rows, shared)), state.position, shared < before)

    def _is_another(self, store: SqliteStore, session_id: str) -> bool:
        """Whether the row that was last is no longer so: it was cut off, or written anew."""
        return self._last is not None and next(store.stored_rows(session_id, self._last[0]), None) != self._last


class FileFollower(Follower):
    """A log that is a file."""

    def __init__(self, path: str | Path, session_id: str | None = None) -> None:
        super().__init__(path, session_id)
        # The ends of what was told: the next seq, and the digest of all lines up to there.
        self._marks: dict[int, bytes] = {}
        self._stopped = False
        self._start_anew()

    def _start_anew(self) -> None:
        self.header = None
        self._rows = Rows(0)
        self._digest = hashlib.sha256()
        self._shared = 0
        self._offset = self._kept = 0
        self._lines_before = 0
        self._compared: list[tuple[int, bytes]] = []
        self._physical = Physical("jsonl", 0)

    def read(self) -> Update:
        """See ``Follower``."""
        self._find()
        file = LogFile(self.path)
        try:
            before = 0 if not self._told else max(self._marks)
            anew = self._stopped or self._is_another(file)
            if anew:
                self._start_anew()
            self._failed = self._stopped = True  # unless the end is reached in good order
            problem = self._read_on(file)
            self._failed = False
        finally:
            file.close()
        rows = self._rows.take()
        if anew:
            shared = self._shared
            self._told = rows
            rows = list(rows_from(rows, shared))
            self._marks = {seq: digest for seq, digest in self._marks.items() if seq <= shared}
        else:
            shared = before
            self._told += rows
        self._marks[self._rows.position] = self._digest.digest()
        self._waiting_bytes = self._physical.size_bytes - self._kept
        return Update(shared, rows, self._rows.position, shared < before, self._waiting_bytes, problem)

    def _find(self) -> None:
        """A folder that was not there yet when it was named with an id may be there by now."""
        if self._session_id is None and not exists(self.path):
            place = locate(self.path)
            if place.session_id is not None and is_store(place.path):
                raise FormatError("the session lies in a SQLite store; follow it anew, now that it is there", path=place.path)
            self.path, self._session_id = str(place.path), place.session_id

    def _is_another(self, file: LogFile) -> bool:
        """Whether what was read is no longer what the file says: it was cut, or another one took its place."""
        return file.size < self._offset or any(file.at(at, len(data)) != data for at, data in self._compared)

    def _read_on(self, file: LogFile) -> Problem | None:
        lines = LogLines(file, self._offset, whole_frames_only=True)
        try:
            problem = self._add_all(lines)
        finally:
            self._rows.close()
        self._physical = _sum(self._physical, lines.physical, first=not self._offset)
        if problem is None:
            self._kept = lines.resume_at
        self._offset = lines.resume_at
        self._lines_before += lines.number
        # A line that goes on in the next frame cannot be cut there; then, as behind a problem, all is read again.
        self._stopped = problem is not None or lines.number != lines.resume_number
        last = max(0, self._offset - _COMPARED_BYTES)
        self._compared = [(at, file.at(at, min(_COMPARED_BYTES, self._offset - at))) for at in (0, last)]
        return problem

    def _add_all(self, lines: LogLines) -> Problem | None:
        rest = iter(lines)
        for line in rest:
            try:
                self._add(line)
            except RowError as error:
                self._kept = lines.resume_at if lines.is_zstd else self._offset + lines.end - len(line) - 1
                return self._waits_for(error, lines, rest)
            self._digest.update(line)
            self._digest.update(b"\n")
            mark = self._marks.get(self._rows.position)
            if mark is not None and mark == self._digest.digest():
                self._shared = self._rows.position
        if lines.broken is None:
            return None
        self._kept = lines.resume_at
        if ends_a_turn(lines.behind_the_break()):
            raise self._damage(f"frame {lines.frame}: {lines.broken}")
        return Problem("BROKEN_TAIL", f"{lines.broken}; what follows waits for a repair", frame=lines.frame)

    def _add(self, line: bytes) -> None:
        if self.header is not None:
            self._rows.add_lines((line,))
            return
        self.header = read_header(read_json(line))
        check_id(self.header.id, self._session_id, self.path)
        self._rows = Rows(self.header.version)

    def _waits_for(self, error: RowError, lines: LogLines, rest: Iterator[bytes]) -> Problem:
        number = self._lines_before + lines.number
        if self.header is None:
            raise FormatError(f"{error}; is this a session log?", path=self.path, line=number, field=error.field) from None
        frame = lines.frame
        itself = isinstance(error, GapError) and error.kind == "turn/end"
        if itself or ends_a_turn(rest) or ends_a_turn(lines.behind_the_break()):
            raise self._damage(str(error), number, error.field)
        return Problem("BROKEN_TAIL", f"{error}; what follows waits for a repair", line=number, frame=frame)

    def _damage(self, what: str, line: int | None = None, field: str | None = None) -> FormatError:
        return FormatError(
            f"{what}, and a turn ended behind it: the file is damaged; restore it from a copy",
            path=self.path,
            line=line,
            field=field,
        )


def _shared(told: list[Row], now: list[Row]) -> int:
    """How many events two logs begin with alike."""
    pairs = zip(events_of(told), events_of(now), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _sum(before: Physical, now: Physical, *, first: bool) -> Physical:
    """The facts of the whole file, of what was read before and now."""
    if first:
        return now
    return replace(
        now,
        text_bytes=(before.text_bytes or 0) - (before.torn_line_bytes or 0) + (now.text_bytes or 0),
        frames=None if now.frames is None else (before.frames or 0) + now.frames,
    )
