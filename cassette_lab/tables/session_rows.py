"""What one session log tells as rows of the tables, in plain columns. A folder has thousands of logs: quick for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa

from cassette_lab.session.counting import counts_of
from cassette_lab.session.facts import Compaction, ModelCall, SessionFacts, ToolCall
from cassette_lab.session.spans import span_ms
from cassette_lab.session.usage import Usage
from cassette_lab.tables import relations, session_columns
from cassette_lab.tables.gathering import Columns

_NO_USAGE: Final = Usage()
_USAGE: Final = frozenset(Usage.__struct_fields__)
_ELSEWHERE: Final = {"started_at": "requested_at", "started_by": "requested_by"}
"""Columns of ``model_calls`` that facts have by other names."""
_ELSEWHERE_COMPACTED: Final = {"compacted_tokens": "shadowed_tokens"}
_MADE_OF_OTHERS: Final = frozenset({"job_ms", "child_session_id", "child_source", "child_linked_by"})
"""Columns of ``tool_calls`` for which more than the call is looked at."""


def rows_of(facts: SessionFacts, *, bodies: bool = False) -> Iterator[tuple[str, Columns]]:
    """The facts of one log as rows of the tables that have some; ``batch_of`` makes arrays of them."""
    yield "sessions", _session(facts, bodies=bodies)
    if facts.turns:
        yield "turns", [_ids(facts, len(facts.turns)), *_members(_TURN, facts.turns)]
    if facts.steps:
        yield "steps", [_ids(facts, len(facts.steps)), *_members(_STEP, facts.steps)]
    if facts.model_calls:
        yield "model_calls", _model_calls(facts, facts.model_calls, bodies=bodies)
    tools = (*facts.tool_calls, *facts.dispatches)
    linked = relations.linked_children(facts)
    if tools:
        yield "tool_calls", _tool_calls(facts, tools, linked, bodies=bodies)
    if facts.compactions:
        yield "compactions", _compactions(facts, facts.compactions)
    if facts.problems:
        yield "notes", [_ids(facts, len(facts.problems)), *_members(_NOTE, facts.problems)]
    related = relations.rows_of(facts, linked)
    if related is not None:
        yield "relations", related


def _names(table: str, columns: Sequence[pa.Field]) -> dict[bool, list[str]]:
    """The columns of a table behind ``session_id``, without and with bodies."""
    plain = [field.name for field in columns][1:]
    return {False: plain, True: [*plain, *(field.name for field in session_columns.SESSION_BODIES.get(table, ()))]}


_SESSION_NAMES: Final = _names("sessions", session_columns.SESSIONS)
_CALL_NAMES: Final = _names("model_calls", session_columns.MODEL_CALLS)
_TOOL_NAMES: Final = _names("tool_calls", session_columns.TOOL_CALLS)

_TURN: Final = attrgetter(*_names("turns", session_columns.TURNS)[False])
_STEP: Final = attrgetter(*_names("steps", session_columns.STEPS)[False])
_CALL: Final = {
    bodies: attrgetter(*(_ELSEWHERE.get(name, name) for name in names if name not in _USAGE))
    for bodies, names in _CALL_NAMES.items()
}
_COUNTS: Final = attrgetter(*(name for name in _CALL_NAMES[False] if name in _USAGE))
_TOOL: Final = {
    bodies: attrgetter(*(name for name in names if name not in _MADE_OF_OTHERS)) for bodies, names in _TOOL_NAMES.items()
}
_COMPACTION_NAMES: Final = _names("compactions", session_columns.COMPACTIONS)[False]
_COMPACTION: Final = attrgetter(*(_ELSEWHERE_COMPACTED.get(name, name) for name in _COMPACTION_NAMES if name not in _USAGE))
_NOTE: Final = attrgetter(*_names("notes", session_columns.NOTES)[False])


def _ids(facts: SessionFacts, count: int) -> list[Any]:
    return [facts.id] * count


def _members(getter: attrgetter[Any], facts: Sequence[object]) -> Iterator[list[Any]]:
    return map(list, zip(*map(getter, facts), strict=True))


def _model_calls(facts: SessionFacts, calls: Sequence[ModelCall], *, bodies: bool) -> Columns:
    members = _members(_CALL[bodies], calls)
    counts = _members(_COUNTS, [call.usage or _NO_USAGE for call in calls])
    columns = [next(counts if name in _USAGE else members) for name in _CALL_NAMES[bodies]]
    return [_ids(facts, len(calls)), *columns]


def _tool_calls(
    facts: SessionFacts, tools: Sequence[ToolCall], linked: Mapping[int, relations.Linked], *, bodies: bool
) -> Columns:
    jobs = {job.call_id: job.duration_ms for job in facts.jobs if job.call_id is not None}
    others: dict[str, list[Any]] = {
        "job_ms": [None if tool.call_id is None else jobs.get(tool.call_id) for tool in tools],
        "child_session_id": [None] * len(tools),
        "child_source": [None] * len(tools),  # known when all logs are there
        "child_linked_by": [None] * len(tools),
    }
    for place, (child, way) in linked.items():
        others["child_session_id"][place], others["child_linked_by"][place] = child, way
    members = _members(_TOOL[bodies], tools)
    columns = [others[name] if name in others else next(members) for name in _TOOL_NAMES[bodies]]
    return [_ids(facts, len(tools)), *columns]


def _compactions(facts: SessionFacts, compactions: Sequence[Compaction]) -> Columns:
    members = _members(_COMPACTION, compactions)
    counts = _members(_COUNTS, [compaction.usage or _NO_USAGE for compaction in compactions])
    return [_ids(facts, len(compactions)), *(next(counts if name in _USAGE else members) for name in _COMPACTION_NAMES)]


def _session(facts: SessionFacts, *, bodies: bool) -> Columns:
    header, descriptor, physical = facts.header, facts.descriptor, facts.physical
    usage, compaction_usage = facts.usage, facts.compaction_usage
    row = {
        "format": header.version,
        "created_at": header.created_at,
        "cwd": header.cwd,
        "parent_session": header.parent_session,
        "origin": header.origin,
        "delegation_depth": header.delegation_depth,
        "agent_preset": header.agent_preset,
        "mode": None if descriptor is None else descriptor.mode,
        "spawned_by": None if descriptor is None else descriptor.provider,
        "started_at": facts.first_at,
        "ended_at": facts.last_at,
        "duration_ms": span_ms(facts.first_at, facts.last_at),
        "active_ms": facts.active_ms,
        **counts_of(facts)._asdict(),
        **{name: getattr(usage, name) for name in Usage.__struct_fields__},
        **{f"compaction_{name}": getattr(compaction_usage, name) for name in session_columns.COMPACTION_TOKENS},
        "end_kind": facts.end_kind,
        "error_code": facts.end_code,
        "open": facts.is_open,
        "inherited_events": facts.inherited_events,
        "events": facts.event_count,
        "rows": facts.row_count,
        "encoding": physical.encoding,
        "bytes": physical.size_bytes,
        "torn_bytes": facts.torn_bytes,
        "notes": len(facts.problems),
        "label": None if descriptor is None else descriptor.label,
        "title": facts.title,
        "first_prompt": facts.first_prompt,
        "final_text": facts.final_text,
    }
    return [_ids(facts, 1), *([row[name]] for name in _SESSION_NAMES[bodies])]
