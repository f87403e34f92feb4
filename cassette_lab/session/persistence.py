"""Sessions that outlive their process: what every store promises, and a session that writes itself into one.

A store keeps each session's log append-only and contiguous, one writer at a time. Nothing of a session is there before its
first batch; ``append`` returns when its batch is on disk; a batch that fails leaves the log as it was. To go on with a session
is to lock it, to cut off what a crash left torn, and to close the turn that never ended. Stores: ``store_jsonl`` (a folder of
files), ``store_sqlite`` (one database). Source: session logs, Files and bytes, Resume, SQLite.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, Self

from cassette_lab.errors import ClosedError, FormatError, SurfaceError
from cassette_lab.jsonio.text import show
from cassette_lab.session.model import Event, SessionHeader, SessionLog
from cassette_lab.session.packing import Packer
from cassette_lab.session.session import Clock, Session, now_ms
from cassette_lab.words import plural


class SessionWriter(Protocol):
    """The one writer of a session. ``next_seq`` is the seq that the next batch must begin with."""

    @property
    def header(self) -> SessionHeader:
        """The session's header, as it is or will be stored."""

    @property
    def next_seq(self) -> int:
        """How many events are stored."""

    @property
    def packer(self) -> Packer:
        """How batches are made that cost ``append`` the least (``Session.batch``)."""

    def append(self, events: Sequence[Event]) -> None:
        """Store a batch; on disk when this returns. The first batch also stores the header, and all that was inherited.

        Raises ``FormatError`` for a batch that does not follow or cannot be written, ``ExistingFileError`` where another
        session of that id was stored meanwhile; the log is then as before. ``ClosedError`` after ``close``.
        """

    def close(self) -> None:
        """Let others write. Harmless when done before."""


class Resumed(NamedTuple):
    """A session to go on with: its log as it was read, the events that closed what a crash left open, and the writer."""

    log: SessionLog
    closing: Sequence[Event]
    writer: SessionWriter


class SessionStore(Protocol):
    """Keeps sessions. A context manager; methods may be called from any thread."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

    def create(self, header: SessionHeader) -> SessionWriter:
        """A writer for a new session, of which nothing is stored yet. Raises ``ExistingFileError`` where there is one."""

    def resume(self, session_id: str) -> Resumed:
        """Lock a session, repair it on disk, and go on with it.

        Raises ``MissingFileError`` for an unknown id, ``LockedError`` where another writer has it, and ``FormatError`` for
        a log that is damaged or of another format; nothing is changed then.
        """

    def load(self, session_id: str) -> SessionLog:
        """A session's log as it is stored, to read. Raises ``MissingFileError``, and ``FormatError`` for a damaged one."""

    def headers(self) -> list[SessionHeader]:
        """The headers of the stored sessions, the oldest first; the events are not read."""

    def close(self) -> None:
        """Release what the store holds. Its writers are closed, too."""


_SHOWN_CHARACTERS: Final = 80


class StoredSession:
    """A session together with its writer: what is logged is on disk after the next ``flush``. A context manager.

    ``session`` is the log in memory. Batches are as large as what was logged since the last flush: flush where a loss would
    hurt (after a step, before a tool runs). A flush that fails can be repeated; nothing is lost or written twice.
    """

    def __init__(self, session: Session, writer: SessionWriter) -> None:
        self.session = session
        self._writer = writer
        self._mutex = threading.Lock()
        self._closed = False
        session.pack(writer.packer, writer.next_seq)

    @classmethod
    def create(cls, store: SessionStore, session: Session) -> Self:
        """A new session (also a spawned or forked one), to be stored."""
        return cls(session, store.create(session.header))

    @classmethod
    def resume(cls, store: SessionStore, session_id: str, *, clock: Clock = now_ms) -> Self:
        """A stored session that goes on: ``session/end-seed`` follows what was there, the header is as it was."""
        resumed = store.resume(session_id)
        try:
            seed = [*resumed.log.events(), *resumed.closing]
            return cls(Session(resumed.log.header, seed=seed, clock=clock), resumed.writer)
        except BaseException as error:
            resumed.writer.close()
            if isinstance(error, (FormatError, SurfaceError)):
                error.path = error.path or resumed.log.path
            raise

    def append(
        self,
        kind: str,
        data: Mapping[str, Any],
        *,
        surface_op: Any = None,
        source_event_seqs: Sequence[int] | None = None,
        ignorable: bool = False,
        time_ms: int | None = None,
    ) -> Event:
        """``Session.append``; the event is on disk after the next ``flush``. Raises ``ClosedError`` after ``close``."""
        if self._closed:
            raise ClosedError("the session is closed, so nothing more of it is stored; resume it to go on")
        return self.session.append(
            kind,
            data,
            surface_op=surface_op,
            source_event_seqs=source_event_seqs,
            ignorable=ignorable,
            time_ms=time_ms,
        )

    def flush(self) -> None:
        """Write what was logged since the last flush. Raises what ``SessionWriter.append`` raises."""
        with self._mutex:
            batch = self.session.batch(self._writer.packer, self._writer.next_seq)
            if batch:
                self._writer.append(batch)

    def close(self) -> None:
        """Flush, and give the session free; it is free also where the flush fails. Harmless when done before."""
        if self._closed:
            return
        self._closed = True
        try:
            self.flush()
        finally:
            self._writer.close()
            self.session.pack(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        """A line: how much was logged, and how much of it is on disk."""
        events, stored = len(self.session.events), self._writer.next_seq
        told = "all on disk" if events == stored else f"{stored:,} on disk"
        closed = ", closed" if self._closed else ""
        return show(f"<StoredSession {self.session.header.id[:_SHOWN_CHARACTERS]}: {plural(events, 'event')}, {told}{closed}>")
