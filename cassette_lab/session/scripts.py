"""From a recorded session to the scripts that replay it: a log, its subagents' logs, an override file.

A file is read strictly as a fixture or as any log by the reader; which calls are in it is told by ``answers``.
Source: session logs, Stream replay (scripts).
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, get_args

from cassette_lab.errors import ConfigError, FormatError, MissingFileError
from cassette_lab.jsonio.text import show
from cassette_lab.looking import exists, read_regular
from cassette_lab.session.answers import ScriptRow, Unfinished, derive_replay_script, derive_stream_script
from cassette_lab.session.collation import collation_key
from cassette_lab.session.entries import ReplayEntry, SessionScript, message_texts
from cassette_lab.session.finding import is_store
from cassette_lab.session.fixtures import ScriptHeader, StoredRow, parse_session_header, stored_rows
from cassette_lab.session.frames import is_zstd
from cassette_lab.session.model import CHUNK_TYPE, ChunkRun, Event, SessionLog
from cassette_lab.session.opening import open_session
from cassette_lab.session.overrides import Override, read_override
from cassette_lab.session.pausing import collector_paused
from cassette_lab.session.places import LogPlace, check_id, locate
from cassette_lab.session.quick import DeltaRow


@collector_paused()
def load_session_scripts(
    file: str | Path,
    child_files: Sequence[str | Path] = (),
    override_file: str | Path | None = None,
    *,
    version: int | None = None,
    unfinished: Unfinished = "raise",
) -> list[SessionScript]:
    """The scripts of a primary session and of its children, in the order in which live sessions take them.

    The primary comes first and is taken whole, whatever it inherited; each child begins behind its inherited prefix. The
    children follow by creation, then by id as a person sorts (``a``, ``b``, ``C``). An override file that exists replaces
    or patches the primary's script; one that replaces it needs no primary log. Plain text of formats 0 and 1 is read
    strictly, as a fixture; everything else by ``open_session``, which also says how a log may be named. ``version=0`` takes
    every file for a fixture of format 0. ``unfinished`` says what becomes of calls without an end.

    Raises ``MissingFileError`` (code ``FIXTURE_MISSING`` or ``CHILD_MISSING``), ``ConfigError`` for an option that cannot be,
    and ``FormatError``, whose code says what is wrong: those of ``parse_session_header``, ``parse_session_log``,
    ``derive_replay_script`` and ``read_override``.
    """
    primary = _recorded(file, version, unfinished)
    entries = _primary_entries(file, primary, override_file)
    header = ScriptHeader() if primary is None else primary.header
    beginning = _Beginning() if primary is None else primary.beginning()
    children = []
    for child_file in child_files:
        child = _recorded(child_file, version, unfinished)
        if child is None:
            raise MissingFileError(
                "there is no such child log; record the session again", code="CHILD_MISSING", path=child_file
            )
        children.append(child.script())
    children.sort(key=lambda script: (script.created_at, collation_key(script.recorded_id)))
    script = SessionScript(
        header.id, header.created_at, entries, primary=True, first_message=beginning.texts, names=beginning.names
    )
    return [script, *children]


@collector_paused()
def load_replay_script(
    file: str | Path,
    override_file: str | Path | None = None,
    *,
    version: int | None = None,
    unfinished: Unfinished = "raise",
) -> Sequence[ReplayEntry]:
    """The calls of a primary session, with its override file if that exists. See ``load_session_scripts``."""
    return _primary_entries(file, _recorded(file, version, unfinished), override_file)


def script_of_log(log: SessionLog, *, primary: bool = False, unfinished: Unfinished = "raise") -> SessionScript:
    """The script of a session that the reader has read. Only a primary keeps its inherited prefix."""
    watch = _Beginning()
    rows = watch.through(log.rows if primary else log.own_rows())
    entries = _derive(rows, log.header.version, log.path, unfinished)
    return SessionScript(
        log.header.id, log.header.created_at or 0, entries, primary=primary, first_message=watch.texts, names=watch.names
    )


class _Beginning:
    """Looks at rows as they pass, and keeps the texts of the first user message, and what the first request was sent to."""

    def __init__(self) -> None:
        self.texts: tuple[str, ...] | None = None
        self.names: tuple[str, str] | None = None
        self.is_over = False

    def through(self, rows: Iterable[ScriptRow]) -> Iterator[ScriptRow]:
        rows = iter(rows)
        for row in rows:
            self._look(row)
            yield row
            if self.is_over:
                break
        yield from rows

    def _look(self, row: ScriptRow) -> None:
        answered = isinstance(row, (ChunkRun, DeltaRow))
        if not isinstance(row, (ChunkRun, DeltaRow)):
            kind, data = (row.type, row.data) if isinstance(row, Event) else (row.get("type"), row.get("data"))
            answered = kind in _ANSWERED
            if kind == "user/message" and self.texts is None:
                self.texts = message_texts(data) or None
            elif kind in _NAMING and self.names is None:
                self.names = _names(data)
        self.is_over = self.texts is not None and (answered or self.names is not None)


_ANSWERED: Final = (CHUNK_TYPE, "assistant/message")
_NAMING: Final = ("request/header", "request/context")


def _names(data: Any) -> tuple[str, str] | None:
    """The provider and model that an event names; None where it names none."""
    header = data.get("header") if isinstance(data, dict) else None
    config = header.get("config") if isinstance(header, dict) else data
    names = [config.get(name) for name in ("provider", "model")] if isinstance(config, dict) else []
    provider, model = names if len(names) == 2 else (None, None)
    return (provider, model) if isinstance(provider, str) and isinstance(model, str) and provider and model else None


class _Recorded:
    """One file of a recording: a fixture, or a log that the reader reads."""

    def __init__(self, place: LogPlace, version: int | None, unfinished: Unfinished) -> None:
        self.path, self._session_id = place
        self._unfinished = unfinished
        self.data = b""
        is_database = version is None and is_store(self.path)
        if not is_database:
            self.data = read_regular(self.path)
        self.by_reader = version is None and (unfinished != "raise" or is_database or not self._is_fixture())

    def _is_fixture(self) -> bool:
        if is_zstd(self.data):
            return False
        try:
            header = parse_session_header(self.data, path=self.path)
        except FormatError:  # told when the header is asked for
            return True
        check_id(header.id, self._session_id, self.path)
        return header.version < 2

    @functools.cached_property
    def log(self) -> SessionLog | None:
        """The log as the reader reads it; None for a fixture."""
        if not self.by_reader:
            return None
        return open_session(self.data or self.path, self._session_id, path=str(self.path))

    @functools.cached_property
    def header(self) -> ScriptHeader:
        """What the script needs of the header."""
        if self.log is not None:
            return ScriptHeader(self.log.header.id, self.log.header.created_at or 0, version=self.log.header.version)
        return parse_session_header(self.data, path=self.path)

    def calls(self) -> list[ReplayEntry]:
        """All calls, also inherited ones."""
        if self.log is not None:
            return _derive(iter(self.log.rows), self.log.header.version, self.path, self._unfinished)
        return _derive(stored_rows(self.data, path=self.path), 0, self.path, self._unfinished)

    def script(self) -> SessionScript:
        """The script of the session's own part."""
        if self.log is not None:
            return script_of_log(self.log, unfinished=self._unfinished)
        header = self.header
        watch = _Beginning()
        rows = watch.through(_behind(stored_rows(self.data, path=self.path), header.seed_length))
        entries = _derive(rows, 0, self.path, self._unfinished)
        return SessionScript(header.id, header.created_at, entries, primary=False, first_message=watch.texts, names=watch.names)

    def beginning(self) -> _Beginning:
        """How the whole log begins, as far as its rows can be read."""
        watch = _Beginning()
        rows: Iterable[ScriptRow] = self.log.rows if self.log is not None else stored_rows(self.data, path=self.path)
        with contextlib.suppress(FormatError):
            for _ in watch.through(rows):
                if watch.is_over:
                    break
        return watch


