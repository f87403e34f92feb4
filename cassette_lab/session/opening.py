"""Opens session logs in any physical form by their content: raw text, zstd frames, or the sessions of a SQLite store.

``open_session`` gives one log, ``session_facts`` what it tells, for which a file's rows need not all be in memory;
``each_log`` and ``each_facts`` do the same for every session of a file. Where a log is: ``places``, ``finding``.
Source: session logs, Files and bytes; SQLite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from cassette_lab.errors import CassetteLabError, FormatError
from cassette_lab.session.derive import Derivation, derive
from cassette_lab.session.facts import SessionFacts
from cassette_lab.session.finding import find_logs, is_store
from cassette_lab.session.model import SessionLog
from cassette_lab.session.pausing import collector_paused
from cassette_lab.session.places import check_id, locate
from cassette_lab.session.reader import SessionReader, read_session
from cassette_lab.session.sqlite import SqliteStore, is_sqlite, read_sqlite

OnError: TypeAlias = Literal["raise", "collect"]
FileProgress: TypeAlias = Callable[[int, int], object]
"""Called now and then with the bytes of a file that are done, and all of them."""


def open_session(source: str | Path | bytes, session_id: str | None = None, *, path: str | None = None) -> SessionLog:
    """The whole log that a file (or the bytes of a raw or zstd one; ``path`` then names it) holds, in memory.

    ``source`` may be a session's folder, too. ``session_id`` chooses one session of a store or of a folder with several and
    need not be given where there is only one; it may also stand behind the name (``store.db#ID``). Of a log that is a file
    of its own it must be the id. Raises ``FormatError`` for a file that cannot be read, is damaged, or holds no such session.
    """
    if not isinstance(source, bytes):
        source, session_id = locate(source, session_id)
        if is_store(source):
            return read_sqlite(source, session_id)
    _refuse_store(source, path)
    log = read_session(source, path=path)
    check_id(log.header.id, session_id, log.path)
    return log


def session_facts(
    source: str | Path | bytes,
    session_id: str | None = None,
    *,
    bodies: bool = False,
    path: str | None = None,
    progress: FileProgress | None = None,
) -> SessionFacts:
    """What the log tells (``derive``), a file's rows read some at a time. Chosen and refused as by ``open_session``."""
    if not isinstance(source, bytes):
        source, session_id = locate(source, session_id)
        if is_store(source):
            return derive(read_sqlite(source, session_id), bodies=bodies)
    _refuse_store(source, path)
    return file_facts(source, session_id, bodies=bodies, path=path, progress=progress)


def file_facts(
    source: Path | bytes,
    session_id: str | None = None,
    *,
    bodies: bool = False,
    path: str | None = None,
    progress: FileProgress | None = None,
) -> SessionFacts:
    """The same of a file that is known to be a log of its own: it is opened once, and no other name is tried."""
    with SessionReader(source, path=path, skim=not bodies) as reader, collector_paused():
        check_id(reader.header.id, session_id, reader.path)
        derivation = Derivation(reader.header, bodies=bodies)
        for batch in reader.batches():
            derivation.add_all(batch)
            if progress is not None:
                progress(*reader.position)
        return derivation.facts(reader.log([]))


def each_log(path: Path, session_id: str | None = None) -> Iterator[Callable[[], SessionLog]]:
    """For each session of a file, a store or a log, a function that reads it, to be called before the next one is asked for.

    Only for that session where one is asked for; a file of its own must be that one's.

    What is wrong with one session is raised by its function and hides no other; a file that gives none raises here.
    """
    if is_store(path):
        with SqliteStore(path) as store:
            for each in store.ids if session_id is None else (session_id,):
                yield partial(store.read, each)
    else:
        yield partial(open_session, path, session_id)


def each_facts(
    path: Path, session_id: str | None = None, *, bodies: bool = False, progress: FileProgress | None = None
) -> Iterator[Callable[[], SessionFacts]]:
    """The same for what each session tells. Of a store ``progress`` is told after each session, as if all were of one size."""
    if is_store(path):
        with SqliteStore(path) as store:
            ids = store.ids if session_id is None else [session_id]
            for number, each in enumerate(ids, 1):
                yield partial(_told, store, each, bodies=bodies)
                if progress is not None:
                    progress(store.size_bytes * number // len(ids), store.size_bytes)
    else:
        yield partial(file_facts, path, session_id, bodies=bodies, progress=progress)


def _told(store: SqliteStore, session_id: str, *, bodies: bool) -> SessionFacts:
    return derive(store.read(session_id), bodies=bodies)


def read_logs(path: str | Path, *, on_error: OnError = "raise") -> Iterator[SessionLog | CassetteLabError]:
    """The logs that a path means, a file or a folder, one after the other, each read in full.

    With ``on_error="collect"`` what is wrong comes in the place of the log, as an error that is not raised, and the others
    follow; else it is raised.
    """
    for found in find_logs(path):
        for result in [found.problem] if found.problem is not None else _read(found.path, found.session_id):
            if isinstance(result, CassetteLabError) and on_error == "raise":
                raise result
            yield result


def _read(path: Path, session_id: str | None) -> Iterator[SessionLog | CassetteLabError]:
    try:
        for read in each_log(path, session_id):
            try:
                result: SessionLog | CassetteLabError = read()
            except CassetteLabError as error:
                result = error
            yield result
    except CassetteLabError as error:
        yield error


def _refuse_store(source: Path | bytes, path: str | None) -> None:
    if isinstance(source, bytes) and is_sqlite(source):
        raise FormatError("these are the bytes of a SQLite store; give its path, for SQLite reads files", path=path)
