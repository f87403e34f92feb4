"""Finds the session logs below a folder: the harness's home, its sessions folder, a project, a session, or files lying flat.

Of several generations in one session's folder the highest counts and the others are left alone; where the same one is there
raw and as zstd, the zstd file does, and the other one is told. Derived caches, locks and everything else are passed by.
Source: session logs, Files and bytes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from cassette_lab.errors import FormatError
from cassette_lab.looking import is_folder, os_reason
from cassette_lab.session.frames import is_zstd
from cassette_lab.session.lines import LogFile
from cassette_lab.session.reader import FILE_NAME
from cassette_lab.session.sqlite import holds_sessions, is_sqlite

_LOG_ENDINGS: Final = (".jsonl", ".jsonl.zstd")
_STORE_ENDINGS: Final = (".db", ".sqlite", ".sqlite3")
_CASSETTE_ENDING: Final = ".cassette.jsonl"
_SKIPPED: Final = frozenset({"session_projcache", "node_modules", "__pycache__"})
_HOMES: Final = frozenset({".sessions", ".dsh"})
"""Where the harness itself keeps logs."""
_PROJECT: Final = re.compile(r"--.+--|_no-cwd")
PASSED_BY: Final = "PASSED_BY"
"""The code of a problem that is none of a log: another one holds the same session."""
_HEADER_SIGN: Final = re.compile(rb'"type"\s*:\s*"session"')
_SIGN_BYTES: Final = 4_096


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A session log (or a store of several): its file, what it is, and its generation (None for a store or a flat file).

    ``problem`` says instead why a path gives none, or beside that one was passed by (then the path is that one's, and the
    code ``PASSED_BY``). ``session_id``: only that session of it was asked for.
    """

    path: Path
    kind: Literal["log", "store"] = "log"
    generation: int | None = None
    problem: FormatError | None = None
    session_id: str | None = None


def find_logs(path: str | Path) -> Iterator[FoundLog]:
    """The logs that a path means, a file or a folder, in the order of their names; a folder is looked into to any depth.

    A path that gives none is a problem.
    """
    path = Path(path)
    if not is_folder(path):
        yield _file(path)
        return
    found = False
    waiting = [path]
    while waiting:
        for each in _folder(waiting.pop(), waiting):
            found = found or each.problem is None
            yield each
    if not found:
        message = (
            "there is no session log in this folder or below it; one is named session.jsonl, session.v4.jsonl.zstd or alike"
        )
        yield FoundLog(path, problem=FormatError(message, path=path))


def logs_in(folder: str | Path) -> Iterator[FoundLog]:
    """The logs that lie in a folder itself, not below it; none there is no problem."""
    yield from _folder(Path(folder), [])


def logs_among(folder: Path, names: Iterable[str]) -> Iterator[FoundLog]:
    """The same of a folder that was listed already: ``names`` are those of the files in it."""
    seen = {name for name in names if not name.startswith(".")}
    yield from _generations(folder, seen)
    for name in sorted(seen):
        yield from _flat(folder, name, seen)


def is_log(path: str | Path) -> bool:
    """Whether a file looks like a log: by its name in a session's own folder, elsewhere by its start."""
    path = Path(path)
    name = path.name
    if _generation(name) is not None:
        return True
    return name.endswith(_LOG_ENDINGS) and not name.endswith(_CASSETTE_ENDING) and _looks_like_a_log(path)


def begins_as_session(path: Path) -> bool:
    """Whether a file holds a session log or a store, whatever its name; one that is named as a log may be broken."""
    try:
        start = _start(path)
    except FormatError:
        return False
    first, _, _ = start.partition(b"\n")
    return _generation(path.name) is not None or is_zstd(start) or is_sqlite(start) or _HEADER_SIGN.search(first) is not None


def is_store(path: str | Path) -> bool:
    """Whether a file is a SQLite database."""
    try:
        return is_sqlite(_start(Path(path)))
    except FormatError:
        return False


