"""What all stores of sessions do alike: writers that check their batches, the steps of going on with a session.

A store says where its locks are, how a log is taken up and how a batch is written. Contract: ``persistence``.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

from cassette_lab.errors import ClosedError, ExistingFileError, FormatError, MissingFileError
from cassette_lab.jsonio.text import show
from cassette_lab.session.locking import SessionLock
from cassette_lab.session.model import Event, SessionHeader, SessionLog
from cassette_lab.session.packing import Batch, Packer
from cassette_lab.session.persistence import Resumed
from cassette_lab.session.repair import closing_events
from cassette_lab.session.session import check_header

_SHOWN_CHARACTERS: Final = 80


class StoreWriter(ABC):
    """The writer of one session; see ``SessionWriter``. Without a lock nothing is there yet. ``path`` is for errors."""

    def __init__(self, path: Path, header: SessionHeader, packer: Packer, lock: SessionLock | None, next_seq: int) -> None:
        self.path = path
        self.packer = packer
        self.header = header
        self.next_seq = next_seq
        self._lock = lock
        self._mutex = threading.Lock()
        self._pid = os.getpid()
        self._closed = False

    def append(self, events: Sequence[Event]) -> None:
        """See ``SessionWriter``."""
        with self._mutex:
            self._check_usable()
            _check_batch(self.header, events, self.next_seq)
            if events:
                self._store(self.packer.rows(events), self.next_seq + len(events))

    def close(self) -> None:
        """See ``SessionWriter``."""
        with self._mutex:
            self._closed = True
            self._release()

    def __del__(self) -> None:  # whoever forgets it does not lock the session for the rest of the process
        if hasattr(self, "_closed"):
            self.close()

    @abstractmethod
    def _store(self, rows: list[Any], next_seq: int) -> None:
        """Write a batch that follows, as ``packer`` made it, and set ``next_seq``: both or neither, also in an interrupt."""

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _check_usable(self) -> None:
        if self._closed:
            raise ClosedError("the session's writer is closed; resume the session to go on with it", path=self.path)
        if os.getpid() != self._pid:
            raise FormatError("the session was opened in another process; write in the one that opened it", path=self.path)


class WritableStore(ABC):
    """A ``SessionStore`` whose writers are closed with it. ``place`` is the folder or file to name in errors."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._writers: weakref.WeakSet[StoreWriter] = weakref.WeakSet()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return show(f"<{type(self).__name__} {self._place}>")

    def resume(self, session_id: str) -> Resumed:
        """See ``SessionStore``."""
        lock = self._lock(session_id)
        with contextlib.ExitStack() as undo:
            undo.callback(lock.release)
            log, writer = self._take_up(session_id, lock)
            undo.callback(writer.close)
            closing = closing_events(log.events())
            writer.append(closing)
            undo.pop_all()
        return Resumed(log, closing, writer)

    def close(self) -> None:
        """See ``SessionStore``."""
        for writer in list(self._writers):
            writer.close()

    def _missing(self, session_id: str) -> MissingFileError:
        return MissingFileError(f"there is no session {shown(session_id)} in this store", path=self._place)

    def _taken(self, session_id: str, path: Path) -> ExistingFileError:
        return ExistingFileError(
            f"there is a session {shown(session_id)} already; go on with it by resume=…, or take another session_id", path=path
        )

    @abstractmethod
    def _lock(self, session_id: str) -> SessionLock:
        """The lock of a session that is there. Raises ``MissingFileError``, ``LockedError``."""

    @abstractmethod
    def _take_up(self, session_id: str, lock: SessionLock) -> tuple[SessionLog, StoreWriter]:
        """A log that is locked, read and checked (``check_resumable``), its torn end cut off; and its writer."""


def check_resumable(log: SessionLog, session_id: str, path: Path) -> None:
    """Whether a log can be gone on with. Raises ``FormatError``."""
    header = log.header
    try:
        check_header(header)
    except FormatError as error:
        raise FormatError(error.message, path=path, field=error.field) from None
    if header.id != session_id:
        sentence = f"the log says that it is session {shown(header.id)}, not {shown(session_id)}"
        raise FormatError(sentence, path=path, field="id")
    if header.created_at is None or header.delegation_depth is None or log.missing_seqs or log.missing_times:
        raise FormatError("the log lacks seqs, times or header members, as test fixtures do; it can only be read", path=path)
    if log.event_count < (header.seed_length or 0):
        raise FormatError(
            f"the header says that {header.seed_length:,} events are inherited, and {log.event_count:,} are there; "
            "what is logged now would count as inherited",
            path=path,
            field="seedLength",
        )


def stored_meanwhile(session_id: str, path: Path) -> ExistingFileError:
    """Somebody took the id before the first batch was written."""
    return ExistingFileError(f"another session {shown(session_id)} was stored meanwhile; take another id", path=path)


def shown(session_id: str) -> str:
    """An id in a sentence; anyone may have chosen it."""
    return repr(session_id[:_SHOWN_CHARACTERS])


def _check_batch(header: SessionHeader, events: Sequence[Event], next_seq: int) -> None:
    """Whether a batch follows what is stored. Raises ``FormatError``."""
    # A batch of a session's own need not be looked through.
    for seq, event in enumerate(events[:1] if isinstance(events, Batch) else events, next_seq):
        if event.seq != seq:
            raise FormatError(f"the batch has event {event.seq} where {seq} follows", field="seq")
    inherited = header.seed_length or 0
    if not next_seq and len(events) < inherited:
        raise FormatError(
            f"the first batch must hold all {inherited:,} events that were inherited, and has {len(events):,}",
            field="seedLength",
        )