def _recorded(file: str | Path, version: int | None, unfinished: Unfinished) -> _Recorded | None:
    """A file of a recording; None where there is none."""
    if unfinished not in get_args(Unfinished):
        raise ConfigError(f"unfinished is one of {', '.join(get_args(Unfinished))}, not {show(repr(unfinished))}")
    place = locate(file)
    return _Recorded(place, version, unfinished) if exists(place.path) else None


def _primary_entries(file: str | Path, recorded: _Recorded | None, override_file: str | Path | None) -> Sequence[ReplayEntry]:
    override = Override()
    if override_file is not None and exists(override_file):
        override = read_override(override_file)
    if override.replacement is not None:
        return override.replacement
    if recorded is None:
        raise MissingFileError("there is no such session log; record the session first", code="FIXTURE_MISSING", path=file)
    return override.patched(recorded.calls())


def _derive(rows: Iterator[ScriptRow], version: int, path: str | Path | None, unfinished: Unfinished) -> list[ReplayEntry]:
    derive = derive_replay_script if version < 2 else derive_stream_script
    try:
        return derive(rows, path=path, unfinished=unfinished)
    except FormatError:
        for _ in rows:  # a row that cannot be read is told before a call that has no end
            pass
        raise


def _behind(rows: Iterable[StoredRow], start: float) -> Iterator[ScriptRow]:
    """The rows from event number ``start`` on, cut within a packed row if need be, as ``Array.prototype.slice`` counts."""
    if start < 0:
        rows = list(rows)
        total = sum(len(row.texts) if isinstance(row, ChunkRun) else 1 for row in rows)
        start = max(0, total + (math.trunc(start) if math.isfinite(start) else start))
    left = math.trunc(start) if math.isfinite(start) else start
    rows = iter(rows)
    for row in rows:
        size = len(row.texts) if isinstance(row, ChunkRun) else 1
        if size <= left:
            left -= size
            continue
        yield row.from_member(int(left)) if isinstance(row, ChunkRun) else row
        break
    yield from rows