def _file(path: Path) -> FoundLog:
    """A file that was named: whatever it is, the reader says what is wrong with it."""
    try:
        store = is_sqlite(_start(path))
    except FormatError as error:
        return FoundLog(path, problem=error)
    return FoundLog(path, "store") if store else FoundLog(path, generation=_generation(path.name))


def _folder(folder: Path, waiting: list[Path]) -> Iterator[FoundLog]:
    """What lies in a folder; the folders in it are put on ``waiting``, the next one last."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        message = f"the folder cannot be read ({os_reason(error)})"
        yield FoundLog(folder, problem=FormatError(message, path=folder))
        return
    names = [entry.name for entry in entries if may_be_log(entry)]
    yield from logs_among(folder, names)
    below = [folder / entry.name for entry in entries if not is_passed_by(entry.name) and is_subfolder(entry)]
    waiting += reversed(below)


def _generations(folder: Path, names: set[str]) -> Iterator[FoundLog]:
    """The log of a session's own folder: its highest generation."""
    numbered = [(generation, name) for name in names if (generation := _generation(name)) is not None]
    if not numbered:
        return
    highest = max(generation for generation, _ in numbered)
    # In both encodings: the harness reads one only, zstd unless it is told otherwise.
    *others, chosen = sorted((name for generation, name in numbered if generation == highest), key=len)
    yield FoundLog(folder / chosen, generation=highest)
    for name in others:
        yield FoundLog(folder / name, generation=highest, problem=_passed(folder / name, chosen))


def _flat(folder: Path, name: str, names: set[str]) -> Iterator[FoundLog]:
    """A log that is named after its session (the old layout, and test fixtures), or a store."""
    if not name.endswith((*_STORE_ENDINGS, *_LOG_ENDINGS)) or _generation(name) is not None:
        return
    path = folder / name
    if name.endswith(_STORE_ENDINGS):
        try:
            if holds_sessions(path):
                yield FoundLog(path, "store")
        except FormatError as error:
            yield FoundLog(path, problem=error)
        return
    if name.endswith(_CASSETTE_ENDING) or not _looks_like_a_log(path):
        return
    if f"{name}.zstd" in names:
        yield FoundLog(path, problem=_passed(path, f"{name}.zstd"))
    else:
        yield FoundLog(path)


def _passed(path: Path, chosen: str) -> FormatError:
    message = f"passed by: {chosen} beside it holds the same session; remove the one that is out of date"
    return FormatError(message, path=path, code=PASSED_BY)


def _looks_like_a_log(path: Path) -> bool:
    """Whether a file is a log, be it a broken one: in a project's folder everything is, elsewhere its start tells."""
    if path.name.endswith(".zstd") or _PROJECT.fullmatch(path.parent.name):
        return True
    try:
        start = _start(path)
    except FormatError:
        return True  # the reader says why
    first, _, _ = start.partition(b"\n")
    return is_zstd(start) or _HEADER_SIGN.search(first) is not None


def _generation(name: str) -> int | None:
    match = FILE_NAME.fullmatch(name)
    return None if match is None else int(match[1] or 0)


def _start(path: Path) -> bytes:
    file = LogFile(path)
    try:
        return file.at(0, _SIGN_BYTES)
    finally:
        file.close()


def may_be_log(entry: os.DirEntry[str]) -> bool:
    """Whether it is a file; or named as a session's log and no folder, so that the reader says what is wrong with it.

    A link that leads nowhere and a pipe are such: a session would else be missing, and nobody would know.
    """
    named = FILE_NAME.fullmatch(entry.name) is not None
    try:
        return entry.is_file() or (named and not entry.is_dir())
    except OSError:  # a link in a circle
        return named


def is_passed_by(folder: str) -> bool:
    """Whether a folder of this name is not looked into unless it was named: so a whole project can be searched."""
    return folder in _SKIPPED or (folder.startswith(".") and folder not in _HOMES)


def is_subfolder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder to look into; one behind a link is not."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
