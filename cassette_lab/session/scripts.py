"""From a recorded session to the calls that its model answered: replay scripts.

Two functions say what was streamed in each call: ``derive_replay_script`` from the chunk events of formats 0 and 1,
``derive_stream_script`` from the streams that messages and attempts carry since format 2. The header's version chooses.
A call that ended without its ``finish`` chunk was thrown, cancelled or cut off; no log says how it would end again, so
that it needs an override (``overrides``), or a rule for all of them (``Unfinished``).

Source: session logs, Stream replay (derive, scripts).
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from cassette_lab.contracts import StreamChunk
from cassette_lab.errors import ConfigError, FormatError, MissingFileError
from cassette_lab.jsonio import number_text
from cassette_lab.jsonio.text import show
from cassette_lab.looking import exists, read_regular
from cassette_lab.session.chunks import Chunk, RowError, read_stream
from cassette_lab.session.collation import collation_key
from cassette_lab.session.entries import (
    CallChunks,
    Chunks,
    ChunksEntry,
    HangEntry,
    ReplayEntry,
    SessionScript,
    ThrowEntry,
    message_texts,
)
from cassette_lab.session.finding import is_store
from cassette_lab.session.fixtures import ScriptHeader, StoredRow, parse_session_header, stored_rows
from cassette_lab.session.frames import is_zstd
from cassette_lab.session.model import CHUNK_TYPE, ChunkRun, Event, SessionLog
from cassette_lab.session.opening import open_session
from cassette_lab.session.overrides import Override, read_override
from cassette_lab.session.pausing import collector_paused
from cassette_lab.session.places import LogPlace, check_id, locate
from cassette_lab.session.quick import DeltaRow

ScriptRow: TypeAlias = StoredRow | Event
"""A row that calls are derived from: of a fixture, or as the reader gives it."""

Unfinished: TypeAlias = Literal["raise", "throw", "hang", "skip"]
"""What becomes of a call that the log has no end of.

