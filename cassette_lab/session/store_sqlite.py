"""Sessions in one SQLite database of schema 17; format 0.

A batch is one transaction, synced when it ends. Runs of chunks are packed rows, large data are zstd frames, cited seqs are
varints. A database of any other schema is refused as it is: nothing is migrated. Source: session logs, SQLite.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import threading
import uuid
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NoReturn

from cassette_lab.errors import ClosedError, FormatError
from cassette_lab.jsonio.text import is_whole
from cassette_lab.looking import os_reason
from cassette_lab.session.chunks import pack_row
from cassette_lab.session.frames import compress_frame
from cassette_lab.session.locking import HeldFile, SessionLock
from cassette_lab.session.model import ChunkRun, Row, SessionHeader, SessionLog
from cassette_lab.session.packing import Packer, encode_json
from cassette_lab.session.seqs import encode_seqs
from cassette_lab.session.session import check_header
from cassette_lab.session.sqlite import APPLICATION_ID, HEADER_COLUMNS, SqliteStore
from cassette_lab.session.storing import StoreWriter, WritableStore, check_resumable, shown, stored_meanwhile

WRITTEN_SCHEMA: Final = 17

_COMPRESSED_FROM_BYTES: Final = 4_096
_WAIT_S: Final = 5.0
_TABLES: Final = """
CREATE TABLE persistence_state (
  singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
  store_id TEXT NOT NULL
) STRICT;
CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  cwd TEXT,
  parent_session TEXT,
  seed_length INTEGER,
  origin TEXT,
  delegation_depth INTEGER,
  agent_preset TEXT,
  incarnation TEXT NOT NULL,
  revision INTEGER NOT NULL
) STRICT;
CREATE TABLE events (
  session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  type TEXT NOT NULL,
  time INTEGER NOT NULL,
  data ANY NOT NULL,
  source_event_seqs ANY,
  surface_op TEXT,
  ignorable INTEGER CHECK (ignorable IS NULL OR ignorable IN (0, 1)),
  PRIMARY KEY (session_id, seq)
) STRICT;
"""


class SqliteSessionStore(WritableStore):
    """A database as a ``SessionStore``; a file that is not there is made, readable by its owner only.

    Raises ``FormatError`` for a file that is no database, is another program's, or has another schema.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        super().__init__(self.path)
        self._mutex = threading.RLock()
        self._pid = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._held: HeldFile | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            self._held = HeldFile(self.path)
            self._connection = sqlite3.connect(self.path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
            self._prepare(self._connection)
        except BaseException as error:
            self.close()
            if isinstance(error, (OSError, sqlite3.Error)) and not isinstance(error, FormatError):
                raise FormatError(f"the database cannot be opened ({os_reason(error)})", path=self.path) from error
            raise

    def create(self, header: SessionHeader) -> SqliteWriter:
        """See ``SessionStore``."""
        check_header(header)
        for field, value in (
            ("id", header.id),
            ("cwd", header.cwd),
            ("parentSession", header.parent_session),
            ("agentPreset", header.agent_preset),
        ):
            if value is not None and not _is_storable(value):
                raise FormatError("SQLite holds whole Unicode text without NUL only", path=self.path, field=field)
        if self.revision(header.id) is not None:
            raise self._taken(header.id, self.path)
        return self._writer(header)

    def load(self, session_id: str) -> SessionLog:
        """See ``SessionStore``."""
        with SqliteStore(self.path) as store:
            if session_id not in store.ids:
                raise self._missing(session_id)
            return store.read(session_id)

    def headers(self) -> list[SessionHeader]:
        """See ``SessionStore``."""
        found = []
        with SqliteStore(self.path) as store:
            for session_id in store.ids:
                with contextlib.suppress(FormatError):
                    found.append(store.header(session_id))
        return found

    def close(self) -> None:
        """See ``SessionStore``."""
        super().close()
        with self._mutex:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()
            held, self._held = self._held, None
            if held is not None:
                held.release()

    def lock(self, session_id: str) -> SessionLock:
        """The lock of one session: a file in a folder beside the database."""
        folder = self.path.with_name(f"{self.path.name}.locks")
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise FormatError(f"its locks cannot be made ({os_reason(error)})", path=self.path) from error
        name = hashlib.sha256(session_id.encode("utf-16-be", "surrogatepass")).hexdigest()
        return SessionLock(folder / f"{name}.lock", self.path, session_id, passing=True)

    def write(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Do ``work`` in a transaction: everything in it is on disk afterwards, or nothing. Raises ``FormatError``."""
        with self._mutex:
            connection = self._usable()
            try:
                connection.execute("BEGIN IMMEDIATE")
                self._check_there()
                work(connection)
                connection.execute("COMMIT")
            except BaseException as error:  # an interrupt, too
                if connection.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    sentence = f"a batch could not be written ({error}); the store is as before, and it can be tried again"
                    raise FormatError(sentence, path=self.path) from error
                raise

    def _lock(self, session_id: str) -> SessionLock:
        if self.revision(session_id) is None:
            raise self._missing(session_id)
        return self.lock(session_id)

    def _take_up(self, session_id: str, lock: SessionLock) -> tuple[SessionLog, SqliteWriter]:
        """A database has no torn end: a row that does not follow is damage."""
        state = self.revision(session_id)
        log = self.load(session_id)
        check_resumable(log, session_id, self.path)
        return log, self._writer(log.header, lock, state, log.event_count)

    def _writer(
        self,
        header: SessionHeader,
        lock: SessionLock | None = None,
        state: tuple[str, int] | None = None,
        next_seq: int = 0,
    ) -> SqliteWriter:
        writer = SqliteWriter(self, header, lock=lock, state=state, next_seq=next_seq)
        self._writers.add(writer)
        return writer

    def revision(self, session_id: str) -> tuple[str, int] | None:
        """A session's incarnation and revision; None where there is no such session."""
        if not _is_storable(session_id):
            return None
        with self._mutex:
            try:
                return revision_of(self._usable(), session_id)
            except sqlite3.Error as error:
                raise FormatError(f"the database cannot be read ({error})", path=self.path) from error

    def _check_there(self) -> None:
        """What is written into a database that was removed is lost without a word."""
        if self._held is None or not self._held.is_still(self.path):
            raise FormatError("the database was removed or replaced while it was open; nothing more is written", path=self.path)

    def _usable(self) -> sqlite3.Connection:
        if os.getpid() != self._pid:
            raise FormatError("the store was opened in another process; open it in this one", path=self.path)
        if self._connection is None:
            raise ClosedError("the store is closed; open it to go on", path=self.path)
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Check whose database this is, and make the tables in one that is new."""
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("BEGIN IMMEDIATE")  # nobody changes it between the look and the making
        try:
            (schema,) = connection.execute("PRAGMA user_version").fetchone()
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if not schema and not application and not objects:
                for statement in _TABLES.split(";"):
                    connection.execute(statement)
                connection.execute("INSERT INTO persistence_state (singleton, store_id) VALUES (1, ?)", (str(uuid.uuid4()),))
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {WRITTEN_SCHEMA}")
            elif application != APPLICATION_ID and (schema == WRITTEN_SCHEMA or not schema):
                self._refuse("this database is another program's, no store of session logs")
            elif schema != WRITTEN_SCHEMA:
                age = "an older" if schema < WRITTEN_SCHEMA else "a newer"
                self._refuse(
                    f"the store has {age} schema, {schema}; written is {WRITTEN_SCHEMA}, and nothing is migrated: "
                    "write into a new database, this one can still be loaded if its schema is read"
                )
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    def _refuse(self, sentence: str) -> NoReturn:
        raise FormatError(sentence, path=self.path)


class SqliteWriter(StoreWriter):
    """The writer of one session. ``state`` is the incarnation and revision that it left or found."""

    def __init__(
        self,
        store: SqliteSessionStore,
        header: SessionHeader,
        *,
        lock: SessionLock | None,
        state: tuple[str, int] | None,
        next_seq: int,
    ) -> None:
        self._database = store
        self._state = state
        super().__init__(store.path, header, _PACKER, lock, next_seq)

    def _store(self, rows: list[tuple[Any, ...]], next_seq: int) -> None:
        lock = self._lock or self._database.lock(self.header.id)
        state = (str(uuid.uuid4()), 1) if self._state is None else (self._state[0], self._state[1] + 1)
        try:
            self._database.write(lambda connection: self._insert(connection, rows, state))
        except BaseException as error:
            # An interrupt can come when the batch is stored already.
            if isinstance(error, Exception) or self._database.revision(self.header.id) != state:
                if self._lock is None:
                    lock.release()
                raise
            self._lock, self._state, self.next_seq = lock, state, next_seq
            raise
        self._lock, self._state, self.next_seq = lock, state, next_seq

    def _insert(self, connection: sqlite3.Connection, rows: list[tuple[Any, ...]], state: tuple[str, int]) -> None:
        """Store the rows; ``state`` is the session's incarnation and revision then."""
        session_id = self.header.id
        if revision_of(connection, session_id) != self._state:
            if self._state is None:
                raise stored_meanwhile(session_id, self.path)
            raise FormatError(
                f"something else wrote into session {shown(session_id)}, or removed it; nothing more is written "
                "(close this session and resume it)",
                path=self.path,
            )
        if self._state is None:
            connection.execute(_INSERT_SESSION, (*_header_values(self.header), *state))
        else:
            connection.execute("UPDATE sessions SET revision = ? WHERE id = ?", (state[1], session_id))
        connection.executemany(_INSERT_EVENT, [(session_id, *row) for row in rows])


_SESSION_COLUMNS: Final = (*HEADER_COLUMNS, "incarnation", "revision")
_INSERT_SESSION: Final = (
    f"INSERT INTO sessions ({', '.join(_SESSION_COLUMNS)}) VALUES ({', '.join('?' * len(_SESSION_COLUMNS))})"  # noqa: S608 - names of ours
)
_header_values: Final = attrgetter(*HEADER_COLUMNS)
_INSERT_EVENT: Final = (
    "INSERT INTO events (session_id, seq, type, time, data, source_event_seqs, surface_op, ignorable)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)


def revision_of(connection: sqlite3.Connection, session_id: str) -> tuple[str, int] | None:
    """A session's incarnation (which making of it) and revision (which state of that); None where there is none."""
    row = connection.execute("SELECT incarnation, revision FROM sessions WHERE id = ?", (session_id,)).fetchone()
    return None if row is None else (row[0], row[1])


def _row_values(row: Row) -> tuple[tuple[Any, ...], int]:
    """A row of the table, and its data's size. The mark is 0 for a packed row, 1 for what may be passed by, else NULL."""
    if isinstance(row, ChunkRun):
        packed = pack_row(row)
        text = encode_json(packed["data"])
        return (row.seq0, packed["type"], row.time0, _stored(text), None, None, 0), len(text)
    text = encode_json(row.data)
    values = (
        row.seq,
        row.type,
        row.time,
        _stored(text),
        None if row.source_event_seqs is None else encode_seqs(row.source_event_seqs),
        None if row.surface_op is None else encode_json(row.surface_op).decode(),
        1 if row.ignorable else None,
    )
    return values, len(text)


def _stored(text: bytes) -> str | bytes:
    """Data as text, or as a zstd frame where that is worth it."""
    if len(text) >= _COMPRESSED_FROM_BYTES:
        frame = compress_frame(text)
        if len(frame) < len(text):
            return frame
    return text.decode()


_PACKER: Final = Packer(_row_values)


def _is_storable(text: str) -> bool:
    return is_whole(text) and "\0" not in text
