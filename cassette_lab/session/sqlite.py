"""Reads session logs out of a SQLite store, schemas 14 and 17; every other schema is refused by its number.

The store is opened for reading only and left as it is, its ``-wal`` included. Rows go through the same checks as those of a
file; a database has no torn end, so a row that does not follow is damage. Source: session logs, SQLite.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn, Self

from cassette_lab.errors import FormatError
from cassette_lab.jsonio import JsonObject
from cassette_lab.jsonio.text import decode_utf8, show
from cassette_lab.session.chunks import RowError, is_packed_row
from cassette_lab.session.frames import FrameError, decode_one, is_zstd
from cassette_lab.session.header import read_header
from cassette_lab.session.lines import LINE_LIMIT_BYTES, LogFile
from cassette_lab.session.model import Physical, Row, SessionHeader, SessionLog
from cassette_lab.session.packing import FEWEST_MEMBERS, MOST_MEMBERS, MOST_ROW_BYTES
from cassette_lab.session.reader import finish_log
from cassette_lab.session.rows import Rows, read_json
from cassette_lab.session.seqs import decode_seqs
from cassette_lab.words import and_more

MAGIC: Final = b"SQLite format 3\0"
APPLICATION_ID: Final = 0x44534850
READ_SCHEMAS: Final = (14, 17)

_FIRST_WITH_ID: Final = 10
_HEADER_BYTES: Final = 100
_NOBODY_WRITES: Final = "mode=ro&immutable=1"
_WAIT_S: Final = 5.0
_BATCH_ROWS: Final = 1_024
_SHOWN_CHARACTERS: Final = 80
_SHOWN_IDS: Final = 8
HEADER_COLUMNS: Final = {
    "id": "id",
    "version": "version",
    "created_at": "createdAt",
    "cwd": "cwd",
    "parent_session": "parentSession",
    "seed_length": "seedLength",
    "origin": "origin",
    "delegation_depth": "delegationDepth",
    "agent_preset": "agentPreset",
}
"""The columns of a session's header, named as in ``SessionHeader``, and its members."""

_STRAYS: Final = """
WITH RECURSIVE named(id) AS (
  SELECT min(session_id) FROM events
  UNION ALL
  SELECT (SELECT min(session_id) FROM events WHERE session_id > named.id) FROM named WHERE named.id IS NOT NULL
)
SELECT id FROM named WHERE typeof(id) = 'text' AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = named.id)
"""
"""Sessions that only events name. One look at the index for each session, where ``DISTINCT`` would go through all rows."""


class NoStoreError(FormatError):
    """A database that holds something else."""


