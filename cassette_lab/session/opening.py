"""Opens a session log in any physical form by its content: raw text, zstd frames, or one session of a SQLite store.

``open_session`` gives the log, ``session_facts`` what it tells, for which a file's rows need not all be in memory.
Source: session logs, Files and bytes; SQLite.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from cassette_lab.errors import FormatError
from cassette_lab.jsonio.text import show
from cassette_lab.session.derive import Derivation, derive
from cassette_lab.session.facts import SessionFacts
from cassette_lab.session.lines import LogFile
from cassette_lab.session.model import SessionHeader, SessionLog
from cassette_lab.session.reader import SessionReader, read_session
from cassette_lab.session.sqlite import MAGIC, is_sqlite, read_sqlite

_SHOWN_CHARACTERS: Final = 80


def open_session(source: str | Path | bytes, session_id: str | None = None, *, path: str | None = None) -> SessionLog:
    """The whole log that a file (or the bytes of a raw or zstd one; ``path`` then names it) holds, in memory.

    ``session_id`` chooses one of a store's sessions and need not be given where there is only one; of a log that is a file of
    its own it must be the id. Raises ``FormatError`` for a file that cannot be read, is damaged, or holds no such session.
    """
    if _is_store(source, path):
        return read_sqlite(str(source), session_id)
    log = read_session(source, path=path)
    _check_id(log.header, session_id, log.path)
    return log


def session_facts(
    source: str | Path | bytes,
    session_id: str | None = None,
    *,
    bodies: bool = False,
    path: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> SessionFacts:
    """What the log tells (``derive``), a file's rows read some at a time. Chosen and refused as by ``open_session``.

    ``progress(done, total)`` is called now and then with bytes of the file.
    """
    if _is_store(source, path):
        return derive(read_sqlite(str(source), session_id), bodies=bodies)
    with SessionReader(source, path=path) as reader:
        _check_id(reader.header, session_id, reader.path)
        derivation = Derivation(reader.header, bodies=bodies)
        for batch in reader.batches():
            derivation.add_all(batch)
            if progress is not None:
                progress(*reader.position)
        return derivation.facts(reader.log([]))


def _is_store(source: str | Path | bytes, path: str | None) -> bool:
    file = LogFile(source, path)
    try:
        store = is_sqlite(file.at(0, len(MAGIC)))
    finally:
        file.close()
    if store and isinstance(source, bytes):
        raise FormatError("these are the bytes of a SQLite store; give its path, for SQLite reads files", path=path)
    return store


def _check_id(header: SessionHeader, session_id: str | None, path: str | None) -> None:
    if session_id is not None and session_id != header.id:
        holds, asked = (show(each[:_SHOWN_CHARACTERS]) for each in (header.id, session_id))
        raise FormatError(f"the file holds the session {holds}, not {asked}; only a store holds several", path=path, field="id")