``"raise"``: it is an error, as the format's own replay has it. ``"throw"``: the call streams what was recorded and fails
with the code ``STREAM_CLOSED``. ``"hang"``: it begins to answer and waits to be cancelled. ``"skip"``: it is left out, and
the next call takes its place. Except with ``"raise"`` a log that a crash tore is read up to its last whole line, and the end
of a step or a turn, or a retry, ends a call, too.
"""


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


def derive_replay_script(
    rows: Iterable[ScriptRow], *, path: str | Path | None = None, unfinished: Unfinished = "raise"
) -> list[ReplayEntry]:
    """The calls of a session of format 0 or 1: one entry for each, in order.

    A call is the run of chunks up to its ``finish``. A summary that a local call made counts as one, at its place.
    Raises ``FormatError`` with the code ``MISSING_FINISH`` where a call is left without its end (by a new turn or step, a
    summary, or the log's end), ``SUMMARY_WITHOUT_OUTPUT``, or ``TYPE_ERROR`` for an event that is not what it should be.
    """
    entries: list[ReplayEntry] = []
    call = CallChunks()
    place = ""
    closing = (_SUMMARY,) if unfinished == "raise" else _CLOSING
    last_turn: Any = call  # no turn of a log
    last_step: Any = call
    turn: Any
    step: Any
    chunk: Any
    for row in rows:
        if is_delta := isinstance(row, DeltaRow):
            turn, step, chunk = row.data.turn, row.data.step, row.data.chunk
        elif isinstance(row, ChunkRun):
            turn, step, chunk = row.turn, row.step, row
        else:
            kind, data = (row.get("type"), row.get("data")) if isinstance(row, dict) else (row.type, row.data)
            if kind != CHUNK_TYPE:
                if kind in closing:
                    entries += _left_open(call, place, path, unfinished)
                    if kind == _SUMMARY:
                        entries += _summary_call(data, path)
                continue
            if not isinstance(data, dict):
                raise _type_error("an assistant/chunk event has no data", path)
            turn, step, chunk = data.get("turn", _UNDEFINED), data.get("step", _UNDEFINED), data.get("chunk")
        if not (_is_same(turn, last_turn) and _is_same(step, last_step)):
            last_turn, last_step = turn, step
            here = f"{_key(turn)}/{_key(step)}"
            if here != place:
                entries += _left_open(call, place, path, unfinished)
                place = here
        if is_delta:
            call.add_delta(chunk)
        elif chunk is None:
            raise _type_error("an assistant/chunk event has no chunk", path)
        elif call.add(chunk):
            entries.append(ChunksEntry(call.close()))
    return entries + _left_open(call, place, path, unfinished)


def derive_stream_script(
    rows: Iterable[ScriptRow], *, path: str | Path | None = None, unfinished: Unfinished = "raise"
) -> list[ReplayEntry]:
    """The calls of a session of format 2 or later: one entry for each message and attempt with chunks, in order.

    Raises ``FormatError`` as ``derive_replay_script`` does, and with the code ``MALFORMED_ROW`` for a broken stream.
    """
    entries: list[ReplayEntry] = []
    for row in rows:
        if isinstance(row, (ChunkRun, DeltaRow)):
            continue
        kind, data = (row.type, row.data) if isinstance(row, Event) else (row.get("type"), row.get("data"))
        if kind == _SUMMARY:
            entries.extend(_summary_call(data, path))
        elif kind in _SETTLEMENTS:
            if not isinstance(data, dict):
                raise _type_error(f"an {kind} event has no data", path)
            try:
                items = list(read_stream(data.get("stream")))
            except RowError as error:
                raise FormatError(str(error), code="MALFORMED_ROW", path=path, field=error.field) from None
            pieces = [item.chunk if isinstance(item, Chunk) else item for item in items]
            last = pieces[-1] if pieces else None
            if isinstance(last, dict) and last.get("type") == _FINISH:
                entries.append(ChunksEntry(Chunks(pieces)))
            elif pieces:
                place = f"{_key(data.get('turn', _UNDEFINED))}/{_key(data.get('step', _UNDEFINED))}"
                entries += _unfinished(Chunks(pieces), place, path, unfinished)
    return entries


_SUMMARY: Final = "compaction/summary"
_CLOSING: Final = (_SUMMARY, "llm/retry", "step/end", "turn/end")
_SETTLEMENTS: Final = ("assistant/message", "assistant/attempt")
_FINISH: Final = "finish"
_UNDEFINED: Final = object()


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


def _left_open(call: CallChunks, place: str, path: str | Path | None, unfinished: Unfinished) -> list[ReplayEntry]:
    return _unfinished(call.close(), place, path, unfinished) if call else []


def _unfinished(chunks: Chunks, place: str, path: str | Path | None, unfinished: Unfinished) -> list[ReplayEntry]:
    if unfinished == "raise":
        raise FormatError(
            f"the model call in turn/step {place} ended without a finish chunk: its stream was thrown, cancelled or cut off; "
            "say in an override file how it ends, or of all such calls by the option unfinished (throw, hang or skip)",
            code="MISSING_FINISH",
            path=path,
        )
    if unfinished == "throw":
        return [ThrowEntry(chunks, "the recorded stream ended here, without a finish", "STREAM_CLOSED")]
    return [HangEntry()] if unfinished == "hang" else []


def _summary_call(data: Any, path: str | Path | None) -> list[ReplayEntry]:
    """The call behind a summary: none, unless it is marked as one."""
    if data is None:
        raise _type_error("a compaction/summary event has no data", path)
    if not isinstance(data, dict) or data.get("llmStreamCall") is not True:
        return []
    if "rawOutput" not in data:
        raise FormatError(
            "a compaction/summary is marked as a model call and has no rawOutput", code="SUMMARY_WITHOUT_OUTPUT", path=path
        )
    output = data["rawOutput"]
    if not isinstance(output, list) or None in output:
        raise _type_error("the rawOutput of a compaction/summary is no array of blocks", path)
    chunks: list[StreamChunk] = []
    for index, block in enumerate(output):
        start: StreamChunk = {"type": "block-start", "index": index}
        if isinstance(block, dict) and "type" in block:
            start["blockType"] = block["type"]
        chunks += (start, {"type": "block-end", "index": index, "block": block})
    if "usage" in data:
        chunks.append({"type": "usage", "usage": data["usage"]})
    chunks.append({"type": _FINISH, "reason": {"kind": "stop"}})
    return [ChunksEntry(Chunks(chunks))]


def _is_same(value: Any, before: Any) -> bool:
    """Whether ``_key`` is the same, as far as that is quickly told."""
    return value is before or (type(value) is int and type(before) is int and value == before)


def _key(value: Any) -> str:
    """A turn or step as JavaScript writes it into a text: what it takes for equal there counts as equal."""
    if isinstance(value, str):
        return value
    if value is None or value is _UNDEFINED:
        return "null" if value is None else "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return number_text(value or 0) if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return ",".join("" if item is None else _key(item) for item in value)
    return "[object Object]"


def _type_error(sentence: str, path: str | Path | None) -> FormatError:
    return FormatError(sentence, code="TYPE_ERROR", path=path)
