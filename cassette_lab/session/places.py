"""Where a session log is, of all that a person may name: a file, a session's folder, one session of a store or a folder.

A log is named the same way everywhere: ``session.jsonl``, the folder it lies in, ``store.db#ID``, ``~/.dsh#ID``.
Source: session logs, Files and bytes; SQLite.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from cassette_lab.errors import FormatError
from cassette_lab.jsonio.text import show
from cassette_lab.looking import exists, from_home, is_folder
from cassette_lab.session.finding import FoundLog, begins_as_session, find_logs, is_store, logs_in
from cassette_lab.session.reader import read_header
from cassette_lab.session.sqlite import SqliteStore
from cassette_lab.words import and_more

MARK: Final = "#"
"""Between a file or folder and the id of a session in it."""
_SHOWN_LOGS: Final = 8
_SHOWN_CHARACTERS: Final = 80


class LogPlace(NamedTuple):
    """A file that holds a log, or is a store; ``session_id`` is the session that was asked for."""

    path: Path
    session_id: str | None


def locate(source: str | Path, session_id: str | None = None) -> LogPlace:
    """The file that a name means. Whether there is one is not looked at, nor whether it is a log.

    ``~`` is the home folder. Behind ``#`` stands a session's id, unless a file has the whole name. A folder means the log in
    it, else the one below it; the session that was asked for may be any of those below. Raises ``FormatError`` for a
    folder without a log, and with several where nothing chooses, also where several are of one id (copies of one session).
    """
    path = from_home(source)
    if session_id is None:
        path, session_id = split_id(source)
    return _in_folder(path, session_id) if is_folder(path) else LogPlace(path, session_id)


def split_id(source: str | Path) -> tuple[Path, str | None]:
    """What stands before and behind the ``#`` of a name; the whole name where something has it, or nothing the first part."""
    path = from_home(source)
    head, mark, asked = str(path).rpartition(MARK)
    return (Path(head), asked) if mark and asked and not exists(path) and exists(head) else (path, None)


def is_session(source: str | Path) -> bool:
    """Whether a name means a session log, a store or a folder of logs, and not a cassette: by what the file begins with."""
    path, session_id = split_id(source)
    if session_id is not None:
        return True
    if is_folder(path):
        return any(each.problem is None for each in find_logs(path))
    return begins_as_session(path)


def find_by_id(path: str | Path) -> FoundLog | None:
    """The log that ``PATH#ID`` means, or why there is none; None for a name without an id.

    Only one of a store has a ``session_id``: a log that is a file is known to be that session's.
    """
    plain = from_home(path)
    if MARK not in str(path) or exists(plain):
        return None
    try:
        place = locate(path)
        if place.session_id is None:
            return None
        if is_store(place.path):
            return FoundLog(place.path, "store", session_id=place.session_id)
        check_id(read_header(place.path).id, place.session_id, place.path)
    except FormatError as error:
        return FoundLog(plain, problem=error)
    return FoundLog(place.path)


def find_named(paths: Iterable[str | Path]) -> Iterator[FoundLog]:
    """The logs that several names mean: files, folders, patterns (``runs/**/*.jsonl``), and as ``locate`` has them, with an id.

    Each once, in the order of the names. Of what a pattern matches only logs and what lies in folders count. A name that
    gives none is a problem.
    """
    seen: set[tuple[str, str | None]] = set()
    for path in paths:
        for each in _named(path):
            if each.problem is not None:
                yield each
                continue
            whole = os.path.realpath(each.path)  # also by a link
            key = whole, each.session_id
            if not seen.intersection((key, (whole, None))):
                yield each
            seen.add(key)


def _named(path: str | Path) -> Iterator[FoundLog]:
    plain = from_home(path)
    chosen = find_by_id(path)
    if chosen is not None:
        yield chosen
    elif glob.has_magic(str(path)) and not exists(plain):
        yield from _matching(plain)
    else:
        yield from find_logs(plain)


def _matching(pattern: Path) -> Iterator[FoundLog]:
    found = False
    try:
        matches = sorted(map(Path, glob.glob(str(pattern), recursive=True)), key=lambda each: each.parts)  # noqa: PTH207 - as in shells
    except ValueError:  # a name that no file can have
        matches = []
    for match in matches:
        if is_folder(match):
            logs = [each for each in find_logs(match) if each.path != match]
        else:
            logs = [each for each in logs_in(match.parent) if each.path == match]
        found = found or bool(logs)
        yield from logs
    if not found:
        message = "no session log matches this pattern; check the folder, or use ** to look into folders below it"
        yield FoundLog(pattern, problem=FormatError(message, path=pattern))


def check_id(holds: str, asked: str | None, path: str | Path | None) -> None:
    """Raise ``FormatError`` where a log that is a file of its own is not that of the session that was asked for."""
    if asked not in (None, holds):
        names = (show(each[:_SHOWN_CHARACTERS]) for each in (holds, asked or ""))
        message = "the file holds the session {}, not {}; only a store holds several".format(*names)
        raise FormatError(message, path=path, field="id")


def _in_folder(folder: Path, session_id: str | None) -> LogPlace:
    here = _usable(list(logs_in(folder))) if session_id is None else []
    found = here or _usable(list(find_logs(folder)), must_be=True)
    if len(found) == 1:
        return LogPlace(found[0].path, session_id)
    if session_id is None:
        message = f"there are {len(found):,} session logs in this folder: {_names(found, folder)}; name one, or its id"
        raise FormatError(message, path=folder)
    fitting = [each for each in found if _holds(each, session_id)]
    if len(fitting) == 1:
        return LogPlace(fitting[0].path, session_id)
    if fitting:
        shown = show(session_id[:_SHOWN_CHARACTERS])
        message = f"{len(fitting):,} logs in this folder are of the session {shown}: {_names(fitting, folder)}; name one"
        raise FormatError(message, path=folder, field="id")
    message = f"none of the {len(found):,} logs in this folder is of the session {show(session_id[:_SHOWN_CHARACTERS])}"
    raise FormatError(message, path=folder, field="id")


def _names(found: list[FoundLog], folder: Path) -> str:
    return and_more([show(str(each.path.relative_to(folder))) for each in found[:_SHOWN_LOGS]], len(found))


def _usable(found: list[FoundLog], *, must_be: bool = False) -> list[FoundLog]:
    usable = [each for each in found if each.problem is None]
    if must_be and not usable:
        for each in found:
            if each.problem is not None:
                raise each.problem
    return usable


def _holds(found: FoundLog, session_id: str) -> bool:
    try:
        if found.kind == "log":
            return read_header(found.path).id == session_id
        with SqliteStore(found.path) as store:
            return session_id in store.ids
    except FormatError:
        return False