class SqliteStore:
    """The sessions of one database, as they were when it was opened. A context manager.

    ``schema`` is its number, ``ids`` the sessions in the order they were created, ``size_bytes`` the file's. Raises
    ``FormatError`` for a file that is no such store, and for a schema that is not read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        file = LogFile(path)
        try:
            self.size_bytes = file.size
            start = file.at(0, _HEADER_BYTES)
            if not is_sqlite(start):
                self._refuse("this is no SQLite database")
            self._is_wal = start[18:20] == b"\2\2"
            if self.size_bytes % _page_bytes(start):  # SQLite would take what is missing for zeros, and rows for none
                self._refuse(f"the database was cut short, it ends within a page ({self.size_bytes:,} bytes); copy it again")
        finally:
            file.close()
        self._connection = self._open(Path(path).absolute())
        try:
            self.schema = self._check()
            self._one("BEGIN")
            self.ids = [self._text(row[0]) for row in self._rows("SELECT id FROM sessions ORDER BY created_at, id")]
            self.ids += [self._text(row[0]) for row in self._rows(_STRAYS)]  # so that what was lost is told
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; harmless when it is closed."""
        self._connection.close()

    def header(self, session_id: str) -> SessionHeader:
        """The header of one session. Raises ``FormatError``."""
        row = self._one(f"SELECT {', '.join(HEADER_COLUMNS)} FROM sessions WHERE id = ?", session_id)  # noqa: S608 - names of ours
        if row is None:
            if session_id in self.ids:
                self._refuse(f"{_named(session_id)} has events and no header in this store; restore the store from a copy")
            self._refuse(f"there is no {_named(session_id)} in this store")
        members: JsonObject = {"type": "session"}
        for name, value in zip(HEADER_COLUMNS.values(), row, strict=True):
            if value is not None:
                members[name] = self._text(value) if isinstance(value, bytes) else value
        try:
            return read_header(members)
        except RowError as error:
            self._refuse(f"{_named(session_id)}: {error}", error.field)

    def read(self, session_id: str) -> SessionLog:
        """The whole log of one session. Raises ``FormatError`` with session and seq."""
        header = self.header(session_id)
        rows = Rows(header.version)
        for row in self.stored_rows(session_id):
            self.add(row, rows, session_id)
        rows.close()
        return self.finish(header, rows.take(), rows)

    def stored_rows(self, session_id: str, start: int = 0) -> Iterator[tuple[Any, ...]]:
        """The rows of a session's events from seq ``start`` on, as the table has them."""
        columns = "seq, type, time, data, source_event_seqs, surface_op"
        columns += ", ignorable" if self.schema >= 17 else ", NULL"
        query = f"SELECT {columns} FROM events WHERE session_id = ?"  # noqa: S608 - names of ours
        if start:  # else all of them, also such as no log may have
            return self._rows(f"{query} AND seq >= ? ORDER BY seq", session_id, start)
        return self._rows(f"{query} ORDER BY seq", session_id)

    def add(self, row: tuple[Any, ...], rows: Rows, session_id: str) -> None:
        """Add a row of the table to those of its log. Raises ``FormatError``."""
        try:
            rows.add(self._row(row))
        except (RowError, FrameError) as error:
            field = error.field if isinstance(error, RowError) else "data"
            self._refuse(f"{_named(session_id)}, seq {row[0]}: {error}; restore the store from a copy", field)

    def finish(self, header: SessionHeader, rows: list[Row], state: Rows) -> SessionLog:
        """The log of rows that were read. Raises ``FormatError`` where the store was changed meanwhile."""
        if self._unchanged is not None and self._unchanged != _facts(Path(self.path).absolute()):
            self._refuse("the store changed while it was read; read it again")
        return finish_log(header, rows, state, Physical("sqlite", self.size_bytes), path=self.path)

    def choose(self, session_id: str | None) -> str:
        """The session of that id, or the only one. Raises ``FormatError`` where there is none or are several."""
        if session_id is not None:
            return session_id
        if len(self.ids) != 1:
            self._refuse(_which(self.ids))
        return self.ids[0]

    def logs(self) -> Iterator[SessionLog]:
        """Every session's log, one after the other."""
        return map(self.read, self.ids)

    def _row(self, row: tuple[Any, ...]) -> JsonObject:
        """A row of the table as a row of a log."""
        seq, kind, time, data, cited, operation, ignorable = row
        if not isinstance(kind, bytes):
            raise RowError("a type is a text", "type")
        kind = decode_utf8(kind)
        if isinstance(data, bytes) and self.schema >= 17 and is_zstd(data):
            data = decode_one(data, LINE_LIMIT_BYTES)
        elif not isinstance(data, bytes):
            raise RowError("data is a text, or a zstd frame", "data")
        if ignorable == 0 and ignorable is not None:
            return self._packed(kind, seq, time, data)
        if is_packed_row(kind):
            raise RowError("a packed row must be marked as one", "ignorable")
        value: JsonObject = {"type": kind, "seq": seq, "time": time, "data": read_json(data)}
        if ignorable is not None:
            if ignorable != 1:
                raise RowError("ignorable is 0, 1 or NULL", "ignorable")
            value["ignorable"] = True
        if cited is not None:
            value["sourceEventSeqs"] = self._cited(cited)
        if operation is not None:
            if not isinstance(operation, bytes):
                raise RowError("surface_op is a text", "surfaceOp")
            value["surfaceOp"] = read_json(operation)
        return value

    def _packed(self, kind: str, seq: Any, time: Any, data: bytes) -> JsonObject:
        if not is_packed_row(kind):
            raise RowError("only runs of chunks are packed", "type")
        if len(data) > MOST_ROW_BYTES:
            raise RowError("a packed row holds at most 1 MiB", "data")
        value = {"type": kind, "seq0": seq, "time0": time, "data": read_json(data)}
        members = value["data"].get("args" if kind == "tool-call-chunks" else "texts") if type(value["data"]) is dict else None
        if type(members) is list and not FEWEST_MEMBERS <= len(members) <= MOST_MEMBERS:
            raise RowError("a packed row has 3 to 1,024 members", "data")
        return value

    def _cited(self, cited: Any) -> Any:
        if not isinstance(cited, bytes):
            raise RowError("source_event_seqs is a text or a blob", "sourceEventSeqs")
        if self.schema < 17:
            return read_json(cited)
        try:
            return decode_seqs(cited)
        except ValueError as error:
            raise RowError(str(error), "sourceEventSeqs") from None

    def _open(self, path: Path) -> sqlite3.Connection:
        """A read-only connection that leaves nothing beside the file.

        To read a store in WAL mode SQLite makes two files beside it, unless it is told that nobody writes: nobody does
        where there is no ``-wal`` file. In a folder that is read-only it has to be told so in any case, but never beside a
        journal: somebody writes or was stopped, and without what the journal holds the file is of no one moment.
        """
        wal = path.with_name(f"{path.name}-wal")
        ways = ["mode=ro"] if wal.exists() or not self._is_wal else [_NOBODY_WRITES]
        journal = path.with_name(f"{path.name}-journal")
        if not _has_content(wal) and not _has_content(journal):
            ways.append(_NOBODY_WRITES)
        problem: str | None = None
        for options in ways:
            try:
                connection = _connect(path, options)
            except (sqlite3.Error, UnicodeDecodeError) as error:
                problem = _said(error)
                continue
            self._unchanged = _facts(path) if options == _NOBODY_WRITES else None
            return connection
        way_out = "if its folder is read-only, copy it with its -wal file"
        if _has_content(journal):
            way_out = "a transaction has not ended: wait for it, or open the store once with sqlite3 to undo it"
        raise FormatError(f"the database cannot be opened ({problem}); {way_out}", path=self.path)

    def _check(self) -> int:
        (schema,) = self._one("PRAGMA user_version") or (0,)
        (application,) = self._one("PRAGMA application_id") or (0,)
        tables = {
            self._text(name): self._text(sql or b"")
            for name, sql in self._rows("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        }
        if not {"sessions", "events"} <= tables.keys() or (application != APPLICATION_ID and schema >= _FIRST_WITH_ID):
            raise NoStoreError("this database is no store of session logs", path=self.path)
        if schema not in READ_SCHEMAS:
            known = " and ".join(map(str, READ_SCHEMAS))
            self._refuse(f"the store has schema {schema}; read are {known}; open it with the version of dsh that wrote it")
        for name in ("sessions", "events"):  # a virtual table could run anything
            if not re.match(r"CREATE\s+TABLE\b", tables[name], re.IGNORECASE):
                self._refuse(f"{name} is no ordinary table")
        return int(schema)

    def _one(self, query: str, *values: Any) -> Any:
        return next(self._rows(query, *values), None)

    def _rows(self, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        try:
            cursor = self._connection.execute(query, values)
            while batch := cursor.fetchmany(_BATCH_ROWS):
                yield from batch
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self._refuse(f"the database cannot be read ({_said(error)})")

    def _text(self, value: Any) -> str:
        if not isinstance(value, bytes):
            self._refuse("an id or name in the store is no text")
        return decode_utf8(value)

    def _refuse(self, sentence: str, field: str | None = None) -> NoReturn:
        raise FormatError(sentence, path=self.path, field=field) from None


def is_sqlite(start: bytes) -> bool:
    """Whether a file that begins so is a SQLite database."""
    return start.startswith(MAGIC)


def _page_bytes(start: bytes) -> int:
    """The size of a page of the database that begins so; the smallest one where it says none that can be."""
    size = int.from_bytes(start[16:18], "big")
    return {0: 512, 1: 1 << 16}.get(size, size)


def read_sqlite(path: str | Path, session_id: str | None = None) -> SessionLog:
    """One session's log out of a store; which one need not be said where there is only one. Raises ``FormatError``."""
    with SqliteStore(path) as store:
        return store.read(store.choose(session_id))


def holds_sessions(path: Path) -> bool:
    """Whether a database is a store of sessions, of whatever schema, as far as its first bytes tell.

    The file is not opened as a database unless it may be one: nothing is left beside others' databases.
    """
    file = LogFile(path)
    try:
        start = file.at(0, _HEADER_BYTES)
    finally:
        file.close()
    if not is_sqlite(start):
        return False
    schema, application = (int.from_bytes(start[at : at + 4], "big") for at in (60, 68))
    if application == APPLICATION_ID:
        return True
    if application or not (0 < schema < _FIRST_WITH_ID or _has_content(path.with_name(f"{path.name}-wal"))):
        return False
    try:
        with SqliteStore(path):
            return True
    except NoStoreError:
        return False
    except FormatError:
        return True  # one that is not read, or broken


def _which(ids: list[str]) -> str:
    """A store without one session, in a sentence that says how to choose."""
    if not ids:
        return "the store has no session; was anything written to it?"
    named = and_more([show(session_id[:_SHOWN_CHARACTERS]) for session_id in ids[:_SHOWN_IDS]], len(ids))
    return (
        f"the store has {len(ids):,} sessions: {named}; choose one by its id (session_id, or behind the path: PATH#ID), "
        "or load all of them by the path"
    )


def _connect(path: Path, options: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.as_uri()}?{options}", uri=True, timeout=_WAIT_S, isolation_level=None)
    try:
        connection.text_factory = bytes  # a text that is no UTF-8 is no reason to stop
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LINE_LIMIT_BYTES)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA user_version").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _said(error: Exception) -> str:
    """What SQLite says. Where it names something that is no UTF-8, Python has only the bytes of the sentence."""
    return decode_utf8(error.object) if isinstance(error, UnicodeDecodeError) else str(error)


def _named(session_id: str) -> str:
    """A session in a sentence."""
    return f"session {session_id[:_SHOWN_CHARACTERS]!r}"


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _facts(path: Path) -> tuple[int, int, bool] | None:
    """What changes when somebody writes."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_size, facts.st_mtime_ns, _has_content(path.with_name(f"{path.name}-wal"))
