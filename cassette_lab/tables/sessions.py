"""Session logs as rows: one of ``sessions``, and its turns, steps, model calls and tool calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cassette_lab.errors import CassetteLabError
from cassette_lab.jsonio.text import show
from cassette_lab.session.derive import derive
from cassette_lab.session.facts import SessionFacts, own, span_ms
from cassette_lab.session.finding import is_log, is_store
from cassette_lab.session.opening import session_facts
from cassette_lab.session.sqlite import SqliteStore
from cassette_lab.session.usage import Usage
from cassette_lab.tables import session_columns
from cassette_lab.tables.gathering import ENOUGH_ROWS, Columns, Gathering


def found_in_folder(path: Path) -> bool:
    """A file that holds a session log, or a store of several."""
    return is_log(path) or is_store(path)


def build(
    path: Path,
    *,
    bodies: bool = False,
    workers: int = 1,
    collect: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[tuple[str, pa.RecordBatch | Columns]]:
    """The rows of a log, or of every log of a store. Raises ``FormatError``.

    With ``collect`` a log that cannot be read hides no other one of its store: it is a row of ``problems``.
    """
    del workers  # a log is read in one go
    if is_store(path):
        yield from _store(path, bodies=bodies, collect=collect)
        return
    yield from rows_of(session_facts(path, bodies=bodies, progress=progress), bodies=bodies)


def _store(path: Path, *, bodies: bool, collect: bool) -> Iterator[tuple[str, pa.RecordBatch]]:
    gathering = Gathering(bodies=bodies)
    with SqliteStore(path) as store:
        for session_id in store.ids:
            try:
                facts = derive(store.read(session_id), bodies=bodies)
            except CassetteLabError as error:
                if not collect:
                    raise
                gathering.add("problems", problem_row(error))
                continue
            for table, columns in rows_of(facts, bodies=bodies):
                gathering.add(table, columns)
            if gathering.rows >= ENOUGH_ROWS:
                yield from gathering.flush()
    yield from gathering.flush()


def problem_row(error: CassetteLabError) -> Columns:
    """A row of ``problems``."""
    return [[error.line], [error.code], [show(error.message)]]


def rows_of(facts: SessionFacts, *, bodies: bool = False) -> Iterator[tuple[str, Columns]]:
    """The facts of one log as rows of the tables, in plain columns; ``batch_of`` makes arrays of them."""
    yield "sessions", _columns("sessions", session_columns.SESSIONS, [_session(facts)], facts, bodies=bodies)
    if facts.turns:
        yield "turns", _columns("turns", session_columns.TURNS, facts.turns, facts, bodies=bodies)
    if facts.steps:
        yield "steps", _columns("steps", session_columns.STEPS, facts.steps, facts, bodies=bodies)
    if facts.model_calls:
        calls = [_Merged(call, _STARTED, call.usage) for call in facts.model_calls]
        yield "model_calls", _columns("model_calls", session_columns.MODEL_CALLS, calls, facts, bodies=bodies)
    tools = [*facts.tool_calls, *facts.dispatches]
    if tools:
        jobs = {job.call_id: job.duration_ms for job in facts.jobs if job.call_id is not None}
        merged = [_Merged(call, {}, None, job_ms=jobs.get(call.call_id or "")) for call in tools]
        yield "tool_calls", _columns("tool_calls", session_columns.TOOL_CALLS, merged, facts, bodies=bodies)


_STARTED: Final = {"started_at": "requested_at", "started_by": "requested_by"}
_NOTHING: Final = Usage()


class _Merged:
    """A fact, some of its members by other names, its usage's counts, and what else its row has."""

    def __init__(self, fact: object, names: dict[str, str], usage: Usage | None, **more: Any) -> None:
        self._fact, self._names, self._usage = fact, names, usage or _NOTHING
        self.__dict__.update(more)

    def __getattr__(self, name: str) -> Any:
        if hasattr(_NOTHING, name):
            return getattr(self._usage, name)
        return getattr(self._fact, self._names.get(name, name))


def _session(facts: SessionFacts) -> _Merged:
    turns, tools = own(facts.turns), own(facts.tool_calls)
    header, descriptor = facts.header, facts.descriptor
    ended = [turn for turn in turns if turn.end_seq is not None]
    return _Merged(
        facts,
        {},
        facts.usage,
        format=header.version,
        created_at=header.created_at,
        cwd=header.cwd,
        parent_session=header.parent_session,
        origin=header.origin,
        delegation_depth=header.delegation_depth,
        agent_preset=header.agent_preset,
        mode=None if descriptor is None else descriptor.mode,
        spawned_by=None if descriptor is None else descriptor.provider,
        label=None if descriptor is None else descriptor.label,
        started_at=facts.first_at,
        ended_at=facts.last_at,
        duration_ms=span_ms(facts.first_at, facts.last_at),
        turns=sum(turn.start_seq is not None for turn in turns),
        steps=sum(step.start_seq is not None for step in own(facts.steps)),
        model_calls=len(own(facts.model_calls)),
        tool_calls=len(tools),
        tool_errors=sum(call.is_error is True for call in tools),
        retries=len(own(facts.retries)),
        compactions=len(own(facts.compactions)),
        error_code=ended[-1].error_code if ended and not facts.is_open else None,
        open=facts.is_open,
        events=facts.event_count,
        rows=facts.row_count,
        encoding=facts.physical.encoding,
        bytes=facts.physical.size_bytes,
        notes=len(facts.problems),
    )


def _columns(table: str, columns: Sequence[pa.Field], rows: Sequence[object], facts: SessionFacts, *, bodies: bool) -> Columns:
    fields = [*columns, *(session_columns.SESSION_BODIES.get(table, ()) if bodies else ())]
    return [
        [facts.id] * len(rows) if field.name == "session_id" else [getattr(row, field.name) for row in rows] for field in fields
    ]
